// SPDX-License-Identifier: Apache-2.0
// The gradient of a loss that was computed with it: backward() multiplies it by what arrives.
#pragma once

#include <vecdet/detail/target.hpp>

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/custom_class.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

inline bool needs_gradient(const at::Tensor& tensor) {
  return at::GradMode::is_enabled() && tensor.defined() && tensor.requires_grad();
}

/// The gradient by an argument that losses hold constant would silently be missing.
inline void refuse_gradient(const char* function, const char* argument, const at::Tensor& tensor) {
  TORCH_CHECK(!needs_gradient(tensor), "vecdet::", function, ": ", argument,
              " requires a gradient, expected a tensor without: ", argument, ".detach()");
}

/// Whether it is memory on the CPU and nothing else: not traced, mapped over or symbolic.
inline bool is_plain(const at::Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  if (keys.has(c10::DispatchKey::Python) || keys.has(c10::DispatchKey::Functionalize)) return false;
  switch (keys.highestPriorityTypeId()) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::ADInplaceOrView:
    case c10::DispatchKey::AutogradCPU:
    case c10::DispatchKey::AutocastCPU:
      return true;
    default:
      return false;
  }
}

/// A node of the graph in the pointer that libtorch keeps nodes in, which changed in its 2.x.
template <class Node, class... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (std::is_base_of<c10::intrusive_ptr_target, Node>::value) {
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  } else {
    return std::make_shared<Node>(std::forward<Arguments>(arguments)...);
  }
}

/// Where in the graph a gradient goes.
struct gradient_edge : torch::CustomClassHolder {
  explicit gradient_edge(const at::Tensor& input)
      : edge(torch::autograd::impl::gradient_edge(input)) {}

  torch::autograd::Edge edge;
};

struct loss_and_grad {
  at::Tensor loss, grad;
};

/// A node that knows its gradient. The struct hides both tensors from autograd.
struct precomputed : torch::autograd::Function<precomputed> {
  using context = torch::autograd::AutogradContext;
  using list = torch::autograd::variable_list;

  static at::Tensor forward(context* ctx, const at::Tensor& input, const loss_and_grad& computed) {
    ctx->save_for_backward({computed.grad});
    ctx->saved_data["input"] = c10::IValue::make_capsule(c10::make_intrusive<gradient_edge>(input));
    return computed.loss;
  }

  static list backward(context* ctx, const list& upstreams) {
    at::Tensor grad = ctx->get_saved_variables()[0], upstream = upstreams[0];
    // The upstream of one loss a box.
    if (upstream.dim() == grad.dim() - 1 && upstream.dim() > 0) upstream = upstream.unsqueeze(-1);
    if (at::GradMode::is_enabled()) return {refusing(ctx, grad * upstream), at::Tensor()};
    const bool is_last = !torch::autograd::get_current_graph_task_keep_graph();
    if (!is_last || !is_plain(grad) || !is_plain(upstream)) return {grad * upstream, at::Tensor()};
    // A pass over memory for nothing, where the loss is what backward() began with.
    const bool is_one = upstream.dim() == 0 && upstream.item<double>() == 1;
    return {is_one ? grad : grad.mul_(upstream), at::Tensor()};
  }

  /// `grad`, which whoever differentiates it again, as of create_graph, cannot pass on to the
  /// input.
  static at::Tensor refusing(context* ctx, const at::Tensor& grad) {
    const auto input = ctx->saved_data["input"].toCapsule();
    at::Tensor result = grad.detach();
    torch::autograd::set_history(
        result, make_node<torch::autograd::Error>(
                    "vecdet: the gradient of a loss cannot be differentiated again",
                    torch::autograd::edge_list{static_cast<gradient_edge&>(*input).edge}));
    return result;
  }
};

/// The loss, which knows its gradient by `input` where that is needed.
inline at::Tensor with_gradient(const at::Tensor& input,
                                const std::tuple<at::Tensor, at::Tensor>& computed) {
  if (!needs_gradient(input)) return std::get<0>(computed);
  return precomputed::apply(input, loss_and_grad{std::get<0>(computed), std::get<1>(computed)});
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
