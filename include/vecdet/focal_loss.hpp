// SPDX-License-Identifier: Apache-2.0
// Sigmoid focal loss, forward and backward in one pass over memory.
//
// Lin, Goyal, Girshick, He, Dollar: "Focal Loss for Dense Object Detection", arXiv 1708.02002,
// equation 5. With p = 1 / (1 + exp(-x)) and softplus(x) = log(1 + exp(x)):
//
//   positive   L = alpha (1-p)^gamma softplus(-x)
//              dL/dx = -alpha (1-p)^gamma (gamma p softplus(-x) + 1-p)
//   negative   L = (1-alpha) p^gamma softplus(x)
//              dL/dx = (1-alpha) p^gamma (gamma (1-p) softplus(x) + p)
//
// and for a target t in [0, 1], as torchvision has it: L = alpha_t (1-p_t)^gamma ce with
// p_t = p t + (1-p)(1-t), alpha_t = alpha t + (1-alpha)(1-t), ce = t softplus(-x) + (1-t)
// softplus(x).
//
// Logits are rows x classes, of float, bfloat16 or double, with any row stride. Targets are one of
//   labels    a class, background or ignore value for each row: no one-hot tensor is made or read
//   targets   a matrix of the logits' shape and type with numbers in [0, 1]
//
// Accuracy: in float, losses and gradients within 8 ulp of the exact value wherever that is above
// 1e-30. bfloat16 results are such floats rounded once. gamma 0, 1 and 2 are fast; other gammas,
// and targets other than 0 and 1, are computed in double. Sums are accumulated in double from sums
// of 16 floats: of logits beyond 2e37, which no network gives, a sum may be inf. At infinite logits
// the functions take their limits (a negative at +inf: loss inf, gradient 1-alpha; at -inf: 0 and
// 0); NaN gives NaN, in its own element and in the sum.
//
// Every function throws std::invalid_argument, and writes nothing, when shapes differ, a row stride
// overlaps, a label is not 0 .. classes-1, background or ignore, gamma is negative, alpha above 1,
// or a number among the parameters is not a finite float (row weights are data).
#pragma once

#include <vecdet/args/focal_loss.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/detail/optional_view.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <limits>
#include <numeric>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/focal_loss/focal_loss.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

/// How the losses of all elements become one number. Of no elements, the sum is 0 and the mean NaN.
enum class reduction {
  sum,
  mean,  ///< the sum over rows x classes, as torchvision's
};

struct focal_loss_params {
  double alpha = 0.25;  ///< weight of positives, 1-alpha of negatives; negative: both weigh 1
  double gamma = 2;     ///< focusing exponent, 0 or more
  double scale = 1;     ///< factor on loss and gradient; trainers use 1 / max(1, foreground)
  vecdet::reduction reduction = vecdet::reduction::sum;
  index_t background = -1;  ///< label of rows in which every class is negative
  index_t ignore = -2;      ///< label of rows that count nothing: loss 0 and gradient 0
  /// A further factor for each row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

/// What the logits are compared with: one label a row, or dense targets in [0, 1] of the logits'
/// shape. Converts from whatever labels_view or matrix_view<const T> converts from.
template <class T>
class focal_targets {
 public:
  template <class Labels,
            std::enable_if_t<std::is_convertible<Labels&&, labels_view>::value, int> = 0>
  focal_targets(Labels&& labels) : labels_(labels), are_labels_(true) {}

  focal_targets(matrix_view<const T> dense) noexcept : dense_(dense) {}
  focal_targets(matrix_view<T> dense) noexcept : dense_(dense) {}

  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  focal_targets& operator=(Owner&& ends_with_the_statement) = delete;

  bool are_labels() const noexcept { return are_labels_; }
  const labels_view& labels() const noexcept { return labels_; }
  const matrix_view<const T>& dense() const noexcept { return dense_; }

 private:
  labels_view labels_;
  matrix_view<const T> dense_;
  bool are_labels_ = false;
};

namespace detail {

/// One call of a function of this header.
template <class T>
struct focal_call {
  const char* function;
  matrix_view<const T> logits;
  const focal_targets<T>& targets;
  const focal_loss_params& params;
  focal_output output;
  matrix_view<T> out;  ///< the loss or the gradient, by `output`
  matrix_view<const T> upstream;
  double scale;  ///< on top of params.scale

  void check_matrix(const char* argument, index_t rows, index_t cols) const {
    check(rows == logits.rows(), function, (std::string(argument) + ".rows()").c_str(), rows,
          "the rows of logits");
    check(cols == logits.cols(), function, (std::string(argument) + ".cols()").c_str(), cols,
          "the columns of logits");
  }

  void check_arguments() const {
    check(params.gamma >= 0 && is_finite(params.gamma), function, "params.gamma", params.gamma,
          "a finite number, 0 or more");
    check(params.alpha <= 1 && is_finite(params.alpha), function, "params.alpha", params.alpha,
          "a number in [0, 1], or a negative one for no weighting");
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
    check(fits_float(scale), function, "upstream", scale, "a finite float");
    check(params.row_weights.empty() || params.row_weights.size() == logits.rows(), function,
          "params.row_weights.size()", params.row_weights.size(), "0 or the rows of logits");
    if (output == focal_output::loss) check_matrix("loss", out.rows(), out.cols());
    if (output == focal_output::grad) check_matrix("grad", out.rows(), out.cols());
    if (output == focal_output::upstream_times_grad) {
      check_matrix("grad", out.rows(), out.cols());
      check_matrix("upstream", upstream.rows(), upstream.cols());
    }
    if (targets.are_labels()) {
      check(params.background != params.ignore, function, "params.ignore", params.ignore,
            "a value other than params.background");
      check(targets.labels().size() == logits.rows(), function, "labels.size()",
            targets.labels().size(), "the rows of logits");
    } else {
      check_matrix("targets", targets.dense().rows(), targets.dense().cols());
    }
  }

  void check_labels(const focal_loss_kernels<T>& kernels) const {
    const labels_view& labels = targets.labels();
    const index_t i =
        kernels.find_invalid_label(labels, logits.cols(), params.background, params.ignore);
    if (i < labels.size()) {
      throw_invalid_argument(function, element("labels", i).c_str(), label_text(labels, i),
                             "0 to classes-1, the background value or the ignore value");
    }
  }

  focal_loss_args<T> kernel_args() const {
    const bool reduced = output == focal_output::sum || output == focal_output::grad;
    const double weight =
        params.scale * scale /
        (reduced && params.reduction == reduction::mean ? static_cast<double>(logits.size()) : 1.0);
    focal_loss_args<T> args{};
    args.logits = logits.data();
    args.cols = logits.cols();
    args.logits_stride = logits.stride();
    args.labels = targets.labels();
    args.targets = targets.dense().data();
    args.targets_stride = targets.dense().stride();
    args.background = params.background;
    args.ignore = params.ignore;
    args.row_weights = data_or_null(params.row_weights);
    args.positive_weight = params.alpha < 0 ? weight : weight * params.alpha;
    args.negative_weight = params.alpha < 0 ? weight : weight * (1 - params.alpha);
    args.gamma = params.gamma;
    args.output = output;
    args.out = out.data();
    args.out_stride = out.stride();
    args.upstream = upstream.data();
    args.upstream_stride = upstream.stride();
    return args;
  }

  profile::problem problem(isa target, int threads) const {
    const bool dense = !targets.are_labels();
    const index_t tensors =
        1 + dense + (output != focal_output::sum) + (output == focal_output::upstream_times_grad);
    const index_t label_bytes = dense ? 0 : logits.rows() * index_t{sizeof(index_t)};
    constexpr index_t flops_a_logit = 44;  // multiplications and additions of the fast equation
    return {function,
            dense ? "dense" : "labels",
            dtype_name<T>(),
            {logits.rows(), logits.cols()},
            isa_name(target),
            threads,
            tensors * logits.size() * index_t{sizeof(T)} + label_bytes,
            flops_a_logit * logits.size()};
  }
};

}  // namespace detail

namespace detail_focal {

template <class T>
double run(const detail::focal_call<T>& call, execution policy) {
  const isa target = active_isa();
  const auto& kernels = detail::kernels<detail::focal_loss_kernels<T>>(target);
  call.check_arguments();
  if (call.targets.are_labels()) call.check_labels(kernels);
  const matrix_view<const T>& logits = call.logits;
  if (logits.empty()) {
    return call.params.reduction == reduction::mean ? std::numeric_limits<double>::quiet_NaN() : 0;
  }
  const profile::scope timing([&] { return call.problem(target, policy.threads()); });
  const auto rows = call.targets.are_labels() ? kernels.from_labels : kernels.from_targets;
  const detail::focal_loss_args<T> args = call.kernel_args();
  constexpr index_t smallest_chunk = 16384;  // elements: some microseconds
  // Rows that fill whole blocks: their last one need not be padded.
  const index_t whole = detail::focal_block / std::gcd(logits.cols(), index_t{detail::focal_block});
  return detail::sum_over_chunks(
      policy, detail::chunking(logits.rows(), 1 + smallest_chunk / logits.cols(), whole),
      [&](index_t first, index_t last) { return rows(args, first, last); });
}

}  // namespace detail_focal

/// The reduced loss of `logits`, rows x classes.
template <class T>
double sigmoid_focal_loss(matrix_view<T> logits,
                          const focal_targets<std::remove_const_t<T>>& targets,
                          const focal_loss_params& params = {},
                          execution policy = execution::parallel) {
  return detail_focal::run<std::remove_const_t<T>>(
      {"sigmoid_focal_loss", logits, targets, params, detail::focal_output::sum, {}, {}, 1},
      policy);
}

/// The loss of each element into `loss`, of the logits' shape; params.reduction does not apply.
template <class T>
void sigmoid_focal_loss_unreduced(matrix_view<T> logits,
                                  const focal_targets<std::remove_const_t<T>>& targets,
                                  matrix_view<std::remove_const_t<T>> loss,
                                  const focal_loss_params& params = {},
                                  execution policy = execution::parallel) {
  detail_focal::run<std::remove_const_t<T>>({"sigmoid_focal_loss_unreduced",
                                             logits,
                                             targets,
                                             params,
                                             detail::focal_output::loss,
                                             loss,
                                             {},
                                             1},
                                            policy);
}

/// The reduced loss, and its gradient by the logits into `grad`, in one pass over memory. `grad`
/// has the logits' shape, and may be the logits' own memory with the same stride.
template <class T>
double sigmoid_focal_loss_and_grad(matrix_view<T> logits,
                                   const focal_targets<std::remove_const_t<T>>& targets,
                                   matrix_view<std::remove_const_t<T>> grad,
                                   const focal_loss_params& params = {},
                                   execution policy = execution::parallel) {
  return detail_focal::run<std::remove_const_t<T>>({"sigmoid_focal_loss_and_grad",
                                                    logits,
                                                    targets,
                                                    params,
                                                    detail::focal_output::grad,
                                                    grad,
                                                    {},
                                                    1},
                                                   policy);
}

/// The gradient of the reduced loss times `upstream`, the gradient that arrives at it.
template <class T>
void sigmoid_focal_loss_grad(matrix_view<T> logits,
                             const focal_targets<std::remove_const_t<T>>& targets, double upstream,
                             matrix_view<std::remove_const_t<T>> grad,
                             const focal_loss_params& params = {},
                             execution policy = execution::parallel) {
  detail_focal::run<std::remove_const_t<T>>({"sigmoid_focal_loss_grad",
                                             logits,
                                             targets,
                                             params,
                                             detail::focal_output::grad,
                                             grad,
                                             {},
                                             upstream},
                                            policy);
}

/// The gradient of the unreduced losses, each times its element of `upstream`, which has the
/// logits' shape; params.reduction does not apply.
template <class T>
void sigmoid_focal_loss_grad(matrix_view<T> logits,
                             const focal_targets<std::remove_const_t<T>>& targets,
                             matrix_view<const std::remove_const_t<T>> upstream,
                             matrix_view<std::remove_const_t<T>> grad,
                             const focal_loss_params& params = {},
                             execution policy = execution::parallel) {
  detail_focal::run<std::remove_const_t<T>>(
      {"sigmoid_focal_loss_grad", logits, targets, params,
       detail::focal_output::upstream_times_grad, grad, upstream, 1},
      policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
