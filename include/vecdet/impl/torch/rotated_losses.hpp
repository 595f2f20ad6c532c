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

    at::Tensor loss, grad = at::empty({0}, x.options());
    with_rotated_element(type, [&](auto element) {
      using T = decltype(element);
      const auto boxes = matrix<const T>(x, count, 5), wanted = matrix<const T>(t, count, 5);
      const angle_convention convention = checked_angles(function, angles);
      double sum = 0;
      if (reduction == loss_reduction::none) {
        loss = at::empty({count}, x.options());
        vecdet::prob_iou_loss_unreduced(boxes, wanted, convention, vector<T>(loss), params,
                                        threads());
      }
      if (needs_grad) {
        grad = gradient_of(predicted.sizes(), type);
        sum = vecdet::prob_iou_loss_and_grad(boxes, wanted, convention, matrix<T>(grad, count, 5),
                                             params, threads());
      } else if (reduction != loss_reduction::none) {
        sum = vecdet::prob_iou_loss(boxes, wanted, convention, params, threads());
      }
      if (reduction != loss_reduction::none) loss = scalar(sum, loss_type(predicted, float_loss));
    });
    return as_type_of(predicted, loss, grad, float_loss);
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
