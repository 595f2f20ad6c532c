// SPDX-License-Identifier: Apache-2.0
// The gradients of deformable attention are a separate operator, called by backward().
#pragma once

#include <vecdet/impl/torch/deformable_attention.hpp>
#include <vecdet/impl/torch/derivatives.hpp>
#include <vecdet/impl/torch/gradient.hpp>
#include <vecdet/impl/torch/operator.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The arguments of a call that its gradient needs.
struct attention_context : torch::CustomClassHolder {
  at::Tensor out, value, points, weights;  ///< empty after forward()
  std::vector<std::int64_t> level_sizes, level_points;
};

/// An autograd node; backward() computes the gradients. The pointer hides tensors from autograd.
struct attended : torch::autograd::Function<attended> {
  using context = torch::autograd::AutogradContext;
  using list = torch::autograd::variable_list;

  static at::Tensor forward(context* ctx, const at::Tensor& /*value*/, const at::Tensor& /*points*/,
                            const at::Tensor& /*weights*/,
                            const c10::intrusive_ptr<attention_context>& call) {
    ctx->save_for_backward(
        {std::move(call->value), std::move(call->points), std::move(call->weights)});
    at::Tensor out = std::move(call->out);
    call->value = call->points = call->weights = at::Tensor();
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return out;
  }

  static list backward(context* ctx, const list& upstreams) {
    static const auto op =
        find_operator("vecdet::_deformable_attention_grad", &meta::deformable_attention_grad);
    const auto capsule = ctx->saved_data["call"].toCapsule();
    const auto& call = static_cast<const attention_context&>(*capsule);
    const list saved = ctx->get_saved_variables();
    bool needs[3];
    for (std::size_t i = 0; i < 3; ++i) needs[i] = ctx->needs_input_grad(i);
    auto [by_value, by_points, by_weights] =
        op.call(upstreams[0], saved[0], call.level_sizes, saved[1], saved[2], call.level_points,
                needs[0], needs[1], needs[2]);
    return {needs[0] ? by_value : at::Tensor(), needs[1] ? by_points : at::Tensor(),
            needs[2] ? by_weights : at::Tensor(), at::Tensor()};
  }
};

// The public operator with a gradient. Under autocast, the value and the result keep the value's
// type, because sums are always in float32 and rounded once. Points and weights are always computed
// in float32.
namespace differentiable {

/// Multi-scale deformable attention (deformable_attention.hpp): images x queries x (heads x
/// channels), of the value's type. Differentiable once, in value, points and weights. Points and
/// weights are computed in float32, or float64 for a value of float64.
/// @param value images x locations of all levels x heads x channels of a head
/// @param level_sizes height and width of each level, alternating
/// @param points x and y, 0 to 1 from edge to edge of a level: images x queries x heads x levels x
///     points x 2, or images x queries x heads x points of all levels x 2
/// @param weights of the points' shape without its last dimension
/// @param level_points the points of each level; empty: the same number on each
inline at::Tensor deformable_attention(const at::Tensor& value, at::IntArrayRef level_sizes,
                                       const at::Tensor& points, const at::Tensor& weights,
                                       at::IntArrayRef level_points) {
  static const auto op =
      find_operator("vecdet::_deformable_attention", &meta::deformable_attention);
  const at::Tensor out = op.call(value, level_sizes, points, weights, level_points);
  if (!needs_gradient({value, points, weights})) return out;
  auto call = c10::make_intrusive<attention_context>();
  call->out = out;
  call->value = value;
  call->points = points;
  call->weights = weights;
  call->level_sizes = level_sizes.vec();
  call->level_points = level_points.vec();
  return attended::apply(value, points, weights, call);
}

}  // namespace differentiable
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
