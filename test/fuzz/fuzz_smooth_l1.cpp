// SPDX-License-Identifier: Apache-2.0
// Smooth L1 of any numbers and any selection of boxes, in every representation, against the
// reference.
#include "box_input.hpp"
#include <vecdet/reference/smooth_l1.hpp>

using namespace vecdet;

namespace {

template <class T>
void smooth_l1(fuzz::input& in) {
  const index_t boxes = in.integer(0, 300);
  smooth_l1_params params;
  params.beta = in.one_of({1.0 / 9, 1.0, 0.0, 1e-3, in.tame(0, 5), -1.0});
  params.scale = fuzz::any_scale(in);
  const auto weights = fuzz::any_weights(in, boxes);
  params.box_weights = weights;
  const auto chosen = fuzz::any_selection(in, boxes, 80);
  const auto predictions = in.numbers<T>(4 * boxes), targets = in.numbers<T>(4 * boxes);
  const boxes_view<const T> p(predictions), t(targets);

  const fuzz::tensor<T> out(4 * boxes);
  for (const box_selection& selection : chosen.all_ways()) {
    fuzz::on_every_isa(
        std::string("smooth L1 ") + dtype_name<T>() + " of " + detail::selection_name(selection),
        [&](fuzz::results& results) {
          for (T& element : out) element = test::to<T>(-12345);
          smooth_l1_loss_unreduced(p, t, selection, boxes_view<T>(out), params,
                                   threading::sequential);
          results.add(out);
          const double sum = smooth_l1_loss_and_grad(p, t, selection, boxes_view<T>(out), params,
                                                     threading::sequential);
          results.add(out);
          if (selection.is_all())
            fuzz::expect_same_in_place(
                "smooth_l1_loss_and_grad", predictions, out, [&](const fuzz::tensor<T>& both) {
                  smooth_l1_loss_and_grad(boxes_view<const T>(both), t, selection,
                                          boxes_view<T>(both), params, threading::sequential);
                });
          if (!fuzz::same_number(sum, smooth_l1_loss(p, t, selection, params, threading::parallel)))
            fuzz::fail("the loss alone differs from the loss with gradient");
          results.add(sum);
        },
        [&](const char* set, const std::vector<double>& values) {
          const auto elements = static_cast<std::size_t>(predictions.size());
          for (std::size_t k = 0; k < elements; ++k) {
            const auto box = static_cast<index_t>(k / 4);
            const bool counts = chosen.counts(box);
            const double d = static_cast<double>(predictions[k]) - static_cast<double>(targets[k]);
            if (counts && std::isfinite(d) && std::abs(d) > 1e30) continue;  // overflow
            const fuzz::box_factor by{fuzz::weight_of(weights, box), params.scale};
            const double unweighted = reference::smooth_l1_loss(d, params.beta);
            const double loss = counts ? by.weighted_loss(unweighted) : 0;
            const double grad =
                counts ? by.weighted_grad(reference::smooth_l1_loss_grad(d, params.beta)) : 0;
            const double size = std::isfinite(by.both()) ? std::abs(by.both()) : 1;
            const auto of = [&] {
              return std::string(set) + " of difference " + std::to_string(d);
            };
            if (!counts || by.holds_loss(unweighted))
              fuzz::expect_near([&] { return "smooth L1 loss " + of(); }, values[k], loss,
                                fuzz::tolerance<T>(), 1e-36 * std::max(1.0, size));
            if (!counts || fuzz::is_in_range(by.both()))
              fuzz::expect_near([&] { return "smooth L1 gradient " + of(); }, values[elements + k],
                                grad, fuzz::tolerance<T>(), 1e-36 * std::max(1.0, size));
          }
        });
  }
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto zero) { smooth_l1<decltype(zero)>(in); });
}
