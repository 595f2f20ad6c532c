// SPDX-License-Identifier: Apache-2.0
// The gradients of deformable attention with respect to points and weights. Let d be the products
// of the upstream gradient with the values at a point's four locations, a the point's weight, and
// fx and fy its distances from the upper left location. The gradients are
//
//   weight  (1 - fy) ((1 - fx) d00 + fx d01) + fy ((1 - fx) d10 + fx d11)
//   x       a width  ((1 - fy) (d01 - d00) + fy (d11 - d10))
//   y       a height ((1 - fx) (d10 - d00) + fx (d11 - d01))
#pragma once

#include <vecdet/args/deformable_attention.hpp>
#include <vecdet/kernels/channels.hpp>
#include <vecdet/kernels/deformable_attention/corners.hpp>
#include <vecdet/simd/pack.hpp>
#include <vecdet/simd/row_sums.hpp>
#include <vecdet/simd/transpose.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

/// The products of the upstream gradient of a query in one head with the values around its points.
/// There are `Rows` x 16 channels, which stay in registers; 0: any number.
template <int Rows, class T, class From>
struct attention_products {
  using real = compute_type<T>;
  using row = row_pack<real>;
  static constexpr int N = row::batches;
  const T* upstream;
  const From* value;  ///< of the image and head
  index_t stride;     ///< between locations
  index_t channels;
  row rows[Rows > 0 ? Rows : 1];  ///< of `upstream`

  VECDET_INLINE attention_products(const T* gradient, const From* from, index_t step, index_t count)
      : upstream(gradient), value(from), stride(step), channels(count) {
    VECDET_UNROLL
    for (int r = 0; r < Rows; ++r) rows[r] = load_pack<N>(upstream + r * row_lanes);
  }

  /// The product with the channels of one location, as 16 partial sums.
  VECDET_INLINE row with(index_t location) const {
    const From* const at = value + location * stride;
    if constexpr (Rows > 0) {
      row sum = rows[0] * load_pack<N>(at);
      VECDET_UNROLL
      for (int r = 1; r < Rows; ++r) sum = fma(rows[r], load_pack<N>(at + r * row_lanes), sum);
      return sum;
    } else {
      row sum(real(0));
      index_t c = 0;
      for (; c + row_lanes <= channels; c += row_lanes)
        sum = fma(load_pack<N>(upstream + c), load_pack<N>(at + c), sum);
      if (c < channels)
        sum = fma(load_channels<N, false>(upstream + c, channels - c),
                  load_channels<N, false>(at + c, channels - c), sum);
      return sum;
    }
  }

  /// Writes four products per point of a block.
  VECDET_INLINE void with_block(const detail::attention_levels& level,
                                const detail::attention_corners<real>& block, real* to) const {
    for (int i = 0; i < 4 * row_lanes; ++i) to[i] = real(0);
    for_each_point(block.any, [&](int i) VECDET_INLINE_LAMBDA {
      const auto first = static_cast<index_t>(block.location[i]);
      const auto width = static_cast<index_t>(level.width[i]);
      row sum[4];
      if ((block.all >> i & 1) != 0) {
        VECDET_UNROLL
        for (int k = 0; k < 4; ++k) sum[k] = with(first + corner_offset(k, width));
      } else {
        // Rare, so not unrolled; in an array of its own, because `sum` stays in registers.
        row products[4];
        VECDET_NO_UNROLL
        for (int k = 0; k < 4; ++k)
          products[k] = (block.inside[k] >> i & 1) != 0 ? with(first + corner_offset(k, width))
                                                        : row(real(0));
        VECDET_UNROLL
        for (int k = 0; k < 4; ++k) sum[k] = products[k];
      }
      sum_four_rows<real>(sum, to + 4 * i);
    });
  }
};

template <class Real>
VECDET_INLINE void store_first(Real* to, const row_pack<Real>& x, index_t count) {
  if (count == row_lanes)
    store_channels<row_pack<Real>::batches, true>(to, x, count);
  else
    store_channels<row_pack<Real>::batches, false>(to, x, count);
}

/// Transposes four numbers per point to four rows of 16 points.
template <class Real>
VECDET_INLINE void transpose_products(const Real* from, Real* to) {
  if constexpr (std::is_same<Real, float>::value) {
    transpose_block(from, 4, to);
  } else {
    for (int i = 0; i < row_lanes; ++i)
      for (int k = 0; k < 4; ++k) to[k * row_lanes + i] = from[4 * i + k];
  }
}

/// Computes the gradients of `count` points of a block and writes those that are requested.
template <class Real>
VECDET_NOINLINE void finish_point_grads(const detail::attention_levels& level,
                                        const detail::attention_corners<Real>& block,
                                        const Real* products, index_t count, Real* point_grad,
                                        Real* weight_grad) {
  using reals = row_pack<Real>;
  constexpr int M = reals::batches, N = row_pack<double>::batches;
  alignas(64) Real d[4 * row_lanes];
  transpose_products(products, d);
  const reals d00 = load_pack<M>(d), d01 = load_pack<M>(d + row_lanes);
  const reals d10 = load_pack<M>(d + 2 * row_lanes), d11 = load_pack<M>(d + 3 * row_lanes);
  const reals fx = load_pack<M>(block.across), fy = load_pack<M>(block.down);
  const reals gx = load_pack<M>(block.back), gy = load_pack<M>(block.up);
  if (weight_grad != nullptr) {
    const reals by_weight = fma(gy, fma(gx, d00, fx * d01), fy * fma(gx, d10, fx * d11));
    store_first(weight_grad, by_weight, count);
  }
  if (point_grad != nullptr) {
    const reals a = load_pack<M>(block.point_weight);
    const reals width = narrow_to<Real>(load_pack<N>(level.width));
    const reals height = narrow_to<Real>(load_pack<N>(level.height));
    alignas(64) Real x[row_lanes], y[row_lanes];
    store_pack<M>(x, a * width * fma(gy, d01 - d00, fy * (d11 - d10)));
    store_pack<M>(y, a * height * fma(gx, d10 - d00, fx * (d11 - d01)));
    if (count == row_lanes) {
      for (int i = 0; i < row_lanes; ++i) {
        point_grad[2 * i] = x[i];
        point_grad[2 * i + 1] = y[i];
      }
    } else {
      for (index_t i = 0; i < count; ++i) {
        point_grad[2 * i] = x[i];
        point_grad[2 * i + 1] = y[i];
      }
    }
  }
}

/// `Rows` is that of attention_products.
template <int Rows, class T, class From>
void attention_point_grads_of(const detail::attention_args<T>& a,
                              const detail::attention_source<From>& source,
                              const detail::attention_levels* levels,
                              const detail::attention_queries& queries,
                              detail::attention_corners<compute_type<T>>* scratch,
                              compute_type<T>* sums) {
  using real = compute_type<T>;
  const index_t blocks = detail::attention_blocks(a.point_count);
  for (index_t q = queries.first; q < queries.last; ++q) {
    const From* const image = source.data + q / a.queries * source.image;
    for (index_t h = queries.first_head; h < queries.last_head; ++h) {
      const index_t head = q * a.heads + h;
      prefetch_query(a, q, queries.last, h, true);
      locate_all_points(levels, a.points + 2 * head * a.point_count,
                        a.weights + head * a.point_count, a.point_count, scratch);
      const attention_products<Rows, T, From> products(
          a.upstream + head * a.channels, image + h * source.head, source.location, a.channels);
      for (index_t b = 0; b < blocks; ++b) {
        products.with_block(levels[b], scratch[b], sums);
        const index_t done = b * row_lanes, left = a.point_count - done;
        const index_t point = head * a.point_count + done;
        finish_point_grads<real>(levels[b], scratch[b], sums,
                                 left < row_lanes ? left : index_t{row_lanes},
                                 a.point_grad != nullptr ? a.point_grad + 2 * point : nullptr,
                                 a.weight_grad != nullptr ? a.weight_grad + point : nullptr);
      }
    }
  }
}

template <class T, class From>
void attention_point_grads(const detail::attention_args<T>& a,
                           const detail::attention_source<From>& source,
                           const detail::attention_levels* levels,
                           const detail::attention_queries& queries,
                           detail::attention_corners<compute_type<T>>* scratch,
                           compute_type<T>* sums) {
  if (a.channels == 2 * row_lanes)
    attention_point_grads_of<2>(a, source, levels, queries, scratch, sums);
  else
    attention_point_grads_of<0>(a, source, levels, queries, scratch, sums);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
