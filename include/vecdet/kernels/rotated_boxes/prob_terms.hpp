// SPDX-License-Identifier: Apache-2.0
// ProbIoU of two rotated boxes as an equation on packs (Llerena, Zeni, Kristen, Jung: "Gaussian
// bounding boxes and probabilistic intersection-over-union for object detection", arXiv
// 2106.06072), with the epsilons of ultralytics.
//
// A box is a Gaussian with its centre d, and the standard deviations P (along its longer side) and
// K (along the other), which are the sides divided by sqrt(12). S is its covariance matrix and
// g = P K the root of S's determinant. With eps = 1e-7, and d the difference of the centres,
//
//   m       = d^T adj(S1 + S2) d / (4 (det(S1 + S2) + eps))
//   D       = det(S1 + S2) / (4 g1 g2 + eps) + eps
//   B       = m + log(D) / 2, at least eps and at most 100
//   ProbIoU = 1 - sqrt(1 - exp(-B) + eps)
//
// Near 1, the root makes an error of exp(-B) a thousand times as large, and det(S1 + S2), computed
// from the elements of the matrices, loses digits for long boxes. Here, nothing cancels: with t the
// angle between the longer sides,
//
//   det(S1 + S2)         = 4 g1 g2 + N
//   N                    = (g1 - g2)^2 + (P1 K2 - K1 P2)^2 + (P1^2 - K1^2) (P2^2 - K2^2) sin(t)^2
//   d^T adj(S1 + S2) d   = (P1 v1)^2 + (K1 u1)^2 + (P2 v2)^2 + (K2 u2)^2
//
// where u and v are the parts of d along and across the longer side. All terms are 0 or more. There
// is no logarithm, because exp(-B) = sqrt(exp(-2 m) / D), and 1 - exp(-B) is W / (1 + exp(-B)) with
// W = 1 - exp(-2 m) / D, computed from N and 1 - exp(-2 m).
//
// Most of the time goes into multiplications: of the 48 cycles of 16 pairs on a Zen 5, the two
// roots and the two divisions take only 14.
#pragma once

#include <vecdet/simd/constants.hpp>
#include <vecdet/simd/math.hpp>
#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

constexpr double prob_epsilon = 1e-7;
/// 1 - exp(-eps).
constexpr double prob_least_rest = 9.999999500000017e-8;
/// A side has sqrt(12) standard deviations.
constexpr double prob_per_deviation = 0.28867513459481287;

/// Boxes in registers: centre; P and K; the direction of the longer side times P, times K and times
/// sqrt(P^2 - K^2); g, NaN if the box is not a number.
template <class Real, int N>
struct prob_pack {
  pack<Real, N> x, y, longer, shorter, along_x, along_y, across_x, across_y, excess_x, excess_y;
  pack<Real, N> root;
};

template <class Real, int N>
VECDET_INLINE pack<Real, N> square(const pack<Real, N>& x) {
  return x * x;
}

/// The result of boxes that are far apart, for which exp(-B) vanishes beside 1.
template <class Real>
VECDET_INLINE pack<Real, 1> prob_iou_apart() {
  using real = pack<Real, 1>;
  return real(Real(1)) - sqrt(real(Real(1)) + real(static_cast<Real>(prob_epsilon)));
}

/// The ProbIoU of a and b, the same for b and a. With H = 4 g1 g2 + eps and c = exp(-B), 1 - c is
/// (D H - c D H) / (D H) or, where digits would cancel, W D H / (D H + c D H): one division.
template <class Real, int N>
VECDET_INLINE pack<Real, N> prob_iou_of(const prob_pack<Real, N>& a, const prob_pack<Real, N>& b) {
  using real = pack<Real, N>;
  const real epsilon = static_cast<Real>(prob_epsilon);
  const real one = Real(1), two = Real(2), four = Real(4);
  const real dx = b.x - a.x, dy = b.y - a.y;
  const auto part = [&](const prob_pack<Real, N>& box) VECDET_INLINE_LAMBDA {
    const real v = fnma(box.along_y, dx, box.along_x * dy);
    const real u = fma(box.across_x, dx, box.across_y * dy);
    return fma(v, v, u * u);
  };
  const real distance = part(a) + part(b);
  // Products are rounded separately, so that they cancel for equal boxes.
  const real aspect = rounded(a.longer * b.shorter) - rounded(a.shorter * b.longer);
  const real turn = rounded(a.excess_x * b.excess_y) - rounded(a.excess_y * b.excess_x);
  const real size = a.root - b.root;
  const real difference = fma(turn, turn, fma(aspect, aspect, size * size));
  const real product = a.root * b.root;
  const real h = fma(four, product, epsilon), det = fma(four, product, difference);
  const real d_h = fma(epsilon, h, det), excess = fma(epsilon, h, difference - epsilon);
  const auto power = exp_minus_parts(distance / fma(two, det, two * epsilon));
  const real w_d_h = fma(power.rest, h, excess);
  const real c_d_h = sqrt((power.value * h) * d_h);  // exp(-2 m) = c^2 D
  const auto is_small = c_d_h + c_d_h < d_h;
  const real rest = max(real(static_cast<Real>(prob_least_rest)),  // NaN stays NaN
                        select(is_small, d_h - c_d_h, w_d_h) / select(is_small, d_h, d_h + c_d_h));
  // Always the same NaN: the sign of others depends on the order of operands.
  return select(rest == rest, one - sqrt(rest + epsilon), not_a_number<Real>());
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
