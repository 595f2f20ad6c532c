// SPDX-License-Identifier: Apache-2.0
// The operators torch.ops.vecdet.*, and the functions of vecdet/torch.hpp, which call them; those
// of matching and of whole heads are in training_operators.cpp, those of two-stage detectors alone
// in two_stage_operators.cpp. Compiled by the CMake target vecdet::torch; or by hand, the three
// files once in a program, with the flags of libtorch (-fopenmp among them) and those of the files
// that include vecdet/torch.hpp.
//
// A loss is two operators. The public one asks whether a gradient is needed and ties loss and
// gradient together; the one with an underscore computes both, on the CPU or of shapes alone, and
// is what torch.compile sees.
#include <vecdet/impl/torch/box_losses.hpp>
#include <vecdet/impl/torch/boxes.hpp>
#include <vecdet/impl/torch/class_losses.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/gradient.hpp>
#include <vecdet/impl/torch/operator.hpp>
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

at::Tensor sigmoid_focal_loss(const at::Tensor& logits, const at::Tensor& targets, double alpha,
                              double gamma, std::int64_t reduction, double scale,
                              const optional_tensor& row_weights, std::int64_t background,
                              std::int64_t ignore) {
  static const auto op = find_operator("vecdet::_sigmoid_focal_loss", &cpu::sigmoid_focal_loss);
  refuse_gradient("sigmoid_focal_loss", "targets", targets);
  return with_gradient(logits, op.call(logits, targets, alpha, gamma, reduction, scale, row_weights,
                                       background, ignore, needs_gradient(logits), is_autocast()));
}

at::Tensor smooth_l1_loss(const at::Tensor& predictions, const at::Tensor& targets, double beta,
                          std::int64_t reduction, const optional_tensor& labels, double scale,
                          const optional_tensor& box_weights, std::int64_t background,
                          std::int64_t ignore) {
  static const auto op = find_operator("vecdet::_smooth_l1_loss", &cpu::smooth_l1_loss);
  refuse_gradient("smooth_l1_loss", "targets", targets);
  return with_gradient(predictions,
                       op.call(predictions, targets, beta, reduction, labels, scale, box_weights,
                               background, ignore, needs_gradient(predictions), is_autocast()));
}

at::Tensor giou_loss(const at::Tensor& predicted, const at::Tensor& targets, std::int64_t reduction,
                     double epsilon, double scale, const optional_tensor& box_weights) {
  static const auto op = find_operator("vecdet::_giou_loss", &cpu::giou_loss);
  refuse_gradient("giou_loss", "targets", targets);
  return with_gradient(predicted, op.call(predicted, targets, reduction, epsilon, scale,
                                          box_weights, needs_gradient(predicted), is_autocast()));
}

at::Tensor diou_loss(const at::Tensor& predicted, const at::Tensor& targets, std::int64_t reduction,
                     double epsilon, double scale, const optional_tensor& box_weights) {
  static const auto op = find_operator("vecdet::_diou_loss", &cpu::diou_loss);
  refuse_gradient("diou_loss", "targets", targets);
  return with_gradient(predicted, op.call(predicted, targets, reduction, epsilon, scale,
                                          box_weights, needs_gradient(predicted), is_autocast()));
}

at::Tensor ciou_loss(const at::Tensor& predicted, const at::Tensor& targets, std::int64_t reduction,
                     double epsilon, double scale, const optional_tensor& box_weights) {
  static const auto op = find_operator("vecdet::_ciou_loss", &cpu::ciou_loss);
  refuse_gradient("ciou_loss", "targets", targets);
  return with_gradient(predicted, op.call(predicted, targets, reduction, epsilon, scale,
                                          box_weights, needs_gradient(predicted), is_autocast()));
}

at::Tensor regression_loss(const at::Tensor& deltas, const at::Tensor& anchors,
                           const at::Tensor& targets, const optional_tensor& matches,
                           const optional_tensor& labels, std::int64_t loss, double beta,
                           double epsilon, at::ArrayRef<double> weights, double size_limit,
                           double scale, const optional_tensor& box_weights,
                           std::int64_t background, std::int64_t ignore) {
  static const auto op = find_operator("vecdet::_regression_loss", &cpu::regression_loss);
  refuse_gradient("regression_loss", "anchors", anchors);
  refuse_gradient("regression_loss", "targets", targets);
  return with_gradient(deltas, op.call(deltas, anchors, targets, matches, labels, loss, beta,
                                       epsilon, weights, size_limit, scale, box_weights, background,
                                       ignore, needs_gradient(deltas), is_autocast()));
}

}  // namespace differentiable

}  // namespace aten
}  // namespace detail

namespace ops {

using detail::aten::find_operator;
using detail::aten::optional;
namespace cpu = detail::aten::cpu;
namespace differentiable = detail::aten::differentiable;

at::Tensor sigmoid_focal_loss(const at::Tensor& logits, const at::Tensor& targets, double alpha,
                              double gamma, std::int64_t reduction, double scale,
                              const at::Tensor& row_weights, std::int64_t background,
                              std::int64_t ignore) {
  static const auto op =
      find_operator("vecdet::sigmoid_focal_loss", &differentiable::sigmoid_focal_loss);
  return op.call(logits, targets, alpha, gamma, reduction, scale, optional(row_weights), background,
                 ignore);
}

at::Tensor smooth_l1_loss(const at::Tensor& predictions, const at::Tensor& targets, double beta,
                          std::int64_t reduction, const at::Tensor& labels, double scale,
                          const at::Tensor& box_weights, std::int64_t background,
                          std::int64_t ignore) {
  static const auto op = find_operator("vecdet::smooth_l1_loss", &differentiable::smooth_l1_loss);
  return op.call(predictions, targets, beta, reduction, optional(labels), scale,
                 optional(box_weights), background, ignore);
}

at::Tensor giou_loss(const at::Tensor& predicted, const at::Tensor& targets, std::int64_t reduction,
                     double epsilon, double scale, const at::Tensor& box_weights) {
  static const auto op = find_operator("vecdet::giou_loss", &differentiable::giou_loss);
  return op.call(predicted, targets, reduction, epsilon, scale, optional(box_weights));
}

at::Tensor diou_loss(const at::Tensor& predicted, const at::Tensor& targets, std::int64_t reduction,
                     double epsilon, double scale, const at::Tensor& box_weights) {
  static const auto op = find_operator("vecdet::diou_loss", &differentiable::diou_loss);
  return op.call(predicted, targets, reduction, epsilon, scale, optional(box_weights));
}

at::Tensor ciou_loss(const at::Tensor& predicted, const at::Tensor& targets, std::int64_t reduction,
                     double epsilon, double scale, const at::Tensor& box_weights) {
  static const auto op = find_operator("vecdet::ciou_loss", &differentiable::ciou_loss);
  return op.call(predicted, targets, reduction, epsilon, scale, optional(box_weights));
}

at::Tensor regression_loss(const at::Tensor& deltas, const at::Tensor& anchors,
                           const at::Tensor& targets, const at::Tensor& matches,
                           const at::Tensor& labels, regression loss, double beta, double epsilon,
                           at::ArrayRef<double> weights, double size_limit, double scale,
                           const at::Tensor& box_weights, std::int64_t background,
                           std::int64_t ignore) {
  static const auto op = find_operator("vecdet::regression_loss", &differentiable::regression_loss);
  return op.call(deltas, anchors, targets, optional(matches), optional(labels),
                 static_cast<std::int64_t>(loss), beta, epsilon, weights, size_limit, scale,
                 optional(box_weights), background, ignore);
}

at::Tensor encode_boxes(const at::Tensor& targets, const at::Tensor& anchors,
                        at::ArrayRef<double> weights) {
  static const auto op = find_operator("vecdet::encode_boxes", &cpu::encode_boxes);
  return op.call(targets, anchors, weights);
}

at::Tensor decode_boxes(const at::Tensor& deltas, const at::Tensor& anchors,
                        at::ArrayRef<double> weights, at::ArrayRef<double> image_size,
                        double size_limit) {
  static const auto op = find_operator("vecdet::decode_boxes", &cpu::decode_boxes);
  return op.call(deltas, anchors, weights, image_size, size_limit);
}

at::Tensor encode_distances(const at::Tensor& targets, const at::Tensor& anchors, bool by_size) {
  static const auto op = find_operator("vecdet::encode_distances", &cpu::encode_distances);
  return op.call(targets, anchors, by_size);
}

at::Tensor decode_distances(const at::Tensor& distances, const at::Tensor& anchors, bool by_size,
                            at::ArrayRef<double> image_size) {
  static const auto op = find_operator("vecdet::decode_distances", &cpu::decode_distances);
  return op.call(distances, anchors, by_size, image_size);
}

at::Tensor pairwise_iou(const at::Tensor& a, const at::Tensor& b, iou_kind kind) {
  static const auto op = find_operator("vecdet::pairwise_iou", &cpu::pairwise_iou);
  return op.call(a, b, static_cast<std::int64_t>(kind));
}

at::Tensor elementwise_iou(const at::Tensor& a, const at::Tensor& b, iou_kind kind) {
  static const auto op = find_operator("vecdet::elementwise_iou", &cpu::elementwise_iou);
  return op.call(a, b, static_cast<std::int64_t>(kind));
}

at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double iou_threshold) {
  static const auto op = find_operator("vecdet::nms", &cpu::nms);
  return op.call(boxes, scores, iou_threshold);
}

at::Tensor batched_nms(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& classes,
                       double iou_threshold) {
  static const auto op = find_operator("vecdet::batched_nms", &cpu::batched_nms);
  return op.call(boxes, scores, classes, iou_threshold);
}

std::tuple<at::Tensor, at::Tensor> soft_nms(const at::Tensor& boxes, const at::Tensor& scores,
                                            const at::Tensor& classes, soft_nms_decay decay,
                                            double iou_threshold, double sigma,
                                            double score_floor) {
  static const auto op = find_operator("vecdet::soft_nms", &cpu::soft_nms);
  return op.call(boxes, scores, optional(classes), static_cast<std::int64_t>(decay), iou_threshold,
                 sigma, score_floor);
}

std::tuple<at::Tensor, at::Tensor> filter_topk(const at::Tensor& logits, double score_threshold,
                                               std::int64_t k) {
  static const auto op = find_operator("vecdet::filter_topk", &cpu::filter_topk);
  return op.call(logits, score_threshold, k);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> postprocess(
    const at::Tensor& logits, const at::Tensor& deltas, const at::Tensor& anchors,
    at::ArrayRef<double> image_sizes, at::IntArrayRef level_sizes, detector kind,
    double score_threshold, std::int64_t max_candidates, double iou_threshold,
    std::int64_t max_detections, at::ArrayRef<double> weights, const at::Tensor& centerness,
    double size_limit, double min_size) {
  static const auto op = find_operator("vecdet::postprocess", &cpu::postprocess);
  return op.call(logits, deltas, anchors, image_sizes, level_sizes, static_cast<std::int64_t>(kind),
                 score_threshold, max_candidates, iou_threshold, max_detections, weights,
                 optional(centerness), size_limit, min_size);
}

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet

namespace {

namespace aten = vecdet::detail::aten;

TORCH_LIBRARY(vecdet, m) {
  // A schema and, for a loss, the function that ties its gradient to it.
  m.def(
      "sigmoid_focal_loss(Tensor logits, Tensor targets, float alpha=0.25, float gamma=2.0, "
      "int reduction=0, float scale=1.0, Tensor? row_weights=None, int background=-1, "
      "int ignore=-2) -> Tensor",
      &aten::differentiable::sigmoid_focal_loss);
  m.def(
      "_sigmoid_focal_loss(Tensor logits, Tensor targets, float alpha, float gamma, "
      "int reduction, float scale, Tensor? row_weights, int background, int ignore, "
      "bool needs_grad, bool float_loss) -> (Tensor, Tensor)");
  m.def(
      "smooth_l1_loss(Tensor predictions, Tensor targets, float beta=0.1111111111111111, "
      "int reduction=0, Tensor? labels=None, float scale=1.0, Tensor? box_weights=None, "
      "int background=-1, int ignore=-2) -> Tensor",
      &aten::differentiable::smooth_l1_loss);
  m.def(
      "_smooth_l1_loss(Tensor predictions, Tensor targets, float beta, int reduction, "
      "Tensor? labels, float scale, Tensor? box_weights, int background, int ignore, "
      "bool needs_grad, bool float_loss) -> (Tensor, Tensor)");
  m.def(
      "giou_loss(Tensor predicted, Tensor targets, int reduction=0, float epsilon=1e-7, "
      "float scale=1.0, Tensor? box_weights=None) -> Tensor",
      &aten::differentiable::giou_loss);
  m.def(
      "_giou_loss(Tensor predicted, Tensor targets, int reduction, float epsilon, float scale, "
      "Tensor? box_weights, bool needs_grad, bool float_loss) -> (Tensor, Tensor)");
  m.def(
      "diou_loss(Tensor predicted, Tensor targets, int reduction=0, float epsilon=1e-7, "
      "float scale=1.0, Tensor? box_weights=None) -> Tensor",
      &aten::differentiable::diou_loss);
  m.def(
      "_diou_loss(Tensor predicted, Tensor targets, int reduction, float epsilon, float scale, "
      "Tensor? box_weights, bool needs_grad, bool float_loss) -> (Tensor, Tensor)");
  m.def(
      "ciou_loss(Tensor predicted, Tensor targets, int reduction=0, float epsilon=1e-7, "
      "float scale=1.0, Tensor? box_weights=None) -> Tensor",
      &aten::differentiable::ciou_loss);
  m.def(
      "_ciou_loss(Tensor predicted, Tensor targets, int reduction, float epsilon, float scale, "
      "Tensor? box_weights, bool needs_grad, bool float_loss) -> (Tensor, Tensor)");
  m.def(
      "regression_loss(Tensor deltas, Tensor anchors, Tensor targets, Tensor? matches=None, "
      "Tensor? labels=None, int loss=0, float beta=0.1111111111111111, float epsilon=1e-7, "
      "float[] weights=[], float size_limit=4.135166556742356, float scale=1.0, "
      "Tensor? box_weights=None, int background=-1, int ignore=-2) -> Tensor",
      &aten::differentiable::regression_loss);
  m.def(
      "_regression_loss(Tensor deltas, Tensor anchors, Tensor targets, Tensor? matches, "
      "Tensor? labels, int loss, float beta, float epsilon, float[] weights, float size_limit, "
      "float scale, Tensor? box_weights, int background, int ignore, bool needs_grad, "
      "bool float_loss) "
      "-> (Tensor, Tensor)");
  m.def("encode_boxes(Tensor targets, Tensor anchors, float[] weights=[]) -> Tensor");
  m.def(
      "decode_boxes(Tensor deltas, Tensor anchors, float[] weights=[], float[] image_size=[], "
      "float size_limit=4.135166556742356) -> Tensor");
  m.def("encode_distances(Tensor targets, Tensor anchors, bool by_size=True) -> Tensor");
  m.def(
      "decode_distances(Tensor distances, Tensor anchors, bool by_size=True, "
      "float[] image_size=[]) -> Tensor");
  m.def("pairwise_iou(Tensor a, Tensor b, int kind=0) -> Tensor");
  m.def("elementwise_iou(Tensor a, Tensor b, int kind=0) -> Tensor");
  m.def("nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor");
  m.def("batched_nms(Tensor boxes, Tensor scores, Tensor classes, float iou_threshold) -> Tensor");
  m.def(
      "soft_nms(Tensor boxes, Tensor scores, Tensor? classes=None, int decay=1, "
      "float iou_threshold=0.3, float sigma=0.5, float score_floor=0.001) -> (Tensor, Tensor)");
  m.def("filter_topk(Tensor logits, float score_threshold, int k) -> (Tensor, Tensor)");
  m.def(
      "postprocess(Tensor logits, Tensor deltas, Tensor anchors, float[] image_sizes, "
      "int[] level_sizes=[], int kind=0, float score_threshold=0.05, int max_candidates=1000, "
      "float iou_threshold=0.5, int max_detections=300, float[] weights=[], "
      "Tensor? centerness=None, float size_limit=4.135166556742356, float min_size=0.0) "
      "-> (Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(vecdet, CPU, m) {
  m.impl("_sigmoid_focal_loss", &aten::cpu::sigmoid_focal_loss);
  m.impl("_smooth_l1_loss", &aten::cpu::smooth_l1_loss);
  m.impl("_giou_loss", &aten::cpu::giou_loss);
  m.impl("_diou_loss", &aten::cpu::diou_loss);
  m.impl("_ciou_loss", &aten::cpu::ciou_loss);
  m.impl("_regression_loss", &aten::cpu::regression_loss);
  m.impl("encode_boxes", &aten::cpu::encode_boxes);
  m.impl("decode_boxes", &aten::cpu::decode_boxes);
  m.impl("encode_distances", &aten::cpu::encode_distances);
  m.impl("decode_distances", &aten::cpu::decode_distances);
  m.impl("pairwise_iou", &aten::cpu::pairwise_iou);
  m.impl("elementwise_iou", &aten::cpu::elementwise_iou);
  m.impl("nms", &aten::cpu::nms);
  m.impl("batched_nms", &aten::cpu::batched_nms);
  m.impl("soft_nms", &aten::cpu::soft_nms);
  m.impl("filter_topk", &aten::cpu::filter_topk);
  m.impl("postprocess", &aten::cpu::postprocess);
}

// What has as many boxes as the data decide has no shape: Python's package gives torch.compile one.
TORCH_LIBRARY_IMPL(vecdet, Meta, m) {
  m.impl("_sigmoid_focal_loss", &aten::meta::sigmoid_focal_loss);
  m.impl("_smooth_l1_loss", &aten::meta::smooth_l1_loss);
  m.impl("_giou_loss", &aten::meta::iou_loss);
  m.impl("_diou_loss", &aten::meta::iou_loss);
  m.impl("_ciou_loss", &aten::meta::iou_loss);
  m.impl("_regression_loss", &aten::meta::regression_loss);
  m.impl("encode_boxes", &aten::meta::encode_boxes);
  m.impl("decode_boxes", &aten::meta::decode_boxes);
  m.impl("encode_distances", &aten::meta::encode_distances);
  m.impl("decode_distances", &aten::meta::decode_distances);
  m.impl("pairwise_iou", &aten::meta::pairwise_iou);
  m.impl("elementwise_iou", &aten::meta::elementwise_iou);
}

// Losses tie their own gradients; backward() through anything else is an error.
TORCH_LIBRARY_IMPL(vecdet, Autograd, m) {
  for (const char* name : {"encode_boxes", "decode_boxes", "encode_distances", "decode_distances",
                           "pairwise_iou", "elementwise_iou", "filter_topk"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
  for (const char* name : {"_sigmoid_focal_loss", "_smooth_l1_loss", "_giou_loss", "_diou_loss",
                           "_ciou_loss", "_regression_loss"})
    m.impl(name, torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(vecdet, AutocastCPU, m) {
  for (const char* name : {"sigmoid_focal_loss", "smooth_l1_loss", "giou_loss", "diou_loss",
                           "ciou_loss", "regression_loss"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&aten::cast_losses>());
  for (const char* name : {"decode_boxes", "decode_distances", "filter_topk", "postprocess"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&aten::cast_but_outputs>());
  for (const char* name : {"encode_boxes", "encode_distances", "pairwise_iou", "elementwise_iou",
                           "nms", "batched_nms", "soft_nms"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&aten::cast_to_float>());
}

}  // namespace
