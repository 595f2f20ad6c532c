// SPDX-License-Identifier: Apache-2.0
// Box losses and gradients in double, with the sizes of the terms that gradients are the sums of:
// where those cancel, no float is better than a rounding of the largest.
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

namespace vecdet {
namespace test {

/// The largest of the terms whose sum is an IoU loss's gradient: by the intersection, the areas and
/// the centre.
inline double largest_term(const reference::box& p, const reference::box& t) {
  const double area = reference::union_area(p, t);
  const double w = std::max(p.width(), t.width()), h = std::max(p.height(), t.height());
  const reference::box hull = reference::enclosing_box(p, t);
  return std::max({2 * h / area, 2 * w / area, 1 / hull.width(), 1 / hull.height(), 4 / p.width(),
                   4 / p.height()});
}

/// The boxes that `deltas` mean on `anchors`, as the kernels compute them: in float where either is
/// bfloat16. On the active instruction set.
template <class T, class Box>
std::vector<compute_type<Box>> decoded_boxes(boxes_view<const T> deltas,
                                             boxes_view<const Box> anchors,
                                             const coder_params& params) {
  std::vector<compute_type<Box>> out(static_cast<std::size_t>(4 * deltas.size()));
  if constexpr (std::is_same<T, bfloat16>::value) {
    const std::vector<float> wide(anchors.data(), anchors.data() + 4 * anchors.size());
    decode_boxes<float>(deltas, boxes_view<const float>(wide), boxes_view<float>(out), params);
  } else {
    decode_boxes(deltas, anchors, boxes_view<Box>(out), params);
  }
  return out;
}

struct exact_regression {
  double loss;
  /// By the deltas, and the largest of the terms that each is the sum of: infinite or NaN where a
  /// box has no side left to compare with.
  reference::box grad, scale;
};

/// The regression loss of one box: deltas `d` on anchor `a` for the target `t`, without a factor.
/// IoU losses are those of `p`, the box that decode_boxes makes of `d` and `a`. A corner is right
/// within 4 ulp of a coordinate, 64 on the baseline: test_box_coding and fuzz_box_coding hold it to
/// that. To a box that is tiny beside its coordinates, that is anything; but what the loss makes of
/// the very corners that it was given is right within 1e-6, whatever their size: iou_loss.hpp.
inline exact_regression exact_regression_loss(const regression_loss_params& params,
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
  const reference::box_loss of_box = reference::iou_loss(kind, p, t, params.epsilon);
  const double term = largest_term(p, t);
  // Of corner by delta; sizes as they are before the corners are rounded.
  const reference::box exact = reference::decode_box(d, a, w, clamp, c.size_limit);
  const auto slope = [&](double size) {
    return reference::clamp_size(size, clamp, c.size_limit) == size ? 0.5 : 0.0;
  };
  const reference::box by_delta{a.width() / w.x, a.height() / w.y,
                                slope(d.x2 / w.w) * exact.width() / w.w,
                                slope(d.y2 / w.h) * exact.height() / w.h};
  const reference::box& g = of_box.grad;
  return {of_box.loss,
          {(g.x1 + g.x2) * by_delta.x1, (g.y1 + g.y2) * by_delta.y1, (g.x2 - g.x1) * by_delta.x2,
           (g.y2 - g.y1) * by_delta.y2},
          {term * by_delta.x1, term * by_delta.y1, term * by_delta.x2, term * by_delta.y2}};
}

}  // namespace test
}  // namespace vecdet
