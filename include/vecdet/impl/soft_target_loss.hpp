// SPDX-License-Identifier: Apache-2.0
// The functions of soft_target_loss.hpp. Each uses the focal loss for negatives and its own formula
// for labelled classes.
#pragma once

#include <vecdet/impl/focal_loss.hpp>
#include <vecdet/impl/focal_loss_levels.hpp>
#include <vecdet/soft_target_loss.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// Converts the parameters that all losses share.
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

// The parameters of each loss in the form that the focal loss's code takes.

template <class T>
void set_loss(focal_call<T>& call, focal_loss_params& focal, const quality_focal_params& params) {
  check(params.beta >= 0 && fits_float(params.beta), call.function, "params.beta", params.beta,
        "a finite float, 0 or more");
  focal.gamma = params.beta;
  call.labelled = labelled_loss::quality;
}

template <class T>
void set_loss(focal_call<T>& call, focal_loss_params& focal, const varifocal_params& params) {
  check(params.alpha >= 0 && fits_float(params.alpha), call.function, "params.alpha", params.alpha,
        "a finite float, 0 or more");
  focal.gamma = params.gamma;
  call.labelled = labelled_loss::varifocal;
  call.negative_weight = params.alpha;
  call.focusing = params.grad_through_factor ? 1 : 0;
}

template <class T>
void set_loss(focal_call<T>&, focal_loss_params&, const bce_params&) {}

/// Calls run(call) with a focal-loss call for this loss, which has neither logits nor an output
/// yet.
template <class T, class Params, class Run>
double with_soft_targets(const char* function, const focal_targets<T>& targets,
                         const Params& params, const Run& run) {
  focal_loss_params focal = unfocused(params);
  focal_call<T> call{function, targets, focal};
  call.output = focal_output::grad;
  call.scored_variant = "labels";
  set_loss(call, focal, params);
  return run(call);
}

template <class T, class Params>
double run_soft_targets(const char* function, matrix_view<const T> logits,
                        const focal_targets<T>& targets, focal_output output, matrix_view<T> out,
                        const Params& params, threading policy) {
  return with_soft_targets<T>(function, targets, params, [&](focal_call<T>& call) {
    call.logits = logits;
    call.output = output;
    call.out = out;
    return run_focal_loss<T>(call, policy);
  });
}

template <class T, class Logit, class Params>
double run_level_soft_targets(const char* function, const head_view<Logit>& logits,
                              const focal_targets<T>& targets, const head_view<T>& grad,
                              vector_view<const float> image_scales, const Params& params,
                              threading policy) {
  return with_soft_targets<T>(function, targets, params, [&](const focal_call<T>& call) {
    return run_level_focal_loss(call, logits, grad, image_scales, policy);
  });
}

}  // namespace detail

template <class T>
double quality_focal_loss(matrix_view<T> logits, const scored_labels& targets,
                          const quality_focal_params& params, threading policy) {
  return detail::run_soft_targets<value_of<T>>("quality_focal_loss", logits, targets,
                                               detail::focal_output::sum, {}, params, policy);
}

template <class T>
void quality_focal_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                                  matrix_view<value_of<T>> loss, const quality_focal_params& params,
                                  threading policy) {
  detail::run_soft_targets<value_of<T>>("quality_focal_loss_unreduced", logits, targets,
                                        detail::focal_output::loss, loss, params, policy);
}

template <class T>
double quality_focal_loss_and_grad(const head_view<T>& logits, const scored_labels& targets,
                                   const head_view<value_of<T>>& grad,
                                   vector_view<const float> image_scales,
                                   const quality_focal_params& params, threading policy) {
  return detail::run_level_soft_targets<value_of<T>>("quality_focal_loss_and_grad", logits, targets,
                                                     grad, image_scales, params, policy);
}

template <class T>
double quality_focal_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                                   matrix_view<value_of<T>> grad,
                                   const quality_focal_params& params, threading policy) {
  return detail::run_soft_targets<value_of<T>>("quality_focal_loss_and_grad", logits, targets,
                                               detail::focal_output::grad, grad, params, policy);
}

template <class T>
double varifocal_loss(matrix_view<T> logits, const scored_labels& targets,
                      const varifocal_params& params, threading policy) {
  return detail::run_soft_targets<value_of<T>>("varifocal_loss", logits, targets,
                                               detail::focal_output::sum, {}, params, policy);
}

template <class T>
void varifocal_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                              matrix_view<value_of<T>> loss, const varifocal_params& params,
                              threading policy) {
  detail::run_soft_targets<value_of<T>>("varifocal_loss_unreduced", logits, targets,
                                        detail::focal_output::loss, loss, params, policy);
}

template <class T>
double varifocal_loss_and_grad(const head_view<T>& logits, const scored_labels& targets,
                               const head_view<value_of<T>>& grad,
                               vector_view<const float> image_scales,
                               const varifocal_params& params, threading policy) {
  return detail::run_level_soft_targets<value_of<T>>("varifocal_loss_and_grad", logits, targets,
                                                     grad, image_scales, params, policy);
}

template <class T>
double varifocal_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                               matrix_view<value_of<T>> grad, const varifocal_params& params,
                               threading policy) {
  return detail::run_soft_targets<value_of<T>>("varifocal_loss_and_grad", logits, targets,
                                               detail::focal_output::grad, grad, params, policy);
}

template <class T>
double bce_loss(matrix_view<T> logits, const scored_labels& targets, const bce_params& params,
                threading policy) {
  return detail::run_soft_targets<value_of<T>>("bce_loss", logits, targets,
                                               detail::focal_output::sum, {}, params, policy);
}

template <class T>
void bce_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                        matrix_view<value_of<T>> loss, const bce_params& params, threading policy) {
  detail::run_soft_targets<value_of<T>>("bce_loss_unreduced", logits, targets,
                                        detail::focal_output::loss, loss, params, policy);
}

template <class T>
double bce_loss_and_grad(const head_view<T>& logits, const scored_labels& targets,
                         const head_view<value_of<T>>& grad, vector_view<const float> image_scales,
                         const bce_params& params, threading policy) {
  return detail::run_level_soft_targets<value_of<T>>("bce_loss_and_grad", logits, targets, grad,
                                                     image_scales, params, policy);
}

template <class T>
double bce_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                         matrix_view<value_of<T>> grad, const bce_params& params,
                         threading policy) {
  return detail::run_soft_targets<value_of<T>>("bce_loss_and_grad", logits, targets,
                                               detail::focal_output::grad, grad, params, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
