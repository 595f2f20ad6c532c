// SPDX-License-Identifier: Apache-2.0
// The operators of RoIAlign.
//
// Its gradient is a separate operator, called by backward(). It needs the boxes and the
// features' sizes, but not the features.
#include <vecdet/impl/torch/gradient.hpp>
#include <vecdet/impl/torch/operator.hpp>
#include <vecdet/impl/torch/roi_align.hpp>
#include <vecdet/torch.hpp>

#include <cstdint>
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

}  // namespace aten
}  // namespace detail

namespace ops {

using detail::aten::find_operator;
namespace differentiable = detail::aten::differentiable;

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

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet

namespace {

namespace aten = vecdet::detail::aten;

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
// once.

}  // namespace
