// SPDX-License-Identifier: Apache-2.0
// The gradient of set_loss().
//
// Each loss of each layer has its own upstream gradient. The gradients of L1 and GIoU are therefore
// stored separately; both are small.
#pragma once

#include <vecdet/impl/torch/generated/queries.hpp>
#include <vecdet/impl/torch/gradient.hpp>
#include <vecdet/impl/torch/operator.hpp>
#include <vecdet/impl/torch/queries.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The losses of all layers with precomputed gradients. The struct hides them from autograd.
struct computed_set_loss {
  at::Tensor losses;
  std::vector<at::Tensor> grads;  ///< class loss, L1, GIoU; one tensor per layer each
};
struct differentiated_set_loss : torch::autograd::Function<differentiated_set_loss> {
  using context = torch::autograd::AutogradContext;
  using list = torch::autograd::variable_list;

  static at::Tensor forward(context* ctx, at::TensorList inputs,
                            const computed_set_loss& computed) {
    ctx->save_for_backward(computed.grads);
    ctx->saved_data["inputs"] =
        c10::IValue::make_capsule(c10::make_intrusive<gradient_edges>(inputs));
    return computed.losses;
  }

  static list backward(context* ctx, const list& upstreams) {
    list kept = ctx->get_saved_variables();
    const std::size_t layers = kept.size() / 3;
    if (at::GradMode::is_enabled()) {
      for (std::size_t i = 0; i < kept.size(); ++i)  // the last two thirds are those of the boxes
        kept[i] = precomputed::refusing(ctx, i < 2 * layers ? i : i - layers, kept[i]);
    }
    const bool is_last = !torch::autograd::get_current_graph_task_keep_graph() &&
                         !at::GradMode::is_enabled() && is_plain(upstreams[0]);
    const at::Tensor upstream = is_last ? upstreams[0].contiguous() : upstreams[0];
    const auto times = [&](const at::Tensor& grad, std::size_t layer, std::int64_t loss) {
      const auto l = static_cast<std::int64_t>(layer);
      if (!is_last) return precomputed::scaled(grad, upstream.select(0, l).select(0, loss));
      // As a number, the factor would be rounded to the gradient's type.
      const at::Tensor factor = upstream.select(0, l).select(0, loss);
      return factor.item<double>() == 1 ? grad : grad.mul_(factor);
    };
    list grads(2 * layers);
    for (std::size_t l = 0; l < layers; ++l) {
      grads[l] = times(kept[l], l, 0);
      grads[layers + l] = times(kept[layers + l], l, 1) + times(kept[2 * layers + l], l, 2);
    }
    grads.emplace_back();
    return grads;
  }
};

namespace differentiable {

/// The weighted losses of decoder layers (set_loss.hpp), float32, layers x 3: classification, L1
/// and GIoU. Differentiable once, in logits and boxes.
/// @param matches one tensor per layer: groups x boxes, as a layer of match_queries()
/// @param num_boxes the number of boxes by which sums are divided; 0: that of `targets`
inline at::Tensor set_loss(at::TensorList logits, at::TensorList boxes, at::TensorList matches,
                           const at::Tensor& targets, const optional_tensor& classes,
                           at::IntArrayRef box_counts, const set_loss_params& params) {
  static const auto op =
      find_operator("vecdet::_set_loss", &kernel<&flat::compute_set_loss<&cpu::set_loss>>::call);
  if (needs_gradient(targets)) refuse_gradient("set_loss", "targets");
  const bool is_needed = needs_gradient(logits) || needs_gradient(boxes);
  const set_loss_tensors computed = flat::call_set_loss(op, logits, boxes, matches, targets,
                                                        classes, box_counts, params, is_needed);
  if (!is_needed) return std::get<0>(computed);
  computed_set_loss loss{std::get<0>(computed), std::get<1>(computed)};
  const auto append = [](std::vector<at::Tensor>& to, at::TensorList from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(loss.grads, std::get<2>(computed));
  append(loss.grads, std::get<3>(computed));
  std::vector<at::Tensor> inputs = logits.vec();
  append(inputs, boxes);
  return differentiated_set_loss::apply(at::TensorList(inputs), loss);
}

}  // namespace differentiable
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
