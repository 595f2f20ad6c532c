// SPDX-License-Identifier: Apache-2.0
// Box losses and gradients in double. A gradient is a sum; its size is that of its largest term. If
// terms cancel, the error in float cannot be below the rounding error of the largest.
#pragma once

#include "exact_boxes.hpp"
#include <vecdet/reference/iou_loss.hpp>
#include <vecdet/reference/smooth_l1.hpp>
#include <vecdet/regression_loss.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

namespace vecdet::test {

/// For each coordinate of the predicted box, the largest term of the IoU loss's gradient. The terms
/// come from the intersection, the area, the hull, the centre and the aspect, if the kind of loss
/// has them and they depend on the coordinate. For doubles, also the terms that cancel in the
/// reference: the parts of (C - U) / C, and the coordinates in the distance between the centres.
template <class Real>
reference::box largest_terms(reference::iou_kind kind, const reference::box& p,
                             const reference::box& t, double epsilon) {
  constexpr double pi = 3.14159265358979323846;
  const reference::box hull = reference::enclosing_box(p, t);
  const double intersection = reference::intersection_area(p, t);
  const double joined = reference::union_area(p, t) + epsilon, iou = intersection / joined;
  const double hull_area = hull.width() * hull.height() + epsilon;
  const double diagonal = hull.width() * hull.width() + hull.height() * hull.height() + epsilon;
  const double dx = (p.x1 - t.x1 + p.x2 - t.x2) / 2, dy = (p.y1 - t.y1 + p.y2 - t.y2) / 2;
  const double distance = (dx * dx + dy * dy) / diagonal;
  const double v = reference::aspect_difference(p, t);
  constexpr bool in_double = std::is_same<Real, double>::value;
  const double coordinate = in_double ? std::max(largest_of(p), largest_of(t)) : 0;
  // v is the square of a difference of angles; either angle is a term.
  const double angle =
      std::max(std::atan2(p.width(), p.height()), std::atan2(t.width(), t.height()));
  const double by_angle =
      v > 0 ? v / (1 - iou + v + epsilon) * 4 / pi * std::max(std::sqrt(v), 2 / pi * angle) : 0;
  // The largest term for one coordinate of the predicted box. `beyond`: its distance outside the
  // target, negative inside. `side` and `across`: the box's sides along the coordinate's axis and
  // across it; `hull_along` and `hull_across`: those of the hull; `overlap_across`: the overlap's
  // side across the axis. `apart`: half the larger distance between corresponding ends of the two
  // boxes.
  const auto largest = [&](double beyond, double side, double across, double overlap_across,
                           double hull_along, double hull_across, double apart) {
    const bool inside = intersection > 0 && beyond <= 0, outside = beyond >= 0;
    double term = iou / joined * across;
    if (inside) term = std::max(term, (1 + iou) / joined * overlap_across);
    if (kind == reference::iou_kind::giou) {
      term = std::max(term, across / hull_area);
      const double left = in_double ? 1 : joined / hull_area;
      if (outside) term = std::max(term, left * hull_across / hull_area);
      return term;
    }
    term = std::max({term, apart / diagonal, coordinate / diagonal});
    if (outside) term = std::max(term, 2 * distance / diagonal * hull_along);
    if (kind == reference::iou_kind::ciou)
      term = std::max(term, by_angle * across / (side * side + across * across));
    return term;
  };
  const double overlap_w = std::min(p.x2, t.x2) - std::max(p.x1, t.x1);
  const double overlap_h = std::min(p.y2, t.y2) - std::max(p.y1, t.y1);
  const auto x = [&](double beyond) {
    return largest(beyond, p.width(), p.height(), overlap_h, hull.width(), hull.height(),
                   std::max(std::abs(p.x1 - t.x1), std::abs(p.x2 - t.x2)) / 2);
  };
  const auto y = [&](double beyond) {
    return largest(beyond, p.height(), p.width(), overlap_w, hull.height(), hull.width(),
                   std::max(std::abs(p.y1 - t.y1), std::abs(p.y2 - t.y2)) / 2);
  };
  return {x(t.x1 - p.x1), y(t.y1 - p.y1), x(p.x2 - t.x2), y(p.y2 - t.y2)};
}

/// The boxes that `deltas` encode on `anchors`, as computed by the kernels on the active
/// instruction set: in float if either is bfloat16.
template <class T, class Box>
std::vector<compute_type<Box>> decoded_boxes(boxes_view<const T> deltas,
                                             boxes_view<const Box> anchors,
                                             const coder_params& params) {
  std::vector<compute_type<Box>> out(static_cast<std::size_t>(4 * deltas.size()));
  if constexpr (std::is_same<T, bfloat16>::value) {
    const std::vector<float> wide(anchors.data(), anchors.data() + 4 * anchors.size());
    decode_boxes(deltas, boxes_view<const float>(wide), boxes_view<float>(out), params);
  } else {
    decode_boxes(deltas, anchors, boxes_view<Box>(out), params);
  }
  return out;
}

struct exact_regression {
  double loss;
  /// With respect to the deltas, and the size of the largest term of each: infinite or NaN if a
  /// side of a box has been rounded to 0.
  reference::box grad, scale;
};

/// The regression loss of one box, computed in Real, without a factor: deltas `d` on anchor `a` for
/// the target `t`. `p` is the box that decode_boxes returns for `d` and `a`. The error of its
/// corners is at most 4 ulp of a coordinate, or 64 on the baseline, as test_box_coding and
/// fuzz_box_coding check. If a box is tiny compared to its coordinates, this error may be as large
/// as the box. IoU losses are therefore compared with those of `p`, within 1e-6 for boxes of any
/// size (iou_loss.hpp).
template <class Real>
exact_regression exact_regression_loss(const regression_loss_params& params,
                                       const reference::box& d, const reference::box& a,
                                       const reference::box& t, const reference::box& p) {
  const coder_params& c = params.coder;
  const reference::coder_weights w = weights_of(c);
  if (params.loss == box_loss::smooth_l1) {
    const auto e = numbers(reference::encode_box(t, a, w)), x = numbers(d);
    std::array<double, 4> grad{}, scale{};
    double loss = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      loss += reference::smooth_l1_loss(x[k] - e[k], params.beta);
      grad[k] = reference::smooth_l1_loss_grad(x[k] - e[k], params.beta);
      scale[k] = 1 + std::max(std::abs(x[k]), std::abs(e[k])) / std::max(params.beta, 1e-3);
    }
    return {loss, {grad[0], grad[1], grad[2], grad[3]}, {scale[0], scale[1], scale[2], scale[3]}};
  }
  const auto kind = params.loss == box_loss::giou   ? reference::iou_kind::giou
                    : params.loss == box_loss::diou ? reference::iou_kind::diou
                                                    : reference::iou_kind::ciou;
  const auto clamp = as_reference(c.clamp);
  const reference::box_loss unweighted = reference::iou_loss(kind, p, t, params.epsilon);
  const reference::box term = largest_terms<Real>(kind, p, t, params.epsilon);
  const double x = std::max(term.x1, term.x2), y = std::max(term.y1, term.y2);
  // The derivatives of the corners by the deltas, with the box's sizes before its corners are
  // rounded.
  const reference::box exact = reference::decode_box(d, a, w, clamp, c.size_limit);
  const auto slope = [&](double size) {
    return reference::clamp_size(size, clamp, c.size_limit) == size ? 0.5 : 0.0;
  };
  const reference::box by_delta{a.width() / w.x, a.height() / w.y,
                                slope(d.x2 / w.w) * exact.width() / w.w,
                                slope(d.y2 / w.h) * exact.height() / w.h};
  const reference::box& g = unweighted.grad;
  return {unweighted.loss,
          {(g.x1 + g.x2) * by_delta.x1, (g.y1 + g.y2) * by_delta.y1, (g.x2 - g.x1) * by_delta.x2,
           (g.y2 - g.y1) * by_delta.y2},
          {x * by_delta.x1, y * by_delta.y1, x * by_delta.x2, y * by_delta.y2}};
}

}  // namespace vecdet::test
