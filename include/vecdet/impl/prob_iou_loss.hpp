// SPDX-License-Identifier: Apache-2.0
// The functions of prob_iou_loss.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/impl/box_selection.hpp>
#include <vecdet/impl/optional_view.hpp>
#include <vecdet/impl/rotated_boxes.hpp>
#include <vecdet/impl/scaled.hpp>
#include <vecdet/prob_iou_loss.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

template <class T>
struct prob_iou_loss_call {
  const char* function;
  matrix_view<const T> predicted, targets;
  angle_convention angles;
  const prob_iou_loss_params& params;
  loss_output output = loss_output::sum;
  matrix_view<T> grad{};
  vector_view<T> loss{};

  double run(threading policy) const {
    const angle_rule rule = rule_of(function, angles);
    check_arguments();
    const index_t boxes = predicted.rows();
    if (boxes == 0) return 0;
    const isa target = active_isa();
    const profile::scope timing([&]() -> profile::problem {
      const index_t written = output == loss_output::sum ? 0 : output == loss_output::loss ? 1 : 5;
      return {function,
              "boxes",
              dtype_name<T>(),
              {boxes},
              isa_name(target),
              policy.threads(),
              (10 + written) * boxes * index_t{sizeof(T)},
              200 * boxes};
    });
    const prob_iou_loss_args<T> args{
        predicted.data(), targets.data(), predicted.stride(),
        targets.stride(), rule,           data_or_null(params.box_weights),
        params.scale,     output,         grad.data(),
        grad.stride(),    loss.data()};
    const auto kernel = kernels<rotated_boxes_kernels<T>>(target).prob_iou_loss;
    return scaled(
        params.scale,
        sum_over_chunks(policy, chunking(boxes, smallest_conversion_chunk, 16),
                        [&](index_t first, index_t last) { return kernel(args, first, last); }));
  }

 private:
  void check_arguments() const {
    const index_t boxes = predicted.rows();
    check_rotated(function, "predicted.cols()", predicted);
    check_rotated(function, "targets.cols()", targets);
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
    check_size(function, "targets.rows()", targets.rows(), boxes, "the number of predicted boxes");
    check_optional_size(function, "params.box_weights.size()", params.box_weights.size(), boxes,
                        "the number of predicted boxes");
    if (output == loss_output::grad) {
      check_size(function, "grad.rows()", grad.rows(), boxes, "the number of predicted boxes");
      check_rotated(function, "grad.cols()", grad);
    }
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

}  // namespace detail

template <class T>
double prob_iou_loss(matrix_view<T> predicted, matrix_view<const value_of<T>> targets,
                     angle_convention angles, const prob_iou_loss_params& params,
                     threading policy) {
  const detail::prob_iou_loss_call<value_of<T>> call{"prob_iou_loss", predicted, targets, angles,
                                                     params};
  return call.run(policy);
}

template <class T>
void prob_iou_loss_unreduced(matrix_view<T> predicted, matrix_view<const value_of<T>> targets,
                             angle_convention angles, vector_view<value_of<T>> loss,
                             const prob_iou_loss_params& params, threading policy) {
  detail::prob_iou_loss_call<value_of<T>> call{"prob_iou_loss_unreduced", predicted, targets,
                                               angles, params};
  call.output = detail::loss_output::loss;
  call.loss = loss;
  call.run(policy);
}

template <class T>
double prob_iou_loss_and_grad(matrix_view<T> predicted, matrix_view<const value_of<T>> targets,
                              angle_convention angles, matrix_view<value_of<T>> grad,
                              const prob_iou_loss_params& params, threading policy) {
  detail::prob_iou_loss_call<value_of<T>> call{"prob_iou_loss_and_grad", predicted, targets, angles,
                                               params};
  call.output = detail::loss_output::grad;
  call.grad = grad;
  return call.run(policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
