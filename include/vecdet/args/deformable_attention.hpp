// SPDX-License-Identifier: Apache-2.0
// Deformable attention: what the functions and their kernels agree on.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The number of points that are located together, and of channels that are summed together.
constexpr index_t attention_block = 16;

/// Of points or channels.
constexpr index_t attention_blocks(index_t count) noexcept {
  return (count + attention_block - 1) / attention_block;
}

/// The number of channels in the sums of the value's gradient: whole blocks.
constexpr index_t attention_padded(index_t channels) noexcept {
  return attention_blocks(channels) * attention_block;
}

/// The levels of 16 points of a query. Location (y, x) has the index origin + y * width + x. For
/// missing points, the level has no locations.
struct alignas(64) attention_levels {
  double width[attention_block], height[attention_block];
  double origin[attention_block];
};

/// 16 points of a query, with the four locations around each: upper left, upper right, lower left,
/// lower right. Bit i of a mask belongs to point i.
template <class Real>
struct alignas(64) attention_corners {
  Real weight[4][attention_block];     ///< the point's weight times the bilinear weight
  Real point_weight[attention_block];  ///< the point's weight
  Real across[attention_block];        ///< distance from the left locations, 0 to 1
  Real back[attention_block];          ///< distance to the right locations
  Real down[attention_block];          ///< distance from the upper locations
  Real up[attention_block];            ///< distance to the lower locations
  double location[attention_block];    ///< index of the upper left location
  std::uint32_t inside[4];             ///< whether the location exists
  std::uint32_t any, all;              ///< whether any of the four, or all four, exist
};

template <class T>
struct attention_args {
  using real = compute_type<T>;
  const T* value;
  const real* points;
  const real* weights;
  const T* upstream;
  T* out;
  T* value_grad;
  real* point_grad;   ///< null: not requested
  real* weight_grad;  ///< null: not requested
  index_t images, locations, queries, heads, channels, point_count;
};

/// The value in memory: the channels of image n, head h and location l start at
/// data[n * image + h * head + l * location].
template <class T>
struct attention_source {
  const T* data;
  index_t image, head, location;
};

/// Queries [first, last) of all images, in heads [first_head, last_head).
struct attention_queries {
  index_t first, last, first_head, last_head;
};

/// A part of the value's gradient: channels [first, last) of an image and head.
struct attention_channel_range {
  index_t image, head, first, last;
};

/// What a point adds to a band: the weights of its four locations, those that exist in the band as
/// bits, and the upper left one, which may be outside.
template <class Real>
struct attention_point {
  Real weight[4];
  std::int32_t first, width;
  std::int32_t query;     ///< of the image
  std::uint32_t corners;  ///< four bits; above them, the number of the band
};

/// Queries [first, last) of an image in a head, whose points are sorted by band. The memory has
/// room for four per point, because each of the four locations may be in a band of its own.
template <class Real>
struct attention_segment {
  index_t image, head, first, last;
  const std::int32_t* band_of;  ///< of each location
  index_t bands;
  attention_point<Real>* unsorted;
  attention_point<Real>* sorted;
  std::int32_t* begin;  ///< of each band in `sorted`, and their end
};

/// A part of the value's gradient: the locations [first, last) of an image and head. The points are
/// those of all segments of the image and head.
template <class Real>
struct attention_band {
  index_t image, head, band, first, last;
  const attention_point<Real>* sorted;
  index_t sorted_step;  ///< between segments
  const std::int32_t* begin;
  index_t begin_step;
  index_t segments;
};

template <class T>
struct attention_kernels {
  using real = compute_type<T>;
  using corners = attention_corners<real>;
  // `scratch` has one element per block of points, `sums` has 64 numbers.
  void (*forward)(const attention_args<T>&, const attention_source<T>&, const attention_levels*,
                  const attention_queries&, corners* scratch);
  void (*forward_packed)(const attention_args<T>&, const attention_source<real>&,
                         const attention_levels*, const attention_queries&, corners* scratch);
  /// Computes the gradients of points and weights.
  void (*point_grads)(const attention_args<T>&, const attention_source<T>&, const attention_levels*,
                      const attention_queries&, corners* scratch, real* sums);
  void (*point_grads_packed)(const attention_args<T>&, const attention_source<real>&,
                             const attention_levels*, const attention_queries&, corners* scratch,
                             real* sums);
  /// Copies the channels of locations [first, last) of an image and head to consecutive memory.
  void (*pack)(const attention_args<T>&, index_t image, index_t head, index_t first, index_t last,
               real* to);
  /// Computes a part of the value's gradient. `sums` has attention_padded(last - first) numbers per
  /// location.
  void (*value_grad)(const attention_args<T>&, const attention_levels*,
                     const attention_channel_range&, corners* scratch, real* sums);
  /// Sorts the points of a segment by band.
  void (*sort_points)(const attention_args<T>&, const attention_levels*,
                      const attention_segment<real>&, corners* scratch);
  /// Computes a band from sorted points. `sums` has as many numbers per location of the band.
  void (*value_grad_of_band)(const attention_args<T>&, const attention_band<real>&, real* sums);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
