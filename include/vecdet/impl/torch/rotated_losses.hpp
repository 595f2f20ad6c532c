// SPDX-License-Identifier: Apache-2.0
// The loss of rotated boxes.
#pragma once

#include <vecdet/impl/torch/loss_tensors.hpp>
#include <vecdet/impl/torch/rotated_boxes.hpp>
#include <vecdet/prob_iou_loss.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {
namespace cpu {

/// ProbIoU loss (prob_iou_loss.hpp) of `predicted` boxes against `targets`, both N x 5: centre,
/// width, height, angle. Returns N losses, or a scalar, depending on `reduction`; the mean over no
/// boxes is 0. Computed in float32 for 16-bit types.
/// @param box_weights an additional factor per box
inline loss_tensors prob_iou_loss(const at::Tensor& predicted, const at::Tensor& targets,
                                  angle_convention angles, loss_reduction reduction,
                                  const prob_iou_loss_params& params_,
                                  const optional_tensor& box_weights, bool needs_grad,
                                  bool float_loss) {
  constexpr const char* function = "prob_iou_loss";
  return translated([&] {
    check_rotated_boxes(function, "predicted", predicted);
    check_rotated_boxes(function, "targets", targets);
    check_reduction(function, reduction);
    check_shape(targets.sizes() == predicted.sizes(), function, "targets", targets,
                "the shape of the predicted boxes");
    const at::ScalarType type = rotated_type(function, "predicted", predicted, "targets", targets);
    const weights weight_of(function, "box_weights", box_weights);
    const at::Tensor x = contiguous("predicted", predicted, type);
    const at::Tensor t = contiguous("targets", targets, type);
    const index_t count = predicted.size(0);
    prob_iou_loss_params params = params_;
    params.box_weights = weight_of.view();
    if (reduction == loss_reduction::mean)
      params.scale = scale_of_mean(function, params.scale, count);

    const angle_convention convention = checked_angles(function, angles);
    return with_rotated_element(type, [&](auto element) {
      using T = decltype(element);
      const auto boxes = matrix<const T>(x, count, 5), wanted = matrix<const T>(t, count, 5);
      return loss_and_grad_of(
          predicted, type, {count}, reduction, false, needs_grad, float_loss,
          [&](const at::Tensor& loss) {
            vecdet::prob_iou_loss_unreduced(boxes, wanted, convention, vector<T>(loss), params,
                                            threads());
          },
          [&] { return vecdet::prob_iou_loss(boxes, wanted, convention, params, threads()); },
          [&](at::Tensor& grad) {
            grad = gradient_of(predicted.sizes(), type);
            return vecdet::prob_iou_loss_and_grad(boxes, wanted, convention,
                                                  matrix<T>(grad, count, 5), params, threads());
          });
    });
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
