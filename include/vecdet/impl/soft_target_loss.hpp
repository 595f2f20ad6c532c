// SPDX-License-Identifier: Apache-2.0
// The functions of soft_target_loss.hpp: each is the focal loss's negatives with labelled classes
// of its own.
#pragma once

#include <vecdet/impl/focal_loss.hpp>
#include <vecdet/soft_target_loss.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// What all parameters of this header have in common.
template <class Params>
focal_loss_params unfocused(const Params& params) {
  focal_loss_params focal;
  focal.alpha = -1;
  focal.gamma = 0;
  focal.scale = params.scale;
  focal.reduction = params.reduction;
  focal.background = params.background;
  focal.ignore = params.ignore;
  focal.row_weights = params.row_weights;
  return focal;
}

template <class T>
double run_quality_focal(const char* function, matrix_view<const T> logits,
                         const focal_targets<T>& targets, focal_output output, matrix_view<T> out,
                         const quality_focal_params& params, execution policy) {
  check(params.beta >= 0 && is_finite(params.beta), function, "params.beta", params.beta,
        "a finite number, 0 or more");
  focal_loss_params focal = unfocused(params);
  focal.gamma = params.beta;
  focal_call<T> call{function, logits, targets, focal, output, out, {}, 1};
  call.scored_variant = "labels";
  call.labelled = labelled_loss::quality;
  return run_focal_loss<T>(call, policy);
}

template <class T>
double run_varifocal(const char* function, matrix_view<const T> logits,
                     const focal_targets<T>& targets, focal_output output, matrix_view<T> out,
                     const varifocal_params& params, execution policy) {
  check(params.alpha >= 0 && fits_float(params.alpha), function, "params.alpha", params.alpha,
        "a finite float, 0 or more");
  focal_loss_params focal = unfocused(params);
  focal.gamma = params.gamma;
  focal_call<T> call{function, logits, targets, focal, output, out, {}, 1};
  call.scored_variant = "labels";
  call.labelled = labelled_loss::varifocal;
  call.negative_weight = params.alpha;
  call.focusing = params.grad_through_factor ? 1 : 0;
  return run_focal_loss<T>(call, policy);
}

template <class T>
double run_bce(const char* function, matrix_view<const T> logits, const focal_targets<T>& targets,
               focal_output output, matrix_view<T> out, const bce_params& params,
               execution policy) {
  const focal_loss_params focal = unfocused(params);
  focal_call<T> call{function, logits, targets, focal, output, out, {}, 1};
  call.scored_variant = "labels";
  return run_focal_loss<T>(call, policy);
}

}  // namespace detail

template <class T>
double quality_focal_loss(matrix_view<T> logits, const scored_labels& targets,
                          const quality_focal_params& params, execution policy) {
  return detail::run_quality_focal<std::remove_const_t<T>>(
      "quality_focal_loss", logits, targets, detail::focal_output::sum, {}, params, policy);
}

template <class T>
void quality_focal_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                                  matrix_view<std::remove_const_t<T>> loss,
                                  const quality_focal_params& params, execution policy) {
  detail::run_quality_focal<std::remove_const_t<T>>("quality_focal_loss_unreduced", logits, targets,
                                                    detail::focal_output::loss, loss, params,
                                                    policy);
}

template <class T>
double quality_focal_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                                   matrix_view<std::remove_const_t<T>> grad,
                                   const quality_focal_params& params, execution policy) {
  return detail::run_quality_focal<std::remove_const_t<T>>("quality_focal_loss_and_grad", logits,
                                                           targets, detail::focal_output::grad,
                                                           grad, params, policy);
}

template <class T>
double varifocal_loss(matrix_view<T> logits, const scored_labels& targets,
                      const varifocal_params& params, execution policy) {
  return detail::run_varifocal<std::remove_const_t<T>>(
      "varifocal_loss", logits, targets, detail::focal_output::sum, {}, params, policy);
}

template <class T>
void varifocal_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                              matrix_view<std::remove_const_t<T>> loss,
                              const varifocal_params& params, execution policy) {
  detail::run_varifocal<std::remove_const_t<T>>("varifocal_loss_unreduced", logits, targets,
                                                detail::focal_output::loss, loss, params, policy);
}

template <class T>
double varifocal_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                               matrix_view<std::remove_const_t<T>> grad,
                               const varifocal_params& params, execution policy) {
  return detail::run_varifocal<std::remove_const_t<T>>(
      "varifocal_loss_and_grad", logits, targets, detail::focal_output::grad, grad, params, policy);
}

template <class T>
double bce_loss(matrix_view<T> logits, const scored_labels& targets, const bce_params& params,
                execution policy) {
  return detail::run_bce<std::remove_const_t<T>>("bce_loss", logits, targets,
                                                 detail::focal_output::sum, {}, params, policy);
}

template <class T>
void bce_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                        matrix_view<std::remove_const_t<T>> loss, const bce_params& params,
                        execution policy) {
  detail::run_bce<std::remove_const_t<T>>("bce_loss_unreduced", logits, targets,
                                          detail::focal_output::loss, loss, params, policy);
}

template <class T>
double bce_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                         matrix_view<std::remove_const_t<T>> grad, const bce_params& params,
                         execution policy) {
  return detail::run_bce<std::remove_const_t<T>>("bce_loss_and_grad", logits, targets,
                                                 detail::focal_output::grad, grad, params, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
