// SPDX-License-Identifier: Apache-2.0
// The functions of ctc_loss.hpp: checks, the profiler's scope, samples and rows in chunks.
#pragma once

#include <vecdet/args/ctc_loss.hpp>
#include <vecdet/ctc_loss.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/chunks_with_memory.hpp>
#include <vecdet/impl/scaled.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <limits>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/ctc_loss/ctc_loss.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class T>
address_range sequences_range(const sequences_view<T>& view) {
  if (view.empty()) return {view.data(), 0};
  return {view.data(), (view.steps() - 1) * view.step_stride() +
                           (view.samples() - 1) * view.sample_stride() + view.classes()};
}

/// A call with logits of T.
template <class T>
class ctc_call {
 public:
  ctc_call(const char* function, const sequences_view<const T>& logits, const ctc_targets& targets,
           vector_view<const index_t> input_lengths, const ctc_params& params,
           ctc_workspace& workspace, threading policy)
      : function_(function),
        logits_(logits),
        targets_(targets),
        input_lengths_(input_lengths),
        params_(params),
        buffers_(workspace_access::buffers(workspace)),
        policy_(policy) {
    check_inputs();
  }

  double run() { return run(nullptr); }
  void run_unreduced(const vector_view<compute_type<T>>& loss) {
    check_size(function_, "loss.size()", loss.size(), logits_.samples(), "the number of samples");
    check_output("loss", loss, false);
    run(loss.data());
  }
  double run_grad(const sequences_view<T>& grad) {
    check_size(function_, "grad.steps()", grad.steps(), logits_.steps(), "the logits' steps");
    check_size(function_, "grad.samples()", grad.samples(), logits_.samples(),
               "the logits' samples");
    check_size(function_, "grad.classes()", grad.classes(), logits_.classes(),
               "the logits' classes");
    const bool has_their_strides = (grad.step_stride() == logits_.step_stride() &&
                                    grad.sample_stride() == logits_.sample_stride());
    check_output("grad", sequences_range(grad), has_their_strides);
    grad_ = grad;
    return run(nullptr);
  }

 private:
  void check_inputs() {
    const index_t samples = logits_.samples(), classes = logits_.classes();
    check(classes >= 1, function_, "logits.classes()", classes, "1 or more");
    if (params_.blank < 0 || params_.blank >= classes)
      throw_invalid_argument(function_, "params.blank", params_.blank,
                             index_range(classes, "classes"));
    check(fits_float(params_.scale), function_, "params.scale", params_.scale, "a finite float");
    check_optional_size(function_, "params.sample_weights.size()", params_.sample_weights.size(),
                        samples, "the number of samples");
    check_optional_size(function_, "input_lengths.size()", input_lengths_.size(), samples,
                        "the number of samples");
    check_size(function_, "targets.lengths.size()", targets_.lengths.size(), samples,
               "the number of samples");
    check(targets_.stride >= 0 &&
              targets_.stride <= max_elements<index_t> / std::max(samples, index_t{1}),
          function_, "targets.stride", targets_.stride,
          "0 or more, and at most what memory can address");
    for (index_t n = 0; n < input_lengths_.size(); ++n)
      if (input_lengths_[n] < 0 || input_lengths_[n] > logits_.steps())
        throw_invalid_argument(function_, element("input_lengths", n), input_lengths_[n],
                               "0 to " + std::to_string(logits_.steps()) + ", the logits' steps");
    check_targets();
  }

  void check_targets() {
    const index_t samples = logits_.samples(), stride = targets_.stride;
    const index_t size = targets_.classes.size();
    index_t end = 0;  // of the classes
    for (index_t n = 0; n < samples; ++n) {
      const index_t length = targets_.lengths[n];
      const index_t first = stride > 0 ? n * stride : end;
      const index_t left = size - first;
      const index_t most = stride > 0 ? std::min(stride, left) : left;
      if (length < 0 || length > std::max(most, index_t{0}))
        throw_invalid_argument(
            function_, element("targets.lengths", n), length,
            "0 to " + std::to_string(std::max(most, index_t{0})) +
                (stride > 0 ? ", the classes of a padded target" : ", the classes that are left"));
      for (index_t s = 0; s < length; ++s) check_label(first + s);
      end = first + length;
    }
    if (stride == 0 && end != size)
      throw_invalid_argument(function_, "targets.classes.size()", size,
                             std::to_string(end) + ", the sum of the lengths");
  }

  void check_label(index_t i) const {
    const index_t label = targets_.classes[i];
    if (label >= 0 && label < logits_.classes() && label != params_.blank) return;
    throw_invalid_argument(function_, element("targets.classes", i),
                           label_text(targets_.classes, i),
                           index_range(logits_.classes(), "classes") + ", but not the blank, " +
                               std::to_string(params_.blank));
  }

  void check_output(const char* name, const address_range& output, bool may_be_logits) const {
    if (may_be_logits)
      check_apart_or_same(function_, name, output, "logits", sequences_range(logits_));
    else
      check_apart(function_, name, output, "logits", sequences_range(logits_));
    check_apart(function_, name, output, "targets.classes", targets_.classes);
    check_apart(function_, name, output, "targets.lengths", targets_.lengths);
    check_apart(function_, name, output, "input_lengths", input_lengths_);
    check_apart(function_, name, output, "params.sample_weights", params_.sample_weights);
  }

  /// Copies the targets and the lengths into the workspace. Returns the longest target.
  index_t copy_targets(ctc_args<T>& args) {
    const index_t samples = logits_.samples();
    index_t* const first = grown(buffers_.first_label, samples);
    index_t* const counts = grown(buffers_.label_counts, samples);
    index_t* const steps = grown(buffers_.input_lengths, samples);
    index_t total = 0, longest = 0;
    for (index_t n = 0; n < samples; ++n) {
      first[n] = total;
      counts[n] = targets_.lengths[n];
      steps[n] = input_lengths_.empty() ? logits_.steps() : input_lengths_[n];
      total += counts[n];
      longest = std::max(longest, counts[n]);
    }
    index_t* const labels = grown(buffers_.labels, total);
    for (index_t n = 0; n < samples; ++n)
      for (index_t s = 0; s < counts[n]; ++s)
        labels[first[n] + s] =
            targets_.classes[(targets_.stride > 0 ? n * targets_.stride : first[n]) + s];
    args.labels = labels;
    args.first_label = first;
    args.label_counts = counts;
    args.input_lengths = steps;
    return longest;
  }

  ctc_args<T> kernel_args() const {
    ctc_args<T> args{};
    args.logits = logits_.data();
    args.step_stride = logits_.step_stride();
    args.sample_stride = logits_.sample_stride();
    args.steps = logits_.steps();
    args.samples = logits_.samples();
    args.classes = logits_.classes();
    args.steps_are_inner = logits_.step_stride() < logits_.sample_stride();
    args.blank = params_.blank;
    args.scale = params_.scale;
    args.weights = params_.sample_weights.empty() ? nullptr : params_.sample_weights.data();
    args.grad = grad_.data();
    args.grad_step_stride = grad_.step_stride();
    args.grad_sample_stride = grad_.sample_stride();
    return args;
  }

  double run(compute_type<T>* each) {
    const index_t samples = logits_.samples(), rows = samples * logits_.steps();
    if (samples == 0) return 0;
    ctc_args<T> args = kernel_args();
    const index_t longest = copy_targets(args);
    const profile::scope timing([&] { return problem(longest); });
    const auto& kernels = detail::kernels<ctc_kernels<T>>(target_);
    constexpr index_t lanes = 16;
    args.lanes = (longest / lanes + 1) * lanes;
    args.log_paths = grown(buffers_.log_paths, samples);
    args.offsets = grown(buffers_.offsets, rows);
    args.sums = grown(buffers_.sums, rows);
    if (args.grad != nullptr)
      args.occupancies = reinterpret_cast<compute_type<T>*>(
          grown_scratch(buffers_.occupancies, lines_for<compute_type<T>>(rows * args.lanes)));

    // Some ten microseconds each.
    const index_t cost = std::max(logits_.steps(), index_t{1}) * args.lanes;
    in_chunks(chunking(samples, std::max(index_t{1}, (1 << 13) / cost)),
              kernels.paths_scratch_size(args), [&](index_t first, index_t last, void* scratch) {
                for (index_t n = first; n < last; ++n) kernels.paths(args, n, scratch);
              });
    if (rows > 0) {
      const index_t few = std::max(index_t{1}, (1 << 14) / logits_.classes());
      in_chunks(chunking(rows, few), kernels.rows_scratch_size(args),
                [&](index_t first, index_t last, void* scratch) {
                  kernels.rows(args, first, last, scratch);
                });
    }
    double* const losses = grown(buffers_.losses, samples);
    for_each_chunk(policy_, chunking(samples, std::max(index_t{1}, (1 << 13) / (cost / lanes))),
                   [&](index_t, index_t first, index_t last) {
                     for (index_t n = first; n < last; ++n)
                       losses[n] = weighted(kernels.loss(args, n), n);
                   });
    double sum = 0;
    for (index_t n = 0; n < samples; ++n) {
      const double loss = scaled(params_.scale, losses[n]);
      if (each != nullptr) each[n] = static_cast<compute_type<T>>(loss);
      sum = rounded(sum + loss);
    }
    return is_nan(sum) ? std::numeric_limits<double>::quiet_NaN() : sum;
  }

  /// The loss times the sample's weight.
  double weighted(double loss, index_t sample) const {
    if (params_.zero_infinity && !is_nan(loss) && !is_finite(loss)) return 0;
    if (params_.sample_weights.empty()) return loss;
    return scaled(static_cast<double>(params_.sample_weights[sample]), loss);
  }

  /// Calls work(first, last, scratch) for each chunk, with so many bytes of scratch memory.
  template <class Work>
  void in_chunks(const chunking& chunks, index_t bytes, const Work& work) {
    for_each_chunk_with_memory(policy_, chunks, buffers_.scratch, lines_for<unsigned char>(bytes),
                               work);
  }

  profile::problem problem(index_t longest) const {
    const index_t elements = logits_.steps() * logits_.samples() * logits_.classes();
    const bool has_grad = grad_.data() != nullptr;
    profile::problem p;
    p.function = function_;
    p.type = dtype_name<T>();
    p.shape = {logits_.steps(), logits_.samples(), logits_.classes(), longest};
    p.implementation = isa_name(target_);
    p.threads = policy_.threads();
    p.bytes = elements * index_t{sizeof(T)} * (has_grad ? 2 : 1);
    // An exponential per logit; three multiply-adds per state, in either direction.
    p.flops = 20 * elements +
              logits_.steps() * logits_.samples() * (2 * longest + 1) * (has_grad ? 12 : 6);
    return p;
  }

  const char* function_;
  sequences_view<const T> logits_;
  const ctc_targets& targets_;
  vector_view<const index_t> input_lengths_;
  const ctc_params& params_;
  ctc_buffers& buffers_;
  threading policy_;
  sequences_view<T> grad_;
  isa target_ = active_isa();
};

}  // namespace detail

template <class T>
double ctc_loss(sequences_view<T> logits, const ctc_targets& targets,
                vector_view<const index_t> input_lengths, const ctc_params& params,
                ctc_workspace& workspace, threading policy) {
  return detail::ctc_call<value_of<T>>("ctc_loss", logits, targets, input_lengths, params,
                                       workspace, policy)
      .run();
}

template <class T>
void ctc_loss_unreduced(sequences_view<T> logits, const ctc_targets& targets,
                        vector_view<const index_t> input_lengths,
                        vector_view<compute_type<value_of<T>>> loss, const ctc_params& params,
                        ctc_workspace& workspace, threading policy) {
  detail::ctc_call<value_of<T>>("ctc_loss_unreduced", logits, targets, input_lengths, params,
                                workspace, policy)
      .run_unreduced(loss);
}

template <class T>
double ctc_loss_and_grad(sequences_view<T> logits, const ctc_targets& targets,
                         vector_view<const index_t> input_lengths, sequences_view<value_of<T>> grad,
                         const ctc_params& params, ctc_workspace& workspace, threading policy) {
  return detail::ctc_call<value_of<T>>("ctc_loss_and_grad", logits, targets, input_lengths, params,
                                       workspace, policy)
      .run_grad(grad);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
