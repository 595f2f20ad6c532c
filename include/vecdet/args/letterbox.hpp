// SPDX-License-Identifier: Apache-2.0
// Letterboxing: what letterbox() and its kernels agree on.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The two pixels of an axis that are interpolated to a pixel of the resized image: pixel `at` and
/// the next one. Weights are in 2048ths, the first in the lower half. For columns, `at` is an
/// offset in bytes.
struct axis_weights {
  std::int32_t at;
  std::uint32_t weights;
};

/// One image and its planes of the input.
struct letterbox_args {
  const std::uint8_t* image;
  index_t stride;                 ///< bytes from one row to the next
  index_t height, width;          ///< of the image
  index_t out_height, out_width;  ///< of the input
  index_t top, left, rows, cols;  ///< position and size of the resized image in the input
  const axis_weights *x, *y;      ///< of its columns and rows
  index_t vector_cols;            ///< number of columns whose pixels are read 8 bytes at a time
  float* planes[3];               ///< in the order of the image's channels
  float scale[3], shift[3], fill[3];
};

struct letterbox_kernels {
  /// Computes the weights of an axis that is resized from `from` to `to` pixels.
  void (*weigh_axis)(index_t from, index_t to, axis_weights* axis);
  /// The scratch memory of fill_rows in 16-bit numbers, for a resized image with `cols` columns.
  index_t (*scratch_size)(index_t cols);
  /// Fills rows [first, last) of the input's planes. `scratch` is aligned to 64 bytes.
  void (*fill_rows)(const letterbox_args&, index_t first, index_t last, std::uint16_t* scratch);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
