// SPDX-License-Identifier: Apache-2.0
// Images into the input of a network: what letterbox() and its kernels agree on.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Which two pixels of an axis make a pixel of the resized image: number `at` and the next, with
/// weights in 2048ths, the first in the lower half. Of columns, `at` is a number of bytes.
struct axis_weights {
  std::int32_t at;
  std::uint32_t weights;
};

/// One image and its planes of the input.
struct letterbox_args {
  const std::uint8_t* image;
  index_t stride;                 ///< bytes from row to row
  index_t height, width;          ///< of the image
  index_t out_height, out_width;  ///< of the input
  index_t top, left, rows, cols;  ///< where the resized image lies in it
  const axis_weights *x, *y;      ///< of its columns and rows
  index_t vector_cols;            ///< columns whose pixels are read 8 bytes at a time
  float* planes[3];               ///< of the image's channels in their order
  float scale[3], shift[3], fill[3];
};

struct letterbox_kernels {
  /// The weights of an axis of `from` pixels that becomes `to`.
  void (*weigh_axis)(index_t from, index_t to, axis_weights* axis);
  /// 16-bit numbers that fill_rows works in, for a resized image of so many columns.
  index_t (*scratch_size)(index_t cols);
  /// Fills rows [first, last) of the input's planes. Scratch is aligned to 64.
  void (*fill_rows)(const letterbox_args&, index_t first, index_t last, std::uint16_t* scratch);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
