// SPDX-License-Identifier: Apache-2.0
// The IoU losses and their gradients as equations on packs; see iou_loss.hpp for the formulas.
//
// With U' = U + eps and so on, by a side of the predicted box, say x2, where I, A and C are the
// areas of the intersection, the predicted box and the hull, w and h the predicted box's sides:
//
//   dI = overlap_h if the side bounds the intersection (x2 < target's), dA = h,
//   dC = hull_h if it bounds the hull (x2 > target's); half of both where the sides are equal
//   d(1 - IoU)     = -(1 + IoU)/U' dI + IoU/U' dA
//   d((C-U)/C')    = dC U'/C'^2 - (dA - dI)/C'
//   d(rho^2/c'^2)  = dx/c'^2 - rho^2/c'^4 2 hull_w dhull_w
//   d(alpha v)     = alpha 8/pi^2 angle / (w^2 + h^2) (w dh - h dw), angle that of the target less
//                    that of the prediction
//
// so a side's gradient is an amount for the intersection or for the hull, plus one for the area,
// with opposite signs at opposite sides, plus one for the centre with the same.
#pragma once

#include <vecdet/kernels/iou/terms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// `inside` where side a lies before side b, `outside` where it lies beyond, half of each where
/// they are equal.
template <class Real, int N>
VECDET_INLINE pack<Real, N> by_side(const pack<Real, N>& a, const pack<Real, N>& b,
                                    const pack<Real, N>& inside, const pack<Real, N>& outside) {
  return select(a < b, inside,
                select(a == b, pack<Real, N>(Real(0.5)) * (inside + outside), outside));
}

template <iou_kind Kind, class Real, int N>
VECDET_INLINE box_loss_terms<Real, N> iou_loss_of(const box_pack<Real, N>& p,
                                                  const box_pack<Real, N>& t, Real eps) {
  using real = pack<Real, N>;
  const real zero = Real(0), half = Real(0.5), one = Real(1), epsilon = eps;
  const real w = p.x2 - p.x1, h = p.y2 - p.y1;
  aspect_terms<Real, N> aspect;  // first, while little else is in registers
  if constexpr (Kind == iou_kind::ciou) aspect = aspect_difference(w, h, t.x2 - t.x1, t.y2 - t.y1);
  real overlap_w = min(p.x2, t.x2) - max(p.x1, t.x1);
  real overlap_h = min(p.y2, t.y2) - max(p.y1, t.y1);
  const real least = min(overlap_w, overlap_h);  // 0 overlap: no gradient through it either
  overlap_w = select(least > zero, overlap_w, zero);
  overlap_h = select(least > zero, overlap_h, zero);
  const real intersection = overlap_w * overlap_h;
  const real joined = fma(w, h, area_of(t)) - intersection;
  const real hull_w = max(p.x2, t.x2) - min(p.x1, t.x1);
  const real hull_h = max(p.y2, t.y2) - min(p.y1, t.y1);
  const real by_joined = one / (joined + epsilon);
  const real iou = intersection * by_joined;

  real area_grad = iou * by_joined;
  real inside_grad = zero - (by_joined + area_grad);
  real loss = one - iou;
  real out_x = zero, out_y = zero, centre_x = zero, centre_y = zero;
  real area_x = zero, area_y = zero;
  if constexpr (Kind == iou_kind::giou) {
    const real hull = hull_w * hull_h;
    const real by_hull = one / (hull + epsilon);
    loss = loss + (hull - joined) * by_hull;
    area_grad = area_grad - by_hull;
    inside_grad = inside_grad + by_hull;
    const real hull_grad = (joined + epsilon) * by_hull * by_hull;
    out_x = hull_grad * hull_h;
    out_y = hull_grad * hull_w;
  } else {
    const real dx = half * ((p.x1 - t.x1) + (p.x2 - t.x2));
    const real dy = half * ((p.y1 - t.y1) + (p.y2 - t.y2));
    const real by_diagonal = one / (fma(hull_w, hull_w, hull_h * hull_h) + epsilon);
    const real distance = fma(dx, dx, dy * dy) * by_diagonal;
    loss = loss + distance;
    centre_x = dx * by_diagonal;
    centre_y = dy * by_diagonal;
    const real hull_grad = real(Real(-2)) * distance * by_diagonal;
    out_x = hull_grad * hull_w;
    out_y = hull_grad * hull_h;
  }
  if constexpr (Kind == iou_kind::ciou) {
    // Without epsilon, what is left of 1 - IoU near equal boxes is rounding, or 0 / 0.
    const real alpha =
        select(zero < aspect.v, aspect.v / ((one - iou) + (aspect.v + epsilon)), aspect.v);
    loss = fma(alpha, aspect.v, loss);
    const real slope = real(Real(0.81056946913870217155)) * alpha * aspect.angle / fma(w, w, h * h);
    area_x = zero - slope * h;
    area_y = slope * w;
  }
  area_x = fma(area_grad, h, area_x);
  area_y = fma(area_grad, w, area_y);
  const real in_x = inside_grad * overlap_h, in_y = inside_grad * overlap_w;
  return {loss,
          {centre_x - (area_x + by_side(t.x1, p.x1, in_x, out_x)),
           centre_y - (area_y + by_side(t.y1, p.y1, in_y, out_y)),
           centre_x + (area_x + by_side(p.x2, t.x2, in_x, out_x)),
           centre_y + (area_y + by_side(p.y2, t.y2, in_y, out_y))}};
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
