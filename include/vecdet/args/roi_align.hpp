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

/// A map of the pyramid. The forward pass reads it, the backward pass writes it.
template <class T>
struct roi_level {
  const T* features;
  T* grad;
  index_t height, width;
  double scale;
};

/// A row or column that a bin's samples touch, and the mean of their weights for it.
template <class Real>
struct roi_entry {
  std::int32_t at;
  Real weight;
};

/// The rows and columns that a box's samples touch. Its tables (roi_tables) start in `tables` at
/// `offset`; each is aligned to 64 bytes.
struct roi_plan {
  index_t box;  ///< its index, also that of its bins in the output
  index_t level, image;
  index_t offset, bytes;  ///< of the tables
  std::int32_t row_entries, column_entries;
  std::int32_t first_row, end_row;  ///< ranges of touched rows and columns; all 0 if none
  std::int32_t first_column, end_column;
  std::int32_t touched;  ///< number of touched columns
  bool by_planes;        ///< forward in NCHW by planes; the plan then has tables of lanes
  std::int32_t steps;    ///< length of these tables: the most columns that a bin touches; else 0
};

template <class T>
struct roi_align_args {
  using real = compute_type<T>;
  const roi_level<T>* levels;
  const real* boxes;
  index_t images, channels;
  index_t rows, columns;  ///< numbers of bins
  index_t sampling_ratio;
  bool aligned, add;
  T* out;             ///< forward: the bins
  const T* upstream;  ///< backward: the gradient with respect to the bins
  roi_plan* plans;
  unsigned char* tables;
};

/// A part of the work: the plans [first_plan, last_plan) and a block of channels; backward also a
/// block of rows of the map. Except for forward in NHWC, all plans have the same level and image.
struct roi_task {
  index_t level, image;
  index_t first_plan, last_plan;
  index_t first_channel, last_channel;
  index_t first_row, last_row;
};

/// `size` rounded up to a multiple of 16.
VECDET_INLINE constexpr index_t roi_padded(index_t size) { return (size + 15) / 16 * 16; }

/// The most planes of NCHW that are processed for a box before the next box. Together they have at
/// most 2^17 numbers.
constexpr index_t roi_max_channel_block = 8;
VECDET_INLINE constexpr index_t roi_channel_block(index_t plane) {
  const index_t block = (index_t{1} << 17) / (plane > 0 ? plane : 1);
  return block < 1 ? 1 : block > roi_max_channel_block ? roi_max_channel_block : block;
}

/// The number of channels of NCHW that are transposed at a time.
constexpr index_t roi_transposed_channels = 16;

// The sizes of tasks' scratch memory, in elements of compute_type<T>, including alignment to 64
// bytes.

/// Forward in NCHW by planes: sums of 16 rows of bins, the bins of a channel, and copies of planes
/// that cannot be read in place.
VECDET_INLINE constexpr index_t roi_planes_memory(index_t width, index_t bins, index_t copies) {
  return 17 * (roi_padded(width) + 32) + roi_padded(bins) + 48 + copies;
}
/// Forward in NCHW transposed: `rows` rows of the map, a row of sums, and the bins.
VECDET_INLINE constexpr index_t roi_transposed_memory(index_t rows, index_t width, index_t bins) {
  return roi_transposed_channels * ((rows + 1) * width + bins) + 16;
}
/// Backward: the tile, a row of sums of 64 channels, and the gradient with respect to the bins of
/// 16 channels.
VECDET_INLINE constexpr index_t roi_backward_memory(index_t tile, index_t width, index_t bins) {
  return tile + 64 * width + roi_transposed_channels * bins + 16;
}

template <class T>
struct roi_align_kernels {
  using real = compute_type<T>;
  /// Fills plans [first, last), except their offset. Their box, level, image and by_planes are
  /// already set.
  void (*measure)(const roi_align_args<T>&, index_t first, index_t last);
  /// Fills their tables. `is_touched` has one element per column of the widest map.
  void (*fill)(const roi_align_args<T>&, index_t first, index_t last, std::int32_t* is_touched);
  void (*forward_planes)(const roi_align_args<T>&, const roi_task&, real* memory);
  /// Requires plans in ascending order of first_row.
  void (*forward_transposed)(const roi_align_args<T>&, const roi_task&, real* memory);
  void (*forward_nhwc)(const roi_align_args<T>&, const roi_task&);
  void (*backward_nchw)(const roi_align_args<T>&, const roi_task&, real* memory);
  void (*backward_nhwc)(const roi_align_args<T>&, const roi_task&, real* memory);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
