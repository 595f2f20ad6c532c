// SPDX-License-Identifier: Apache-2.0
// Converts images to the input of a network: resizes each image to fit, pads, scales and normalises
// it, in one pass over the image and one over the input.
//
//   input[c] = (pixel[c] scale - mean[c]) / deviation[c]
//
// Images are H x W x 3 bytes. The input is N x 3 x height x width floats in the caller's memory,
// which can be reused between calls. Resizing is bit-identical to OpenCV's INTER_LINEAR on bytes,
// with 11-bit weights and aligned pixel centres. Both sides have the same scale,
// min(height / H, width / W). The resized sides are rounded half to even. The padding is as in
// ultralytics (letterbox_transform.hpp).
//
// The formula is computed as pixel * a + b in float, where a = scale / deviation and
// b = -mean / deviation are rounded from double.
//
// Throws std::invalid_argument, and changes nothing, if the batch's size does not match the number
// of images, an image or the input has no pixels or a side above 2^15, a stride is less than a
// row's bytes, a numeric parameter is not finite, a deviation is 0, the formula overflows for a
// pixel of 255 or the padding, or the batch shares memory with an image.
#pragma once

#include <vecdet/grid_size.hpp>
#include <vecdet/impl/letterbox_buffers.hpp>
#include <vecdet/letterbox_transform.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

/// An image with three bytes per pixel, in the caller's memory.
struct byte_image {
  const std::uint8_t* data = nullptr;
  index_t height = 0, width = 0;
  index_t stride = 0;  ///< Bytes from one row to the next; 0 means 3 * width.
};

struct letterbox_params {
  /// Swaps the first and last channel: converts BGR images, as OpenCV reads them, to RGB, or RGB to
  /// BGR.
  bool swap_channels = true;
  bool centred = true;              ///< If false, the image is in the upper left corner.
  bool upscale = true;              ///< If false, images smaller than the input keep their size.
  double fill = 114;                ///< Pixel value of the padding.
  double scale = 1 / 255.0;         ///< input = (pixel * scale - mean) / deviation
  double mean[3] = {0, 0, 0};       ///< Per channel of the input.
  double deviation[3] = {1, 1, 1};  ///< Per channel of the input.
  /// For ultralytics' models.
  static letterbox_params yolo();
  /// YOLOX: BGR input of 0 to 255, the image in the upper left corner.
  static letterbox_params yolox();
};

/// Scratch memory for letterbox. It grows to the needs of the largest call and is reused. Only one
/// call at a time may use it.
class letterbox_workspace {
  friend detail::workspace_access;
  detail::letterbox_buffers buffers_;
};

/// Fills `batch`, N x 3 x input.height x input.width, with the images. Returns one transform per
/// image, for postprocess_yolo(). The memory belongs to the workspace and is valid until its next
/// use.
vector_view<const letterbox_transform> letterbox(vector_view<const byte_image> images,
                                                 vector_view<float> batch, grid_size input,
                                                 const letterbox_params& params,
                                                 letterbox_workspace& workspace,
                                                 threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/letterbox.hpp>
