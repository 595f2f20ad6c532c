// SPDX-License-Identifier: Apache-2.0
// The functions of iou_loss.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/iou_loss.hpp>
#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/stored_boxes.hpp>
#include <vecdet/detail/apart.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/detail/optional_view.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/box_selection.hpp>
#include <vecdet/impl/head_boxes.hpp>
#include <vecdet/impl/scaled.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/iou_loss/iou_loss.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

template <class T>
struct iou_loss_call {
  const char* function;
  iou_kind kind;
  const iou_loss_params& params;
  boxes_view<const T> predicted{}, targets{};
  loss_output output = loss_output::sum;
  boxes_view<T> grad{};
  vector_view<T> loss{};

  void check_params() const {
    check(params.epsilon >= 0 && fits_float(params.epsilon), function, "params.epsilon",
          params.epsilon, "a finite float, 0 or more");
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
  }

  void check_arguments() const {
    const index_t boxes = predicted.size();
    check_params();
    check(targets.size() == boxes, function, "targets.size()", targets.size(),
          "the number of predicted boxes");
    check(params.box_weights.empty() || params.box_weights.size() == boxes, function,
          "params.box_weights.size()", params.box_weights.size(),
          "0 or the number of predicted boxes");
    check(output != loss_output::grad || grad.size() == boxes, function, "grad.size()", grad.size(),
          "the number of predicted boxes");
    check(output != loss_output::loss || loss.size() == boxes, function, "loss.size()", loss.size(),
          "the number of predicted boxes");
    check_apart(function, "loss", loss, "predicted", predicted);
    check_apart(function, "loss", loss, "targets", targets);
    check_apart(function, "loss", loss, "params.box_weights", params.box_weights);
    check_apart_or_same(function, "grad", grad, "predicted", predicted);
    check_apart(function, "grad", grad, "targets", targets);
    check_apart(function, "grad", grad, "params.box_weights", params.box_weights);
  }
};

template <class T>
double run_iou_loss(const iou_loss_call<T>& call, execution policy) {
  call.check_arguments();
  const index_t boxes = call.predicted.size();
  if (boxes == 0) return 0;
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    const index_t written = call.output == loss_output::sum    ? 0
                            : call.output == loss_output::loss ? 1
                                                               : 4;
    return {call.function,
            "boxes",
            dtype_name<T>(),
            {boxes},
            isa_name(target),
            policy.threads(),
            (8 + written) * boxes * index_t{sizeof(T)},
            (call.kind == iou_kind::ciou ? 110 : 60) * boxes};
  });
  const iou_loss_args<T> args{
      call.predicted.data(), call.targets.data(), data_or_null(call.params.box_weights),
      call.params.scale,     call.params.epsilon, call.kind,
      call.output,           call.grad.data(),    call.loss.data()};
  const auto kernel = detail::kernels<iou_loss_kernels<T>>(target).run;
  return scaled(call.params.scale, sum_over_chunks(policy, chunking(boxes, smallest_box_chunk),
                                                   [&](index_t first, index_t last) {
                                                     return kernel(args, first, last);
                                                   }));
}

template <class T, class Input>
double run_level_iou_loss(const char* function, iou_kind kind, const head_view<Input>& predicted,
                          const boxes_view<const T>& targets, const box_selection& selection,
                          const head_view<T>& grad, const vector_view<const float>& image_scales,
                          const iou_loss_params& params, execution policy) {
  iou_loss_call<T> call{function, kind, params};
  call.targets = targets;
  call.output = loss_output::grad;
  call.check_params();
  check_level_boxes(call.function, "predicted", predicted, grad, selection, image_scales,
                    params.box_weights);
  check_level_targets(call.function, predicted, grad, call.targets);
  if (predicted.size() == 0) return 0;
  const isa target = active_isa();
  const profile::scope timing([&] {
    return level_problem(
        call.function, levels_variant(predicted.layout()), predicted, target, policy.threads(),
        level_loss_bytes(predicted, selection, call.targets.size() * bytes_a_box<const T*>),
        (call.kind == iou_kind::ciou ? 110 : 60) * known_size(selection, predicted.size() / 4));
  });
  const auto kernel = detail::kernels<iou_loss_kernels<T>>(target).run;
  const level_boxes_loss<Input, T, T> levels(predicted, grad, selection, image_scales,
                                             params.box_weights);
  return scaled(
      params.scale,
      levels.run_against(
          policy, call.targets,
          [&](const T* in, const T* against, const float* weights, T* out, index_t count) {
            return kernel({in, against, weights, params.scale, params.epsilon, call.kind,
                           loss_output::grad, out, nullptr},
                          0, count);
          }));
}

// Each output of a loss, for the public functions.

template <class T>
double summed_iou_loss(const char* function, iou_kind kind, boxes_view<const T> predicted,
                       boxes_view<const T> targets, const iou_loss_params& params,
                       execution policy) {
  iou_loss_call<T> call{function, kind, params};
  call.predicted = predicted;
  call.targets = targets;
  return run_iou_loss(call, policy);
}
template <class T>
void unreduced_iou_loss(const char* function, iou_kind kind, boxes_view<const T> predicted,
                        boxes_view<const T> targets, vector_view<T> loss,
                        const iou_loss_params& params, execution policy) {
  iou_loss_call<T> call{function, kind, params};
  call.predicted = predicted;
  call.targets = targets;
  call.output = loss_output::loss;
  call.loss = loss;
  run_iou_loss(call, policy);
}
template <class T>
double iou_losses_and_grad(const char* function, iou_kind kind, boxes_view<const T> predicted,
                           boxes_view<const T> targets, boxes_view<T> grad,
                           const iou_loss_params& params, execution policy) {
  iou_loss_call<T> call{function, kind, params};
  call.predicted = predicted;
  call.targets = targets;
  call.output = loss_output::grad;
  call.grad = grad;
  return run_iou_loss(call, policy);
}

}  // namespace detail

template <class T>
double giou_loss(boxes_view<T> predicted, boxes_view<const value_of<T>> targets,
                 const iou_loss_params& params, execution policy) {
  return detail::summed_iou_loss<value_of<T>>("giou_loss", iou_kind::giou, predicted, targets,
                                              params, policy);
}

template <class T>
void giou_loss_unreduced(boxes_view<T> predicted, boxes_view<const value_of<T>> targets,
                         vector_view<value_of<T>> loss, const iou_loss_params& params,
                         execution policy) {
  detail::unreduced_iou_loss<value_of<T>>("giou_loss_unreduced", iou_kind::giou, predicted, targets,
                                          loss, params, policy);
}

template <class T>
double giou_loss_and_grad(const head_view<T>& predicted, boxes_view<const value_of<T>> targets,
                          const box_selection& selection, const head_view<value_of<T>>& grad,
                          vector_view<const float> image_scales, const iou_loss_params& params,
                          execution policy) {
  return detail::run_level_iou_loss<value_of<T>>("giou_loss_and_grad", iou_kind::giou, predicted,
                                                 targets, selection, grad, image_scales, params,
                                                 policy);
}

template <class T>
double giou_loss_and_grad(boxes_view<T> predicted, boxes_view<const value_of<T>> targets,
                          boxes_view<value_of<T>> grad, const iou_loss_params& params,
                          execution policy) {
  return detail::iou_losses_and_grad<value_of<T>>("giou_loss_and_grad", iou_kind::giou, predicted,
                                                  targets, grad, params, policy);
}

template <class T>
double diou_loss(boxes_view<T> predicted, boxes_view<const value_of<T>> targets,
                 const iou_loss_params& params, execution policy) {
  return detail::summed_iou_loss<value_of<T>>("diou_loss", iou_kind::diou, predicted, targets,
                                              params, policy);
}

template <class T>
void diou_loss_unreduced(boxes_view<T> predicted, boxes_view<const value_of<T>> targets,
                         vector_view<value_of<T>> loss, const iou_loss_params& params,
                         execution policy) {
  detail::unreduced_iou_loss<value_of<T>>("diou_loss_unreduced", iou_kind::diou, predicted, targets,
                                          loss, params, policy);
}

template <class T>
double diou_loss_and_grad(const head_view<T>& predicted, boxes_view<const value_of<T>> targets,
                          const box_selection& selection, const head_view<value_of<T>>& grad,
                          vector_view<const float> image_scales, const iou_loss_params& params,
                          execution policy) {
  return detail::run_level_iou_loss<value_of<T>>("diou_loss_and_grad", iou_kind::diou, predicted,
                                                 targets, selection, grad, image_scales, params,
                                                 policy);
}

template <class T>
double diou_loss_and_grad(boxes_view<T> predicted, boxes_view<const value_of<T>> targets,
                          boxes_view<value_of<T>> grad, const iou_loss_params& params,
                          execution policy) {
  return detail::iou_losses_and_grad<value_of<T>>("diou_loss_and_grad", iou_kind::diou, predicted,
                                                  targets, grad, params, policy);
}

template <class T>
double ciou_loss(boxes_view<T> predicted, boxes_view<const value_of<T>> targets,
                 const iou_loss_params& params, execution policy) {
  return detail::summed_iou_loss<value_of<T>>("ciou_loss", iou_kind::ciou, predicted, targets,
                                              params, policy);
}

template <class T>
void ciou_loss_unreduced(boxes_view<T> predicted, boxes_view<const value_of<T>> targets,
                         vector_view<value_of<T>> loss, const iou_loss_params& params,
                         execution policy) {
  detail::unreduced_iou_loss<value_of<T>>("ciou_loss_unreduced", iou_kind::ciou, predicted, targets,
                                          loss, params, policy);
}

template <class T>
double ciou_loss_and_grad(const head_view<T>& predicted, boxes_view<const value_of<T>> targets,
                          const box_selection& selection, const head_view<value_of<T>>& grad,
                          vector_view<const float> image_scales, const iou_loss_params& params,
                          execution policy) {
  return detail::run_level_iou_loss<value_of<T>>("ciou_loss_and_grad", iou_kind::ciou, predicted,
                                                 targets, selection, grad, image_scales, params,
                                                 policy);
}

template <class T>
double ciou_loss_and_grad(boxes_view<T> predicted, boxes_view<const value_of<T>> targets,
                          boxes_view<value_of<T>> grad, const iou_loss_params& params,
                          execution policy) {
  return detail::iou_losses_and_grad<value_of<T>>("ciou_loss_and_grad", iou_kind::ciou, predicted,
                                                  targets, grad, params, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
