// SPDX-License-Identifier: Apache-2.0
// The box losses. Each returns its value and, if requested, the gradient with respect to its first
// argument.
#pragma once

#include <vecdet/impl/torch/loss_tensors.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/regression_loss.hpp>
#include <vecdet/smooth_l1.hpp>

#include <tuple>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

namespace cpu {

/// Smooth L1 loss (smooth_l1.hpp) of `predictions` against `targets`, both N x 4. Returns N x 4
/// losses, or a scalar, depending on `reduction`.
/// @param labels one integer per box; only boxes whose label is neither `background` nor `ignore`
///     count, and the mean is over these. Undefined: all boxes count.
/// @param box_weights an additional factor per box
inline loss_tensors smooth_l1_loss(const at::Tensor& predictions, const at::Tensor& targets,
                                   const smooth_l1_params& params_, loss_reduction reduction,
                                   const optional_tensor& labels_,
                                   const optional_tensor& box_weights, std::int64_t background,
                                   std::int64_t ignore, bool needs_grad, bool float_loss) {
  constexpr const char* function = "smooth_l1_loss";
  return translated([&] {
    check_boxes(function, "predictions", predictions);
    check_boxes(function, "targets", targets);
    check_reduction(function, reduction);
    check_shape(targets.sizes() == predictions.sizes(), function, "targets", targets,
                "the predictions' shape");
    const at::ScalarType type =
        computed_type(function, "predictions", predictions, "targets", targets);
    const weights weight_of(function, "box_weights", box_weights);
    smooth_l1_params params = params_;
    params.box_weights = weight_of.view();

    const at::Tensor x = contiguous("predictions", predictions, type);
    const at::Tensor t = contiguous("targets", targets, type);
    const index_t boxes_given = x.numel() / 4;
    const auto run = [&](const box_selection& selection, index_t selected) {
      const bool is_mean = reduction == loss_reduction::mean;
      if (is_mean) params.scale = scale_of_mean(function, params.scale, 4 * selected);
      const bool is_nan = is_mean && selected == 0;  // as in torch
      return with_element(type, [&](auto element) {
        using T = decltype(element);
        const boxes_view<const T> given = boxes<const T>(x), wanted = boxes<const T>(t);
        return loss_and_grad_of(
            predictions, type, predictions.sizes(), reduction, is_nan, needs_grad, float_loss,
            [&](const at::Tensor& loss) {
              smooth_l1_loss_unreduced(given, wanted, selection, boxes<T>(loss), params, threads());
            },
            [&] { return vecdet::smooth_l1_loss(given, wanted, selection, params, threads()); },
            [&](at::Tensor& grad) {
              grad = gradient_of(predictions.sizes(), type);
              return smooth_l1_loss_and_grad(given, wanted, selection, boxes<T>(grad), params,
                                             threads());
            });
      });
    };
    if (!labels_.has_value() || !labels_->defined()) return run(box_selection::all(), boxes_given);
    const labels chosen(function, "labels", *labels_, boxes_given, "one integer per box");
    return run(box_selection(chosen.view(), background, ignore),
               count_foreground(chosen.view(), background, ignore));
  });
}

/// GIoU, DIoU or CIoU loss (iou_loss.hpp) of `predicted` boxes against `targets`, both N x 4
/// corners. Returns N losses, or a scalar, depending on `reduction`; the mean over no boxes is 0,
/// as in torchvision.
/// @param kind giou, diou or ciou
/// @param box_weights an additional factor per box
inline loss_tensors iou_loss(const at::Tensor& predicted, const at::Tensor& targets, iou_kind kind,
                             loss_reduction reduction, const iou_loss_params& params_,
                             const optional_tensor& box_weights, bool needs_grad, bool float_loss) {
  constexpr const char* function = "iou_loss";
  return translated([&] {
    check_boxes(function, "predicted", predicted);
    check_boxes(function, "targets", targets);
    check(kind >= iou_kind::giou && kind <= iou_kind::ciou, function, "kind",
          static_cast<std::int64_t>(kind), "1 (GIoU), 2 (DIoU) or 3 (CIoU)");
    check_reduction(function, reduction);
    check_shape(targets.sizes() == predicted.sizes(), function, "targets", targets,
                "the shape of the predicted boxes");
    const at::ScalarType type = computed_type(function, "predicted", predicted, "targets", targets);
    const weights weight_of(function, "box_weights", box_weights);
    const at::Tensor x = contiguous("predicted", predicted, type);
    const at::Tensor t = contiguous("targets", targets, type);
    iou_loss_params params = params_;
    params.box_weights = weight_of.view();
    if (reduction == loss_reduction::mean)
      params.scale = scale_of_mean(function, params.scale, x.numel() / 4);

    return with_element(type, [&](auto element) {
      using T = decltype(element);
      const boxes_view<const T> given = boxes<const T>(x), wanted = boxes<const T>(t);
      return loss_and_grad_of(
          predicted, type, predicted.sizes().slice(0, predicted.dim() - 1), reduction, false,
          needs_grad, float_loss,
          [&](const at::Tensor& loss) {
            vecdet::iou_loss_unreduced(given, wanted, vector<T>(loss), kind, params, threads());
          },
          [&] { return vecdet::iou_loss(given, wanted, kind, params, threads()); },
          [&](at::Tensor& grad) {
            grad = gradient_of(predicted.sizes(), type);
            return vecdet::iou_loss_and_grad(given, wanted, boxes<T>(grad), kind, params,
                                             threads());
          });
    });
  });
}

/// The sum of the box regression losses of `deltas` with `anchors`, both N x 4, in one pass
/// (regression_loss.hpp).
/// @param targets one box per anchor, N x 4; or ground-truth boxes, if `matches` are given
/// @param matches int64, the index of each anchor's ground-truth box
/// @param labels one integer per anchor; only anchors whose label is neither `background` nor
///     `ignore` count. Undefined: `matches` serve as labels; without them all anchors count.
/// @param weights of dx, dy, dw, dh; empty: all 1
/// @param size_limit upper limit of dw and dh, for the IoU losses; default log(1000 / 16)
/// @param box_weights an additional factor per anchor
inline loss_tensors regression_loss(const at::Tensor& deltas, const at::Tensor& anchors,
                                    const at::Tensor& targets, const optional_tensor& matches,
                                    const optional_tensor& labels_,
                                    const regression_loss_params& params_,
                                    at::ArrayRef<double> weights_,
                                    const optional_tensor& box_weights, std::int64_t background,
                                    std::int64_t ignore, bool needs_grad, bool float_loss) {
  constexpr const char* function = "regression_loss";
  return translated([&] {
    check_boxes(function, "deltas", deltas);
    check_boxes(function, "anchors", anchors);
    check_boxes(function, "targets", targets);
    check_choice(function, "loss", params_.loss, box_loss::ciou,
                 "0 (smooth L1), 1 (GIoU), 2 (DIoU) or 3 (CIoU)");
    const at::ScalarType type = computed_type(function, "deltas", deltas);
    // Corners of boxes rounded to bfloat16 would have errors of several pixels.
    const bool is_mixed = type == at::kBFloat16 && (anchors.scalar_type() != at::kBFloat16 ||
                                                    targets.scalar_type() != at::kBFloat16);
    const at::ScalarType box_type = is_mixed ? at::kFloat : type;
    const weights weight_of(function, "box_weights", box_weights);
    regression_loss_params params = params_;
    set_weights(function, params.coder, weights_);
    params.box_weights = weight_of.view();

    const at::Tensor x = contiguous("deltas", deltas, type);
    const at::Tensor a = contiguous("anchors", anchors, box_type);
    const at::Tensor t = contiguous("targets", targets, box_type);
    const index_t count = x.numel() / 4;
    const bool are_matched = matches.has_value() && matches->defined();
    const bool are_labelled = labels_.has_value() && labels_->defined();
    const optional_tensor& selecting = are_labelled ? labels_ : matches;

    double sum = 0;
    at::Tensor grad = at::empty({0}, x.options());
    if (needs_grad) grad = gradient_of(deltas.sizes(), x.scalar_type());
    const auto run_selected = [&](const box_selection& selection, auto element, auto box) {
      using T = decltype(element);
      using B = decltype(box);
      const auto run = [&](const regression_targets<B>& wanted) {
        sum = needs_grad ? regression_loss_and_grad(boxes<const T>(x), boxes<const B>(a), wanted,
                                                    selection, boxes<T>(grad), params, threads())
                         : vecdet::regression_loss(boxes<const T>(x), boxes<const B>(a), wanted,
                                                   selection, params, threads());
      };
      if (are_matched) {
        labels indices(function, "matches", *matches, count, "one integer per anchor");
        run({boxes<const B>(t), indices.indices()});
      } else {
        run(boxes<const B>(t));
      }
    };
    const auto run = [&](auto element, auto box) {
      if (selecting.has_value() && selecting->defined()) {
        const labels chosen(function, are_labelled ? "labels" : "matches", *selecting, count,
                            "one integer per anchor");
        run_selected(box_selection(chosen.view(), background, ignore), element, box);
      } else {
        run_selected(box_selection::all(), element, box);
      }
    };
    if (is_mixed)
      run(bfloat16(), float());
    else
      with_element(type, [&](auto element) { run(element, element); });
    return as_type_of(deltas, scalar(sum, loss_type(deltas, float_loss)), grad, float_loss);
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
