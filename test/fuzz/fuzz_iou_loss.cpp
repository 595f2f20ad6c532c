// SPDX-License-Identifier: Apache-2.0
// GIoU, DIoU and CIoU losses with gradients on any boxes, against the reference for moderate ones.
#include "box_input.hpp"
#include "support/exact_box_losses.hpp"

using namespace vecdet;

namespace {

template <class T>
void any_iou_loss(fuzz::input& in) {
  const index_t boxes = in.integer(0, 70);
  const fuzz::box_kind kind = fuzz::any_box_kind(in);
  const auto of = in.one_of({iou_kind::giou, iou_kind::diou, iou_kind::ciou});
  iou_loss_params params;
  params.epsilon = in.one_of({1e-7, 1e-7, 1e-3, 0.5, 0.0, -1.0});
  params.scale = fuzz::any_scale(in);
  const auto weights = fuzz::any_weights(in, boxes);
  params.box_weights = weights;
  const auto predicted = fuzz::some_boxes<T>(in, boxes, kind);
  const auto targets =
      in.byte() < 32 ? predicted : fuzz::some_boxes<T>(in, boxes, fuzz::box_kind::tame);
  const boxes_view<const T> p(predicted), t(targets);

  const fuzz::tensor<T> losses(boxes), grad(4 * boxes);
  const vector_view<T> each(losses);
  const boxes_view<T> g(grad);
  fuzz::on_every_isa(
      std::string("IoU loss ") + dtype_name<T>(),
      [&](fuzz::results& results) {
        const threading parallel = threading::parallel, sequential = threading::sequential;
        iou_loss_unreduced(p, t, each, of, params, sequential);
        const double sum = iou_loss_and_grad(p, t, g, of, params, sequential);
        const double alone = iou_loss(p, t, of, params, parallel);
        if (!fuzz::same_number(sum, alone))
          fuzz::fail("the loss alone differs from the loss with gradient");
        fuzz::expect_same_in_place("IoU loss", predicted, grad, [&](const fuzz::tensor<T>& both) {
          iou_loss_and_grad(boxes_view<const T>(both), t, boxes_view<T>(both), of, params,
                            sequential);
        });
        results.add(losses);
        results.add(grad);
        results.add(sum);
      },
      [&](const char* set, const std::vector<double>& values) {
        if (kind != fuzz::box_kind::tame) return;
        double exact_sum = 0, size = 0;
        bool all_plain = true;
        for (index_t i = 0; i < boxes; ++i) {
          const auto a = reference::load_box(p, i), b = reference::load_box(t, i);
          // Rounding to bfloat16 may reduce a side to 0.
          if (!(a.width() > 0 && a.height() > 0 && b.width() > 0 && b.height() > 0)) return;
          const auto exact = reference::iou_loss(
              static_cast<reference::iou_kind>(static_cast<int>(of)), a, b, params.epsilon);
          const fuzz::box_factor by{fuzz::weight_of(weights, i), params.scale};
          const double factor = by.both();
          const auto terms = test::numbers(test::largest_terms<T>(
              static_cast<reference::iou_kind>(static_cast<int>(of)), a, b, params.epsilon));
          const auto what = [&] { return std::string(set) + " of box " + std::to_string(i); };
          const double within = std::is_same<T, bfloat16>::value ? 1e-2 : 1e-6;
          const auto exact_grad = test::numbers(exact.grad);
          const double least = 1e-36 * std::max(1.0, std::abs(factor));
          const auto loss = values[static_cast<std::size_t>(i)];
          const double* const gradient = values.data() + boxes + 4 * i;
          if (!by.is_plain()) {
            all_plain = false;
            by.expect_limit([&] { return "loss " + what(); }, loss, exact.loss, 2 * within);
            for (std::size_t k = 0; k < 4; ++k)
              by.expect_limit([&] { return "gradient " + what(); }, gradient[k], exact_grad[k],
                              fuzz::tolerance<T>() * std::abs(exact_grad[k]) + 4e-6 * terms[k]);
            continue;
          }
          fuzz::expect_near([&] { return "loss " + what(); }, loss, factor * exact.loss, 0,
                            2 * within * std::abs(factor) + least);
          for (std::size_t k = 0; k < 4; ++k)
            fuzz::expect_near([&] { return "gradient " + what(); }, gradient[k],
                              factor * exact_grad[k], fuzz::tolerance<T>(),
                              4e-6 * std::abs(factor) * terms[k] + least);
          exact_sum += factor * exact.loss;
          size += std::abs(factor);
        }
        if (!all_plain) return;
        fuzz::expect_near([&] { return std::string(set) + " sum"; }, values.back(), exact_sum, 0,
                          2e-6 * size);
      });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto zero) { any_iou_loss<decltype(zero)>(in); });
}
