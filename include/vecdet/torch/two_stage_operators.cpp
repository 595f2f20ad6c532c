// SPDX-License-Identifier: Apache-2.0
// The operators for two-stage detectors: RoIAlign, proposals, detections and samples; see
// operators.cpp.
//
// RoIAlign's gradient is a separate operator, called by backward(). It needs the boxes and the
// features' sizes, but not the features.
#include <vecdet/impl/torch/gradient.hpp>
#include <vecdet/impl/torch/operator.hpp>
#include <vecdet/impl/torch/roi_align.hpp>
#include <vecdet/impl/torch/two_stage.hpp>
#include <vecdet/torch.hpp>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {
namespace {

/// The arguments of a RoIAlign call that its gradient needs.
struct roi_align_context : torch::CustomClassHolder {
  at::Tensor out, boxes;
  std::vector<c10::SymInt> sizes;
  std::vector<double> scales;
  std::int64_t sampling_ratio = 0;
  bool aligned = false;
  std::vector<std::int64_t> box_counts;
  double canonical_size = 0;
  std::int64_t canonical_level = 0;
  bool channels_last = false;
};

/// An autograd node. backward() computes the gradients with respect to the features. The pointer
/// hides output and boxes from autograd.
struct pooled : torch::autograd::Function<pooled> {
  using context = torch::autograd::AutogradContext;
  using list = torch::autograd::variable_list;

  static at::Tensor forward(context* ctx, at::TensorList /*features*/,
                            const c10::intrusive_ptr<roi_align_context>& call) {
    ctx->save_for_backward({call->boxes});
    at::Tensor out = std::move(call->out);
    call->boxes = at::Tensor();
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return out;
  }

  static list backward(context* ctx, const list& upstreams) {
    static const auto op =
        find_operator("vecdet::_multiscale_roi_align_grad", &meta::multiscale_roi_align_grad);
    const auto capsule = ctx->saved_data["call"].toCapsule();
    const auto& call = static_cast<const roi_align_context&>(*capsule);
    list grads = op.call(upstreams[0], ctx->get_saved_variables()[0], call.sizes, call.scales,
                         call.sampling_ratio, call.aligned, call.box_counts, call.canonical_size,
                         call.canonical_level, call.channels_last);
    grads.emplace_back();
    return grads;
  }
};

at::Tensor pool(at::TensorList features, const at::Tensor& boxes, at::IntArrayRef output_size,
                at::ArrayRef<double> scales, std::int64_t sampling_ratio, bool aligned,
                at::IntArrayRef box_counts, double canonical_size, std::int64_t canonical_level) {
  static const auto op = find_operator("vecdet::_multiscale_roi_align", &cpu::multiscale_roi_align);
  if (needs_gradient(boxes)) refuse_gradient(name_of_roi_align(features.size()), "boxes");
  const at::Tensor out = op.call(features, boxes, output_size, scales, sampling_ratio, aligned,
                                 box_counts, canonical_size, canonical_level);
  if (!needs_gradient(features)) return out;
  auto call = c10::make_intrusive<roi_align_context>();
  call->out = out;
  call->boxes = boxes;
  call->sizes = {features[0].sym_size(0), features[0].sym_size(1)};
  for (const at::Tensor& map : features) {
    call->sizes.push_back(map.sym_size(2));
    call->sizes.push_back(map.sym_size(3));
  }
  call->scales = scales.vec();
  call->sampling_ratio = sampling_ratio;
  call->aligned = aligned;
  call->box_counts = box_counts.vec();
  call->canonical_size = canonical_size;
  call->canonical_level = canonical_level;
  call->channels_last = are_channels_last(features);
  return pooled::apply(features, call);
}

}  // namespace

// The public operators with a gradient.
namespace differentiable {

at::Tensor roi_align(const at::Tensor& features, const at::Tensor& boxes,
                     at::IntArrayRef output_size, double spatial_scale, std::int64_t sampling_ratio,
                     bool aligned, at::IntArrayRef box_counts) {
  return pool(features, boxes, output_size, spatial_scale, sampling_ratio, aligned, box_counts, 224,
              4);
}

at::Tensor multiscale_roi_align(at::TensorList features, const at::Tensor& boxes,
                                at::IntArrayRef output_size, at::ArrayRef<double> scales,
                                std::int64_t sampling_ratio, bool aligned,
                                at::IntArrayRef box_counts, double canonical_size,
                                std::int64_t canonical_level) {
  return pool(features, boxes, output_size, scales, sampling_ratio, aligned, box_counts,
              canonical_size, canonical_level);
}

}  // namespace differentiable

namespace operators {

using rpn_postprocess = plain_operator<&cpu::rpn_postprocess>;
using postprocess_box_head = plain_operator<&cpu::postprocess_box_head>;
using sample_balanced = plain_operator<&cpu::sample_balanced>;

}  // namespace operators
}  // namespace aten
}  // namespace detail

namespace ops {

using detail::aten::find_operator;
namespace differentiable = detail::aten::differentiable;
namespace operators = detail::aten::operators;

at::Tensor roi_align(const at::Tensor& features, const at::Tensor& boxes,
                     at::IntArrayRef output_size, double spatial_scale, std::int64_t sampling_ratio,
                     bool aligned, at::IntArrayRef box_counts) {
  static const auto op = find_operator("vecdet::roi_align", &differentiable::roi_align);
  return op.call(features, boxes, output_size, spatial_scale, sampling_ratio, aligned, box_counts);
}

at::Tensor multiscale_roi_align(at::TensorList features, const at::Tensor& boxes,
                                at::IntArrayRef output_size, at::ArrayRef<double> scales,
                                std::int64_t sampling_ratio, bool aligned,
                                at::IntArrayRef box_counts, double canonical_size,
                                std::int64_t canonical_level) {
  static const auto op =
      find_operator("vecdet::multiscale_roi_align", &differentiable::multiscale_roi_align);
  return op.call(features, boxes, output_size, scales, sampling_ratio, aligned, box_counts,
                 canonical_size, canonical_level);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> rpn_postprocess(
    at::TensorList logits, at::TensorList deltas, const at::Tensor& anchors,
    at::ArrayRef<double> image_sizes, std::int64_t max_candidates, double iou_threshold,
    std::int64_t max_proposals, double score_threshold, at::ArrayRef<double> weights,
    double size_limit, double min_size) {
  return operators::rpn_postprocess::call(logits, deltas, anchors, image_sizes, max_candidates,
                                          iou_threshold, max_proposals, score_threshold, weights,
                                          size_limit, min_size);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> postprocess_box_head(
    const at::Tensor& logits, const at::Tensor& deltas, const at::Tensor& proposals,
    at::IntArrayRef proposal_counts, at::ArrayRef<double> image_sizes, double score_threshold,
    double iou_threshold, std::int64_t max_detections, at::ArrayRef<double> weights,
    double size_limit, double min_size) {
  return operators::postprocess_box_head::call(logits, deltas, proposals, proposal_counts,
                                               image_sizes, score_threshold, iou_threshold,
                                               max_detections, weights, size_limit, min_size);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> sample_balanced(
    const at::Tensor& labels, at::IntArrayRef counts, std::int64_t size, double positive_share,
    std::int64_t seed, std::int64_t background, std::int64_t ignore) {
  return operators::sample_balanced::call(labels, counts, size, positive_share, seed, background,
                                          ignore);
}

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet

namespace {

namespace aten = vecdet::detail::aten;
namespace operators = aten::operators;

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  m.def(
      "roi_align(Tensor features, Tensor boxes, int[] output_size, float spatial_scale=1.0, "
      "int sampling_ratio=-1, bool aligned=False, int[] box_counts=[]) -> Tensor",
      &aten::differentiable::roi_align);
  m.def(
      "multiscale_roi_align(Tensor[] features, Tensor boxes, int[] output_size, float[] scales, "
      "int sampling_ratio=2, bool aligned=False, int[] box_counts=[], "
      "float canonical_size=224.0, int canonical_level=4) -> Tensor",
      &aten::differentiable::multiscale_roi_align);
  m.def(
      "_multiscale_roi_align(Tensor[] features, Tensor boxes, int[] output_size, float[] scales, "
      "int sampling_ratio, bool aligned, int[] box_counts, float canonical_size, "
      "int canonical_level) -> Tensor");
  m.def(
      "_multiscale_roi_align_grad(Tensor upstream, Tensor boxes, SymInt[] sizes, float[] scales, "
      "int sampling_ratio, bool aligned, int[] box_counts, float canonical_size, "
      "int canonical_level, bool channels_last) -> Tensor[]");
  operators::rpn_postprocess::define(
      m,
      "rpn_postprocess(Tensor[] logits, Tensor[] deltas, Tensor anchors, float[] "
      "image_sizes, int max_candidates=2000, float iou_threshold=0.7, int "
      "max_proposals=2000, float score_threshold=0.0, float[] weights=[], float "
      "size_limit=4.135166556742356, float min_size=0.001) -> (Tensor, Tensor, Tensor, "
      "Tensor)");
  operators::postprocess_box_head::define(
      m,
      "postprocess_box_head(Tensor logits, Tensor deltas, Tensor proposals, int[] "
      "proposal_counts, float[] image_sizes, float score_threshold=0.05, float "
      "iou_threshold=0.5, int max_detections=100, float[] weights=[], float "
      "size_limit=4.135166556742356, float min_size=0.01) -> (Tensor, Tensor, Tensor, Tensor)");
  operators::sample_balanced::define(
      m,
      "sample_balanced(Tensor labels, int[] counts=[], int size=256, float "
      "positive_share=0.5, int seed=0, int background=-1, int ignore=-2) -> (Tensor, Tensor, "
      "Tensor)");
}

TORCH_LIBRARY_IMPL(vecdet, CPU, m) {
  m.impl("_multiscale_roi_align", &aten::cpu::multiscale_roi_align);
  m.impl("_multiscale_roi_align_grad", &aten::cpu::multiscale_roi_align_grad);
}

TORCH_LIBRARY_IMPL(vecdet, Meta, m) {
  m.impl("_multiscale_roi_align", &aten::meta::multiscale_roi_align);
  m.impl("_multiscale_roi_align_grad", &aten::meta::multiscale_roi_align_grad);
}

TORCH_LIBRARY_IMPL(vecdet, Autograd, m) {
  aten::backward_only<&aten::cpu::multiscale_roi_align>::define(m, "_multiscale_roi_align");
  m.impl("_multiscale_roi_align_grad", torch::autograd::autogradNotImplementedFallback());
}

// Under autocast, features keep their type: sums are always in float32, and the result is rounded
// once. Outputs of heads keep their type, too; detections are computed from them in float32.

}  // namespace
