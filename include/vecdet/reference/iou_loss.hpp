// SPDX-License-Identifier: Apache-2.0
// GIoU, DIoU and CIoU losses with their gradients, as in torchvision.ops.giou_loss,
// distance_box_iou_loss and complete_box_iou_loss, with eps = 1e-7:
//
//   IoU  = I / (U + eps)                       I = 0 unless both overlaps are above 0
//   GIoU loss = 1 - IoU + (C - U) / (C + eps)
//   DIoU loss = 1 - IoU + rho^2 / (c^2 + eps)
//   CIoU loss = DIoU loss + alpha v,           alpha = v / (1 - IoU + v + eps) held constant,
//                                              and 0 where v = 0, even if it would be 0 / 0 (equal
//                                              boxes, eps = 0)
//
// I, U and C are the areas of intersection, union and enclosing box; iou.hpp defines the other
// symbols. The gradient with respect to the predicted box is computed with dual numbers, which
// carry their derivatives, so that the code reads like the equations. If a side of the prediction
// equals the target's, each gets half of the gradient of min and max, as in autograd.
#pragma once

#include <vecdet/reference/box.hpp>
#include <vecdet/reference/box_coding.hpp>
#include <vecdet/reference/iou.hpp>
#include <vecdet/views.hpp>

#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// A value and its derivatives with respect to the four coordinates of the predicted box.
struct dual {
  double value;
  box grad = {0, 0, 0, 0};
};

/// r * a + s * b, for derivatives.
inline box combine(double r, const box& a, double s, const box& b) {
  return {r * a.x1 + s * b.x1, r * a.y1 + s * b.y1, r * a.x2 + s * b.x2, r * a.y2 + s * b.y2};
}

inline dual operator+(const dual& a, const dual& b) {
  return {a.value + b.value, combine(1, a.grad, 1, b.grad)};
}
inline dual operator-(const dual& a, const dual& b) {
  return {a.value - b.value, combine(1, a.grad, -1, b.grad)};
}
inline dual operator*(const dual& a, const dual& b) {
  return {a.value * b.value, combine(b.value, a.grad, a.value, b.grad)};
}
inline dual operator/(const dual& a, const dual& b) {
  const double quotient = a.value / b.value;
  return {quotient, combine(1 / b.value, a.grad, -quotient / b.value, b.grad)};
}
inline dual max(const dual& a, double b) {
  const double share = a.value > b ? 1 : a.value == b ? 0.5 : 0;
  return {greater_of(a.value, b), combine(share, a.grad, 0, {})};
}
inline dual min(const dual& a, double b) {
  const double share = a.value < b ? 1 : a.value == b ? 0.5 : 0;
  return {lesser_of(a.value, b), combine(share, a.grad, 0, {})};
}
/// atan(w / h); its derivative is (h dw - w dh) / (w^2 + h^2).
inline dual atan_ratio(const dual& w, const dual& h) {
  const double squares = w.value * w.value + h.value * h.value;
  return {std::atan(w.value / h.value),
          combine(h.value / squares, w.grad, -w.value / squares, h.grad)};
}

struct box_loss {
  double loss;
  box grad;  ///< With respect to the coordinates of the predicted box, or to its deltas.
};

/// The loss 1 - kind of one predicted box (corners) against its target (corners); kind is giou,
/// diou or ciou, or iou for the plain 1 - IoU.
inline box_loss iou_loss(iou_kind kind, const box& predicted, const box& target,
                         double eps = 1e-7) {
  constexpr double pi = 3.14159265358979323846;
  const dual x1{predicted.x1, {1, 0, 0, 0}};
  const dual y1{predicted.y1, {0, 1, 0, 0}};
  const dual x2{predicted.x2, {0, 0, 1, 0}};
  const dual y2{predicted.y2, {0, 0, 0, 1}};
  const dual w = x2 - x1;
  const dual h = y2 - y1;

  const dual overlap_w = min(x2, target.x2) - max(x1, target.x1);
  const dual overlap_h = min(y2, target.y2) - max(y1, target.y1);
  const bool overlaps = overlap_w.value > 0 && overlap_h.value > 0;
  const dual intersection = overlaps ? overlap_w * overlap_h : dual{0};
  const dual joined = w * h + dual{box_area(target)} - intersection;
  const dual iou = intersection / (joined + dual{eps});
  dual loss = dual{1} - iou;

  const dual hull_w = max(x2, target.x2) - min(x1, target.x1);
  const dual hull_h = max(y2, target.y2) - min(y1, target.y1);
  if (kind == iou_kind::giou) {
    const dual hull = hull_w * hull_h;
    loss = loss + (hull - joined) / (hull + dual{eps});
  }
  if (kind == iou_kind::diou || kind == iou_kind::ciou) {
    const dual diagonal_squared = hull_w * hull_w + hull_h * hull_h + dual{eps};
    const dual dx = (x1 + x2) * dual{0.5} - dual{(target.x1 + target.x2) / 2};
    const dual dy = (y1 + y2) * dual{0.5} - dual{(target.y1 + target.y2) / 2};
    loss = loss + (dx * dx + dy * dy) / diagonal_squared;
  }
  if (kind == iou_kind::ciou) {
    const dual angle = dual{std::atan(target.width() / target.height())} - atan_ratio(w, h);
    const dual v = dual{4 / (pi * pi)} * angle * angle;
    const double alpha = v.value > 0 ? v.value / (1 - iou.value + v.value + eps) : 0;
    loss = loss + dual{alpha} * v;
  }
  return {loss.value, loss.grad};
}

/// The loss of the box decoded from `deltas` and `anchor`, and its gradient with respect to the
/// deltas. The gradient of a clamped size is zero.
inline box_loss iou_loss_of_deltas(iou_kind kind, const box& deltas, const box& anchor,
                                   const box& target, const coder_weights& weights = {},
                                   size_clamp clamp = size_clamp::above,
                                   double limit = default_size_limit(), double eps = 1e-7) {
  const box predicted = decode_box(deltas, anchor, weights, clamp, limit);
  const box_loss by_box = iou_loss(kind, predicted, target, eps);
  const box& g = by_box.grad;
  const auto slope = [&](double size) {
    return clamp_size(size, clamp, limit) == size ? 1.0 : 0.0;
  };
  const double by_width = (g.x2 - g.x1) / 2 * predicted.width();
  const double by_height = (g.y2 - g.y1) / 2 * predicted.height();
  return {by_box.loss,
          {(g.x1 + g.x2) * anchor.width() / weights.x, (g.y1 + g.y2) * anchor.height() / weights.y,
           by_width * slope(deltas.x2 / weights.w) / weights.w,
           by_height * slope(deltas.y2 / weights.h) / weights.h}};
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
