// SPDX-License-Identifier: Apache-2.0
// Masks of objects as run lengths, as COCO's annotations have them. The pixels of a picture are
// counted column by column, from the top of each: how many do not belong to the object, how many
// then do, how many then do not, and so on. The first count is 0 if the first pixel belongs to it.
#pragma once

#include <vecdet/grid_size.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

/// N masks of whole pictures. The counts of mask i are [offsets[i], offsets[i + 1]) of `counts`;
/// their sum is the number of the picture's pixels, which is below 2^32.
struct run_lengths_view {
  lasting<vector_view<const grid_size>> sizes{};       ///< N: of the pictures
  lasting<vector_view<const index_t>> offsets{};       ///< N + 1: where the counts of a mask begin
  lasting<vector_view<const std::uint32_t>> counts{};  ///< of all masks

  index_t size() const noexcept { return sizes.size(); }
  /// The counts of mask i.
  vector_view<const std::uint32_t> operator[](index_t i) const {
    return {counts.data() + offsets[i], offsets[i + 1] - offsets[i]};
  }
};

/// N strings, one after the other.
struct run_length_strings {
  lasting<vector_view<const index_t>> offsets{};  ///< N + 1: where a string begins
  lasting<vector_view<const char>> text{};        ///< of all strings, without zeros at their ends

  index_t size() const noexcept { return offsets.empty() ? 0 : offsets.size() - 1; }
};

/// Polygons of N masks. Polygon k has the points [offsets[k], offsets[k + 1]), and mask i has the
/// polygons [mask_offsets[i], mask_offsets[i + 1]).
struct mask_polygons_view {
  lasting<vector_view<const index_t>> mask_offsets{};  ///< N + 1
  lasting<vector_view<const index_t>> offsets{};       ///< polygons + 1
  lasting<vector_view<const double>> points{};         ///< x y of each: whole numbers
};

/// N pictures of one size in the caller's memory, with one byte per pixel: that of column x and row
/// y of picture i is data[i * stride + y * row_stride + x * column_stride]. Strides are in bytes,
/// of any sign: NumPy's arrays in any order are such pictures.
template <class T>
struct byte_pictures {
  T* data = nullptr;
  index_t count = 0;
  grid_size size{};
  index_t stride = 0, row_stride = 0, column_stride = 1;
};

}  // namespace VECDET_ABI
}  // namespace vecdet
