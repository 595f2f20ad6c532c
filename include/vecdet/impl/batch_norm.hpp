// SPDX-License-Identifier: Apache-2.0
// The functions of batch_norm.hpp: checks, the profiler's scope, pieces.
#pragma once

#include <vecdet/args/batch_norm.hpp>
#include <vecdet/batch_norm.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/detail/float_bits.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/chunks.hpp>
#include <vecdet/impl/optional_view.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/batch_norm/batch_norm.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class T, class U>
void check_normalized_maps(const char* function, const char* name, const feature_view<T>& map,
                           const feature_view<U>& input) {
  // Texts are made only for errors: a call allocates no memory.
  const auto check_as = [&](const char* member, index_t value, index_t expected) {
    if (value != expected)
      check_member(false, function, name, member, value,
                   (std::to_string(expected) + ", as in input").c_str());
  };
  check_as("images()", map.images(), input.images());
  check_as("channels()", map.channels(), input.channels());
  check_as("height()", map.height(), input.height());
  check_as("width()", map.width(), input.width());
  const auto layout = [](bool is_nhwc) { return is_nhwc ? "nhwc" : "nchw"; };
  const bool is_nhwc = input.layout() == feature_layout::nhwc;
  if (map.layout() != input.layout())
    check_member(false, function, name, "layout()", layout(!is_nhwc),
                 (std::string(layout(is_nhwc)) + ", as in input").c_str());
}

/// A call whose common arguments have been checked. T is the type of the maps.
template <class T>
class batch_norm_call {
 public:
  using real = compute_type<T>;
  using parameters = vector_view<const real>;
  static constexpr const char* of_channels = "the number of channels of input";

  batch_norm_call(const char* function, const feature_view<const T>& input,
                  const parameters& weight, const parameters& bias,
                  const vector_view<const double>& statistics, const feature_view<T>& output,
                  const char* output_name, const batch_norm_params& params,
                  batch_norm_workspace& workspace, threading policy)
      : function_(function),
        input_(input),
        workspace_(workspace_access::buffers(workspace)),
        policy_(policy) {
    check_normalized_maps(function, output_name, output, input);
    check_optional_size(function, "weight.size()", weight.size(), input.channels(), of_channels);
    check_optional_size(function, "bias.size()", bias.size(), input.channels(), of_channels);
    check_size(function, "statistics.size()", statistics.size(), 2 * input.channels(),
               "two numbers per channel of input");
    check_member(is_finite(params.epsilon) && params.epsilon >= 0 && params.epsilon <= 1e30,
                 function, "params", "epsilon", params.epsilon, "0 to 1e30");
    const auto activation = static_cast<int>(params.activation);
    check_member(activation >= 0 && activation <= 2, function, "params", "activation", activation,
                 "none, relu or silu");
    check_apart(function, output_name, output, "input", input);
    check_apart(function, output_name, output, "weight", weight);
    check_apart(function, output_name, output, "bias", bias);
    check_apart(function, output_name, output, "statistics", statistics);
    args_.activation = params.activation;
    args_.epsilon = params.epsilon;
    args_.input = args_.upstream = input.data();
    args_.output = output.data();
    args_.weight = data_or_null(weight);
    args_.bias = data_or_null(bias);
    args_.pieces = divided();
  }

  /// A variance needs two numbers.
  void check_count() const {
    const index_t count = args_.pieces.all_locations();
    check(count >= 2, function_, "images * height * width of input", count, "2 or more");
  }

  void train(double* statistics) {
    if (is_empty()) return;
    const auto timing = scope(3, 11);
    take_memory(true);
    over_pieces(kernels_.sum_deviations);
    over_channels([&](index_t first, index_t last) {
      kernels_.finish_statistics(args_, statistics, first, last);
      kernels_.prepare(args_, statistics, first, last);
    });
    over_pieces(kernels_.normalize);
  }

  void infer(const double* statistics) {
    if (is_empty()) return;
    const auto timing = scope(2, 3);
    take_memory(false);
    over_channels(
        [&](index_t first, index_t last) { kernels_.prepare(args_, statistics, first, last); });
    over_pieces(kernels_.normalize);
  }

  void differentiate(const T* upstream, const double* statistics, real* weight_grad,
                     real* bias_grad) {
    if (is_empty()) return;
    const auto timing = scope(5, 14);
    args_.upstream = upstream;
    take_memory(true);
    over_channels(
        [&](index_t first, index_t last) { kernels_.prepare(args_, statistics, first, last); });
    over_pieces(kernels_.sum_gradients);
    over_channels([&](index_t first, index_t last) {
      kernels_.finish_gradients(args_, statistics, weight_grad, bias_grad, first, last);
    });
    over_pieces(kernels_.grad);
  }

 private:
  bool is_empty() const { return input_.size() == 0; }

  /// Pieces take some ten microseconds. In NHWC, the sums of a piece are an eighth of its numbers
  /// at most.
  batch_norm_pieces divided() const {
    constexpr index_t piece = 1 << 15, least = 64;
    batch_norm_pieces p;
    p.images = input_.images();
    p.channels = input_.channels();
    p.locations = input_.height() * input_.width();
    p.is_nhwc = input_.layout() == feature_layout::nhwc;
    if (input_.size() == 0) {
      p.size = p.count = 0;
    } else if (p.is_nhwc) {
      const chunking chunks(p.all_locations(), std::max(least, piece / p.channels), 8);
      p.size = chunks.size;
      p.count = chunks.count;
    } else {
      p.size = piece;
      p.count = p.images * p.channels * p.pieces_of_plane();
    }
    return p;
  }

  void take_memory(bool has_sums) {
    const batch_norm_pieces& p = args_.pieces;
    if (has_sums)
      args_.sums = reinterpret_cast<double*>(
          grown_scratch(workspace_.sums, lines_for<double>(p.count * p.sums_of_piece())));
    args_.coefficients = reinterpret_cast<real*>(grown_scratch(
        workspace_.coefficients,
        lines_for<real>(batch_norm_args<T>::coefficient_count * p.padded_channels())));
  }

  void over_pieces(void (*run)(const batch_norm_args<T>&, index_t, index_t)) const {
    const batch_norm_pieces& p = args_.pieces;
    const index_t smallest = p.is_nhwc ? 1 : std::max<index_t>(1, p.size / p.locations);
    for_each_chunk(policy_, chunking(p.count, smallest),
                   [&](index_t, index_t first, index_t last) { run(args_, first, last); });
  }
  template <class Work>
  void over_channels(const Work& work) const {
    for_each_chunk(policy_, chunking(args_.pieces.channels, 64, 16),
                   [&](index_t, index_t first, index_t last) { work(first, last); });
  }

  /// Images x channels x height x width.
  /// @param accesses to memory, and operations besides those of the activation, per number
  profile::scope scope(index_t accesses, index_t operations) const {
    return profile::scope([&] {
      constexpr const char* names[2][3] = {{"none", "relu", "silu"},
                                           {"nhwc_none", "nhwc_relu", "nhwc_silu"}};
      profile::problem problem;
      problem.function = function_;
      problem.variant = names[args_.pieces.is_nhwc ? 1 : 0][static_cast<int>(args_.activation)];
      problem.type = dtype_name<T>();
      problem.shape = {input_.images(), input_.channels(), input_.height(), input_.width()};
      problem.implementation = isa_name(target_);
      problem.threads = policy_.threads();
      problem.bytes = accesses * input_.size() * index_t{sizeof(T)};
      const index_t activation = args_.activation == batch_norm_activation::silu ? 20 : 1;
      problem.flops = (operations + activation) * input_.size();
      return problem;
    });
  }

  const char* function_;
  feature_view<const T> input_;
  batch_norm_buffers& workspace_;
  threading policy_;
  isa target_ = active_isa();
  const batch_norm_kernels<T>& kernels_ = detail::kernels<batch_norm_kernels<T>>(target_);
  batch_norm_args<T> args_{};
};

}  // namespace detail

template <class T>
void batch_norm(feature_view<T> input, vector_view<const compute_type<value_of<T>>> weight,
                vector_view<const compute_type<value_of<T>>> bias, feature_view<value_of<T>> output,
                vector_view<double> statistics, const batch_norm_params& params,
                batch_norm_workspace& workspace, threading policy) {
  constexpr const char* function = "batch_norm";
  detail::batch_norm_call<value_of<T>> call(function, input, weight, bias, statistics, output,
                                            "output", params, workspace, policy);
  detail::check_apart(function, "statistics", statistics, "input", input);
  detail::check_apart(function, "statistics", statistics, "weight", weight);
  detail::check_apart(function, "statistics", statistics, "bias", bias);
  call.check_count();
  call.train(statistics.data());
}

template <class T>
void batch_norm_inference(feature_view<T> input,
                          vector_view<const compute_type<value_of<T>>> weight,
                          vector_view<const compute_type<value_of<T>>> bias,
                          vector_view<const double> statistics, feature_view<value_of<T>> output,
                          const batch_norm_params& params, batch_norm_workspace& workspace,
                          threading policy) {
  detail::batch_norm_call<value_of<T>>("batch_norm_inference", input, weight, bias, statistics,
                                       output, "output", params, workspace, policy)
      .infer(statistics.data());
}

template <class T>
void batch_norm_grad(feature_view<T> upstream, feature_view<T> input,
                     vector_view<const compute_type<value_of<T>>> weight,
                     vector_view<const compute_type<value_of<T>>> bias,
                     vector_view<const double> statistics, feature_view<value_of<T>> grad,
                     vector_view<compute_type<value_of<T>>> weight_grad,
                     vector_view<compute_type<value_of<T>>> bias_grad,
                     const batch_norm_params& params, batch_norm_workspace& workspace,
                     threading policy) {
  constexpr const char* function = "batch_norm_grad";
  detail::batch_norm_call<value_of<T>> call(function, input, weight, bias, statistics, grad, "grad",
                                            params, workspace, policy);
  detail::check_normalized_maps(function, "upstream", upstream, input);
  const auto check_length = [&](const char* name, index_t size) {
    detail::check_optional_size(function, name, size, input.channels(), call.of_channels);
  };
  check_length("weight_grad.size()", weight_grad.size());
  check_length("bias_grad.size()", bias_grad.size());
  detail::check_apart(function, "grad", grad, "upstream", upstream);
  detail::check_apart(function, "weight_grad", weight_grad, "grad", grad);
  detail::check_apart(function, "bias_grad", bias_grad, "grad", grad);
  detail::check_apart(function, "bias_grad", bias_grad, "weight_grad", weight_grad);
  const auto check_from_inputs = [&](const char* name, const detail::address_range& out) {
    detail::check_apart(function, name, out, "upstream", upstream);
    detail::check_apart(function, name, out, "input", input);
    detail::check_apart(function, name, out, "weight", weight);
    detail::check_apart(function, name, out, "bias", bias);
    detail::check_apart(function, name, out, "statistics", statistics);
  };
  check_from_inputs("weight_grad", weight_grad);
  check_from_inputs("bias_grad", bias_grad);
  call.check_count();
  call.differentiate(upstream.data(), statistics.data(), detail::data_or_null(weight_grad),
                     detail::data_or_null(bias_grad));
}

inline void update_running_statistics(vector_view<const double> statistics, index_t count,
                                      double momentum, vector_view<double> running) {
  constexpr const char* function = "update_running_statistics";
  detail::check_size(function, "running.size()", running.size(), statistics.size(),
                     "that of statistics");
  detail::check(statistics.size() % 2 == 0, function, "statistics.size()", statistics.size(),
                "two numbers per channel");
  detail::check(count >= 2, function, "count", count, "2 or more");
  detail::check(detail::is_finite(momentum) && momentum >= 0 && momentum <= 1, function, "momentum",
                momentum, "0 to 1");
  detail::check_apart(function, "running", running, "statistics", statistics);
  const index_t channels = statistics.size() / 2;
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  for (index_t i = 0; i < 2 * channels; ++i) {
    const double batch = detail::rounded(statistics[i] * (i < channels ? 1.0 : unbiased));
    running[i] = running[i] + detail::rounded(momentum * (batch - running[i]));
  }
}

}  // namespace VECDET_ABI
}  // namespace vecdet
