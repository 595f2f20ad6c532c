// SPDX-License-Identifier: Apache-2.0
// The functions of iou_loss.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/iou_loss.hpp>
#include <vecdet/args/loss_output.hpp>
#include <vecdet/args/stored_boxes.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/box_loss_names.hpp>
#include <vecdet/impl/box_selection.hpp>
#include <vecdet/impl/head_boxes.hpp>
#include <vecdet/impl/optional_view.hpp>
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
    check(kind == iou_kind::giou || kind == iou_kind::diou || kind == iou_kind::ciou, function,
          "kind", "iou", "giou, diou or ciou");
    check(params.epsilon >= 0 && fits_float(params.epsilon), function, "params.epsilon",
          params.epsilon, "a finite float, 0 or more");
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
  }

  void check_arguments() const {
    const index_t boxes = predicted.size();
    check_params();
    check_size(function, "targets.size()", targets.size(), boxes, "the number of predicted boxes");
    check_optional_size(function, "params.box_weights.size()", params.box_weights.size(), boxes,
                        "the number of predicted boxes");
    if (output == loss_output::grad)
      check_size(function, "grad.size()", grad.size(), boxes, "the number of predicted boxes");
    if (output == loss_output::loss)
      check_size(function, "loss.size()", loss.size(), boxes, "the number of predicted boxes");
    check_apart(function, "loss", loss, "predicted", predicted);
    check_apart(function, "loss", loss, "targets", targets);
    check_apart(function, "loss", loss, "params.box_weights", params.box_weights);
    check_apart_or_same(function, "grad", grad, "predicted", predicted);
    check_apart(function, "grad", grad, "targets", targets);
    check_apart(function, "grad", grad, "params.box_weights", params.box_weights);
  }
};

template <class T>
double run_iou_loss(const iou_loss_call<T>& call, threading policy) {
  call.check_arguments();
  const index_t boxes = call.predicted.size();
  if (boxes == 0) return 0;
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    const index_t written = call.output == loss_output::sum    ? 0
                            : call.output == loss_output::loss ? 1
                                                               : 4;
    return {call.function,
            box_loss_name(box_loss_of(call.kind)),
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
                          const iou_loss_params& params, threading policy) {
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
        call.function, box_loss_name(box_loss_of(kind), source_of(predicted.layout())), predicted,
        target, policy.threads(),
        level_loss_bytes(predicted, selection, call.targets.size() * bytes_per_box<const T*>),
        (call.kind == iou_kind::ciou ? 110 : 60) * known_size(selection, predicted.size() / 4));
  });
  const auto kernel = detail::kernels<iou_loss_kernels<T>>(target).run;
  const level_boxes_loss<Input, T, T> levels(target, predicted, grad, selection, image_scales,
                                             params.box_weights);
  return scaled(params.scale,
                levels.run_against(policy, call.targets, [&](const loss_boxes<T, T>& boxes) {
                  return kernel({boxes.in, boxes.targets, boxes.weights, params.scale,
                                 params.epsilon, call.kind, loss_output::grad, boxes.grad, nullptr},
                                0, boxes.count);
                }));
}

}  // namespace detail

template <class Boxes>
double iou_loss(const Boxes& given, boxes_view<const coordinate_of<Boxes>> targets, iou_kind kind,
                const iou_loss_params& params, threading policy) {
  const auto predicted = detail::boxes_in(given, "iou_loss", "predicted");
  detail::iou_loss_call<coordinate_of<Boxes>> call{"iou_loss", kind, params};
  call.predicted = predicted;
  call.targets = targets;
  return run_iou_loss(call, policy);
}

template <class Boxes>
void iou_loss_unreduced(const Boxes& given, boxes_view<const coordinate_of<Boxes>> targets,
                        vector_view<coordinate_of<Boxes>> loss, iou_kind kind,
                        const iou_loss_params& params, threading policy) {
  const auto predicted = detail::boxes_in(given, "iou_loss_unreduced", "predicted");
  detail::iou_loss_call<coordinate_of<Boxes>> call{"iou_loss_unreduced", kind, params};
  call.predicted = predicted;
  call.targets = targets;
  call.output = detail::loss_output::loss;
  call.loss = loss;
  run_iou_loss(call, policy);
}

template <class Boxes>
double iou_loss_and_grad(const Boxes& given, boxes_view<const coordinate_of<Boxes>> targets,
                         boxes_view<coordinate_of<Boxes>> grad, iou_kind kind,
                         const iou_loss_params& params, threading policy) {
  const auto predicted = detail::boxes_in(given, "iou_loss_and_grad", "predicted");
  detail::iou_loss_call<coordinate_of<Boxes>> call{"iou_loss_and_grad", kind, params};
  call.predicted = predicted;
  call.targets = targets;
  call.output = detail::loss_output::grad;
  call.grad = grad;
  return run_iou_loss(call, policy);
}

template <class T>
double iou_loss_and_grad(const head_view<T>& predicted, boxes_view<const value_of<T>> targets,
                         const box_selection& selection, const head_view<value_of<T>>& grad,
                         iou_kind kind, vector_view<const float> image_scales,
                         const iou_loss_params& params, threading policy) {
  return detail::run_level_iou_loss<value_of<T>>("iou_loss_and_grad", kind, predicted, targets,
                                                 selection, grad, image_scales, params, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
