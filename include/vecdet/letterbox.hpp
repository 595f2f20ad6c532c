// SPDX-License-Identifier: Apache-2.0
// From images to the input of a network: each image is resized to fit, padded, scaled and
// normalised, in one pass over it and one over the input.
//
//   input[c] = (pixel[c] scale - mean[c]) / deviation[c]
//
// Images are H x W x 3 bytes; the input is N x 3 x height x width floats, in memory of the caller's
// that is kept from call to call. Pixels are resized by OpenCV's INTER_LINEAR on bytes, bit for
// bit: weights of 11 bits, of pixel centres. The scale is one for both sides, min(H / h, W / w);
// sides are rounded half to even, and padding is ultralytics' (letterbox_transform.hpp).
//
// The line above is computed as pixel * a + b in float, where a = scale / deviation and
// b = -mean / deviation are rounded from double.
//
// Throws std::invalid_argument, and changes nothing, where the batch's size is not that of the
// images, an image or the input has no pixels or a side above 2^15, a row is shorter than its
// pixels, or a number of params is not finite or a deviation is 0.
#pragma once

#include <vecdet/grid_size.hpp>
#include <vecdet/impl/letterbox_buffers.hpp>
#include <vecdet/letterbox_transform.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

/// An image of three bytes a pixel, in the caller's memory.
struct byte_image {
  const std::uint8_t* data = nullptr;
  index_t height = 0, width = 0;
  index_t stride = 0;  ///< Bytes from a row to the next; 0: 3 * width.
};

struct letterbox_params {
  bool swaps_channels =
      true;                ///< BGR images, as OpenCV reads them, to an RGB input, or the reverse.
  bool is_centred = true;  ///< Else the image is in the upper left corner.
  bool upscales = true;    ///< Else images smaller than the input keep their size.
  double fill = 114;       ///< The padding, as a pixel.
  double scale = 1 / 255.0;
  double mean[3] = {0, 0, 0};  ///< Of the input's channels, as deviation.
  double deviation[3] = {1, 1, 1};

  /// Of ultralytics' models.
  static letterbox_params yolo();
  /// YOLOX: BGR input of 0 to 255, the image in the upper left corner.
  static letterbox_params yolox();
};

/// Memory that letterbox works in: grows to what the largest call needs and is reused. One call at
/// a time.
class letterbox_workspace {
  friend detail::workspace_access;
  detail::letterbox_buffers buffers_;
};

/// Fills `batch`, N x 3 x input.height x input.width, with the images. Returns where each lies in
/// its input, for postprocess_yolo(); the memory is the workspace's, until its next use.
vector_view<const letterbox_transform> letterbox(vector_view<const byte_image> images,
                                                 vector_view<float> batch, grid_size input,
                                                 const letterbox_params& params,
                                                 letterbox_workspace& workspace,
                                                 execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/letterbox.hpp>
