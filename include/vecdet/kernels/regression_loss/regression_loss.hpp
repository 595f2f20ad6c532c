// SPDX-License-Identifier: Apache-2.0
// Losses of deltas against anchors and their targets, in one pass over memory: encode and smooth
// L1, or decode, an IoU loss and the chain rule.
//
// With x1 = cx - w/2, x2 = cx + w/2, cx = ax + aw dx / wx, w = aw exp(dw / ww), and g the gradient
// with respect to corners:
//
//   dL/ddx = (g_x1 + g_x2) aw / wx       dL/ddw = (g_x2 - g_x1) / 2 w / ww, 0 where dw was cut off
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/regression_loss.hpp>
#include <vecdet/kernels/box_coding/terms.hpp>
#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/iou_loss/terms.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/smooth_l1/terms.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::regression_loss_args;

template <class S>
struct smooth_l1_regression {
  using real = typename stored<S>::real;
  smooth_l1_curve<real> curve;
  real weights[4];

  explicit smooth_l1_regression(const regression_loss_args<S>& a) : curve(a.beta) {
    for (int k = 0; k < 4; ++k) weights[k] = static_cast<real>(a.weights[k]);
  }

  template <int N>
  VECDET_INLINE box_loss_terms<real, N> at(const box_streams<S>& group, int i) const {
    const auto deltas = load_boxes<N>(detail::from_box(group.in, i));
    const auto encoded =
        coordinates(weighted<S>(encode_at<true, 2 * N>(detail::from_box(group.boxes[1], i),
                                                       detail::from_box(group.boxes[0], i)),
                                weights));
    const auto x = curve(deltas.x1 - encoded.x1), y = curve(deltas.y1 - encoded.y1);
    const auto w = curve(deltas.x2 - encoded.x2), h = curve(deltas.y2 - encoded.y2);
    return {(x.loss + y.loss) + (w.loss + h.loss), {x.slope, y.slope, w.slope, h.slope}};
  }
};

template <iou_kind Kind, class S>
struct iou_regression {
  using real = typename stored<S>::real;
  decoder<real> code;
  real epsilon;

  explicit iou_regression(const regression_loss_args<S>& a)
      : code(a.weights, a.low_size, a.high_size), epsilon(static_cast<real>(a.epsilon)) {}

  template <int N>
  VECDET_INLINE box_loss_terms<real, N> at(const box_streams<S>& group, int i) const {
    const auto deltas = load_boxes<N>(detail::from_box(group.in, i));
    const auto anchors = load_boxes<N>(detail::from_box(group.boxes[0], i));
    const auto targets = load_boxes<N>(detail::from_box(group.boxes[1], i));
    using anchor = anchor_axis<real, N>;
    const auto ax = anchor::template of<true>(anchors.x1, anchors.x2);
    const auto ay = anchor::template of<true>(anchors.y1, anchors.y2);
    const auto x = code.template axis<N>(0).decode(deltas.x1, deltas.x2, ax.centre, ax.size);
    const auto y = code.template axis<N>(1).decode(deltas.y1, deltas.y2, ay.centre, ay.size);
    const auto terms =
        iou_loss_of<Kind>(box_pack<real, N>{x.low, y.low, x.high, y.high}, targets, epsilon);
    const auto& g = terms.grad;
    const pack<real, N> half = real(0.5);
    return {terms.loss,
            {(g.x1 + g.x2) * ax.size * pack<real, N>(code.centre[0]),
             (g.y1 + g.y2) * ay.size * pack<real, N>(code.centre[1]),
             (g.x2 - g.x1) * half * x.size * code.size_slope(0, deltas.x2),
             (g.y2 - g.y1) * half * y.size * code.size_slope(1, deltas.y2)}};
  }
};

/// The streams are deltas, anchors and targets. Without Grad, terms that only the gradient needs
/// are not computed. With Grad, the gradient is written if its stream is given.
template <class Equation, bool Grad, class S>
struct regression_of_boxes {
  using real = typename stored<S>::real;
  static constexpr bool adds_up = true, lanes_are_boxes = true;
  Equation equation;
  real scale;

  explicit regression_of_boxes(const regression_loss_args<S>& a)
      : equation(a), scale(static_cast<real>(a.scale)) {}

  VECDET_INLINE row_pack<real> operator()(const box_streams<S>& group) const {
    constexpr int N = boxes_in_flight, count = box_pack<real, N>::count;
    alignas(64) real losses[box_group];
    for (int i = 0; i < box_group; i += count) {
      // Not through group.at(i), which tests each stream for null.
      auto terms = equation.template at<N>(group, i);
      weigh_boxes<Grad>(terms, scale, group.weights, i);
      if (Grad && detail::is_given(group.out))
        store_boxes<N>(detail::from_box(group.out, i), terms.grad);
      store_pack<N>(losses + i, to_box_order(terms.loss));
    }
    return load_pack<row_pack<real>::batches>(losses);
  }
};

template <class S>
box_streams<S> streams_of(const regression_loss_args<S>& a) {
  return {a.deltas,      {a.anchors, a.targets},
          a.box_weights, a.output == loss_output::grad ? a.grad : nullptr,
          nullptr,       a.anchor_period};
}

template <class Equation, class S>
double regression_with(const regression_loss_args<S>& a, index_t first, index_t last) {
  const regression_of_boxes<Equation, true, S> with_grad(a);
  const regression_of_boxes<Equation, !loss_alone_has_code<S>, S> for_loss(a);
  const bool grad = a.output == loss_output::grad;
  return run_selected(grad ? as_operation<S>(with_grad) : as_operation<S>(for_loss), streams_of(a),
                      a.selected, a.matches, first, last);
}

template <class S>
double regression(const regression_loss_args<S>& a, index_t first, index_t last) {
  if (a.is_smooth_l1) return regression_with<smooth_l1_regression<S>>(a, first, last);
  if (a.kind == iou_kind::giou) {
    return regression_with<iou_regression<iou_kind::giou, S>>(a, first, last);
  }
  if (a.kind == iou_kind::diou) {
    return regression_with<iou_regression<iou_kind::diou, S>>(a, first, last);
  }
  return regression_with<iou_regression<iou_kind::ciou, S>>(a, first, last);
}

template <class S>
void regression_clear(const regression_loss_args<S>& a, index_t first, index_t last) {
  clear_boxes(streams_of(a), first, last);
}

template <class S>
index_t regression_bad_match(const regression_loss_args<S>& a, index_t truths, index_t first,
                             index_t last) {
  index_t bad = -1;
  for_each_selected(
      a.selected, first, last, [](index_t, index_t) {},
      [&](index_t i) {
        if (bad < 0 && (a.matches[i] < 0 || a.matches[i] >= truths)) bad = i;
      });
  return bad;
}

template <class S>
struct kernels_of<detail::regression_loss_kernels<S>> {
  static constexpr detail::regression_loss_kernels<S> get() {
    detail::regression_loss_kernels<S> kernels{};
    kernels.run = regression<S>;
    kernels.clear = regression_clear<S>;
    kernels.bad_match = regression_bad_match<S>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(regression_loss_kernels)
VECDET_KERNELS(regression_loss_kernels<detail::mixed_regression>)
