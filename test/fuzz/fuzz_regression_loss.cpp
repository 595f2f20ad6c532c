// SPDX-License-Identifier: Apache-2.0
// The fused regression losses: bit-identical for every representation of targets and selection, and
// equal to the reference for moderate boxes.
#include "box_input.hpp"
#include "support/exact_box_losses.hpp"

using namespace vecdet;

namespace {

/// Deltas of T on boxes of Box.
template <class T, class Box>
void regression_loss_of(fuzz::input& in) {
  const index_t boxes = in.integer(0, 150), truths = in.integer(1, 9);
  const fuzz::box_kind kind = fuzz::any_box_kind(in);
  regression_loss_params params;
  params.loss = in.one_of({box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou});
  params.beta = in.one_of({1.0 / 9, 1.0, 0.0, in.tame(0, 5), -1.0});
  params.epsilon = in.one_of({1e-7, 1e-3});
  params.scale = fuzz::any_scale(in);
  params.coder = fuzz::any_coder(in);
  const auto weights = fuzz::any_weights(in, boxes);
  params.box_weights = weights;
  // A match out of range is an error in every representation.
  const auto chosen = fuzz::any_selection(in, boxes, truths + (in.byte() < 8 ? 1 : 0));
  const bool on_truth = in.flag();  // otherwise, boxes rarely overlap their targets
  const auto anchors = fuzz::some_boxes<Box>(in, boxes, kind);
  const auto truth = fuzz::some_boxes<Box>(in, truths, kind);
  const fuzz::tensor<T> deltas =
      kind == fuzz::box_kind::any ? in.numbers<T>(4 * boxes) : fuzz::tensor<T>(4 * boxes);
  if (kind != fuzz::box_kind::any)
    for (T& delta : deltas) delta = test::to<T>(in.tame(-1, 1));
  const fuzz::tensor<Box> gathered(4 * boxes);
  bool all_matched = true;
  for (index_t i = 0; i < 4 * boxes; ++i) {
    const index_t match = chosen.labels[static_cast<std::size_t>(i / 4)];
    all_matched = all_matched && match < truths;
    const bool is_matched = match >= 0 && match < truths;
    gathered.data()[i] = is_matched ? truth.data()[4 * match + i % 4] : test::to<Box>(std::nan(""));
    if (is_matched && on_truth) anchors.data()[i] = gathered.data()[i];
  }
  const boxes_view<const T> d(deltas);
  const boxes_view<const Box> a(anchors), t(gathered);
  const regression_targets<Box> by_match(boxes_view<const Box>(truth), chosen.wide);
  const regression_targets<Box> one_per_anchor{t};

  const fuzz::tensor<T> grad(4 * boxes);
  fuzz::on_every_isa(
      std::string("regression loss ") + dtype_name<T>() + " on " + dtype_name<Box>(),
      [&](fuzz::results& results) {
        std::vector<T> first;
        double sum = 0;
        const auto same = [&](const regression_targets<Box>& targets,
                              const box_selection& selection) {
          for (T& g : grad) g = test::to<T>(-12345);
          const double loss = regression_loss_and_grad(
              d, a, targets, selection, boxes_view<T>(grad), params, threading::sequential);
          const double alone =
              regression_loss(d, a, targets, selection, params, threading::parallel);
          if (!fuzz::same_number(loss, alone))
            fuzz::fail("the loss alone differs from the loss with gradient");
          if (first.empty()) {
            sum = loss;
            first.assign(grad.begin(), grad.end());
            results.add(grad);
            results.add(loss);
          }
          // The losses of a list are added in the list's order.
          if (!(selection.is_list() || fuzz::same_number(loss, sum)))
            fuzz::fail("the loss depends on the representation of the selection");
          for (std::size_t k = 0; k < first.size(); ++k)
            if (!fuzz::same_number(static_cast<double>(first[k]), static_cast<double>(grad[k])))
              fuzz::fail("the gradient depends on the representation of the selection");
        };
        for (const box_selection& selection : chosen.all_ways()) same(by_match, selection);
        for (const box_selection& selection : chosen.all_ways()) same(one_per_anchor, selection);
      },
      [&](const char* set, const std::vector<double>& values) {
        if (kind != fuzz::box_kind::tame || !all_matched) return;
        const auto decoded = test::decoded_boxes(d, a, params.coder);
        const boxes_view<const compute_type<Box>> p(decoded);
        double exact_sum = 0, size = 0;
        bool all_plain = true;
        for (index_t i = 0; i < boxes; ++i) {
          const fuzz::box_factor by{fuzz::weight_of(weights, i), params.scale};
          const double factor = chosen.counts(i) ? by.both() : 0.0;
          const bool is_plain = !chosen.counts(i) || by.is_plain();
          all_plain = all_plain && is_plain;
          test::exact_regression e{0, {0, 0, 0, 0}, {0, 0, 0, 0}};
          if (chosen.counts(i)) {
            const auto anchor = reference::load_box(a, i), target = reference::load_box(t, i);
            // Rounding to bfloat16 may reduce a side to 0.
            if (!(anchor.width() > 0 && anchor.height() > 0 && target.width() > 0 &&
                  target.height() > 0))
              return;
            e = test::exact_regression_loss<T>(params, reference::load_box(d, i), anchor, target,
                                               reference::load_box(p, i));
          }
          const auto exact = test::numbers(e.grad), scale = test::numbers(e.scale);
          for (std::size_t k = 0; k < 4; ++k) {
            if (!std::isfinite(scale[k])) continue;
            const auto what = [&] {
              return std::string(set) + " gradient of box " + std::to_string(i);
            };
            const double gradient = values[static_cast<std::size_t>(4 * i) + k];
            if (!is_plain) {
              by.expect_limit(what, gradient, exact[k], 4e-6 * scale[k]);
              continue;
            }
            fuzz::expect_near(
                what, gradient, factor * exact[k], fuzz::storage_rounding<T>(),
                4e-6 * std::abs(factor) * scale[k] + 1e-36 * std::max(1.0, std::abs(factor)));
          }
          exact_sum += factor * e.loss;
          size += std::abs(factor) * (1 + std::abs(e.loss));
        }
        if (!all_plain) return;
        // A delta's difference from its target suffers from cancellation; an IoU loss does not.
        const double within = params.loss == box_loss::smooth_l1 ? 4e-6 : 1e-6;
        fuzz::expect_near([&] { return std::string(set) + " sum"; }, values.back(), exact_sum, 0,
                          within * size);
      });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_types(
      in, [&](auto delta, auto box) { regression_loss_of<decltype(delta), decltype(box)>(in); });
}
