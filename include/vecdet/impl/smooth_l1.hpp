// SPDX-License-Identifier: Apache-2.0
// The functions of smooth_l1.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/smooth_l1.hpp>
#include <vecdet/args/stored_boxes.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/box_selection.hpp>
#include <vecdet/impl/head_boxes.hpp>
#include <vecdet/impl/optional_view.hpp>
#include <vecdet/impl/scaled.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/smooth_l1.hpp>
#include <vecdet/views.hpp>

#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/smooth_l1/smooth_l1.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

template <class T>
struct smooth_l1_call {
  const char* function;
  boxes_view<const T> targets;
  const box_selection& selection;
  const smooth_l1_params& params;
  boxes_view<const T> predictions{};
  loss_output output = loss_output::sum;
  boxes_view<T> out{};  ///< the losses or the gradient, depending on `output`

  void check_params() const {
    check(params.beta >= 0 && fits_float(params.beta), function, "params.beta", params.beta,
          "a finite float, 0 or more");
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
  }

  void check_arguments() const {
    const index_t boxes = predictions.size();
    check_params();
    check_size(function, "targets.size()", targets.size(), boxes, "the number of predictions");
    check_optional_size(function, "params.box_weights.size()", params.box_weights.size(), boxes,
                        "the number of predictions");
    if (output != loss_output::sum) {
      check_size(function, output == loss_output::grad ? "grad.size()" : "loss.size()", out.size(),
                 boxes, "the number of predictions");
    }
    check_selection(function, selection, boxes);
    const char* const result = output == loss_output::grad ? "grad" : "loss";
    if (output == loss_output::grad && selection.is_all()) {
      check_apart_or_same(function, result, out, "predictions", predictions);
    } else {
      check_apart(function, result, out, "predictions", predictions);
    }
    check_apart(function, result, out, "targets", targets);
    check_apart(function, result, out, "params.box_weights", params.box_weights);
    check_apart(function, result, out, selection);
  }

  profile::problem problem(isa target, int threads) const {
    const index_t boxes = predictions.size();
    const index_t tensor = 4 * boxes * index_t{sizeof(T)};
    const index_t written = output == loss_output::sum ? 0 : tensor;
    return {function,
            selection_name(selection),
            dtype_name<T>(),
            {boxes, 4},
            isa_name(target),
            threads,
            written + (selection.is_all() ? 2 * tensor : boxes * index_t{sizeof(index_t)}),
            4 * 8 * known_size(selection, boxes)};
  }
};

template <class T>
double run_smooth_l1(const smooth_l1_call<T>& call, threading policy) {
  call.check_arguments();
  if (call.predictions.empty()) return 0;
  const isa target = active_isa();
  const profile::scope timing([&] { return call.problem(target, policy.threads()); });
  const smooth_l1_args<T> args{
      call.predictions.data(), call.targets.data(),        data_or_null(call.params.box_weights),
      call.params.beta,        call.params.scale,          call.output,
      call.out.data(),         selected_by(call.selection)};
  return scaled(call.params.scale, run_selected(kernels<smooth_l1_kernels<T>>(target), args,
                                                call.selection, call.predictions.size(), policy));
}

template <class T, class Input>
double run_level_smooth_l1(const smooth_l1_call<T>& call, const head_view<Input>& predictions,
                           const head_view<T>& grad, const vector_view<const float>& image_scales,
                           threading policy) {
  const smooth_l1_params& params = call.params;
  call.check_params();
  check_level_boxes(call.function, "predictions", predictions, grad, call.selection, image_scales,
                    params.box_weights);
  check_level_targets(call.function, predictions, grad, call.targets);
  if (predictions.size() == 0) return 0;
  const isa target = active_isa();
  const profile::scope timing([&] {
    return level_problem(call.function, levels_variant(predictions.layout()), predictions, target,
                         policy.threads(),
                         level_loss_bytes(predictions, call.selection,
                                          call.targets.size() * bytes_per_box<const T*>),
                         4 * 8 * known_size(call.selection, predictions.size() / 4));
  });
  const auto& kernels = detail::kernels<smooth_l1_kernels<T>>(target);
  const level_boxes_loss<Input, T, T> levels(target, predictions, grad, call.selection,
                                             image_scales, params.box_weights);
  return scaled(
      params.scale, levels.run_against(policy, call.targets, [&](const loss_boxes<T, T>& boxes) {
        return kernels.run({boxes.in, boxes.targets, boxes.weights, params.beta, params.scale,
                            loss_output::grad, boxes.grad, selected_by(box_selection::all())},
                           0, boxes.count);
      }));
}

}  // namespace detail

template <class T>
double smooth_l1_loss_and_grad(const head_view<T>& predictions,
                               boxes_view<const value_of<T>> targets,
                               const box_selection& selection, const head_view<value_of<T>>& grad,
                               vector_view<const float> image_scales,
                               const smooth_l1_params& params, threading policy) {
  detail::smooth_l1_call<value_of<T>> call{"smooth_l1_loss_and_grad", targets, selection, params};
  call.output = detail::loss_output::grad;
  return detail::run_level_smooth_l1(call, predictions, grad, image_scales, policy);
}

template <class Boxes>
double smooth_l1_loss(const Boxes& given, boxes_view<const coordinate_of<Boxes>> targets,
                      const box_selection& selection, const smooth_l1_params& params,
                      threading policy) {
  const auto predictions = detail::boxes_in(given, "smooth_l1_loss", "predictions");
  detail::smooth_l1_call<coordinate_of<Boxes>> call{"smooth_l1_loss", targets, selection, params};
  call.predictions = predictions;
  return detail::run_smooth_l1(call, policy);
}

template <class Boxes>
void smooth_l1_loss_unreduced(const Boxes& given, boxes_view<const coordinate_of<Boxes>> targets,
                              const box_selection& selection, boxes_view<coordinate_of<Boxes>> loss,
                              const smooth_l1_params& params, threading policy) {
  const auto predictions = detail::boxes_in(given, "smooth_l1_loss_unreduced", "predictions");
  detail::smooth_l1_call<coordinate_of<Boxes>> call{"smooth_l1_loss_unreduced", targets, selection,
                                                    params};
  call.predictions = predictions;
  call.output = detail::loss_output::loss;
  call.out = loss;
  detail::run_smooth_l1(call, policy);
}

template <class Boxes>
double smooth_l1_loss_and_grad(const Boxes& given, boxes_view<const coordinate_of<Boxes>> targets,
                               const box_selection& selection,
                               boxes_view<coordinate_of<Boxes>> grad,
                               const smooth_l1_params& params, threading policy) {
  const auto predictions = detail::boxes_in(given, "smooth_l1_loss_and_grad", "predictions");
  detail::smooth_l1_call<coordinate_of<Boxes>> call{"smooth_l1_loss_and_grad", targets, selection,
                                                    params};
  call.predictions = predictions;
  call.output = detail::loss_output::grad;
  call.out = grad;
  return detail::run_smooth_l1(call, policy);
}

template <class Boxes>
void smooth_l1_loss_unreduced(const Boxes& predictions,
                              boxes_view<const coordinate_of<Boxes>> targets,
                              boxes_view<coordinate_of<Boxes>> loss, const smooth_l1_params& params,
                              threading policy) {
  smooth_l1_loss_unreduced(predictions, targets, box_selection::all(), loss, params, policy);
}

template <class Boxes>
double smooth_l1_loss_and_grad(const Boxes& predictions,
                               boxes_view<const coordinate_of<Boxes>> targets,
                               boxes_view<coordinate_of<Boxes>> grad,
                               const smooth_l1_params& params, threading policy) {
  return smooth_l1_loss_and_grad(predictions, targets, box_selection::all(), grad, params, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
