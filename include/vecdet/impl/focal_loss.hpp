// SPDX-License-Identifier: Apache-2.0
// The functions of focal_loss.hpp on matrices: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/focal_loss.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/focal_loss.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/find_first.hpp>
#include <vecdet/impl/input_checks.hpp>
#include <vecdet/impl/optional_view.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <limits>
#include <numeric>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/focal_loss/focal_loss.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

inline void check_focusing(const char* function, double alpha, double gamma) {
  check(gamma >= 0 && fits_float(gamma), function, "params.gamma", gamma,
        "a finite float, 0 or more");
  check(alpha <= 1 && fits_float(alpha), function, "params.alpha", alpha,
        "a number in [0, 1], or a negative one for no weighting");
}

/// One call of a focal or soft-target loss.
template <class T>
struct focal_call {
  const char* function;
  const focal_targets<T>& targets;
  const focal_loss_params& params;
  matrix_view<const T> logits{};
  focal_output output = focal_output::sum;
  matrix_view<T> out{};  ///< the loss or the gradient, depending on `output`
  matrix_view<const T> upstream{};
  double scale = 1;  ///< multiplied with params.scale
  labelled_loss labelled = labelled_loss::focal;
  const char* scored_variant = "scored";  ///< the profiler's name for scored labels
  double negative_weight = 1;             ///< an additional factor on negatives
  double focusing = 1;  ///< 0: the gradient treats the modulating factor as constant
  const char* rows_are = "the rows of logits";  ///< the description of rows in messages

  void check_matrix(const char* argument, index_t rows, index_t cols) const {
    check_size(function, (std::string(argument) + ".rows()").c_str(), rows, logits.rows(),
               "the rows of logits");
    check_size(function, (std::string(argument) + ".cols()").c_str(), cols, logits.cols(),
               "the columns of logits");
  }

  void check_arguments() const {
    check_focusing(function, params.alpha, params.gamma);
    check(fits_float(params.scale), function, "params.scale", params.scale, "a finite float");
    check(fits_float(scale), function, "upstream", scale, "a finite float");
    check_optional_size(function, "params.row_weights.size()", params.row_weights.size(),
                        logits.rows(), "the rows of logits");
    if (output == focal_output::loss) check_matrix("loss", out.rows(), out.cols());
    if (output == focal_output::grad) check_matrix("grad", out.rows(), out.cols());
    if (output == focal_output::upstream_times_grad) {
      check_matrix("grad", out.rows(), out.cols());
      check_matrix("upstream", upstream.rows(), upstream.cols());
    }
    if (targets.are_labels()) {
      check(params.background != params.ignore, function, "params.ignore", params.ignore,
            "a value other than params.background");
      check_size(function, "labels.size()", targets.labels().size(), logits.rows(), rows_are);
      if (targets.are_scored())
        check_size(function, "scores.size()", targets.scores().size(), logits.rows(), rows_are);
    } else {
      check_matrix("targets", targets.dense().rows(), targets.dense().cols());
    }
  }

  /// The gradient may overwrite the logits, because each block is read before it is written.
  void check_memory() const {
    if (output == focal_output::sum) return;
    const bool is_grad = output != focal_output::loss;
    const char* const name = is_grad ? "grad" : "loss";
    if (is_grad) {
      check_apart_or_same(function, name, out, "logits", logits);
    } else {
      check_apart(function, name, out, "logits", logits);
    }
    check_apart(function, name, out, "labels", targets.labels());
    check_apart(function, name, out, "scores", targets.scores());
    check_apart(function, name, out, "targets", targets.dense());
    check_apart(function, name, out, "params.row_weights", params.row_weights);
    check_apart(function, name, out, "upstream", upstream);
  }

  void check_labels(const focal_loss_kernels<T>& kernels, threading policy) const {
    constexpr index_t smallest_chunk = 16384;
    const labels_view& labels = targets.labels();
    const index_t i =
        find_first(chunking(labels.size(), smallest_chunk), labels.size(), policy,
                   [&](index_t first, index_t last) {
                     return kernels.find_invalid_label(labels, first, last, logits.cols(),
                                                       params.background, params.ignore);
                   });
    if (i < labels.size()) {
      throw_invalid_argument(
          function, element("labels", i), label_text(labels, i),
          index_range(logits.cols(), "classes") + ", " + std::to_string(params.background) +
              " or " + std::to_string(params.ignore) + label_hint(labels[i], logits.cols()));
    }
  }

  void look_at_targets() const {
    if (!targets.are_scored()) return;
    look_at_scores(function, "scores", targets.scores(), [&](index_t i) {
      const index_t label = targets.labels()[i];
      return label != params.background && label != params.ignore;
    });
  }

  focal_loss_args<T> kernel_args() const {
    const bool reduced = output == focal_output::sum || output == focal_output::grad;
    const bool is_mean = reduced && params.reduction == reduction::mean;
    const double weight =
        quotient(params.scale * scale, is_mean ? static_cast<double>(logits.size()) : 1.0);
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
    args.scores = targets.are_scored() ? targets.scores().data() : nullptr;
    args.labelled = labelled;
    args.positive_weight = params.alpha < 0 ? weight : weight * params.alpha;
    args.negative_weight =
        rounded(params.alpha < 0 ? weight : weight * (1 - params.alpha)) * negative_weight;
    args.gamma = params.gamma;
    args.focusing = focusing;
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
    const index_t label_bytes =
        dense ? 0
              : logits.rows() * (index_t{sizeof(index_t)} +
                                 (targets.are_scored() ? index_t{sizeof(float)} : 0));
    constexpr index_t flops_per_logit = 44;  // multiplications and additions of the fast equation
    return {function,
            dense                  ? "dense"
            : targets.are_scored() ? scored_variant
                                   : "labels",
            dtype_name<T>(),
            {logits.rows(), logits.cols()},
            isa_name(target),
            threads,
            tensors * logits.size() * index_t{sizeof(T)} + label_bytes,
            flops_per_logit * logits.size()};
  }
};

template <class T>
double run_focal_loss(const focal_call<T>& call, threading policy) {
  const isa target = active_isa();
  const auto& kernels = detail::kernels<focal_loss_kernels<T>>(target);
  call.check_arguments();
  call.check_memory();
  if (call.targets.are_labels()) call.check_labels(kernels, policy);
  call.look_at_targets();
  const matrix_view<const T>& logits = call.logits;
  if (logits.empty()) {
    return call.params.reduction == reduction::mean ? std::numeric_limits<double>::quiet_NaN() : 0;
  }
  const profile::scope timing([&] { return call.problem(target, policy.threads()); });
  const focal_loss_args<T> args = call.kernel_args();
  constexpr index_t smallest_chunk = 16384;  // elements: a few microseconds
  // Rows that fill whole blocks, so that the last block needs no padding.
  const index_t whole = focal_block / std::gcd(logits.cols(), index_t{focal_block});
  return sum_over_chunks(
      policy, chunking(logits.rows(), 1 + smallest_chunk / logits.cols(), whole),
      [&](index_t first, index_t last) { return kernels.compute_rows(args, first, last); });
}

}  // namespace detail

template <class T>
double sigmoid_focal_loss(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                          const focal_loss_params& params, threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss", targets, params};
  call.logits = logits;
  return detail::run_focal_loss(call, policy);
}

template <class T>
void sigmoid_focal_loss_unreduced(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                                  matrix_view<value_of<T>> loss, const focal_loss_params& params,
                                  threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss_unreduced", targets, params};
  call.logits = logits;
  call.output = detail::focal_output::loss;
  call.out = loss;
  detail::run_focal_loss(call, policy);
}

template <class T>
double sigmoid_focal_loss_and_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                                   matrix_view<value_of<T>> grad, const focal_loss_params& params,
                                   threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss_and_grad", targets, params};
  call.logits = logits;
  call.output = detail::focal_output::grad;
  call.out = grad;
  return detail::run_focal_loss(call, policy);
}

template <class T>
void sigmoid_focal_loss_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                             double upstream, matrix_view<value_of<T>> grad,
                             const focal_loss_params& params, threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss_grad", targets, params};
  call.logits = logits;
  call.output = detail::focal_output::grad;
  call.out = grad;
  call.scale = upstream;
  detail::run_focal_loss(call, policy);
}

template <class T>
void sigmoid_focal_loss_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                             matrix_view<const value_of<T>> upstream, matrix_view<value_of<T>> grad,
                             const focal_loss_params& params, threading policy) {
  detail::focal_call<value_of<T>> call{"sigmoid_focal_loss_grad", targets, params};
  call.logits = logits;
  call.output = detail::focal_output::upstream_times_grad;
  call.out = grad;
  call.upstream = upstream;
  detail::run_focal_loss(call, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
