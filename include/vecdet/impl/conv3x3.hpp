// SPDX-License-Identifier: Apache-2.0
// The functions of conv3x3.hpp.
#pragma once

#include <vecdet/conv3x3.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/conv3x3_call.hpp>
#include <vecdet/impl/conv3x3_steps.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/impl/optional_view.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/conv3x3/conv3x3.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

template <class T>
void conv3x3_weights<T>::assign(feature_view<const T> weights, conv3x3_use use, conv3x3_tile tile,
                                threading policy) {
  constexpr const char* function = "conv3x3_weights";
  detail::check(weights.height() == 3 || weights.images() == 0, function, "weights.height()",
                weights.height(), "3");
  detail::check(weights.width() == 3 || weights.images() == 0, function, "weights.width()",
                weights.width(), "3");
  const bool is_forward = use == conv3x3_use::forward;
  const index_t outputs = weights.images(), inputs = weights.channels();
  const detail::conv3x3_steps steps = detail::conv3x3_steps_of(weights);
  detail::conv3x3_weights_args<T> args{};
  args.weights = weights.data();
  args.targets = is_forward ? outputs : inputs;
  args.sources = is_forward ? inputs : outputs;
  args.target_step = is_forward ? steps.output : steps.input;
  args.source_step = is_forward ? steps.input : steps.output;
  args.tap_step = steps.tap;
  args.turned = !is_forward;
  output_channels_ = outputs;
  input_channels_ = inputs;
  use_ = use;
  tile_ = tile;
  detail::transform_conv_weights(args, detail::filtering_of(tile),
                                 detail::kernels<detail::conv3x3_kernels<T>>(active_isa()),
                                 buffers_, policy);
}

namespace detail {

/// Throws unless the weights were transformed for `use`.
template <class T>
void check_conv_use(const char* function, const conv3x3_weights<T>& weights, conv3x3_use use) {
  const auto name = [](conv3x3_use value) {
    return value == conv3x3_use::forward ? "conv3x3_use::forward" : "conv3x3_use::input_grad";
  };
  check(weights.use() == use, function, "weights.use()", name(weights.use()), name(use));
}

constexpr const char* conv_input_channels = "the number of input channels of the weights";
constexpr const char* conv_output_channels = "the number of output channels of the weights";

/// The memory of transformed weights.
template <class T>
const cache_line* conv_weights_data(const conv3x3_weights<T>& weights) noexcept {
  return workspace_access::buffers(weights).data();
}
template <class T>
address_range conv_weights_range(const conv3x3_weights<T>& weights) noexcept {
  const auto& lines = workspace_access::buffers(weights);
  return {lines.data(), static_cast<index_t>(lines.size())};
}

/// Images x input channels x height x width x output channels. For several levels, images x input
/// channels x locations x output channels. `maps` have the levels' sizes.
template <class T>
profile::problem conv3x3_problem(const char* function, const conv3x3_operand<T>& maps,
                                 index_t inputs, index_t outputs, conv3x3_tile tile, isa target,
                                 threading policy) {
  static constexpr const char* variants[2][2][2] = {
      {{nullptr, "f2x2"}, {"nhwc", "nhwc_f2x2"}},
      {{"levels", "levels_f2x2"}, {"levels_nhwc", "levels_nhwc_f2x2"}}};
  using number = std::remove_const_t<T>;
  const bool is_map = maps.count() == 1;
  const index_t images = maps.images();
  index_t locations = 0;
  for (index_t l = 0; l < maps.count(); ++l)
    locations += images * maps.level(l).height * maps.level(l).width;
  profile::problem p;
  p.function = function;
  p.variant = variants[is_map ? 0 : 1][maps.is_nhwc() ? 1 : 0][tile == conv3x3_tile::f4x4 ? 0 : 1];
  p.type = dtype_name<number>();
  if (is_map)
    p.shape = {images, inputs, maps.level(0).height, maps.level(0).width, outputs};
  else
    p.shape = {images, inputs, locations / std::max(images, index_t{1}), outputs};
  p.implementation = isa_name(target);
  p.threads = policy.threads();
  p.bytes = locations * (inputs + outputs) * index_t{sizeof(number)} +
            9 * inputs * outputs * index_t{sizeof(compute_type<number>)};
  p.flops = 18 * locations * inputs * outputs;
  return p;
}

template <class T>
void run_conv3x3(const conv3x3_operand<const T>& input,
                 const conv3x3_weights<compute_type<T>>& weights, const conv3x3_operand<T>& output,
                 const conv3x3_params<compute_type<T>>& params, conv3x3_workspace& workspace,
                 threading policy) {
  constexpr const char* function = "conv3x3";
  check_conv_use(function, weights, conv3x3_use::forward);
  check_conv_operand(function, "input", input, weights.input_channels(), conv_input_channels,
                     "input", input);
  check_conv_operand(function, "output", output, weights.output_channels(), conv_output_channels,
                     "input", input);
  check_optional_size(function, "params.bias.size()", params.bias.size(), weights.output_channels(),
                      conv_output_channels);
  check_conv_apart(function, "output", output, "input", input);
  check_conv_apart(function, "output", output, "params.bias", params.bias);
  check_conv_apart(function, "output", output, "weights", conv_weights_range(weights));
  const isa target = active_isa();
  conv3x3_call<T> call(input, output, filtering_of(weights.tile()),
                       kernels<conv3x3_kernels<T>>(target), workspace_access::buffers(workspace),
                       policy);
  if (call.is_empty()) return;
  const profile::scope timing([&] {
    return conv3x3_problem(function, input, weights.input_channels(), weights.output_channels(),
                           weights.tile(), target, policy);
  });
  call.run(conv_weights_data(weights), data_or_null(params.bias), params.relu, output);
}

template <class T>
void run_conv3x3_input_grad(const conv3x3_operand<const T>& upstream,
                            const conv3x3_operand<const T>& relu_output,
                            const conv3x3_weights<compute_type<T>>& weights,
                            const conv3x3_operand<T>& grad, conv3x3_workspace& workspace,
                            threading policy) {
  constexpr const char* function = "conv3x3_input_grad";
  const index_t outputs = weights.output_channels();
  check_conv_use(function, weights, conv3x3_use::input_grad);
  check_conv_operand(function, "upstream", upstream, outputs, conv_output_channels, "upstream",
                     upstream);
  check_conv_operand(function, "grad", grad, weights.input_channels(), conv_input_channels,
                     "upstream", upstream);
  if (relu_output.count() > 0)
    check_conv_operand(function, "relu_output", relu_output, outputs, conv_output_channels,
                       "upstream", upstream);
  check_conv_apart(function, "grad", grad, "upstream", upstream);
  check_conv_apart(function, "grad", grad, "relu_output", relu_output);
  check_conv_apart(function, "grad", grad, "weights", conv_weights_range(weights));
  const isa target = active_isa();
  conv3x3_call<T> call(upstream, grad, filtering_of(weights.tile()),
                       kernels<conv3x3_kernels<T>>(target), workspace_access::buffers(workspace),
                       policy);
  if (call.is_empty()) return;
  const profile::scope timing([&] {
    return conv3x3_problem(function, upstream, weights.input_channels(), outputs, weights.tile(),
                           target, policy);
  });
  call.set_mask(relu_output);
  call.run(conv_weights_data(weights), nullptr, false, grad);
}

template <class T>
void run_conv3x3_weight_grad(const conv3x3_operand<const T>& input,
                             const conv3x3_operand<const T>& upstream,
                             const conv3x3_operand<const T>& relu_output,
                             const conv3x3_weight_grads<compute_type<T>>& grads,
                             conv3x3_workspace& workspace, threading policy) {
  constexpr const char* function = "conv3x3_weight_grad";
  const auto& weight_grad = grads.weight_grad;
  const auto& bias_grad = grads.bias_grad;
  const index_t outputs = weight_grad.images(), inputs = weight_grad.channels();
  check(weight_grad.height() == 3 || outputs == 0, function, "grads.weight_grad.height()",
        weight_grad.height(), "3");
  check(weight_grad.width() == 3 || outputs == 0, function, "grads.weight_grad.width()",
        weight_grad.width(), "3");
  constexpr const char* input_channels = "grads.weight_grad.channels()";
  constexpr const char* output_channels = "grads.weight_grad.images()";
  check_conv_operand(function, "input", input, inputs, input_channels, "input", input);
  check_conv_operand(function, "upstream", upstream, outputs, output_channels, "input", input);
  if (relu_output.count() > 0)
    check_conv_operand(function, "relu_output", relu_output, outputs, output_channels, "input",
                       input);
  check_optional_size(function, "grads.bias_grad.size()", bias_grad.size(), outputs,
                      output_channels);
  const auto check_in = [&](const char* name, const address_range& range) {
    check_conv_apart(function, name, range, "input", input);
    check_conv_apart(function, name, range, "upstream", upstream);
    check_conv_apart(function, name, range, "relu_output", relu_output);
  };
  check_in("grads.weight_grad", weight_grad);
  check_in("grads.bias_grad", bias_grad);
  check_apart(function, "grads.weight_grad", weight_grad, "grads.bias_grad", bias_grad);
  if (weight_grad.size() == 0 && bias_grad.empty()) return;
  const conv3x3_steps steps = conv3x3_steps_of(weight_grad);
  const isa target = active_isa();
  conv3x3_call<T> call(input, upstream, filtering_of(grads.tile),
                       kernels<conv3x3_kernels<T>>(target), workspace_access::buffers(workspace),
                       policy);
  if (outputs == 0) return;
  const profile::scope timing([&] {
    return conv3x3_problem(function, input, inputs, outputs, grads.tile, target, policy);
  });
  call.set_mask(relu_output);
  call.weight_grad(upstream, {weight_grad.data(), steps.output, steps.input, steps.tap,
                              data_or_null(bias_grad)});
}

}  // namespace detail

template <class T>
void conv3x3(feature_view<T> input, const conv3x3_weights<compute_type<value_of<T>>>& weights,
             feature_view<value_of<T>> output,
             const conv3x3_params<compute_type<value_of<T>>>& params, conv3x3_workspace& workspace,
             threading policy) {
  detail::run_conv3x3<value_of<T>>(input, weights, output, params, workspace, policy);
}
template <class T>
void conv3x3(const head_view<T>& input, const conv3x3_weights<compute_type<value_of<T>>>& weights,
             const head_view<value_of<T>>& output,
             const conv3x3_params<compute_type<value_of<T>>>& params, conv3x3_workspace& workspace,
             threading policy) {
  detail::check_levels_apart("conv3x3", "output", output);
  detail::run_conv3x3<value_of<T>>(input, weights, output, params, workspace, policy);
}

template <class T>
void conv3x3_input_grad(feature_view<T> upstream, feature_view<const value_of<T>> relu_output,
                        const conv3x3_weights<compute_type<value_of<T>>>& weights,
                        feature_view<value_of<T>> grad, conv3x3_workspace& workspace,
                        threading policy) {
  detail::run_conv3x3_input_grad<value_of<T>>(upstream, relu_output, weights, grad, workspace,
                                              policy);
}
template <class T>
void conv3x3_input_grad(const head_view<T>& upstream,
                        const head_view<const value_of<T>>& relu_output,
                        const conv3x3_weights<compute_type<value_of<T>>>& weights,
                        const head_view<value_of<T>>& grad, conv3x3_workspace& workspace,
                        threading policy) {
  detail::check_levels_apart("conv3x3_input_grad", "grad", grad);
  detail::run_conv3x3_input_grad<value_of<T>>(upstream, relu_output, weights, grad, workspace,
                                              policy);
}

template <class T>
void conv3x3_weight_grad(feature_view<T> input, feature_view<const value_of<T>> upstream,
                         feature_view<const value_of<T>> relu_output,
                         const conv3x3_weight_grads<compute_type<value_of<T>>>& grads,
                         conv3x3_workspace& workspace, threading policy) {
  detail::run_conv3x3_weight_grad<value_of<T>>(input, upstream, relu_output, grads, workspace,
                                               policy);
}
template <class T>
void conv3x3_weight_grad(const head_view<T>& input, const head_view<const value_of<T>>& upstream,
                         const head_view<const value_of<T>>& relu_output,
                         const conv3x3_weight_grads<compute_type<value_of<T>>>& grads,
                         conv3x3_workspace& workspace, threading policy) {
  detail::run_conv3x3_weight_grad<value_of<T>>(input, upstream, relu_output, grads, workspace,
                                               policy);
}

inline bool conv3x3_is_faster(index_t input_channels, index_t output_channels, index_t locations,
                              bool transforms_weights) noexcept {
  return input_channels >= 16 && output_channels >= 16 &&
         locations >= (transforms_weights ? 640 : 128);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
