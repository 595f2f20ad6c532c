// SPDX-License-Identifier: Apache-2.0
// The gradient of deformable attention with respect to the value, for more threads than images x
// heads. The points are located once and sorted by bands of locations. A task then owns a band, and
// adds its points in the order of the queries, so that the bits are those of value_grad.hpp.
#pragma once

#include <vecdet/args/deformable_attention.hpp>
#include <vecdet/kernels/channels.hpp>
#include <vecdet/kernels/deformable_attention/corners.hpp>
#include <vecdet/kernels/deformable_attention/value_grad.hpp>
#include <vecdet/simd/pack.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

template <class T>
void sort_attention_points(const detail::attention_args<T>& a,
                           const detail::attention_levels* levels,
                           const detail::attention_segment<compute_type<T>>& segment,
                           detail::attention_corners<compute_type<T>>* scratch) {
  const index_t blocks = detail::attention_blocks(a.point_count);
  std::int32_t* const begin = segment.begin;
  for (index_t b = 0; b <= segment.bands; ++b) begin[b] = 0;
  auto* to = segment.unsorted;
  const index_t image = segment.image * a.queries;
  for (index_t q = segment.first; q < segment.last; ++q) {
    const index_t at = (image + q) * a.heads + segment.head;
    prefetch_query(a, image + q, image + segment.last, segment.head, false);
    locate_all_points(levels, a.points + 2 * at * a.point_count, a.weights + at * a.point_count,
                      a.point_count, scratch);
    for (index_t b = 0; b < blocks; ++b) {
      const auto& block = scratch[b];
      for_each_point(block.any, [&](int i) VECDET_INLINE_LAMBDA {
        const auto first = static_cast<std::int32_t>(block.location[i]);
        const auto width = static_cast<std::int32_t>(levels[b].width[i]);
        const auto add = [&](std::int32_t band, std::uint32_t corners) VECDET_INLINE_LAMBDA {
          for (int k = 0; k < 4; ++k) to->weight[k] = block.weight[k][i];
          to->first = first;
          to->width = width;
          to->query = static_cast<std::int32_t>(q);
          to->corners = corners | static_cast<std::uint32_t>(band) << 4;
          ++to;
          ++begin[band + 1];
        };
        const auto band_of = [&](int k) VECDET_INLINE_LAMBDA {
          return segment.band_of[first + corner_offset(k, index_t{width})];
        };
        std::uint32_t left = 0;
        for (int k = 0; k < 4; ++k) left |= (block.inside[k] >> i & 1) << k;
        // Nearly always, all locations are in one band.
        while (left != 0) {
          const std::int32_t band = band_of(lowest_bit(left));
          std::uint32_t corners = 0;
          for (int k = 0; k < 4; ++k)
            if ((left >> k & 1) != 0 && band_of(k) == band) corners |= std::uint32_t{1} << k;
          add(band, corners);
          left &= ~corners;
        }
      });
    }
  }
  for (index_t b = 0; b < segment.bands; ++b) begin[b + 1] += begin[b];
  for (const auto* from = segment.unsorted; from != to; ++from)
    segment.sorted[begin[from->corners >> 4]++] = *from;
  for (index_t b = segment.bands; b > 0; --b) begin[b] = begin[b - 1];
  begin[0] = 0;
}

/// Adds some channels of a point.
template <class T>
struct attention_add_point {
  using real = compute_type<T>;
  const detail::attention_point<real>& point;
  const T* upstream;
  real* sums;
  index_t first;   ///< location of the sums
  index_t stride;  ///< between the sums of two locations

  template <int N, bool IsWhole>
  VECDET_INLINE void run(index_t c, index_t size) const {
    using reals = pack<real, N>;
    const reals g = load_channels<N, IsWhole>(upstream + c, size);
    VECDET_UNROLL
    for (int k = 0; k < 4; ++k) {
      if ((point.corners >> k & 1) == 0) continue;
      real* const to =
          sums + ((point.first + corner_offset(k, index_t{point.width}) - first) * stride + c);
      store_pack<N>(to, fma(reals(point.weight[k]), g, load_pack<N>(to)));
    }
  }
};

template <class T>
void attention_value_grad_of_band(const detail::attention_args<T>& a,
                                  const detail::attention_band<compute_type<T>>& band,
                                  compute_type<T>* sums) {
  using real = compute_type<T>;
  constexpr int N = row_pack<real>::batches;
  constexpr index_t ahead = 4;
  const index_t padded = detail::attention_padded(a.channels);
  const index_t size = (band.last - band.first) * padded;
  for (index_t i = 0; i < size; i += row_lanes) store_pack<N>(sums + i, row_pack<real>(real(0)));
  const auto upstream_of = [&](const detail::attention_point<real>& point) VECDET_INLINE_LAMBDA {
    return a.upstream + ((band.image * a.queries + point.query) * a.heads + band.head) * a.channels;
  };
  for (index_t s = 0; s < band.segments; ++s) {
    const std::int32_t* const begin = band.begin + s * band.begin_step + band.band;
    const auto* const points = band.sorted + s * band.sorted_step;
    for (index_t i = begin[0]; i < begin[1]; ++i) {
      if (i + ahead < begin[1]) prefetch(upstream_of(points[i + ahead]), a.channels);
      for_each_attention_channels<real>(
          a.channels,
          attention_add_point<T>{points[i], upstream_of(points[i]), sums, band.first, padded});
    }
  }
  T* const grad = a.value_grad + (band.image * a.locations * a.heads + band.head) * a.channels;
  for (index_t i = band.first; i < band.last; ++i)
    for_each_attention_channels<real>(
        a.channels,
        attention_store<T>{sums + (i - band.first) * padded, grad + i * a.heads * a.channels});
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
