// SPDX-License-Identifier: Apache-2.0
// The gradient of RoIAlign is a separate operator, called by backward(). It needs the boxes and the
// features' sizes, but not the features.
#pragma once

#include <vecdet/impl/torch/generated/roi_align.hpp>
#include <vecdet/impl/torch/gradient.hpp>
#include <vecdet/impl/torch/operator.hpp>
#include <vecdet/impl/torch/roi_align.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The arguments of a RoIAlign call that its gradient needs.
struct roi_align_context : torch::CustomClassHolder {
  at::Tensor out, boxes;
  std::vector<c10::SymInt> sizes;
  std::vector<double> scales;
  multiscale_roi_align_params params;
  std::vector<std::int64_t> box_counts;
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
    list grads =
        op.call(upstreams[0], ctx->get_saved_variables()[0], call.sizes, call.scales,
                call.params.sampling_ratio, call.params.aligned, call.box_counts,
                call.params.canonical_size, call.params.canonical_level, call.channels_last);
    grads.emplace_back();
    return grads;
  }
};

// The public operators with a gradient.
namespace differentiable {

/// RoIAlign on a pyramid (multiscale_roi_align.hpp): each box is pooled from the level that matches
/// its size, as in torchvision's MultiScaleRoIAlign. A single level may have any scale and serves
/// all boxes.
/// @param features levels, finest first
/// @param scales locations per pixel, one per level, each half of the one before
inline at::Tensor multiscale_roi_align(at::TensorList features, const at::Tensor& boxes,
                                       at::IntArrayRef output_size, at::ArrayRef<double> scales,
                                       const multiscale_roi_align_params& params,
                                       at::IntArrayRef box_counts) {
  static const auto op =
      find_operator("vecdet::_multiscale_roi_align",
                    &kernel<&flat::compute_multiscale_roi_align<&cpu::multiscale_roi_align>>::call);
  if (needs_gradient(boxes)) refuse_gradient(name_of_roi_align(features.size()), "boxes");
  const at::Tensor out =
      flat::call_multiscale_roi_align(op, features, boxes, output_size, scales, params, box_counts);
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
  call->params = params;
  call->box_counts = box_counts.vec();
  call->channels_last = are_channels_last(features);
  return pooled::apply(features, call);
}

/// RoIAlign (roi_align.hpp) of `features`, images x channels x height x width, contiguous or
/// channels last. The result, boxes x channels x output_size, and the gradient have the type and
/// memory format of the features. Boxes may have any type and get no gradient. Differentiable with
/// respect to the features.
/// @param boxes K x 5, the index of an image and corners in pixels; or corners, K x 4, image after
///     image
/// @param output_size height and width, in bins
/// @param box_counts the number of the K x 4 boxes per image; empty: all belong to one image
inline at::Tensor roi_align(const at::Tensor& features, const at::Tensor& boxes,
                            at::IntArrayRef output_size, const roi_align_params& params,
                            at::IntArrayRef box_counts) {
  multiscale_roi_align_params single;
  single.sampling_ratio = params.sampling_ratio;
  single.aligned = params.aligned;
  return multiscale_roi_align(features, boxes, output_size, params.spatial_scale, single,
                              box_counts);
}

}  // namespace differentiable
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
