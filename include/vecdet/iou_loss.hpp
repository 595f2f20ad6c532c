// SPDX-License-Identifier: Apache-2.0
// GIoU, DIoU and CIoU losses of predicted boxes, forward and backward in one pass over memory, as
// torchvision.ops.giou_loss, distance_box_iou_loss and complete_box_iou_loss:
//
//   IoU  = I / (U + eps)                       I = 0 unless both overlaps are above 0
//   GIoU loss = 1 - IoU + (C - U) / (C + eps)
//   DIoU loss = 1 - IoU + rho^2 / (c^2 + eps)
//   CIoU loss = DIoU loss + alpha v,           alpha = v / (1 - IoU + v + eps) held constant,
//                                              and 0 where v is: 0 / 0 of equal boxes at eps = 0
//
// with I, U, C the areas of intersection, union and enclosing box; see iou.hpp for the rest and the
// papers. Where a side of the prediction equals the target's, half of the gradient of min and max
// goes to either, as in autograd.
//
// Boxes are N x 4 corners of float, bfloat16 or double.
//
// Accuracy: in float, losses within 1e-6; a gradient within 16 ulp of the largest of the terms that
// it is the sum of: where they cancel, no better. Sums are accumulated in double. bfloat16 results
// are such floats rounded once. Degenerate boxes are data: without area, eps keeps the losses
// finite; but CIoU's v, 0/0 of a box whose width and height are both 0, is NaN. NaN coordinates
// give NaN. In float, areas overflow from sides of 1e19 on.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, `loss` shares
// memory with an input, eps is negative, or a number among the parameters is not a finite float
// (box weights are data).
#pragma once

#include <vecdet/args/iou_loss.hpp>
#include <vecdet/box_selection.hpp>
#include <vecdet/detail/apart.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/detail/optional_view.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/iou_loss/iou_loss.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

struct iou_loss_params {
  double epsilon = 1e-7;  ///< 0 or more
  double scale = 1;       ///< factor on losses, sum and gradient; 1 / N gives the mean
  /// A further factor for each box; empty: all 1.
  lasting<vector_view<const float>> box_weights;
};

namespace detail {

template <class T>
struct iou_loss_call {
  const char* function;
  iou_kind kind;
  boxes_view<const T> predicted, targets;
  const iou_loss_params& params;
  box_loss_output output;
  boxes_view<T> grad;
  vector_view<T> loss;

  void check_arguments() const {
    const index_t boxes = predicted.size();
    check(params.epsilon >= 0 && fits_float(params.epsilon), function, "params.epsilon",
          params.epsilon, "a finite float, 0 or more");
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
    check(targets.size() == boxes, function, "targets.size()", targets.size(),
          "the number of predicted boxes");
    check(params.box_weights.empty() || params.box_weights.size() == boxes, function,
          "params.box_weights.size()", params.box_weights.size(),
          "0 or the number of predicted boxes");
    check(output != box_loss_output::grad || grad.size() == boxes, function, "grad.size()",
          grad.size(), "the number of predicted boxes");
    check(output != box_loss_output::loss || loss.size() == boxes, function, "loss.size()",
          loss.size(), "the number of predicted boxes");
    check_apart(function, "loss", loss, "predicted", predicted);
    check_apart(function, "loss", loss, "targets", targets);
  }
};

}  // namespace detail

namespace detail_iou_loss {

template <class T>
double run(const detail::iou_loss_call<T>& call, execution policy) {
  call.check_arguments();
  const index_t boxes = call.predicted.size();
  if (boxes == 0) return 0;
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    const index_t written = call.output == detail::box_loss_output::sum    ? 0
                            : call.output == detail::box_loss_output::loss ? 1
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
  const detail::iou_loss_args<T> args{
      call.predicted.data(), call.targets.data(), detail::data_or_null(call.params.box_weights),
      call.params.scale,     call.params.epsilon, call.kind,
      call.output,           call.grad.data(),    call.loss.data()};
  const auto kernel = detail::kernels<detail::iou_loss_kernels<T>>(target).run;
  return call.params.scale *
         detail::sum_over_chunks(
             policy, detail::chunking(boxes, detail::smallest_box_chunk),
             [&](index_t first, index_t last) { return kernel(args, first, last); });
}

template <class T>
double sum(const char* function, iou_kind kind, boxes_view<const T> predicted,
           boxes_view<const T> targets, const iou_loss_params& params, execution policy) {
  return run<T>({function, kind, predicted, targets, params, detail::box_loss_output::sum, {}, {}},
                policy);
}
template <class T>
void unreduced(const char* function, iou_kind kind, boxes_view<const T> predicted,
               boxes_view<const T> targets, vector_view<T> loss, const iou_loss_params& params,
               execution policy) {
  run<T>({function, kind, predicted, targets, params, detail::box_loss_output::loss, {}, loss},
         policy);
}
template <class T>
double with_grad(const char* function, iou_kind kind, boxes_view<const T> predicted,
                 boxes_view<const T> targets, boxes_view<T> grad, const iou_loss_params& params,
                 execution policy) {
  return run<T>(
      {function, kind, predicted, targets, params, detail::box_loss_output::grad, grad, {}},
      policy);
}

}  // namespace detail_iou_loss

// For each loss: the sum over all boxes; the loss of each box into `loss`; and the sum with its
// gradient by the predicted boxes into `grad`, N x 4, which may be the predicted boxes' own memory.
#define VECDET_IOU_LOSS(name)                                                                      \
  template <class T>                                                                               \
  double name##_loss(boxes_view<T> predicted, boxes_view<const std::remove_const_t<T>> targets,    \
                     const iou_loss_params& params = {}, execution policy = execution::parallel) { \
    return detail_iou_loss::sum<std::remove_const_t<T>>(#name "_loss", iou_kind::name, predicted,  \
                                                        targets, params, policy);                  \
  }                                                                                                \
  template <class T>                                                                               \
  void name##_loss_unreduced(                                                                      \
      boxes_view<T> predicted, boxes_view<const std::remove_const_t<T>> targets,                   \
      vector_view<std::remove_const_t<T>> loss, const iou_loss_params& params = {},                \
      execution policy = execution::parallel) {                                                    \
    detail_iou_loss::unreduced<std::remove_const_t<T>>(#name "_loss_unreduced", iou_kind::name,    \
                                                       predicted, targets, loss, params, policy);  \
  }                                                                                                \
  template <class T>                                                                               \
  double name##_loss_and_grad(                                                                     \
      boxes_view<T> predicted, boxes_view<const std::remove_const_t<T>> targets,                   \
      boxes_view<std::remove_const_t<T>> grad, const iou_loss_params& params = {},                 \
      execution policy = execution::parallel) {                                                    \
    return detail_iou_loss::with_grad<std::remove_const_t<T>>(                                     \
        #name "_loss_and_grad", iou_kind::name, predicted, targets, grad, params, policy);         \
  }

VECDET_IOU_LOSS(giou)
VECDET_IOU_LOSS(diou)
VECDET_IOU_LOSS(ciou)

#undef VECDET_IOU_LOSS

}  // namespace VECDET_ABI
}  // namespace vecdet
