// SPDX-License-Identifier: Apache-2.0
// Masks: what the functions and their kernels agree on.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/masks_params.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The pixels along a side of a picture, between the locations of a map. Pixel i lies `weight[i]`
/// of the way from location[i] to the next. Of the last location, the weight is 0.
struct mask_axis {
  const std::int32_t* location;  ///< ascending; as many as pixels, and mask_axis_padding more
  const float* weight;           ///< likewise
  const std::int32_t* begin;     ///< for each location and the end: the first pixel at or after it
};
/// Columns are read in whole rows of 16.
constexpr index_t mask_axis_padding = 16;

/// A range of rows or columns.
struct mask_span {
  std::int32_t begin, end;

  constexpr bool empty() const { return begin >= end; }
  constexpr index_t size() const { return end - begin; }
  constexpr bool has(index_t i) const { return i >= begin && i < end; }
};

/// A mask: its pixels, the locations between which these lie, and the locations whose logits count;
/// those of others are 0.
struct mask_plan {
  mask_span x, y;
  mask_span columns, rows;
  mask_span counted_columns, counted_rows;
  index_t offset;     ///< of its pixels
  index_t row_bytes;  ///< from one row to the next
};

/// An image's objects [first, last), and its picture.
struct mask_picture {
  index_t first, last;
  mask_axis x, y;
};

template <class T>
struct prototype_masks_args {
  const T* prototypes;
  index_t channels, height, width;
  const float* coefficients;
  index_t coefficient_stride;
  const mask_picture* pictures;  ///< one per image
  const mask_plan* masks;        ///< one per object
  bool is_small;                 ///< pixels are locations: no axes
  index_t picture_width;         ///< the greatest of all pictures
  mask_pixels kind;
  std::uint8_t* pixels;

  /// The distance of the channels in a copied row of prototypes: whole rows of 16 can be read from
  /// any column on.
  constexpr index_t channel_stride() const { return (width + 15) / 16 * 16 + 16; }
  /// The logits of a row of locations, which are computed in blocks of at most 64.
  constexpr index_t logits_size() const { return width + 80; }
  /// The same of a row of pixels.
  constexpr index_t pixels_size() const { return (picture_width + 15) / 16 * 16; }
  /// In numbers, for a band of so many rows of locations.
  constexpr index_t scratch_size(index_t rows) const {
    return (rows + 1) * channels * channel_stride() + 16 + logits_size() +
           (is_small ? 0 : 2 * pixels_size());
  }
};

template <class T>
struct prototype_masks_kernels {
  /// Computes the pixels of all masks of an image that lie at or after rows [first, last) of
  /// locations, and before the next. `scratch` is aligned to 64 bytes.
  void (*run)(const prototype_masks_args<T>&, index_t image, index_t first, index_t last,
              float* scratch);
};

/// A pasted mask: its pixels, and the rectangle to which its map is enlarged.
struct paste_plan {
  mask_span x, y;
  double left, top, width, height;  ///< whole pixels
  index_t offset;                   ///< of its pixels or numbers
  index_t row_bytes;                ///< from one row of pixels, or of numbers, to the next
};

template <class T>
struct paste_masks_args {
  const T* maps;
  index_t height, width;
  float threshold;
  const paste_plan* masks;
  index_t most_columns, most_rows;  ///< of a mask's pixels
  mask_pixels kind;
  std::uint8_t* pixels;
  float* numbers;  ///< written instead of pixels, unless null

  /// The distance of rows of the map, which has a border of one location.
  constexpr index_t map_stride() const { return width + 2 + 16; }
  constexpr index_t map_size() const { return (height + 2) * map_stride() + 32; }
  constexpr index_t pixels_size() const { return (most_columns + 15) / 16 * 16; }
  /// Of the locations and weights along both sides of a mask.
  constexpr index_t axes_size() const { return most_columns + most_rows + 2 * mask_axis_padding; }
  /// In numbers.
  constexpr index_t scratch_size() const {
    return map_size() + 2 * pixels_size() + 2 * axes_size();
  }
};

template <class T>
struct paste_masks_kernels {
  /// Computes the pixels of the masks [first, last). `scratch` is aligned to 64 bytes.
  void (*run)(const paste_masks_args<T>&, index_t first, index_t last, float* scratch);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
