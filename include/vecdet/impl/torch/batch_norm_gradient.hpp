// SPDX-License-Identifier: Apache-2.0
// The gradients of batch normalisation are a separate operator, called by backward(). It needs the
// input, the parameters and the statistics, but not the output.
#pragma once

#include <vecdet/impl/torch/batch_norm.hpp>
#include <vecdet/impl/torch/derivatives.hpp>
#include <vecdet/impl/torch/generated/normalization.hpp>
#include <vecdet/impl/torch/operator.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The same gradients by ATen's operators, which can be differentiated again.
inline cpu::batch_norm_grads aten_batch_norm_grad(
    const at::Tensor& upstream, const at::Tensor& input, const optional_tensor& weight,
    const optional_tensor& bias, const at::Tensor& statistics, const batch_norm_params& params) {
  const at::ScalarType type = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::vector<std::int64_t> all{0, 2, 3};
  const auto mean_of = [&](const at::Tensor& numbers) { return numbers.mean(all, true); };
  const auto sum_of = [&](const at::Tensor& numbers) { return numbers.sum(all); };
  const auto factor = [&](const optional_tensor& tensor) {
    return tensor->to(type).view({1, -1, 1, 1});
  };
  // The result does not depend on what is subtracted from all numbers of a channel. Without a large
  // common part, their mean in float has all its digits.
  const at::Tensor x = input.to(type) - statistics.select(0, 0).to(type).view({1, -1, 1, 1});
  const at::Tensor d = x - mean_of(x);
  const at::Tensor inverse = (mean_of(d * d) + params.epsilon).rsqrt();
  const at::Tensor normal = d * inverse;
  const bool has_weight = weight.has_value() && weight->defined();
  at::Tensor z = has_weight ? normal * factor(weight) : normal;
  if (bias.has_value() && bias->defined()) z = z + factor(bias);
  at::Tensor g = upstream.to(type);
  if (params.activation == batch_norm_activation::relu) {
    g = at::where(z <= 0, at::zeros({}, g.options()), g);
  } else if (params.activation == batch_norm_activation::silu) {
    const at::Tensor s = z.sigmoid();
    g = g * (s * (z * (1 - s) + 1));
  }
  const at::Tensor scale = has_weight ? inverse * factor(weight) : inverse;
  const at::Tensor grad = scale * (g - mean_of(g) - normal * mean_of(g * normal));
  return {grad.to(input.scalar_type()), sum_of(g * normal), sum_of(g)};
}

/// What a call's gradient needs.
struct batch_norm_context : torch::CustomClassHolder {
  at::Tensor output, statistics;  ///< undefined after forward()
  batch_norm_params params;
};

/// An autograd node; backward() computes the gradients. The pointer hides tensors from autograd.
struct batch_normalized : torch::autograd::Function<batch_normalized> {
  using context = torch::autograd::AutogradContext;
  using list = torch::autograd::variable_list;

  static list forward(context* ctx, const at::Tensor& input, const optional_tensor& weight,
                      const optional_tensor& bias,
                      const c10::intrusive_ptr<batch_norm_context>& call) {
    list results{std::move(call->output), std::move(call->statistics)};
    ctx->save_for_backward(
        {input, weight.value_or(at::Tensor()), bias.value_or(at::Tensor()), results[1]});
    ctx->mark_non_differentiable({results[1]});
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return results;
  }

  static list backward(context* ctx, const list& upstreams) {
    static const auto op = find_operator("vecdet::_batch_norm_grad", &meta::flat_batch_norm_grad);
    const auto capsule = ctx->saved_data["call"].toCapsule();
    const batch_norm_params& params = static_cast<const batch_norm_context&>(*capsule).params;
    const list saved = ctx->get_saved_variables();
    const auto optional = [&](std::size_t i) { return to_argument<optional_tensor>(saved[i]); };
    // Arguments that are left out have no number.
    const bool has_weight = saved[1].defined(), has_bias = saved[2].defined();
    const bool needs_weight = has_weight && ctx->needs_input_grad(1);
    const bool needs_bias = has_bias && ctx->needs_input_grad(has_weight ? 2 : 1);
    const auto [grad, weight_grad, bias_grad] =
        at::GradMode::is_enabled() || is_transformed(upstreams[0])
            ? aten_batch_norm_grad(upstreams[0], saved[0], optional(1), optional(2), saved[3],
                                   params)
            : op.call(upstreams[0], saved[0], optional(1), optional(2), saved[3], params.epsilon,
                      static_cast<std::int64_t>(params.activation), needs_weight, needs_bias);
    return {ctx->needs_input_grad(0) ? grad : at::Tensor(),
            needs_weight ? weight_grad.to(saved[1].scalar_type()) : at::Tensor(),
            needs_bias ? bias_grad.to(saved[2].scalar_type()) : at::Tensor(), at::Tensor()};
  }
};

// The public operator with a gradient.
namespace differentiable {

/// Batch normalisation (batch_norm.hpp) of `input`, images x channels x height x width, with the
/// statistics of the batch, then the activation. Contiguous and channels_last inputs are not
/// copied; the first result, and the gradient, have their layout and type. The second result has
/// the means and the variances of the channels, [2, channels] in double, without a gradient.
/// Differentiable with respect to input, weight and bias, any number of times.
/// @param weight, bias [channels]
inline std::tuple<at::Tensor, at::Tensor> batch_norm(const at::Tensor& input,
                                                     const optional_tensor& weight,
                                                     const optional_tensor& bias,
                                                     const batch_norm_params& params) {
  static const auto op = find_operator("vecdet::_batch_norm",
                                       &kernel<&flat::compute_batch_norm<&cpu::batch_norm>>::call);
  const auto results = flat::call_batch_norm(op, input, weight, bias, params);
  if (!needs_gradient(input) && !needs_gradient(weight) && !needs_gradient(bias)) return results;
  auto call = c10::make_intrusive<batch_norm_context>();
  std::tie(call->output, call->statistics) = results;
  call->params = params;
  const auto tracked = batch_normalized::apply(input, weight, bias, call);
  return {tracked[0], tracked[1]};
}

}  // namespace differentiable
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
