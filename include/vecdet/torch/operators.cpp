// SPDX-License-Identifier: Apache-2.0
// The operators torch.ops.vecdet.*, and the functions of vecdet/torch.hpp, which call them.
// Whole heads are in training_operators.cpp, two-stage detectors in two_stage_operators.cpp,
// convolutions in convolution_operators.cpp, deformable attention in attention_operators.cpp,
// matching and a DETR's queries in generated/. The CMake target vecdet::torch compiles these
// files. Without CMake, compile each once per program, with the flags of libtorch (including
// -fopenmp) and those of the files that include vecdet/torch.hpp.
//
// An operator is built from its CPU function and its schema: see operator.hpp, and
// loss_operator.hpp for losses.
#include <vecdet/impl/torch/box_formats.hpp>
#include <vecdet/impl/torch/box_losses.hpp>
#include <vecdet/impl/torch/boxes.hpp>
#include <vecdet/impl/torch/class_losses.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/loss_operator.hpp>
#include <vecdet/impl/torch/operator.hpp>
#include <vecdet/torch.hpp>

#include <cstdint>
#include <tuple>

#include <torch/library.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {
namespace operators {

using sigmoid_focal_loss = loss_operator<&cpu::sigmoid_focal_loss, loss_shape::matrix>;
using smooth_l1_loss = loss_operator<&cpu::smooth_l1_loss, loss_shape::elements>;
using iou_loss = loss_operator<&cpu::iou_loss, loss_shape::rows>;
using regression_loss = loss_operator<&cpu::regression_loss, loss_shape::elements>;
using encode_boxes = plain_operator<&cpu::encode_boxes>;
using decode_boxes = plain_operator<&cpu::decode_boxes>;
using encode_distances = plain_operator<&cpu::encode_distances>;
using decode_distances = plain_operator<&cpu::decode_distances>;
using pairwise_iou = plain_operator<&cpu::pairwise_iou>;
using elementwise_iou = plain_operator<&cpu::elementwise_iou>;
using nms = plain_operator<&cpu::nms>;
using batched_nms = plain_operator<&cpu::batched_nms>;
using soft_nms = plain_operator<&cpu::soft_nms>;
using filter_topk = plain_operator<&cpu::filter_topk>;
using postprocess = plain_operator<&cpu::postprocess>;
using convert_boxes = plain_operator<&cpu::convert_boxes>;
using clip_boxes = plain_operator<&cpu::clip_boxes>;
using box_areas = plain_operator<&cpu::box_areas>;
using large_boxes = plain_operator<&cpu::large_boxes>;

}  // namespace operators
}  // namespace aten
}  // namespace detail

namespace ops {

namespace operators = detail::aten::operators;

at::Tensor sigmoid_focal_loss(const at::Tensor& logits, const at::Tensor& targets, double alpha,
                              double gamma, std::int64_t reduction, double scale,
                              const at::Tensor& row_weights, std::int64_t background,
                              std::int64_t ignore) {
  return operators::sigmoid_focal_loss::call(logits, targets, alpha, gamma, reduction, scale,
                                             row_weights, background, ignore);
}

at::Tensor smooth_l1_loss(const at::Tensor& predictions, const at::Tensor& targets, double beta,
                          std::int64_t reduction, const at::Tensor& labels, double scale,
                          const at::Tensor& box_weights, std::int64_t background,
                          std::int64_t ignore) {
  return operators::smooth_l1_loss::call(predictions, targets, beta, reduction, labels, scale,
                                         box_weights, background, ignore);
}

at::Tensor iou_loss(const at::Tensor& predicted, const at::Tensor& targets, iou_kind kind,
                    std::int64_t reduction, double epsilon, double scale,
                    const at::Tensor& box_weights) {
  return operators::iou_loss::call(predicted, targets, kind, reduction, epsilon, scale,
                                   box_weights);
}

at::Tensor regression_loss(const at::Tensor& deltas, const at::Tensor& anchors,
                           const at::Tensor& targets, const at::Tensor& matches,
                           const at::Tensor& labels, regression loss, double beta, double epsilon,
                           at::ArrayRef<double> weights, double size_limit, double scale,
                           const at::Tensor& box_weights, std::int64_t background,
                           std::int64_t ignore) {
  return operators::regression_loss::call(deltas, anchors, targets, matches, labels, loss, beta,
                                          epsilon, weights, size_limit, scale, box_weights,
                                          background, ignore);
}

at::Tensor encode_boxes(const at::Tensor& targets, const at::Tensor& anchors,
                        at::ArrayRef<double> weights) {
  return operators::encode_boxes::call(targets, anchors, weights);
}

at::Tensor decode_boxes(const at::Tensor& deltas, const at::Tensor& anchors,
                        at::ArrayRef<double> weights, at::ArrayRef<double> image_size,
                        double size_limit) {
  return operators::decode_boxes::call(deltas, anchors, weights, image_size, size_limit);
}

at::Tensor encode_distances(const at::Tensor& targets, const at::Tensor& anchors, bool by_size) {
  return operators::encode_distances::call(targets, anchors, by_size);
}

at::Tensor decode_distances(const at::Tensor& distances, const at::Tensor& anchors, bool by_size,
                            at::ArrayRef<double> image_size) {
  return operators::decode_distances::call(distances, anchors, by_size, image_size);
}

at::Tensor pairwise_iou(const at::Tensor& a, const at::Tensor& b, iou_kind kind) {
  return operators::pairwise_iou::call(a, b, kind);
}

at::Tensor elementwise_iou(const at::Tensor& a, const at::Tensor& b, iou_kind kind) {
  return operators::elementwise_iou::call(a, b, kind);
}

at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double iou_threshold) {
  return operators::nms::call(boxes, scores, iou_threshold);
}

at::Tensor batched_nms(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& classes,
                       double iou_threshold) {
  return operators::batched_nms::call(boxes, scores, classes, iou_threshold);
}

std::tuple<at::Tensor, at::Tensor> soft_nms(const at::Tensor& boxes, const at::Tensor& scores,
                                            const at::Tensor& classes, soft_nms_decay decay,
                                            double iou_threshold, double sigma,
                                            double score_floor) {
  return operators::soft_nms::call(boxes, scores, classes, decay, iou_threshold, sigma,
                                   score_floor);
}

std::tuple<at::Tensor, at::Tensor> filter_topk(const at::Tensor& logits, double score_threshold,
                                               std::int64_t k) {
  return operators::filter_topk::call(logits, score_threshold, k);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> postprocess(
    const at::Tensor& logits, const at::Tensor& deltas, const at::Tensor& anchors,
    at::ArrayRef<double> image_sizes, at::IntArrayRef level_sizes, detector kind,
    double score_threshold, std::int64_t max_candidates, double iou_threshold,
    std::int64_t max_detections, at::ArrayRef<double> weights, const at::Tensor& centerness,
    double size_limit, double min_size) {
  return operators::postprocess::call(logits, deltas, anchors, image_sizes, level_sizes, kind,
                                      score_threshold, max_candidates, iou_threshold,
                                      max_detections, weights, centerness, size_limit, min_size);
}

at::Tensor convert_boxes(const at::Tensor& boxes, box_format from, box_format to) {
  return operators::convert_boxes::call(boxes, from, to);
}

at::Tensor clip_boxes(const at::Tensor& boxes, at::ArrayRef<double> image_size) {
  return operators::clip_boxes::call(boxes, image_size);
}

at::Tensor box_areas(const at::Tensor& boxes) { return operators::box_areas::call(boxes); }

at::Tensor large_boxes(const at::Tensor& boxes, double min_size) {
  return operators::large_boxes::call(boxes, min_size);
}

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet

namespace {

namespace aten = vecdet::detail::aten;
namespace operators = aten::operators;

// Operators whose number of result boxes depends on the data have no shape functions here. The
// Python package registers them for torch.compile.
TORCH_LIBRARY(vecdet, m) {
  operators::sigmoid_focal_loss::define(
      m,
      "sigmoid_focal_loss(Tensor logits, Tensor targets, float alpha=0.25, float gamma=2.0, "
      "int reduction=0, float scale=1.0, Tensor? row_weights=None, int background=-1, int "
      "ignore=-2) -> Tensor");
  operators::smooth_l1_loss::define(
      m,
      "smooth_l1_loss(Tensor predictions, Tensor targets, float beta=0.1111111111111111, int "
      "reduction=0, Tensor? labels=None, float scale=1.0, Tensor? box_weights=None, int "
      "background=-1, int ignore=-2) -> Tensor");
  operators::iou_loss::define(
      m,
      "iou_loss(Tensor predicted, Tensor targets, int kind, int reduction=0, float epsilon=1e-7, "
      "float scale=1.0, Tensor? box_weights=None) -> Tensor");
  operators::regression_loss::define(
      m,
      "regression_loss(Tensor deltas, Tensor anchors, Tensor targets, Tensor? matches=None, "
      "Tensor? labels=None, int loss=0, float beta=0.1111111111111111, float epsilon=1e-7, "
      "float[] weights=[], float size_limit=4.135166556742356, float scale=1.0, Tensor? "
      "box_weights=None, int background=-1, int ignore=-2) -> Tensor");
  operators::encode_boxes::define(
      m, "encode_boxes(Tensor targets, Tensor anchors, float[] weights=[]) -> Tensor");
  operators::encode_boxes::define_shapes<&aten::meta::encode_boxes>(m);
  operators::encode_boxes::define_autocast<>(m);
  operators::decode_boxes::define(
      m,
      "decode_boxes(Tensor deltas, Tensor anchors, float[] weights=[], float[] "
      "image_size=[], float size_limit=4.135166556742356) -> Tensor");
  operators::decode_boxes::define_shapes<&aten::meta::decode_boxes>(m);
  operators::decode_boxes::define_autocast<0>(m);
  operators::encode_distances::define(
      m, "encode_distances(Tensor targets, Tensor anchors, bool by_size=True) -> Tensor");
  operators::encode_distances::define_shapes<&aten::meta::encode_distances>(m);
  operators::encode_distances::define_autocast<>(m);
  operators::decode_distances::define(
      m,
      "decode_distances(Tensor distances, Tensor anchors, bool by_size=True, float[] "
      "image_size=[]) -> Tensor");
  operators::decode_distances::define_shapes<&aten::meta::decode_distances>(m);
  operators::decode_distances::define_autocast<0>(m);
  operators::pairwise_iou::define(m, "pairwise_iou(Tensor a, Tensor b, int kind=0) -> Tensor");
  operators::pairwise_iou::define_shapes<&aten::meta::pairwise_iou>(m);
  operators::pairwise_iou::define_autocast<>(m);
  operators::elementwise_iou::define(m,
                                     "elementwise_iou(Tensor a, Tensor b, int kind=0) -> Tensor");
  operators::elementwise_iou::define_shapes<&aten::meta::elementwise_iou>(m);
  operators::elementwise_iou::define_autocast<>(m);
  operators::nms::define(m, "nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor");
  operators::nms::define_autocast<>(m);
  operators::batched_nms::define(
      m,
      "batched_nms(Tensor boxes, Tensor scores, Tensor classes, float iou_threshold) -> "
      "Tensor");
  operators::batched_nms::define_autocast<>(m);
  operators::soft_nms::define(
      m,
      "soft_nms(Tensor boxes, Tensor scores, Tensor? classes=None, int decay=1, float "
      "iou_threshold=0.3, float sigma=0.5, float score_floor=0.001) -> (Tensor, Tensor)");
  operators::soft_nms::define_autocast<>(m);
  operators::filter_topk::define(
      m, "filter_topk(Tensor logits, float score_threshold, int k) -> (Tensor, Tensor)");
  operators::filter_topk::define_autocast<0>(m);
  operators::postprocess::define(
      m,
      "postprocess(Tensor logits, Tensor deltas, Tensor anchors, float[] image_sizes, int[] "
      "level_sizes=[], int kind=0, float score_threshold=0.05, int max_candidates=1000, "
      "float iou_threshold=0.5, int max_detections=300, float[] weights=[], Tensor? "
      "centerness=None, float size_limit=4.135166556742356, float min_size=0.0) -> (Tensor, "
      "Tensor, Tensor, Tensor)");
  operators::postprocess::define_autocast<0, 1, 11>(m);
  operators::convert_boxes::define(
      m, "convert_boxes(Tensor boxes, int in_fmt, int out_fmt) -> Tensor");
  operators::convert_boxes::define_shapes<&aten::meta::convert_boxes>(m);
  operators::clip_boxes::define(m, "clip_boxes(Tensor boxes, float[] image_size) -> Tensor");
  operators::clip_boxes::define_shapes<&aten::meta::clip_boxes>(m);
  operators::box_areas::define(m, "box_areas(Tensor boxes) -> Tensor");
  operators::box_areas::define_shapes<&aten::meta::box_areas>(m);
  operators::large_boxes::define(m, "large_boxes(Tensor boxes, float min_size) -> Tensor");
}

}  // namespace
