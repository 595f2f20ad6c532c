// SPDX-License-Identifier: Apache-2.0
// ProbIoU of rotated boxes: of all pairs of two lists, and of corresponding boxes of two lists.
//
// All pairs: one box of `a` against a tile of `b`. Registers full of boxes of `b` that are too far
// away for any overlap are not computed. Pairs of float boxes whose products could overflow are
// computed in double.
#pragma once

#include <vecdet/kernels/rotated_boxes/prob_tile.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::rotated_iou_args;

/// Boxes of `b` that are processed together.
constexpr int prob_columns = 256;

/// Writes the ProbIoUs of box i of a with the first `size` boxes of b, rounded up to a register.
template <class Real>
VECDET_NOINLINE void prob_iou_row(const prob_row_tile<Real>& a, int i,
                                  const prob_tile<Real, prob_columns>& b, int size, Real* out) {
  constexpr int N = 1, lanes = pack<Real, N>::lanes;
  using real = pack<Real, N>;
  const auto box = a.template repeated<N>(i);
  // From m = 28 in float, and 50 in double, on, exp(-B) vanishes beside 1, even where D is as small
  // as eps.
  const real factor = Real(sizeof(Real) == 4 ? 4 * 28.0 : 4 * 50.0);
  const real reach_x = square(real(a.reach_x[i])), reach_y = square(real(a.reach_y[i]));
  const real apart = prob_iou_apart<Real>();
  const auto is_beyond =
      [&](const real& d, const real& reach, const Real* others)
          VECDET_INLINE_LAMBDA { return d * d > factor * (reach + square(load_pack<N>(others))); };
  for (int j = 0; j < size; j += lanes) {
    const auto far = is_beyond(load_pack<N>(b.x + j) - box.x, reach_x, b.reach_x + j) |
                     is_beyond(load_pack<N>(b.y + j) - box.y, reach_y, b.reach_y + j);
    store_pack<N>(out + j, all(far) ? apart : prob_iou_of(box, b.template at<N>(j)));
  }
}

/// Boxes [first_a, first_a + rows) of a against boxes [first_b, first_b + size) of b, in Real; with
/// Real = double for floats, only the pairs with an extreme box.
template <class Real, class T>
VECDET_NOINLINE bool prob_iou_block(const rotated_iou_args<T>& args, index_t first_a, int rows,
                                    index_t first_b, int size,
                                    const prob_tile<Real, prob_columns>& b) {
  prob_row_tile<Real> a;
  a.fill(args.a, args.a_stride, first_a, rows, args.angles);
  alignas(64) Real row[prob_columns];
  for (int i = 0; i < rows; ++i) {
    T* const to = args.out + (first_a + i) * args.out_stride + first_b;
    prob_iou_row(a, i, b, size, row);
    if constexpr (std::is_same<Real, T>::value)
      __builtin_memcpy(to, row, static_cast<std::size_t>(size) * sizeof(T));
    else
      for (int j = 0; j < size; ++j)
        if (a.extreme[i] || b.extreme[j]) to[j] = static_cast<T>(row[j]);
  }
  return a.has_extreme || b.has_extreme;
}

template <class T>
VECDET_NOINLINE void extreme_prob_block(const rotated_iou_args<T>& args, index_t first_a, int rows,
                                        index_t first_b, int size) {
  prob_tile<double, prob_columns> b;
  b.fill(args.b, args.b_stride, first_b, size, args.angles);
  prob_iou_block<double>(args, first_a, rows, first_b, size, b);
}

template <class T>
void pairwise_prob_iou(const rotated_iou_args<T>& args, index_t first_a, index_t last_a,
                       index_t first_b, index_t last_b) {
  prob_tile<T, prob_columns> b;
  for (index_t begin = first_b; begin < last_b; begin += prob_columns) {
    const int size =
        static_cast<int>(last_b - begin < prob_columns ? last_b - begin : index_t{prob_columns});
    b.fill(args.b, args.b_stride, begin, size, args.angles);
    for (index_t i = first_a; i < last_a; i += row_lanes) {
      const int rows = static_cast<int>(last_a - i < row_lanes ? last_a - i : index_t{row_lanes});
      if (prob_iou_block<T>(args, i, rows, begin, size, b) && std::is_same<T, float>::value)
        extreme_prob_block(args, i, rows, begin, size);
    }
  }
}

/// The ProbIoUs of up to 16 pairs; with Real = double for floats, only those with an extreme box.
template <class Real, class T>
VECDET_NOINLINE bool prob_iou_pairs(const rotated_iou_args<T>& args, index_t first, int size) {
  prob_row_tile<Real> a, b;
  a.fill(args.a, args.a_stride, first, size, args.angles);
  b.fill(args.b, args.b_stride, first, size, args.angles);
  alignas(64) Real iou[row_lanes];
  prob_ious_of_sixteen<true>(a, 0, b, iou);
  for (int k = 0; k < size; ++k)
    if (std::is_same<Real, T>::value || a.extreme[k] || b.extreme[k])
      args.out[first + k] = static_cast<T>(iou[k]);
  return a.has_extreme || b.has_extreme;
}

template <class T>
void elementwise_prob_iou(const rotated_iou_args<T>& args, index_t first, index_t last) {
  for (index_t i = first; i < last; i += row_lanes) {
    const int size = static_cast<int>(last - i < row_lanes ? last - i : index_t{row_lanes});
    if (prob_iou_pairs<T>(args, i, size) && std::is_same<T, float>::value)
      prob_iou_pairs<double>(args, i, size);
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
