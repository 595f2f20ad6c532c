// SPDX-License-Identifier: Apache-2.0
// The gradients of grouped 3x3 convolution are a separate operator, called by backward().
#pragma once

#include <vecdet/impl/torch/derivatives.hpp>
#include <vecdet/impl/torch/generated/grouped_convolution.hpp>
#include <vecdet/impl/torch/grouped_conv3x3.hpp>
#include <vecdet/impl/torch/operator.hpp>

#include <array>
#include <cstdint>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// What a call's gradient needs.
struct grouped_conv3x3_context : torch::CustomClassHolder {
  at::Tensor output;  ///< undefined after forward()
  grouped_conv3x3_params params;
  bool has_bias = false;
};

/// An autograd node; backward() computes the gradients. The pointer hides tensors from autograd.
struct grouped_convolved : torch::autograd::Function<grouped_convolved> {
  using context = torch::autograd::AutogradContext;
  using list = torch::autograd::variable_list;

  static at::Tensor forward(context* ctx, const at::Tensor& input, const at::Tensor& weight,
                            const optional_tensor& /*bias*/,
                            const c10::intrusive_ptr<grouped_conv3x3_context>& call) {
    ctx->save_for_backward({input, weight});
    at::Tensor output = std::move(call->output);
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return output;
  }

  static list backward(context* ctx, const list& upstreams) {
    static const auto op =
        find_operator("vecdet::_grouped_conv3x3_grad", &meta::grouped_conv3x3_grad);
    const auto capsule = ctx->saved_data["call"].toCapsule();
    const auto& call = static_cast<const grouped_conv3x3_context&>(*capsule);
    const grouped_conv3x3_params& params = call.params;
    const list saved = ctx->get_saved_variables();
    const bool needs_input = ctx->needs_input_grad(0), needs_weight = ctx->needs_input_grad(1);
    // An argument that is left out has no number.
    const bool needs_bias = call.has_bias && ctx->needs_input_grad(2);
    const at::Tensor& upstream = upstreams[0];
    // ATen's gradients can be differentiated again, and transformed.
    const auto [input_grad, weight_grad, bias_grad] =
        at::GradMode::is_enabled() || is_transformed(upstream)
            ? at::convolution_backward(
                  upstream, saved[0], saved[1], at::IntArrayRef(saved[1].size(0)),
                  {params.stride, params.stride}, {1, 1}, {1, 1}, false, {0, 0}, params.groups,
                  std::array<bool, 3>{needs_input, needs_weight, needs_bias})
            : op.call(upstream, saved[0], saved[1], params.groups, params.stride, needs_input,
                      needs_weight, needs_bias);
    return {needs_input ? input_grad : at::Tensor(), needs_weight ? weight_grad : at::Tensor(),
            needs_bias ? bias_grad : at::Tensor(), at::Tensor()};
  }
};

// The public operator with a gradient.
namespace differentiable {

/// The grouped 3x3 convolution with padding 1 (grouped_conv3x3.hpp) of `input`, images x channels x
/// height x width in float32, contiguous or channels_last. Neither layout is copied; the result and
/// the gradient have the same layout. Differentiable in input, weight and bias, any number of
/// times.
/// @param weight output channels x input channels of a group x 3 x 3
/// @param bias one number per output channel; undefined: no bias
inline at::Tensor grouped_conv3x3(const at::Tensor& input, const at::Tensor& weight,
                                  const optional_tensor& bias,
                                  const grouped_conv3x3_params& params) {
  static const auto op =
      find_operator("vecdet::_grouped_conv3x3",
                    &kernel<&flat::compute_grouped_conv3x3<&cpu::grouped_conv3x3>>::call);
  at::Tensor output = flat::call_grouped_conv3x3(op, input, weight, bias, params);
  if (!needs_gradient(input) && !needs_gradient(weight) && !needs_gradient(bias)) return output;
  auto call = c10::make_intrusive<grouped_conv3x3_context>();
  call->output = std::move(output);
  call->params = params;
  call->has_bias = bias.has_value() && bias->defined();
  return grouped_convolved::apply(input, weight, bias, call);
}

}  // namespace differentiable
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
