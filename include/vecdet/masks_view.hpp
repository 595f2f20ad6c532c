// SPDX-License-Identifier: Apache-2.0
// Masks of objects: for each object, a rectangle of a picture's pixels and which of them belong to
// the object. Pixels outside the rectangle do not. Memory thus depends on the sizes of the objects,
// not on that of the picture. Rows of bits are those of NumPy's packbits(bitorder="little").
#pragma once

#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

/// How the pixels of a mask are stored: row by row, from the rectangle's left side on.
enum class mask_pixels {
  bits,  ///< one bit each, the lowest of a byte first; rows are padded with zeros to whole bytes
  bytes  ///< one byte each, 1 or 0
};

/// N masks. Mask i has the pixels in columns [x1, x2) and rows [y1, y2) of its picture; both may be
/// empty. Row y begins at pixels[offsets[i] + (y - y1) * row_bytes(i)].
struct masks_view {
  lasting<boxes_view<const index_t>> boxes{};         ///< N: x1 y1 x2 y2, whole pixels
  lasting<vector_view<const index_t>> offsets{};      ///< N + 1: where the pixels of a mask begin
  lasting<vector_view<const std::uint8_t>> pixels{};  ///< of all masks
  mask_pixels kind = mask_pixels::bits;

  index_t size() const noexcept { return boxes.size(); }
  index_t row_bytes(index_t i) const noexcept {
    const index_t width = boxes(i, 2) - boxes(i, 0);
    return kind == mask_pixels::bytes ? width : (width + 7) / 8;
  }
  /// Whether the pixel in column x and row y of the picture belongs to object i.
  bool has(index_t i, index_t x, index_t y) const noexcept {
    if (x < boxes(i, 0) || x >= boxes(i, 2) || y < boxes(i, 1) || y >= boxes(i, 3)) return false;
    const std::uint8_t* const row = pixels.data() + offsets[i] + (y - boxes(i, 1)) * row_bytes(i);
    const index_t at = x - boxes(i, 0);
    return kind == mask_pixels::bytes ? row[at] != 0 : ((row[at / 8] >> (at % 8)) & 1) != 0;
  }
};

/// What the number of common pixels of two masks is divided by.
enum class mask_overlap {
  iou,          ///< the number of pixels of their union
  smaller_area  ///< that of the mask with fewer pixels
};

}  // namespace VECDET_ABI
}  // namespace vecdet
