// SPDX-License-Identifier: Apache-2.0
// IoU, GIoU, DIoU and CIoU as equations on packs; see iou.hpp for the formulas.
//
// The areas and IoU itself are computed operation by operation, without contraction, as
// torchvision does, so that they are the very same floats. min and max return their second operand
// where either is NaN: a NaN that they lose comes back through the areas.
#pragma once

#include <vecdet/args/iou.hpp>
#include <vecdet/kernels/boxes.hpp>
#include <vecdet/simd/math_boxes.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class Real, int N>
VECDET_INLINE pack<Real, N> area_of(const box_pack<Real, N>& b) {
  return (b.x2 - b.x1) * (b.y2 - b.y1);
}

/// The squared difference of the angles atan(w / h) of two boxes, times 4 / pi^2, and that
/// difference, of the second less the first.
template <class Real, int N>
struct aspect_terms {
  pack<Real, N> v, angle;
};

/// The angle between the vectors (ha, wa) and (hb, wb) in one arctangent, from their cross and dot
/// products, the first of which loses nothing to cancellation where there is fused multiply-add.
template <class Real, int N>
VECDET_INLINE aspect_terms<Real, N> aspect_difference(const pack<Real, N>& wa,
                                                      const pack<Real, N>& ha,
                                                      const pack<Real, N>& wb,
                                                      const pack<Real, N>& hb) {
  using real = pack<Real, N>;
  const real sign = Real(-0.0);
  // atan(w / h) is that of (-w) / (-h): heights become positive.
  const real a = wa ^ (ha & sign), b = wb ^ (hb & sign), up_a = abs(ha), up_b = abs(hb);
  const real product = a * up_b;
  const real cross = fma(b, up_a, real(Real(0)) - product) - fma(a, up_b, real(Real(0)) - product);
  const real angle = angle_of(fma(a, b, up_a * up_b), cross);
  return {angle * angle * real(Real(0.40528473456935108578)), angle};
}

constexpr double iou_epsilon = 1e-7;

/// The IoU, GIoU, DIoU or CIoU of boxes a and b, given their areas.
template <iou_kind Kind, class Real, int N>
VECDET_INLINE pack<Real, N> iou_of(const box_pack<Real, N>& a, const pack<Real, N>& area_a,
                                   const box_pack<Real, N>& b, const pack<Real, N>& area_b,
                                   empty_iou rule) {
  using real = pack<Real, N>;
  const real zero = Real(0), half = Real(0.5), epsilon = Real(iou_epsilon);
  const real w = max(zero, min(a.x2, b.x2) - max(a.x1, b.x1));
  const real h = max(zero, min(a.y2, b.y2) - max(a.y1, b.y1));
  const real intersection = w * h;
  const real joined = area_a + area_b - intersection;
  real iou = intersection / joined;
  if (rule == empty_iou::zero) {
    iou = select(intersection > zero, select(iou == iou, iou, zero), zero);
  }
  if constexpr (Kind == iou_kind::iou) return iou;

  const real hull_w = max(zero, max(a.x2, b.x2) - min(a.x1, b.x1));
  const real hull_h = max(zero, max(a.y2, b.y2) - min(a.y1, b.y1));
  if constexpr (Kind == iou_kind::giou) {
    const real hull = hull_w * hull_h;
    return iou - (hull - joined) / hull;
  }
  const real dx = half * ((a.x1 - b.x1) + (a.x2 - b.x2));
  const real dy = half * ((a.y1 - b.y1) + (a.y2 - b.y2));
  const real diagonal = fma(hull_w, hull_w, hull_h * hull_h) + epsilon;
  const real diou = iou - fma(dx, dx, dy * dy) / diagonal;
  if constexpr (Kind == iou_kind::diou) return diou;

  const real v = aspect_difference(a.x2 - a.x1, a.y2 - a.y1, b.x2 - b.x1, b.y2 - b.y1).v;
  return diou - v * v / ((real(Real(1)) - iou) + (v + epsilon));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
