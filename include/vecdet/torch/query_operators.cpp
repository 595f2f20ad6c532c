// SPDX-License-Identifier: Apache-2.0
// The operators for a DETR's queries: matching, the assignment alone, and the losses of all layers;
// see operators.cpp.
//
// Each loss of each layer has its own upstream gradient. The gradients of L1 and GIoU are therefore
// stored separately; both are small.
#include <vecdet/impl/torch/gradient.hpp>
#include <vecdet/impl/torch/operator.hpp>
#include <vecdet/impl/torch/queries.hpp>
#include <vecdet/torch.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {
namespace {

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
      const double factor = upstream.select(0, l).select(0, loss).item<double>();
      return factor == 1 ? grad : grad.mul_(factor);
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

at::Tensor set_loss(at::TensorList logits, at::TensorList boxes, at::TensorList matches,
                    const at::Tensor& targets, const optional_tensor& classes,
                    at::IntArrayRef box_counts, std::int64_t class_loss, double alpha, double gamma,
                    double no_object_weight, double class_weight, double l1_weight,
                    double giou_weight, double num_boxes, double scale) {
  static const auto op = find_operator("vecdet::_set_loss", &kernel<&cpu::set_loss>::call);
  if (needs_gradient(targets)) refuse_gradient("set_loss", "targets");
  const bool is_needed = needs_gradient(logits) || needs_gradient(boxes);
  const set_loss_tensors computed =
      op.call(logits, boxes, matches, targets, classes, box_counts, class_loss, alpha, gamma,
              no_object_weight, class_weight, l1_weight, giou_weight, num_boxes, scale, is_needed);
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
}  // namespace

namespace operators {

using match_queries = plain_operator<&cpu::match_queries>;
using assign_least_cost = plain_operator<&cpu::assign_least_cost>;

}  // namespace operators
}  // namespace aten
}  // namespace detail

namespace ops {

namespace operators = detail::aten::operators;

at::Tensor match_queries(at::TensorList logits, at::TensorList boxes, const at::Tensor& targets,
                         const at::Tensor& classes, at::IntArrayRef box_counts,
                         query_class_cost class_cost, double alpha, double gamma, double epsilon,
                         double class_weight, double l1_weight, double giou_weight,
                         std::int64_t groups) {
  return operators::match_queries::call(logits, boxes, targets, classes, box_counts, class_cost,
                                        alpha, gamma, epsilon, class_weight, l1_weight, giou_weight,
                                        groups);
}

at::Tensor assign_least_cost(const at::Tensor& costs) {
  return operators::assign_least_cost::call(costs);
}

at::Tensor set_loss(at::TensorList logits, at::TensorList boxes, at::TensorList matches,
                    const at::Tensor& targets, const at::Tensor& classes,
                    at::IntArrayRef box_counts, set_class_loss class_loss, double alpha,
                    double gamma, double no_object_weight, double class_weight, double l1_weight,
                    double giou_weight, double num_boxes, double scale) {
  using namespace detail::aten;
  static const auto op = find_operator("vecdet::set_loss", &differentiable::set_loss);
  return op.call(logits, boxes, matches, targets, to_argument<optional_tensor>(classes), box_counts,
                 static_cast<std::int64_t>(class_loss), alpha, gamma, no_object_weight,
                 class_weight, l1_weight, giou_weight, num_boxes, scale);
}

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet

namespace {

namespace aten = vecdet::detail::aten;
namespace operators = aten::operators;

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  operators::match_queries::define(
      m,
      "match_queries(Tensor[] logits, Tensor[] boxes, Tensor targets, Tensor? classes=None, int[] "
      "box_counts=[], int class_cost=0, float alpha=0.25, float gamma=2.0, float epsilon=1e-08, "
      "float class_weight=2.0, float l1_weight=5.0, float giou_weight=2.0, int groups=1) -> "
      "Tensor");
  operators::match_queries::define_shapes<&aten::meta::match_queries>(m);
  operators::match_queries::define_autocast<0, 1>(m);
  operators::assign_least_cost::define(m, "assign_least_cost(Tensor costs) -> Tensor");
  operators::assign_least_cost::define_shapes<&aten::meta::assign_least_cost>(m);
  operators::assign_least_cost::define_autocast<0>(m);
  m.def(
      "set_loss(Tensor[] logits, Tensor[] boxes, Tensor[] matches, Tensor targets, Tensor? "
      "classes=None, int[] box_counts=[], int class_loss=1, float alpha=0.75, float gamma=2.0, "
      "float no_object_weight=0.1, float class_weight=1.0, float l1_weight=5.0, float "
      "giou_weight=2.0, float num_boxes=0.0, float scale=1.0) -> Tensor",
      &aten::differentiable::set_loss);
  m.def(
      "_set_loss(Tensor[] logits, Tensor[] boxes, Tensor[] matches, Tensor targets, Tensor? "
      "classes, int[] box_counts, int class_loss, float alpha, float gamma, float "
      "no_object_weight, float class_weight, float l1_weight, float giou_weight, float num_boxes, "
      "float scale, bool needs_grad) -> (Tensor, Tensor[], Tensor[], Tensor[])");
}

TORCH_LIBRARY_IMPL(vecdet, CPU, m) {
  m.impl("_set_loss", &aten::kernel<&aten::cpu::set_loss>::call);
}

TORCH_LIBRARY_IMPL(vecdet, Meta, m) {
  m.impl("_set_loss", &aten::kernel<&aten::meta::set_loss>::call);
}

TORCH_LIBRARY_IMPL(vecdet, Autograd, m) {
  aten::backward_only<&aten::cpu::set_loss>::define(m, "_set_loss");
}

}  // namespace
