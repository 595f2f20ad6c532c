// SPDX-License-Identifier: Apache-2.0
// Box losses and gradients in double, with the sizes of the terms that gradients are the sums of:
// where those cancel, no float is better than a rounding of the largest.
#pragma once

#include <vecdet/reference/iou_loss.hpp>
#include <vecdet/reference/smooth_l1.hpp>
#include <vecdet/regression_loss.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace vecdet {
namespace test {

inline std::array<double, 4> numbers(const reference::box& b) { return {b.x1, b.y1, b.x2, b.y2}; }

/// The largest of the terms whose sum is an IoU loss's gradient: by the intersection, the areas and
/// the centre.
inline double largest_term(const reference::box& p, const reference::box& t) {
  const double area = reference::union_area(p, t);
  const double w = std::max(p.width(), t.width()), h = std::max(p.height(), t.height());
  const reference::box hull = reference::enclosing_box(p, t);
  return std::max({2 * h / area, 2 * w / area, 1 / hull.width(), 1 / hull.height(), 4 / p.width(),
                   4 / p.height()});
}

struct exact_regression {
  double loss;
  reference::box grad, scale;
  /// What 4 ulp of float in the decoded corners may do to the loss: much, to a box that is tiny
  /// beside its coordinates.
  double corner_error = 0;
};

/// The regression loss of one box: deltas `d` on anchor `a` for the target `t`, without a factor.
inline exact_regression exact_regression_loss(const regression_loss_params& params,
                                              const reference::box& d, const reference::box& a,
                                              const reference::box& t) {
  const coder_params& c = params.coder;
  const reference::coder_weights w{c.weight_x, c.weight_y, c.weight_w, c.weight_h};
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
  const auto clamp = c.clamp == size_clamp::above  ? reference::size_clamp::above
                     : c.clamp == size_clamp::both ? reference::size_clamp::both
                                                   : reference::size_clamp::none;
  const auto l =
      reference::iou_loss_of_deltas(kind, d, a, t, w, clamp, c.size_limit, params.epsilon);
  const reference::box p = reference::decode_box(d, a, w, clamp, c.size_limit);
  const double area = reference::union_area(p, t);
  const double size = std::max({a.width(), a.height(), p.width(), p.height()});
  const double across = std::max({p.width(), p.height(), t.width(), t.height()});
  // A coordinate's rounding, and the largest term of the gradient by corners.
  const double pixels =
      std::max({std::abs(p.x1), std::abs(p.y1), std::abs(p.x2), std::abs(p.y2), across});
  const double term = 2 * across / area + 4 / std::min(p.width(), p.height());
  const double s = size * term * (1 + pixels * term);
  return {l.loss, l.grad, {s, s, s, s}, 0x1p-22 * pixels * term};
}

}  // namespace test
}  // namespace vecdet
