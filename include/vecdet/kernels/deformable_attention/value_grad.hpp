// SPDX-License-Identifier: Apache-2.0
// The gradient of deformable attention with respect to the value: each query adds its upstream
// gradient to the locations around its points. A task owns the numbers that it adds to, here some
// channels of an image and head, and adds in the order of the queries.
#pragma once

#include <vecdet/args/deformable_attention.hpp>
#include <vecdet/kernels/channels.hpp>
#include <vecdet/kernels/deformable_attention/corners.hpp>
#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Adds some channels of a query in one head.
template <class T>
struct attention_scatter {
  using real = compute_type<T>;
  const detail::attention_levels* levels;
  const detail::attention_corners<real>* corners;
  index_t blocks;
  const T* upstream;
  real* sums;
  index_t stride;  ///< between the sums of two locations

  template <int N, bool IsWhole>
  VECDET_INLINE void run(index_t c, index_t size) const {
    using reals = pack<real, N>;
    const reals g = load_channels<N, IsWhole>(upstream + c, size);
    for (index_t b = 0; b < blocks; ++b) {
      const auto& block = corners[b];
      for_each_point(block.any, [&](int i) VECDET_INLINE_LAMBDA {
        const auto first = static_cast<index_t>(block.location[i]);
        const auto width = static_cast<index_t>(levels[b].width[i]);
        const auto add = [&](int corner) VECDET_INLINE_LAMBDA {
          real* const to = sums + ((first + corner_offset(corner, width)) * stride + c);
          store_pack<N>(to, fma(reals(block.weight[corner][i]), g, load_pack<N>(to)));
        };
        if ((block.all >> i & 1) != 0) {
          VECDET_UNROLL
          for (int k = 0; k < 4; ++k) add(k);
        } else {
          VECDET_UNROLL
          for (int k = 0; k < 4; ++k)
            if ((block.inside[k] >> i & 1) != 0) add(k);
        }
      });
    }
  }
};

/// Writes sums to channels of the gradient.
template <class T>
struct attention_store {
  const compute_type<T>* sums;
  T* grad;

  template <int N, bool IsWhole>
  VECDET_INLINE void run(index_t c, index_t size) const {
    store_channels<N, IsWhole>(grad + c, load_pack<N>(sums + c), size);
  }
};

template <class T>
void attention_value_grad(const detail::attention_args<T>& a,
                          const detail::attention_levels* levels,
                          const detail::attention_channel_range& part,
                          detail::attention_corners<compute_type<T>>* scratch,
                          compute_type<T>* sums) {
  using real = compute_type<T>;
  constexpr int N = row_pack<real>::batches;
  const index_t blocks = detail::attention_blocks(a.point_count);
  const index_t channels = part.last - part.first;
  const index_t padded = detail::attention_padded(channels);
  for (index_t i = 0; i < a.locations * padded; i += row_lanes)
    store_pack<N>(sums + i, row_pack<real>(real(0)));
  const index_t last = (part.image + 1) * a.queries;
  for (index_t q = last - a.queries; q < last; ++q) {
    const index_t at = q * a.heads + part.head;
    prefetch_query(a, q, last, part.head, true);
    locate_all_points(levels, a.points + 2 * at * a.point_count, a.weights + at * a.point_count,
                      a.point_count, scratch);
    const T* const upstream = a.upstream + at * a.channels + part.first;
    for_each_attention_channels<real>(
        channels, attention_scatter<T>{levels, scratch, blocks, upstream, sums, padded});
  }
  T* const grad =
      a.value_grad + (part.image * a.locations * a.heads + part.head) * a.channels + part.first;
  for (index_t i = 0; i < a.locations; ++i)
    for_each_attention_channels<real>(
        channels, attention_store<T>{sums + i * padded, grad + i * a.heads * a.channels});
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
