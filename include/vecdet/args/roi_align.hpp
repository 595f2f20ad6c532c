// SPDX-License-Identifier: Apache-2.0
// RoIAlign: what the functions and their kernels agree on.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A map of the pyramid: read forward, written backward.
template <class T>
struct roi_level {
  const T* features;
  T* grad;
  index_t height, width;
  double scale;
};

/// A row or column that a bin's samples touch, and the mean of their weights of it.
template <class Real>
struct roi_entry {
  std::int32_t at;
  Real weight;
};

/// What a box's samples touch. Its tables lie in `tables` from `offset` on, each from a multiple of
/// 64 bytes: roi_tables.
struct roi_plan {
  index_t box;  ///< its number, by which its bins lie in the output
  index_t level, image;
  index_t offset, bytes;  ///< of its tables
  std::int32_t row_entries, column_entries;
  std::int32_t first_row, end_row;  ///< rows and columns touched lie in these; none: all 0
  std::int32_t first_column, end_column;
  std::int32_t touched;  ///< how many columns
  bool by_planes;        ///< forward in NCHW by planes: has the tables of lanes
  std::int32_t steps;    ///< of those tables: the most columns that a bin touches; else 0
};

template <class T>
struct roi_align_args {
  using real = compute_type<T>;
  const roi_level<T>* levels;
  const real* boxes;
  index_t images, channels;
  index_t rows, columns;  ///< of bins
  index_t sampling_ratio;
  bool aligned, add;
  T* out;             ///< forward: the bins
  const T* upstream;  ///< backward: the gradient by the bins
  roi_plan* plans;
  unsigned char* tables;
};

/// A part of the work: the plans [first_plan, last_plan), all of one level and image but for
/// forward NHWC, and a block of channels; backward also of rows of the map.
struct roi_task {
  index_t level, image;
  index_t first_plan, last_plan;
  index_t first_channel, last_channel;
  index_t first_row, last_row;
};

/// `size` rounded up to a multiple of 16.
VECDET_INLINE constexpr index_t roi_padded(index_t size) { return (size + 15) / 16 * 16; }

/// Planes of NCHW that are worked on for a box before the next box: as many as have 2^17 numbers
/// together.
constexpr index_t roi_max_channel_block = 8;
VECDET_INLINE constexpr index_t roi_channel_block(index_t plane) {
  const index_t block = (index_t{1} << 17) / (plane > 0 ? plane : 1);
  return block < 1 ? 1 : block > roi_max_channel_block ? roi_max_channel_block : block;
}

/// NCHW is worked on by this many channels at a time where it is transposed.
constexpr index_t roi_transposed_channels = 16;

// The sizes of tasks' work memory, in numbers of compute_type<T>, with what it takes to begin at a
// multiple of 64 bytes.

/// Forward in NCHW by planes: sums of 16 rows of bins, the bins of a channel, and copies of planes
/// where they cannot be read in place.
VECDET_INLINE constexpr index_t roi_planes_memory(index_t width, index_t bins, index_t copies) {
  return 17 * (roi_padded(width) + 32) + roi_padded(bins) + 48 + copies;
}
/// Forward in NCHW transposed: so many rows of the map, a row of sums, and the bins.
VECDET_INLINE constexpr index_t roi_transposed_memory(index_t rows, index_t width, index_t bins) {
  return roi_transposed_channels * ((rows + 1) * width + bins) + 16;
}
/// Backward: the tile, a row of sums of 64 channels, and the gradient by the bins of 16.
VECDET_INLINE constexpr index_t roi_backward_memory(index_t tile, index_t width, index_t bins) {
  return tile + 64 * width + roi_transposed_channels * bins + 16;
}

template <class T>
struct roi_align_kernels {
  using real = compute_type<T>;
  /// Fills plans [first, last), whose box, level and image are given, and whether it goes by
  /// planes, but for their offset.
  void (*measure)(const roi_align_args<T>&, index_t first, index_t last);
  /// Fills their tables. `is_touched` holds as many numbers as the widest map has columns.
  void (*fill)(const roi_align_args<T>&, index_t first, index_t last, std::int32_t* is_touched);
  void (*forward_planes)(const roi_align_args<T>&, const roi_task&, real* memory);
  /// The plans are ordered by their first rows.
  void (*forward_transposed)(const roi_align_args<T>&, const roi_task&, real* memory);
  void (*forward_nhwc)(const roi_align_args<T>&, const roi_task&);
  void (*backward_nchw)(const roi_align_args<T>&, const roi_task&, real* memory);
  void (*backward_nhwc)(const roi_align_args<T>&, const roi_task&, real* memory);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
