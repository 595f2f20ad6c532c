// SPDX-License-Identifier: Apache-2.0
// Deformable attention, forward: the weighted sum of four locations per point. Lanes are channels.
#pragma once

#include <vecdet/args/deformable_attention.hpp>
#include <vecdet/kernels/channels.hpp>
#include <vecdet/kernels/deformable_attention/corners.hpp>
#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Some channels of a query in one head. From is the type that the value is read in.
template <class T, class From>
struct attention_sum {
  using real = compute_type<T>;
  const detail::attention_levels* levels;
  const detail::attention_corners<real>* corners;
  index_t blocks;
  const From* value;  ///< of the image and head
  index_t stride;     ///< between locations
  T* out;

  template <int N, bool IsWhole>
  VECDET_INLINE void run(index_t c, index_t size) const {
    using reals = pack<real, N>;
    // Two chains of multiply-adds: one for the upper and one for the lower locations.
    reals upper(real(0)), lower(real(0));
    for (index_t b = 0; b < blocks; ++b) {
      const auto& block = corners[b];
      for_each_point(block.any, [&](int i) VECDET_INLINE_LAMBDA {
        const auto first = static_cast<index_t>(block.location[i]);
        const auto width = static_cast<index_t>(levels[b].width[i]);
        const auto add = [&](reals& sum, int corner) VECDET_INLINE_LAMBDA {
          const From* const at = value + ((first + corner_offset(corner, width)) * stride + c);
          sum = fma(reals(block.weight[corner][i]), load_channels<N, IsWhole>(at, size), sum);
        };
        if ((block.all >> i & 1) != 0) {
          add(upper, 0);
          add(upper, 1);
          add(lower, 2);
          add(lower, 3);
        } else {
          if ((block.inside[0] >> i & 1) != 0) add(upper, 0);
          if ((block.inside[1] >> i & 1) != 0) add(upper, 1);
          if ((block.inside[2] >> i & 1) != 0) add(lower, 2);
          if ((block.inside[3] >> i & 1) != 0) add(lower, 3);
        }
      });
    }
    store_channels<N, IsWhole>(out + c, upper + lower, size);
  }
};

template <class T, class From>
void attend(const detail::attention_args<T>& a, const detail::attention_source<From>& value,
            const detail::attention_levels* levels, const detail::attention_queries& queries,
            detail::attention_corners<compute_type<T>>* scratch) {
  const index_t blocks = detail::attention_blocks(a.point_count);
  for (index_t q = queries.first; q < queries.last; ++q) {
    for (index_t h = queries.first_head; h < queries.last_head; ++h) {
      const index_t head = q * a.heads + h;
      prefetch_query(a, q, queries.last, h, false);
      locate_all_points(levels, a.points + 2 * head * a.point_count,
                        a.weights + head * a.point_count, a.point_count, scratch);
      for_each_attention_channels<compute_type<T>>(
          a.channels,
          attention_sum<T, From>{levels, scratch, blocks,
                                 value.data + (q / a.queries * value.image + h * value.head),
                                 value.location, a.out + head * a.channels});
    }
  }
}

/// Copies channels that are computed together.
template <class T>
struct attention_copy {
  const T* from;
  compute_type<T>* to;

  template <int N, bool IsWhole>
  VECDET_INLINE void run(index_t c, index_t size) const {
    store_channels<N, IsWhole>(to + c, load_channels<N, IsWhole>(from + c, size), size);
  }
};

template <class T>
void pack_value(const detail::attention_args<T>& a, index_t image, index_t head, index_t first,
                index_t last, compute_type<T>* to) {
  const index_t stride = a.heads * a.channels;
  const T* from = a.value + (image * a.locations + first) * stride + head * a.channels;
  for (index_t i = first; i < last; ++i) {
    for_each_attention_channels<compute_type<T>>(a.channels, attention_copy<T>{from, to});
    from += stride;
    to += a.channels;
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
