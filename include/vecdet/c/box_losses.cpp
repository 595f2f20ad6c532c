// SPDX-License-Identifier: Apache-2.0
// Box losses. Predictions, targets, losses and gradients are count x 4 without gaps. `box_weights`
// are a further factor per box; null: all 1. A null `selection` selects all boxes; boxes that are
// not selected get loss and gradient 0.
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
VECDET_C vecdet_status vecdet_smooth_l1_loss(vecdet_dtype type, const void* predictions,
                                             const void* targets, int64_t count,
                                             const vecdet_box_selection* selection, double beta,
                                             double scale, const float* box_weights, double* loss) {
  return guarded([&] {
    check_pointer(loss, "smooth_l1_loss", "loss");
    auto p = scaled<smooth_l1_params>(scale, box_weights, count);
    p.beta = beta;
    on_type(type, "smooth_l1_loss", [&](auto of, threading policy) {
      *loss = smooth_l1_loss(of.boxes(predictions, count), of.boxes(targets, count),
                             selection_of(selection, count), p, policy);
    });
  });
}
/// Writes the loss of each number to `losses`.
VECDET_C vecdet_status vecdet_smooth_l1_loss_unreduced(vecdet_dtype type, const void* predictions,
                                                       const void* targets, int64_t count,
                                                       const vecdet_box_selection* selection,
                                                       double beta, double scale,
                                                       const float* box_weights, void* losses) {
  return guarded([&] {
    auto p = scaled<smooth_l1_params>(scale, box_weights, count);
    p.beta = beta;
    on_type(type, "smooth_l1_loss_unreduced", [&](auto of, threading policy) {
      smooth_l1_loss_unreduced(of.boxes(predictions, count), of.boxes(targets, count),
                               selection_of(selection, count), of.boxes(losses, count), p, policy);
    });
  });
}
/// Writes the sum, and its gradient with respect to the predictions.
VECDET_C vecdet_status vecdet_smooth_l1_loss_and_grad(vecdet_dtype type, const void* predictions,
                                                      const void* targets, int64_t count,
                                                      const vecdet_box_selection* selection,
                                                      double beta, double scale,
                                                      const float* box_weights, double* loss,
                                                      void* grad) {
  return guarded([&] {
    check_pointer(loss, "smooth_l1_loss_and_grad", "loss");
    auto p = scaled<smooth_l1_params>(scale, box_weights, count);
    p.beta = beta;
    on_type(type, "smooth_l1_loss_and_grad", [&](auto of, threading policy) {
      *loss =
          smooth_l1_loss_and_grad(of.boxes(predictions, count), of.boxes(targets, count),
                                  selection_of(selection, count), of.boxes(grad, count), p, policy);
    });
  });
}

/// GIoU, DIoU or CIoU loss of predicted boxes, corners. `epsilon` is 1e-7 in torchvision.
VECDET_C vecdet_status vecdet_iou_loss(vecdet_dtype type, const void* predicted,
                                       const void* targets, int64_t count, vecdet_iou_kind kind,
                                       double epsilon, double scale, const float* box_weights,
                                       double* loss) {
  return guarded([&] {
    check_pointer(loss, "iou_loss", "loss");
    auto p = scaled<iou_loss_params>(scale, box_weights, count);
    p.epsilon = epsilon;
    on_type(type, "iou_loss", [&](auto of, threading policy) {
      *loss = iou_loss(of.boxes(predicted, count), of.boxes(targets, count),
                       enum_of<iou_kind>(kind, "iou_loss", "kind"), p, policy);
    });
  });
}
/// Writes the loss of each box to `losses`.
VECDET_C vecdet_status vecdet_iou_loss_unreduced(vecdet_dtype type, const void* predicted,
                                                 const void* targets, int64_t count,
                                                 vecdet_iou_kind kind, double epsilon, double scale,
                                                 const float* box_weights, void* losses) {
  return guarded([&] {
    auto p = scaled<iou_loss_params>(scale, box_weights, count);
    p.epsilon = epsilon;
    on_type(type, "iou_loss_unreduced", [&](auto of, threading policy) {
      iou_loss_unreduced(of.boxes(predicted, count), of.boxes(targets, count),
                         of.vector(losses, count),
                         enum_of<iou_kind>(kind, "iou_loss_unreduced", "kind"), p, policy);
    });
  });
}
/// Writes the sum, and its gradient with respect to the predicted boxes.
VECDET_C vecdet_status vecdet_iou_loss_and_grad(vecdet_dtype type, const void* predicted,
                                                const void* targets, int64_t count,
                                                vecdet_iou_kind kind, double epsilon, double scale,
                                                const float* box_weights, double* loss,
                                                void* grad) {
  return guarded([&] {
    check_pointer(loss, "iou_loss_and_grad", "loss");
    auto p = scaled<iou_loss_params>(scale, box_weights, count);
    p.epsilon = epsilon;
    on_type(type, "iou_loss_and_grad", [&](auto of, threading policy) {
      *loss = iou_loss_and_grad(of.boxes(predicted, count), of.boxes(targets, count),
                                of.boxes(grad, count),
                                enum_of<iou_kind>(kind, "iou_loss_and_grad", "kind"), p, policy);
    });
  });
}

/// The ProbIoU loss of predicted rotated boxes and their targets, both count x 5: centre, width,
/// height, angle. The type is float or double. Writes the sum to `loss`.
VECDET_C vecdet_status vecdet_prob_iou_loss(vecdet_dtype type, const void* predicted,
                                            const void* targets, int64_t count,
                                            vecdet_angle_convention angles, double scale,
                                            const float* box_weights, double* loss) {
  return guarded([&] {
    constexpr const char* function = "prob_iou_loss";
    check_pointer(loss, function, "loss");
    const auto p = scaled<prob_iou_loss_params>(scale, box_weights, count);
    on_type<float, double>(type, function, [&](auto of, threading policy) {
      *loss = prob_iou_loss(of.matrix(predicted, count, 5), of.matrix(targets, count, 5),
                            angles_of(angles, function), p, policy);
    });
  });
}
/// Writes the loss of each pair to `losses`.
VECDET_C vecdet_status vecdet_prob_iou_loss_unreduced(vecdet_dtype type, const void* predicted,
                                                      const void* targets, int64_t count,
                                                      vecdet_angle_convention angles, double scale,
                                                      const float* box_weights, void* losses) {
  return guarded([&] {
    constexpr const char* function = "prob_iou_loss_unreduced";
    const auto p = scaled<prob_iou_loss_params>(scale, box_weights, count);
    on_type<float, double>(type, function, [&](auto of, threading policy) {
      prob_iou_loss_unreduced(of.matrix(predicted, count, 5), of.matrix(targets, count, 5),
                              angles_of(angles, function), of.vector(losses, count), p, policy);
    });
  });
}
/// Writes the sum, and its gradient with respect to the predicted boxes, count x 5.
VECDET_C vecdet_status vecdet_prob_iou_loss_and_grad(vecdet_dtype type, const void* predicted,
                                                     const void* targets, int64_t count,
                                                     vecdet_angle_convention angles, double scale,
                                                     const float* box_weights, double* loss,
                                                     void* grad) {
  return guarded([&] {
    constexpr const char* function = "prob_iou_loss_and_grad";
    check_pointer(loss, function, "loss");
    const auto p = scaled<prob_iou_loss_params>(scale, box_weights, count);
    on_type<float, double>(type, function, [&](auto of, threading policy) {
      *loss =
          prob_iou_loss_and_grad(of.matrix(predicted, count, 5), of.matrix(targets, count, 5),
                                 angles_of(angles, function), of.matrix(grad, count, 5), p, policy);
    });
  });
}

/// The box loss of deltas relative to anchors, in one pass: encoded targets or decoded boxes are
/// never stored. Anchors are one per delta, or those of one image, whose number divides `count`.
/// Targets are one box per delta, or, with `matches`, ground-truth boxes and the index of one of
/// them per delta. All have the same type.
VECDET_C vecdet_status vecdet_regression_loss(vecdet_dtype type, const void* deltas, int64_t count,
                                              const void* anchors, int64_t anchor_count,
                                              const void* targets, int64_t target_count,
                                              const int64_t* matches,
                                              const vecdet_box_selection* selection,
                                              const vecdet_regression_loss_params* params,
                                              const float* box_weights, double* loss) {
  return guarded([&] {
    check_pointer(loss, "regression_loss", "loss");
    auto p = params_of<regression_loss_params>(params, "regression_loss");
    p.box_weights = optional_view(box_weights, count);
    on_type(type, "regression_loss", [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      *loss = regression_loss(of.boxes(deltas, count), of.boxes(anchors, anchor_count),
                              targets_of<T>(targets, target_count, matches, count),
                              selection_of(selection, count), p, policy);
    });
  });
}
/// Writes the sum, and its gradient with respect to the deltas. `grad` shares no memory with the
/// inputs.
VECDET_C vecdet_status vecdet_regression_loss_and_grad(
    vecdet_dtype type, const void* deltas, int64_t count, const void* anchors, int64_t anchor_count,
    const void* targets, int64_t target_count, const int64_t* matches,
    const vecdet_box_selection* selection, const vecdet_regression_loss_params* params,
    const float* box_weights, double* loss, void* grad) {
  return guarded([&] {
    check_pointer(loss, "regression_loss_and_grad", "loss");
    auto p = params_of<regression_loss_params>(params, "regression_loss_and_grad");
    p.box_weights = optional_view(box_weights, count);
    on_type(type, "regression_loss_and_grad", [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      *loss = regression_loss_and_grad(of.boxes(deltas, count), of.boxes(anchors, anchor_count),
                                       targets_of<T>(targets, target_count, matches, count),
                                       selection_of(selection, count), of.boxes(grad, count), p,
                                       policy);
    });
  });
}
