// SPDX-License-Identifier: Apache-2.0
// Gradients that were computed together with a loss. backward() multiplies them by the upstream
// gradient.
#pragma once

#include <vecdet/impl/torch/derivatives.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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

/// Throws, because otherwise the gradient with respect to this argument would silently be missing.
[[noreturn]] inline void refuse_gradient(const std::string& function, const std::string& argument) {
  TORCH_CHECK(false, "vecdet::", function, ": ", argument,
              " requires a gradient, expected a tensor without one: ", argument, ".detach()");
}

/// Whether the tensor is plain memory on the CPU: not traced, mapped over or symbolic, and without
/// a tangent.
inline bool is_plain(const at::Tensor& tensor) {
  if (has_tangent(tensor)) return false;
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

/// A graph node in the pointer type that libtorch uses for nodes, which changed in 2.x.
template <class Node, class... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (std::is_base_of<c10::intrusive_ptr_target, Node>::value) {
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  } else {
    return std::make_shared<Node>(std::forward<Arguments>(arguments)...);
  }
}

/// The graph edges that receive the gradients.
struct gradient_edges : torch::CustomClassHolder {
  explicit gradient_edges(at::TensorList inputs) {
    for (const at::Tensor& input : inputs)
      edges.push_back(torch::autograd::impl::gradient_edge(input));
  }

  torch::autograd::edge_list edges;
};

struct loss_and_grads {
  at::Tensor loss;
  std::vector<at::Tensor> grads;  ///< one per input
};

/// A node with precomputed gradients. The struct hides loss and gradients from autograd.
struct precomputed : torch::autograd::Function<precomputed> {
  using context = torch::autograd::AutogradContext;
  using list = torch::autograd::variable_list;

  static at::Tensor forward(context* ctx, at::TensorList inputs, const loss_and_grads& computed) {
    ctx->save_for_backward(computed.grads);
    ctx->saved_data["inputs"] =
        c10::IValue::make_capsule(c10::make_intrusive<gradient_edges>(inputs));
    return computed.loss;
  }

  static list backward(context* ctx, const list& upstreams) {
    list grads = ctx->get_saved_variables();
    const at::Tensor& upstream = upstreams[0];
    const bool is_last = !torch::autograd::get_current_graph_task_keep_graph();
    // If backward() starts at the loss, the factor is 1, and the pass over memory can be skipped.
    const bool is_one =
        is_last && is_plain(upstream) && upstream.dim() == 0 && upstream.item<double>() == 1;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      at::Tensor& grad = grads[i];
      // The upstream gradient has one element per box, or per sample of steps x samples x classes.
      const bool has_no_last = upstream.dim() < grad.dim() && upstream.dim() > 0;
      const at::Tensor factor = has_no_last ? upstream.unsqueeze(-1) : upstream;
      if (at::GradMode::is_enabled())
        grad = scaled(refusing(ctx, i, grad), factor);
      else if (!is_last || !is_plain(grad) || !is_plain(upstream))
        grad = scaled(grad, factor);
      else if (!is_one)
        grad.mul_(factor);
    }
    grads.emplace_back();
    return grads;
  }

  /// The product in the gradient's type, which under autocast is narrower than the loss's.
  static at::Tensor scaled(const at::Tensor& grad, const at::Tensor& factor) {
    return (grad * factor).to(grad.scalar_type());
  }

  /// `grad` with a node that throws if it is differentiated again with respect to input `i`, e.g.
  /// after create_graph.
  static at::Tensor refusing(context* ctx, std::size_t i, const at::Tensor& grad) {
    const auto inputs = ctx->saved_data["inputs"].toCapsule();
    at::Tensor result = grad.detach();
    torch::autograd::set_history(
        result, make_node<torch::autograd::Error>(
                    "vecdet: the gradient of a loss cannot be differentiated again",
                    torch::autograd::edge_list{static_cast<gradient_edges&>(*inputs).edges[i]}));
    return result;
  }
};

/// Attaches to the loss its gradient with respect to each of `inputs` that needs one.
inline at::Tensor with_gradients(at::TensorList inputs, const at::Tensor& loss,
                                 at::TensorList grads) {
  if (!needs_gradient(inputs)) return loss;
  return precomputed::apply(inputs, loss_and_grads{loss, grads.vec()});
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
