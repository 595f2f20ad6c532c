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

/// Points that are located together.
constexpr index_t attention_block = 16;

constexpr index_t attention_blocks(index_t points) noexcept {
  return (points + attention_block - 1) / attention_block;
}

/// Channels of the value gradient's sums: whole rows of 16.
constexpr index_t attention_padded(index_t channels) noexcept {
  return (channels + attention_block - 1) / attention_block * attention_block;
}

/// The levels of 16 points of a query. Only rows [first_row, end_row) exist; location (y, x) has
/// number origin + y * width + x. Levels of points that do not exist have no locations.
struct alignas(64) attention_levels {
  double width[attention_block], height[attention_block];
  double first_row[attention_block], end_row[attention_block];
  double origin[attention_block];
};

/// 16 points of a query: the four locations around each, upper left, upper right, lower left, lower
/// right. Bit i of a mask belongs to point i.
template <class Real>
struct alignas(64) attention_corners {
  Real weight[4][attention_block];   ///< the point's times the bilinear
  Real of_point[attention_block];    ///< the point's weight
  Real across[attention_block];      ///< from the left locations to the point, 0 to 1
  Real back[attention_block];        ///< from the point to the right ones
  Real down[attention_block];        ///< from the upper locations
  Real up[attention_block];          ///< to the lower ones
  double location[attention_block];  ///< the number of the upper left
  std::uint32_t inside[4];           ///< whether the location exists
  std::uint32_t any, all;            ///< whether any exists; whether all four do
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
  real* point_grad;   ///< null: not wanted
  real* weight_grad;  ///< null: not wanted
  index_t images, locations, queries, heads, channels, point_count;
};

/// Where a value is read: the channels of image n, head h and location l start at
/// data[n image + h head + l location].
template <class T>
struct attention_source {
  const T* data;
  index_t image, head, location;
};

/// Queries [first, last) of all images, in heads [first_head, last_head).
struct attention_queries {
  index_t first, last, first_head, last_head;
};

/// A run of the value's rows: the locations [first, last) of a level of one image and head, whose
/// sums start at location `at` of the memory.
struct attention_rows {
  index_t first, last, at;
};

/// A part of the value's gradient: in an image and head, some rows of each level.
struct attention_band {
  index_t image, head;
  const attention_levels* levels;
  const attention_rows* rows;
  index_t row_runs;
};

template <class T>
struct attention_kernels {
  using real = compute_type<T>;
  using corners = attention_corners<real>;
  // `scratch` is one element per block of points; `sums`, 64 numbers.
  void (*forward)(const attention_args<T>&, const attention_source<T>&, const attention_levels*,
                  const attention_queries&, corners* scratch);
  void (*forward_packed)(const attention_args<T>&, const attention_source<real>&,
                         const attention_levels*, const attention_queries&, corners* scratch);
  /// The gradients of points and weights.
  void (*point_grads)(const attention_args<T>&, const attention_source<T>&, const attention_levels*,
                      const attention_queries&, corners* scratch, real* sums);
  void (*point_grads_packed)(const attention_args<T>&, const attention_source<real>&,
                             const attention_levels*, const attention_queries&, corners* scratch,
                             real* sums);
  /// Copies the channels of locations [first, last) of an image and head, one after the other.
  void (*pack)(const attention_args<T>&, index_t image, index_t head, index_t first, index_t last,
               real* to);
  /// `sums`: attention_padded(channels) for each location of the band.
  void (*value_grad)(const attention_args<T>&, const attention_band&, corners* scratch, real* sums);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
