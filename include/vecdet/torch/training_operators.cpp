// SPDX-License-Identifier: Apache-2.0
// The operators of matching, of distributions, of scored rows and of whole heads; see
// operators.cpp.
#include <vecdet/impl/torch/assignment.hpp>
#include <vecdet/impl/torch/class_losses.hpp>
#include <vecdet/impl/torch/gradient.hpp>
#include <vecdet/impl/torch/head_losses.hpp>
#include <vecdet/impl/torch/operator.hpp>
#include <vecdet/impl/torch/softmax_losses.hpp>
#include <vecdet/torch.hpp>

#include <cstdint>
#include <tuple>

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

// The public operators of losses.
namespace differentiable {

at::Tensor quality_focal_loss(const at::Tensor& logits, const at::Tensor& labels,
                              const at::Tensor& scores, double beta, std::int64_t reduction,
                              double scale, const optional_tensor& row_weights,
                              std::int64_t background, std::int64_t ignore) {
  static const auto op = find_operator("vecdet::_quality_focal_loss", &cpu::quality_focal_loss);
  refuse_gradient("quality_focal_loss", "scores", scores);
  return with_gradient(logits, op.call(logits, labels, scores, beta, reduction, scale, row_weights,
                                       background, ignore, needs_gradient(logits), is_autocast()));
}

at::Tensor varifocal_loss(const at::Tensor& logits, const at::Tensor& labels,
                          const at::Tensor& scores, double alpha, double gamma,
                          bool grad_through_factor, std::int64_t reduction, double scale,
                          const optional_tensor& row_weights, std::int64_t background,
                          std::int64_t ignore) {
  static const auto op = find_operator("vecdet::_varifocal_loss", &cpu::varifocal_loss);
  refuse_gradient("varifocal_loss", "scores", scores);
  return with_gradient(
      logits, op.call(logits, labels, scores, alpha, gamma, grad_through_factor, reduction, scale,
                      row_weights, background, ignore, needs_gradient(logits), is_autocast()));
}

at::Tensor bce_loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& scores,
                    std::int64_t reduction, double scale, const optional_tensor& row_weights,
                    std::int64_t background, std::int64_t ignore) {
  static const auto op = find_operator("vecdet::_bce_loss", &cpu::bce_loss);
  refuse_gradient("bce_loss", "scores", scores);
  return with_gradient(logits, op.call(logits, labels, scores, reduction, scale, row_weights,
                                       background, ignore, needs_gradient(logits), is_autocast()));
}

at::Tensor distribution_focal_loss(const at::Tensor& logits, const at::Tensor& targets,
                                   std::int64_t reduction, double scale,
                                   const optional_tensor& row_weights) {
  static const auto op =
      find_operator("vecdet::_distribution_focal_loss", &cpu::distribution_focal_loss);
  refuse_gradient("distribution_focal_loss", "targets", targets);
  return with_gradient(
      logits, op.call(logits, targets, reduction, scale, row_weights, needs_gradient(logits)));
}

at::Tensor softmax_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels,
                                      std::int64_t reduction, double scale, std::int64_t ignore) {
  static const auto op =
      find_operator("vecdet::_softmax_cross_entropy_loss", &cpu::softmax_cross_entropy_loss);
  return with_gradient(logits,
                       op.call(logits, labels, reduction, scale, ignore, needs_gradient(logits)));
}

at::Tensor mined_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels,
                                    std::int64_t negatives_per_foreground, std::int64_t background,
                                    double scale, std::int64_t ignore) {
  static const auto op =
      find_operator("vecdet::_mined_cross_entropy_loss", &cpu::mined_cross_entropy_loss);
  return with_gradient(logits, op.call(logits, labels, negatives_per_foreground, background, scale,
                                       ignore, needs_gradient(logits)));
}

at::Tensor sigmoid_focal_loss_levels(at::TensorList logits, const at::Tensor& labels, double alpha,
                                     double gamma, double scale,
                                     const optional_tensor& image_scales, std::int64_t background,
                                     std::int64_t ignore) {
  static const auto op =
      find_operator("vecdet::_sigmoid_focal_loss_levels", &cpu::sigmoid_focal_loss_levels);
  const auto [loss, grads] = op.call(logits, labels, alpha, gamma, scale, image_scales, background,
                                     ignore, needs_gradient(logits), is_autocast());
  return with_gradients(logits, loss, grads);
}

std::tuple<at::Tensor, at::Tensor> retinanet_loss(
    at::TensorList logits, at::TensorList deltas, const at::Tensor& anchors,
    const at::Tensor& boxes, const at::Tensor& classes, at::IntArrayRef box_counts,
    double high_threshold, double low_threshold, bool allow_low_quality, double alpha, double gamma,
    std::int64_t loss, double beta, at::ArrayRef<double> weights, double size_limit, double scale,
    const optional_tensor& regions, at::IntArrayRef region_counts) {
  static const auto op = find_operator("vecdet::_retinanet_loss", &cpu::retinanet_loss);
  refuse_gradient("retinanet_loss", "anchors", anchors);
  refuse_gradient("retinanet_loss", "boxes", boxes);
  const auto [classification, regression, logit_grads, delta_grads] =
      op.call(logits, deltas, anchors, boxes, classes, box_counts, high_threshold, low_threshold,
              allow_low_quality, alpha, gamma, loss, beta, weights, size_limit, scale, regions,
              region_counts, needs_gradient(logits) || needs_gradient(deltas), is_autocast());
  return std::make_tuple(with_gradients(logits, classification, logit_grads),
                         with_gradients(deltas, regression, delta_grads));
}

}  // namespace differentiable
}  // namespace aten
}  // namespace detail

namespace ops {

using detail::aten::find_operator;
using detail::aten::optional;
namespace cpu = detail::aten::cpu;
namespace differentiable = detail::aten::differentiable;

at::Tensor quality_focal_loss(const at::Tensor& logits, const at::Tensor& labels,
                              const at::Tensor& scores, double beta, std::int64_t reduction,
                              double scale, const at::Tensor& row_weights, std::int64_t background,
                              std::int64_t ignore) {
  static const auto op =
      find_operator("vecdet::quality_focal_loss", &differentiable::quality_focal_loss);
  return op.call(logits, labels, scores, beta, reduction, scale, optional(row_weights), background,
                 ignore);
}

at::Tensor varifocal_loss(const at::Tensor& logits, const at::Tensor& labels,
                          const at::Tensor& scores, double alpha, double gamma,
                          bool grad_through_factor, std::int64_t reduction, double scale,
                          const at::Tensor& row_weights, std::int64_t background,
                          std::int64_t ignore) {
  static const auto op = find_operator("vecdet::varifocal_loss", &differentiable::varifocal_loss);
  return op.call(logits, labels, scores, alpha, gamma, grad_through_factor, reduction, scale,
                 optional(row_weights), background, ignore);
}

at::Tensor bce_loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& scores,
                    std::int64_t reduction, double scale, const at::Tensor& row_weights,
                    std::int64_t background, std::int64_t ignore) {
  static const auto op = find_operator("vecdet::bce_loss", &differentiable::bce_loss);
  return op.call(logits, labels, scores, reduction, scale, optional(row_weights), background,
                 ignore);
}

at::Tensor distribution_focal_loss(const at::Tensor& logits, const at::Tensor& targets,
                                   std::int64_t reduction, double scale,
                                   const at::Tensor& row_weights) {
  static const auto op =
      find_operator("vecdet::distribution_focal_loss", &differentiable::distribution_focal_loss);
  return op.call(logits, targets, reduction, scale, optional(row_weights));
}

at::Tensor decode_distributions(const at::Tensor& logits) {
  static const auto op = find_operator("vecdet::decode_distributions", &cpu::decode_distributions);
  return op.call(logits);
}

at::Tensor decode_distribution_boxes(const at::Tensor& logits, const at::Tensor& points,
                                     const at::Tensor& strides) {
  static const auto op =
      find_operator("vecdet::decode_distribution_boxes", &cpu::decode_distribution_boxes);
  return op.call(logits, points, strides);
}

at::Tensor softmax_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels,
                                      std::int64_t reduction, double scale, std::int64_t ignore) {
  static const auto op = find_operator("vecdet::softmax_cross_entropy_loss",
                                       &differentiable::softmax_cross_entropy_loss);
  return op.call(logits, labels, reduction, scale, ignore);
}

at::Tensor mined_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels,
                                    std::int64_t negatives_per_foreground, std::int64_t background,
                                    double scale, std::int64_t ignore) {
  static const auto op =
      find_operator("vecdet::mined_cross_entropy_loss", &differentiable::mined_cross_entropy_loss);
  return op.call(logits, labels, negatives_per_foreground, background, scale, ignore);
}

at::Tensor sigmoid_focal_loss_levels(at::TensorList logits, const at::Tensor& labels, double alpha,
                                     double gamma, double scale, const at::Tensor& image_scales,
                                     std::int64_t background, std::int64_t ignore) {
  static const auto op = find_operator("vecdet::sigmoid_focal_loss_levels",
                                       &differentiable::sigmoid_focal_loss_levels);
  return op.call(logits, labels, alpha, gamma, scale, optional(image_scales), background, ignore);
}

std::tuple<at::Tensor, at::Tensor> retinanet_loss(
    at::TensorList logits, at::TensorList deltas, const at::Tensor& anchors,
    const at::Tensor& boxes, const at::Tensor& classes, at::IntArrayRef box_counts,
    double high_threshold, double low_threshold, bool allow_low_quality, double alpha, double gamma,
    regression loss, double beta, at::ArrayRef<double> weights, double size_limit, double scale,
    const at::Tensor& regions, at::IntArrayRef region_counts) {
  static const auto op = find_operator("vecdet::retinanet_loss", &differentiable::retinanet_loss);
  return op.call(logits, deltas, anchors, boxes, classes, box_counts, high_threshold, low_threshold,
                 allow_low_quality, alpha, gamma, static_cast<std::int64_t>(loss), beta, weights,
                 size_limit, scale, optional(regions), region_counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> match_anchors(
    const at::Tensor& anchors, const at::Tensor& boxes, const at::Tensor& classes,
    at::IntArrayRef box_counts, double high_threshold, double low_threshold, bool allow_low_quality,
    bool force_best, bool skip_untouched, bool empty_iou_is_zero, const at::Tensor& regions,
    at::IntArrayRef region_counts, double region_threshold, bool ignore_matched,
    std::int64_t background, std::int64_t ignore) {
  static const auto op = find_operator("vecdet::match_anchors", &cpu::match_anchors);
  return op.call(anchors, boxes, optional(classes), box_counts, high_threshold, low_threshold,
                 allow_low_quality, force_best, skip_untouched, empty_iou_is_zero,
                 optional(regions), region_counts, region_threshold, ignore_matched, background,
                 ignore);
}

at::Tensor assign_atss(const at::Tensor& anchors, at::IntArrayRef level_sizes,
                       const at::Tensor& boxes, at::IntArrayRef box_counts,
                       std::int64_t candidates) {
  static const auto op = find_operator("vecdet::assign_atss", &cpu::assign_atss);
  return op.call(anchors, level_sizes, boxes, box_counts, candidates);
}

at::Tensor assign_fcos(const at::Tensor& anchors, at::IntArrayRef level_sizes,
                       const at::Tensor& boxes, at::IntArrayRef box_counts, double radius) {
  static const auto op = find_operator("vecdet::assign_fcos", &cpu::assign_fcos);
  return op.call(anchors, level_sizes, boxes, box_counts, radius);
}

std::tuple<at::Tensor, at::Tensor> assign_task_aligned(
    const at::Tensor& scores, const at::Tensor& predicted, const at::Tensor& points,
    at::IntArrayRef level_sizes, const at::Tensor& boxes, const at::Tensor& classes,
    at::IntArrayRef box_counts, std::int64_t top, double alpha, double beta) {
  static const auto op = find_operator("vecdet::assign_task_aligned", &cpu::assign_task_aligned);
  return op.call(scores, predicted, points, level_sizes, boxes, classes, box_counts, top, alpha,
                 beta);
}

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet

namespace {

namespace aten = vecdet::detail::aten;

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  m.def(
      "quality_focal_loss(Tensor logits, Tensor labels, Tensor scores, float beta=2.0, "
      "int reduction=0, float scale=1.0, Tensor? row_weights=None, int background=-1, "
      "int ignore=-2) -> Tensor",
      &aten::differentiable::quality_focal_loss);
  m.def(
      "_quality_focal_loss(Tensor logits, Tensor labels, Tensor scores, float beta, int reduction, "
      "float scale, Tensor? row_weights, int background, int ignore, bool needs_grad, "
      "bool float_loss) -> (Tensor, Tensor)");
  m.def(
      "varifocal_loss(Tensor logits, Tensor labels, Tensor scores, float alpha=0.75, "
      "float gamma=2.0, bool grad_through_factor=True, int reduction=0, float scale=1.0, "
      "Tensor? row_weights=None, int background=-1, int ignore=-2) -> Tensor",
      &aten::differentiable::varifocal_loss);
  m.def(
      "_varifocal_loss(Tensor logits, Tensor labels, Tensor scores, float alpha, float gamma, "
      "bool grad_through_factor, int reduction, float scale, Tensor? row_weights, int background, "
      "int ignore, bool needs_grad, bool float_loss) -> (Tensor, Tensor)");
  m.def(
      "bce_loss(Tensor logits, Tensor labels, Tensor scores, int reduction=0, float scale=1.0, "
      "Tensor? row_weights=None, int background=-1, int ignore=-2) -> Tensor",
      &aten::differentiable::bce_loss);
  m.def(
      "_bce_loss(Tensor logits, Tensor labels, Tensor scores, int reduction, float scale, "
      "Tensor? row_weights, int background, int ignore, bool needs_grad, bool float_loss) "
      "-> (Tensor, Tensor)");
  m.def(
      "distribution_focal_loss(Tensor logits, Tensor targets, int reduction=0, float scale=1.0, "
      "Tensor? row_weights=None) -> Tensor",
      &aten::differentiable::distribution_focal_loss);
  m.def(
      "_distribution_focal_loss(Tensor logits, Tensor targets, int reduction, float scale, "
      "Tensor? row_weights, bool needs_grad) -> (Tensor, Tensor)");
  m.def("decode_distributions(Tensor logits) -> Tensor");
  m.def("decode_distribution_boxes(Tensor logits, Tensor points, Tensor strides) -> Tensor");
  m.def(
      "softmax_cross_entropy_loss(Tensor logits, Tensor labels, int reduction=0, float scale=1.0, "
      "int ignore=-2) -> Tensor",
      &aten::differentiable::softmax_cross_entropy_loss);
  m.def(
      "_softmax_cross_entropy_loss(Tensor logits, Tensor labels, int reduction, float scale, "
      "int ignore, bool needs_grad) -> (Tensor, Tensor)");
  m.def(
      "mined_cross_entropy_loss(Tensor logits, Tensor labels, int negatives_per_foreground=3, "
      "int background=0, float scale=1.0, int ignore=-2) -> Tensor",
      &aten::differentiable::mined_cross_entropy_loss);
  m.def(
      "_mined_cross_entropy_loss(Tensor logits, Tensor labels, int negatives_per_foreground, "
      "int background, float scale, int ignore, bool needs_grad) -> (Tensor, Tensor)");
  m.def(
      "sigmoid_focal_loss_levels(Tensor[] logits, Tensor labels, float alpha=0.25, "
      "float gamma=2.0, float scale=1.0, Tensor? image_scales=None, int background=-1, "
      "int ignore=-2) -> Tensor",
      &aten::differentiable::sigmoid_focal_loss_levels);
  m.def(
      "_sigmoid_focal_loss_levels(Tensor[] logits, Tensor labels, float alpha, float gamma, "
      "float scale, Tensor? image_scales, int background, int ignore, bool needs_grad, "
      "bool float_loss) -> (Tensor, Tensor[])");
  m.def(
      "retinanet_loss(Tensor[] logits, Tensor[] deltas, Tensor anchors, Tensor boxes, "
      "Tensor classes, int[] box_counts=[], float high_threshold=0.5, float low_threshold=0.4, "
      "bool allow_low_quality=True, float alpha=0.25, float gamma=2.0, int loss=0, "
      "float beta=0.0, float[] weights=[], float size_limit=4.135166556742356, float scale=1.0, "
      "Tensor? regions=None, int[] region_counts=[]) -> (Tensor, Tensor)",
      &aten::differentiable::retinanet_loss);
  m.def(
      "_retinanet_loss(Tensor[] logits, Tensor[] deltas, Tensor anchors, Tensor boxes, "
      "Tensor classes, int[] box_counts, float high_threshold, float low_threshold, "
      "bool allow_low_quality, float alpha, float gamma, int loss, float beta, float[] weights, "
      "float size_limit, float scale, Tensor? regions, int[] region_counts, bool needs_grad, "
      "bool float_loss) -> (Tensor, Tensor, Tensor[], Tensor[])");
  m.def(
      "match_anchors(Tensor anchors, Tensor boxes, Tensor? classes=None, int[] box_counts=[], "
      "float high_threshold=0.5, float low_threshold=0.4, bool allow_low_quality=True, "
      "bool force_best=False, bool skip_untouched=False, bool empty_iou_is_zero=False, "
      "Tensor? regions=None, int[] region_counts=[], float region_threshold=0.5, "
      "bool ignore_matched=False, int background=-1, int ignore=-2) -> (Tensor, Tensor, Tensor)");
  m.def(
      "assign_atss(Tensor anchors, int[] level_sizes, Tensor boxes, int[] box_counts=[], "
      "int candidates=9) -> Tensor");
  m.def(
      "assign_fcos(Tensor anchors, int[] level_sizes, Tensor boxes, int[] box_counts=[], "
      "float radius=1.5) -> Tensor");
  m.def(
      "assign_task_aligned(Tensor scores, Tensor predicted, Tensor points, int[] level_sizes, "
      "Tensor boxes, Tensor classes, int[] box_counts=[], int top=10, float alpha=0.5, "
      "float beta=6.0) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(vecdet, CPU, m) {
  m.impl("_quality_focal_loss", &aten::cpu::quality_focal_loss);
  m.impl("_varifocal_loss", &aten::cpu::varifocal_loss);
  m.impl("_bce_loss", &aten::cpu::bce_loss);
  m.impl("_distribution_focal_loss", &aten::cpu::distribution_focal_loss);
  m.impl("decode_distributions", &aten::cpu::decode_distributions);
  m.impl("decode_distribution_boxes", &aten::cpu::decode_distribution_boxes);
  m.impl("_softmax_cross_entropy_loss", &aten::cpu::softmax_cross_entropy_loss);
  m.impl("_mined_cross_entropy_loss", &aten::cpu::mined_cross_entropy_loss);
  m.impl("_sigmoid_focal_loss_levels", &aten::cpu::sigmoid_focal_loss_levels);
  m.impl("_retinanet_loss", &aten::cpu::retinanet_loss);
  m.impl("match_anchors", &aten::cpu::match_anchors);
  m.impl("assign_atss", &aten::cpu::assign_atss);
  m.impl("assign_fcos", &aten::cpu::assign_fcos);
  m.impl("assign_task_aligned", &aten::cpu::assign_task_aligned);
}

TORCH_LIBRARY_IMPL(vecdet, Meta, m) {
  m.impl("_quality_focal_loss", &aten::meta::quality_focal_loss);
  m.impl("_varifocal_loss", &aten::meta::varifocal_loss);
  m.impl("_bce_loss", &aten::meta::bce_loss);
  m.impl("_distribution_focal_loss", &aten::meta::distribution_focal_loss);
  m.impl("decode_distributions", &aten::meta::decode_distributions);
  m.impl("decode_distribution_boxes", &aten::meta::decode_distribution_boxes);
  m.impl("_softmax_cross_entropy_loss", &aten::meta::softmax_cross_entropy_loss);
  m.impl("_mined_cross_entropy_loss", &aten::meta::mined_cross_entropy_loss);
  m.impl("_sigmoid_focal_loss_levels", &aten::meta::sigmoid_focal_loss_levels);
  m.impl("_retinanet_loss", &aten::meta::retinanet_loss);
  m.impl("match_anchors", &aten::meta::match_anchors);
  m.impl("assign_atss", &aten::meta::assign_atss);
  m.impl("assign_fcos", &aten::meta::assign_fcos);
  m.impl("assign_task_aligned", &aten::meta::assign_task_aligned);
}

TORCH_LIBRARY_IMPL(vecdet, Autograd, m) {
  for (const char* name : {"decode_distributions", "decode_distribution_boxes", "match_anchors",
                           "assign_atss", "assign_fcos", "assign_task_aligned"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
  for (const char* name :
       {"_quality_focal_loss", "_varifocal_loss", "_bce_loss", "_distribution_focal_loss",
        "_softmax_cross_entropy_loss", "_mined_cross_entropy_loss", "_sigmoid_focal_loss_levels",
        "_retinanet_loss"})
    m.impl(name, torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(vecdet, AutocastCPU, m) {
  for (const char* name : {"quality_focal_loss", "varifocal_loss", "bce_loss",
                           "sigmoid_focal_loss_levels", "retinanet_loss"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&aten::cast_losses>());
  for (const char* name :
       {"distribution_focal_loss", "decode_distributions", "decode_distribution_boxes",
        "softmax_cross_entropy_loss", "mined_cross_entropy_loss", "match_anchors", "assign_atss",
        "assign_fcos", "assign_task_aligned"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&aten::cast_to_float>());
}

}  // namespace
