// SPDX-License-Identifier: Apache-2.0
// Box losses. Predictions, targets, losses and gradients are count x 4 without gaps. `box_weights`
// are a further factor per box; null: all 1. A null `selection` selects all boxes; boxes that are
// not selected get loss and gradient 0.
#include <vecdet/c/losses.hpp>
#include <vecdet/c/support.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/prob_iou_loss.hpp>
#include <vecdet/regression_loss.hpp>
#include <vecdet/smooth_l1.hpp>

namespace vecdet_c {
namespace {

template <class Params>
Params scaled(double scale, const float* box_weights, int64_t count) {
  Params params;
  params.scale = scale;
  params.box_weights = optional_view(box_weights, count);
  return params;
}

template <class T>
regression_targets<T> targets_of(const void* targets, int64_t target_count, const int64_t* matches,
                                 int64_t count) {
  const boxes_view<const T> boxes(as<T>(targets), target_count);
  if (matches == nullptr) return regression_targets<T>(boxes);
  return regression_targets<T>(boxes, vector_view<const index_t>(matches, count));
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// Smooth L1 loss: the parabola meets the line at `beta`, 0 or more. Writes the sum to `loss`.
/// @unreduced Writes the loss of each number to `losses`.
/// @and_grad Writes the sum, and its gradient with respect to the predictions.
VECDET_LOSS(smooth_l1_loss, vecdet_dtype type, const void* predictions, const void* targets,
            int64_t count, const vecdet_box_selection* selection, double beta, double scale,
            const float* box_weights) {
  return guarded([&] {
    form.check();
    auto p = scaled<smooth_l1_params>(scale, box_weights, count);
    p.beta = beta;
    on_type(type, form.function, [&](auto of, threading policy) {
      const auto like = [&](void* memory) { return of.boxes(memory, count); };
      form.call(like, like, [&](const auto&... out) {
        return compute(of.boxes(predictions, count), of.boxes(targets, count),
                       selection_of(selection, count), out..., p, policy);
      });
    });
  });
}

/// GIoU, DIoU or CIoU loss of predicted boxes, corners. `epsilon` is 1e-7 in torchvision.
/// @unreduced Writes the loss of each box to `losses`.
/// @and_grad Writes the sum, and its gradient with respect to the predicted boxes.
VECDET_LOSS(iou_loss, vecdet_dtype type, const void* predicted, const void* targets, int64_t count,
            vecdet_iou_kind kind, double epsilon, double scale, const float* box_weights) {
  return guarded([&] {
    form.check();
    auto p = scaled<iou_loss_params>(scale, box_weights, count);
    p.epsilon = epsilon;
    on_type(type, form.function, [&](auto of, threading policy) {
      form.call([&](void* losses) { return of.vector(losses, count); },
                [&](void* grad) { return of.boxes(grad, count); },
                [&](const auto&... out) {
                  return compute(of.boxes(predicted, count), of.boxes(targets, count), out...,
                                 enum_of<iou_kind>(kind, form.function, "kind"), p, policy);
                });
    });
  });
}

/// The ProbIoU loss of predicted rotated boxes and their targets, both count x 5: centre, width,
/// height, angle. The type is float or double. Writes the sum to `loss`.
/// @unreduced Writes the loss of each pair to `losses`.
/// @and_grad Writes the sum, and its gradient with respect to the predicted boxes, count x 5.
VECDET_LOSS(prob_iou_loss, vecdet_dtype type, const void* predicted, const void* targets,
            int64_t count, vecdet_angle_convention angles, double scale, const float* box_weights) {
  return guarded([&] {
    form.check();
    const auto p = scaled<prob_iou_loss_params>(scale, box_weights, count);
    on_type<float, double>(type, form.function, [&](auto of, threading policy) {
      form.call([&](void* losses) { return of.vector(losses, count); },
                [&](void* grad) { return of.matrix(grad, count, 5); },
                [&](const auto&... out) {
                  return compute(of.matrix(predicted, count, 5), of.matrix(targets, count, 5),
                                 angles_of(angles, form.function), out..., p, policy);
                });
    });
  });
}

/// The box loss of deltas relative to anchors, in one pass: encoded targets or decoded boxes are
/// never stored. Anchors are one per delta, or those of one image, whose number divides `count`.
/// Targets are one box per delta, or, with `matches`, ground-truth boxes and the index of one of
/// them per delta. All have the same type.
/// @and_grad Writes the sum, and its gradient with respect to the deltas. `grad` shares no memory
/// with the inputs.
VECDET_LOSS(regression_loss, vecdet_dtype type, const void* deltas, int64_t count,
            const void* anchors, int64_t anchor_count, const void* targets, int64_t target_count,
            const int64_t* matches, const vecdet_box_selection* selection,
            const vecdet_regression_loss_params* params, const float* box_weights) {
  return guarded([&] {
    form.check();
    auto p = params_of<regression_loss_params>(params, form.function);
    p.box_weights = optional_view(box_weights, count);
    on_type(type, form.function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const auto like = [&](void* memory) { return of.boxes(memory, count); };
      form.call(like, like, [&](const auto&... out) {
        return compute(of.boxes(deltas, count), of.boxes(anchors, anchor_count),
                       targets_of<T>(targets, target_count, matches, count),
                       selection_of(selection, count), out..., p, policy);
      });
    });
  });
}

#include <vecdet/c/generated/box_losses.hpp>
