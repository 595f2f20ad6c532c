// SPDX-License-Identifier: Apache-2.0
// Smooth L1 loss of box regression, forward and backward in one pass over memory.
//
// Girshick: "Fast R-CNN", arXiv 1504.08083, equation 3, with the point beta where the parabola
// meets the line. With d = prediction - target:
//
//   L(d) = d^2 / (2 beta)      dL/dd = d / beta     where |d| < beta
//          |d| - beta / 2              sign(d)      elsewhere
//
// beta = 0 is |d|, with gradient 0 at d = 0. huber() gives Huber's loss, beta times this one.
//
// Predictions and targets are N x 4 of float, bfloat16 or double. The boxes that a box_selection
// selects count, box_selection::all() being all: the others get loss and gradient 0 without being
// read.
//
// Accuracy: in float, losses and gradients within 4 ulp of the exact value; sums are accumulated in
// double. bfloat16 results are such floats rounded once. d = +-inf gives loss inf and gradient +-1;
// NaN gives NaN, in its own element and in the sum.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, beta is
// negative, or a number among the parameters is not a finite float (box weights are data).
#pragma once

#include <vecdet/args/smooth_l1.hpp>
#include <vecdet/box_selection.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/detail/optional_view.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/smooth_l1/smooth_l1.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

struct smooth_l1_params {
  double beta = 1.0 / 9;  ///< 0 or more; 1/9 as in torchvision's detectors, 0 in detectron2's
  double scale = 1;       ///< factor on losses, sum and gradient; 1 / (4 N) gives the mean
  /// A further factor for each box; empty: all 1.
  lasting<vector_view<const float>> box_weights;

  /// Huber's loss: delta > 0 times the smooth L1 loss of beta = delta.
  static smooth_l1_params huber(double delta) {
    smooth_l1_params params;
    params.beta = params.scale = delta;
    return params;
  }
};

namespace detail {

template <class T>
struct smooth_l1_call {
  const char* function;
  boxes_view<const T> predictions, targets;
  const box_selection& selection;
  const smooth_l1_params& params;
  box_loss_output output;
  boxes_view<T> out;  ///< the losses or the gradient, by `output`

  void check_arguments() const {
    const index_t boxes = predictions.size();
    check(params.beta >= 0 && fits_float(params.beta), function, "params.beta", params.beta,
          "a finite float, 0 or more");
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
    check(targets.size() == boxes, function, "targets.size()", targets.size(),
          "the number of predictions");
    check(params.box_weights.empty() || params.box_weights.size() == boxes, function,
          "params.box_weights.size()", params.box_weights.size(), "0 or the number of predictions");
    if (output != box_loss_output::sum) {
      check(out.size() == boxes, function,
            output == box_loss_output::grad ? "grad.size()" : "loss.size()", out.size(),
            "the number of predictions");
    }
    selection.check(function, boxes);
  }

  profile::problem problem(isa target, int threads) const {
    const index_t boxes = predictions.size();
    const index_t tensor = 4 * boxes * index_t{sizeof(T)};
    const index_t written = output == box_loss_output::sum ? 0 : tensor;
    return {function,
            selection.name(),
            dtype_name<T>(),
            {boxes, 4},
            isa_name(target),
            threads,
            written + (selection.is_all() ? 2 * tensor : boxes * index_t{sizeof(index_t)}),
            4 * 8 * selection.known_size(boxes)};
  }
};

}  // namespace detail

namespace detail_smooth_l1 {

template <class T>
double run(const detail::smooth_l1_call<T>& call, execution policy) {
  call.check_arguments();
  if (call.predictions.empty()) return 0;
  const isa target = active_isa();
  const profile::scope timing([&] { return call.problem(target, policy.threads()); });
  const detail::smooth_l1_args<T> args{call.predictions.data(),
                                       call.targets.data(),
                                       detail::data_or_null(call.params.box_weights),
                                       call.params.beta,
                                       call.params.scale,
                                       call.output,
                                       call.out.data(),
                                       call.selection.kernel_args()};
  return call.params.scale *
         detail::run_selected(detail::kernels<detail::smooth_l1_kernels<T>>(target), args,
                              call.selection, call.predictions.size(), policy);
}

}  // namespace detail_smooth_l1

/// The sum of the losses of `predictions`, N x 4.
template <class T>
double smooth_l1_loss(boxes_view<T> predictions, boxes_view<const std::remove_const_t<T>> targets,
                      const box_selection& selection, const smooth_l1_params& params = {},
                      execution policy = execution::parallel) {
  return detail_smooth_l1::run<std::remove_const_t<T>>(
      {"smooth_l1_loss", predictions, targets, selection, params, detail::box_loss_output::sum, {}},
      policy);
}

/// The loss of each element into `loss`, N x 4.
template <class T>
void smooth_l1_loss_unreduced(boxes_view<T> predictions,
                              boxes_view<const std::remove_const_t<T>> targets,
                              const box_selection& selection,
                              boxes_view<std::remove_const_t<T>> loss,
                              const smooth_l1_params& params = {},
                              execution policy = execution::parallel) {
  detail_smooth_l1::run<std::remove_const_t<T>>(
      {"smooth_l1_loss_unreduced", predictions, targets, selection, params,
       detail::box_loss_output::loss, loss},
      policy);
}

/// The sum of the losses, and its gradient by the predictions into `grad`, N x 4, in one pass over
/// memory. Where all boxes count, `grad` may be the predictions' own memory.
template <class T>
double smooth_l1_loss_and_grad(boxes_view<T> predictions,
                               boxes_view<const std::remove_const_t<T>> targets,
                               const box_selection& selection,
                               boxes_view<std::remove_const_t<T>> grad,
                               const smooth_l1_params& params = {},
                               execution policy = execution::parallel) {
  return detail_smooth_l1::run<std::remove_const_t<T>>(
      {"smooth_l1_loss_and_grad", predictions, targets, selection, params,
       detail::box_loss_output::grad, grad},
      policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
