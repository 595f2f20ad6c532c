// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling is a separate operator, called by backward(). It needs the positions
// of the maxima, and neither input nor output.
#pragma once

#include <vecdet/impl/torch/derivatives.hpp>
#include <vecdet/impl/torch/generated/pooling.hpp>
#include <vecdet/impl/torch/max_pool.hpp>
#include <vecdet/impl/torch/operator.hpp>

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

/// The same gradient by ATen's operators, which can be differentiated with respect to `upstream`.
inline at::Tensor aten_max_pool_grad(const at::Tensor& upstream, const at::Tensor& positions,
                                     std::int64_t height, std::int64_t width,
                                     const max_pool_params& params) {
  const at::Tensor at = positions.to(at::kLong);
  const auto first = [&](int dimension, index_t stride, index_t padding) {
    return at::arange(positions.size(dimension), at.options()) * stride - padding;
  };
  const at::Tensor row = first(2, params.stride_height, params.padding_height).unsqueeze(1) +
                         at::floor_divide(at, params.window_width) * params.dilation_height;
  const at::Tensor column = first(3, params.stride_width, params.padding_width) +
                            at::remainder(at, params.window_width) * params.dilation_width;
  const at::Tensor is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width);
  const at::Tensor index = (row * width + column) * is_inside;
  const at::Tensor values = at::where(is_inside, upstream, at::zeros({}, upstream.options()));
  return at::zeros({upstream.size(0), upstream.size(1), height * width}, upstream.options())
      .scatter_add(2, index.flatten(2), values.flatten(2))
      .view({upstream.size(0), upstream.size(1), height, width});
}

/// What a call's gradient needs, apart from the positions.
struct max_pool_context : torch::CustomClassHolder {
  at::Tensor output, positions;  ///< undefined after forward()
  std::int64_t height = 0, width = 0;
  max_pool_params params;
  bool channels_last = false;
};

/// An autograd node; backward() computes the gradient. The pointer hides tensors from autograd.
struct max_pooled : torch::autograd::Function<max_pooled> {
  using context = torch::autograd::AutogradContext;
  using list = torch::autograd::variable_list;

  static at::Tensor forward(context* ctx, const at::Tensor& /*input*/,
                            const c10::intrusive_ptr<max_pool_context>& call) {
    ctx->save_for_backward({std::move(call->positions)});
    at::Tensor output = std::move(call->output);
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return output;
  }

  static list backward(context* ctx, const list& upstreams) {
    static const auto op = find_operator("vecdet::_max_pool_grad", &meta::max_pool_grad_of_list);
    const auto capsule = ctx->saved_data["call"].toCapsule();
    const auto& call = static_cast<const max_pool_context&>(*capsule);
    const at::Tensor positions = ctx->get_saved_variables()[0];
    const at::Tensor grad =
        at::GradMode::is_enabled() || is_transformed(upstreams[0])
            ? aten_max_pool_grad(upstreams[0], positions, call.height, call.width, call.params)
            : op.call(upstreams[0], positions, call.height, call.width, listed(call.params),
                      call.channels_last);
    return {grad, at::Tensor()};
  }
};

// The public operator with a gradient.
namespace differentiable {

/// Max pooling (max_pool.hpp) of `input`, images x channels x height x width, contiguous or
/// channels_last. Neither layout is copied; the result and the gradient have the same layout and
/// type. Differentiable with respect to the input, any number of times.
inline at::Tensor max_pool(const at::Tensor& input, const max_pool_params& params) {
  static const auto op =
      find_operator("vecdet::_max_pool", &kernel<&flat::compute_max_pool<&cpu::max_pool>>::call);
  const bool needs_grad = needs_gradient(input);
  auto [output, positions] = flat::call_max_pool(op, input, params, needs_grad);
  if (!needs_grad) return output;
  auto call = c10::make_intrusive<max_pool_context>();
  call->output = output;
  call->positions = positions;
  call->height = input.size(2);
  call->width = input.size(3);
  call->params = params;
  call->channels_last = are_channels_last(input);
  return max_pooled::apply(input, call);
}

}  // namespace differentiable
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
