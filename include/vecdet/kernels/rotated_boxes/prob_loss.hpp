// SPDX-License-Identifier: Apache-2.0
// The ProbIoU loss of predicted boxes (a) and their targets (b), 16 pairs at a time in double; see
// prob_terms.hpp for the symbols and the loss. Its derivative with respect to B is
// exp(-B) / (2 loss), and 0 where B is clamped.
//
// With E = det + eps and H = 4 g1 g2 + eps, the derivatives of B = m + log(D) / 2 are
//
//   centre   -adj(S1 + S2) d / (2 E)
//   P1       P1 v1^2 / (2 E) - m / E det'  + (K1 (g1 - g2) + K2 (P1 K2 - K1 P2)
//            + P1 (P2^2 - K2^2) sin(t)^2 - 2 K1 g2 (N - eps) / H) / (D H)
//   K1       K1 u1^2 / (2 E) - m / E det'  + (P1 (g1 - g2) - P2 (P1 K2 - K1 P2)
//            - K1 (P2^2 - K2^2) sin(t)^2 - 2 P1 g2 (N - eps) / H) / (D H)
//   angle    -(P1^2 - K1^2) u1 v1 / (2 E) - m / E det' - (P1^2 - K1^2) (P2^2 - K2^2) sin(t) cos(t)
//            / (D H)
//
// where det' is the derivative of det(S1 + S2) with respect to the same number. The derivatives of
// log(D) are written so that all of their terms vanish for equal boxes.
#pragma once

#include <vecdet/kernels/box_weights.hpp>
#include <vecdet/kernels/rotated_boxes/prob_tile.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::loss_output;
using detail::prob_iou_loss_args;

/// The losses of 16 pairs, and the gradients of x, y, w, h and the angle in radians, clockwise.
struct prob_loss_row {
  row_pack<double> loss, grad[5];
};

template <bool Grad>
VECDET_INLINE void prob_loss_of(const turned_row& a, const turned_row& b, prob_loss_row& result) {
  using real = row_pack<double>;
  const prob_row r(a), q(b);
  const real zero = 0.0, half = 0.5, one = 1.0, two = 2.0, epsilon = prob_epsilon;
  const real dx = b.x - a.x, dy = b.y - a.y;
  const real u1 = dx * r.cosine + dy * r.sine, v1 = dy * r.cosine - dx * r.sine;
  const real u2 = dx * q.cosine + dy * q.sine, v2 = dy * q.cosine - dx * q.sine;
  const real pv1 = r.p * v1, ku1 = r.k * u1, pv2 = q.p * v2, ku2 = q.k * u2;
  const real distance = (pv1 * pv1 + ku1 * ku1) + (pv2 * pv2 + ku2 * ku2);
  const real nan = not_a_number<double>();
  const real g1 = select(a.is_box, r.p * r.k, nan), g2 = select(b.is_box, q.p * q.k, nan);
  const real aspect = rounded(r.p * q.k) - rounded(r.k * q.p), size = g1 - g2;
  const real sine = rounded(r.cosine * q.sine) - rounded(r.sine * q.cosine);
  const real e1 = (r.p - r.k) * (r.p + r.k), e2 = (q.p - q.k) * (q.p + q.k);
  const real turn = e1 * e2 * sine;
  const real difference = (size * size + aspect * aspect) + turn * sine;
  const real product = real(4.0) * (g1 * g2), whole = product + difference;
  const real divisor = product + epsilon, by_whole = one / (whole + epsilon);
  const real m = real(0.25) * distance * by_whole;
  const auto power = exp_minus_parts(two * m);
  const real inverse = one / (whole + epsilon * divisor);
  const real excess = (difference - epsilon) + epsilon * divisor;
  const real w = (power.rest * divisor + excess) * inverse;
  const real coefficient = sqrt(power.value * divisor * inverse);
  const real rest = select(coefficient < half, one - coefficient, w / (one + coefficient));
  const real least = prob_least_rest;
  const auto is_number = rest == rest;  // else always the same NaN
  result.loss = select(is_number, sqrt(max(least, rest) + epsilon), nan);
  if constexpr (!Grad) return;
  const auto is_free = (rest >= least) & (coefficient >= real(3.720075976020836e-44));  // exp(-100)
  const real factor = select(is_free, half * coefficient / result.loss, zero * result.loss);
  const real half_by_whole = half * by_whole, m_by_whole = m * by_whole;
  const real nx =
      (ku1 * r.k * r.cosine - pv1 * r.p * r.sine) + (ku2 * q.k * q.cosine - pv2 * q.p * q.sine);
  const real ny =
      (ku1 * r.k * r.sine + pv1 * r.p * r.cosine) + (ku2 * q.k * q.sine + pv2 * q.p * q.cosine);
  result.grad[0] = zero - factor * (nx * half_by_whole);
  result.grad[1] = zero - factor * (ny * half_by_whole);
  const real turned = e2 * sine * sine, others = two * g2 * (difference - epsilon) / divisor;
  // The derivatives of the determinant by P1 and K1.
  const real det_p = two * r.p * ((r.k * r.k + q.k * q.k) + turned);
  const real det_k = two * r.k * ((r.p * r.p + q.p * q.p) - turned);
  const real by_p = (pv1 * v1 * half_by_whole - m_by_whole * det_p) +
                    ((r.k * size + q.k * aspect) + (r.p * turned - r.k * others)) * inverse;
  const real by_k = (ku1 * u1 * half_by_whole - m_by_whole * det_k) +
                    ((r.p * size - q.p * aspect) - (r.k * turned + r.p * others)) * inverse;
  const real per_side = factor * real(prob_per_deviation);
  result.grad[2] = per_side * select(r.is_tall, by_k, by_p);
  result.grad[3] = per_side * select(r.is_tall, by_p, by_k);
  const real cosine = r.cosine * q.cosine + r.sine * q.sine;
  const real turn_cosine = turn * cosine;
  result.grad[4] = factor * ((two * m_by_whole * turn_cosine - e1 * u1 * v1 * half_by_whole) -
                             turn_cosine * inverse);
  for (real& grad : result.grad) grad = select(is_number, grad, nan);
}

/// Pairs [first, last). Returns the unscaled sum of their losses.
template <bool Grad, class T>
double prob_iou_loss_rows(const prob_iou_loss_args<T>& args, index_t first, index_t last) {
  using real = row_pack<double>;
  constexpr int N = real::batches;
  const real scale = args.scale;
  const double radians = args.angles.degrees ? 0.017453292519943295 : 1.0;
  const real per_angle = args.angles.clockwise ? radians : -radians;
  lane_sums sums;
  for (index_t i = first; i < last; i += row_lanes) {
    const int size = static_cast<int>(last - i < row_lanes ? last - i : index_t{row_lanes});
    const auto load = [&](const T* boxes, index_t stride) VECDET_INLINE_LAMBDA {
      return load_turned_row<T>(consecutive_rows<T>{boxes, stride, i, size}, 0, args.angles);
    };
    prob_loss_row row;
    prob_loss_of<Grad>(load(args.predicted, args.predicted_stride),
                       load(args.targets, args.targets_stride), row);
    real weight = 1.0;
    if (args.box_weights != nullptr) {
      alignas(64) double weights[1][row_lanes];
      read_rows(consecutive_rows<float>{args.box_weights, 1, i, size}, 0, weights);
      weight = load_pack<N>(weights[0]);
    }
    row.loss = vanishing_product(row.loss, weight);
    alignas(64) T numbers[5][row_lanes];
    if constexpr (Grad) {
      row.grad[4] = row.grad[4] * per_angle;
      const real factor = vanishing_product(scale, weight);
      VECDET_NO_UNROLL
      for (int k = 0; k < 5; ++k) store_rounded(numbers[k], vanishing_product(row.grad[k], factor));
      for (int j = 0; j < size; ++j)
        for (int k = 0; k < 5; ++k) args.grad[(i + j) * args.grad_stride + k] = numbers[k][j];
    } else if (args.output == loss_output::loss) {
      store_rounded(numbers[0], vanishing_product(row.loss, scale));
      for (int j = 0; j < size; ++j) args.loss[i + j] = numbers[0][j];
    }
    const auto is_given = load_pack<N>(lane_numbers<double>) < real(static_cast<double>(size));
    sums.add(select(is_given, row.loss, real(0.0)));
  }
  return sums.total();
}

template <class T>
double prob_iou_loss(const prob_iou_loss_args<T>& args, index_t first, index_t last) {
  return args.output == loss_output::grad ? prob_iou_loss_rows<true>(args, first, last)
                                          : prob_iou_loss_rows<false>(args, first, last);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
