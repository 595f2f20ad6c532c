// SPDX-License-Identifier: Apache-2.0
// The operators for distributions, scored rows and whole heads; see operators.cpp.
#include <vecdet/impl/torch/class_losses.hpp>
#include <vecdet/impl/torch/head_losses.hpp>
#include <vecdet/impl/torch/loss_operator.hpp>
#include <vecdet/impl/torch/operator.hpp>
#include <vecdet/impl/torch/softmax_losses.hpp>
#include <vecdet/torch.hpp>

#include <cstdint>
#include <tuple>

#include <torch/library.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {
namespace operators {

using quality_focal_loss = loss_operator<&cpu::quality_focal_loss, loss_shape::matrix>;
using varifocal_loss = loss_operator<&cpu::varifocal_loss, loss_shape::matrix>;
using bce_loss = loss_operator<&cpu::bce_loss, loss_shape::matrix>;
using distribution_focal_loss = loss_operator<&cpu::distribution_focal_loss, loss_shape::rows>;
using decode_distributions = plain_operator<&cpu::decode_distributions>;
using decode_distribution_boxes = plain_operator<&cpu::decode_distribution_boxes>;
using softmax_cross_entropy_loss =
    loss_operator<&cpu::softmax_cross_entropy_loss, loss_shape::rows>;
using mined_cross_entropy_loss = loss_operator<&cpu::mined_cross_entropy_loss, loss_shape::rows>;
using sigmoid_focal_loss_levels =
    loss_operator<&cpu::sigmoid_focal_loss_levels, loss_shape::matrix>;
using retinanet_loss = loss_operator<&cpu::retinanet_loss, loss_shape::matrix>;

}  // namespace operators
}  // namespace aten
}  // namespace detail

namespace ops {

namespace operators = detail::aten::operators;

at::Tensor quality_focal_loss(const at::Tensor& logits, const at::Tensor& labels,
                              const at::Tensor& scores, double beta, std::int64_t reduction,
                              double scale, const at::Tensor& row_weights, std::int64_t background,
                              std::int64_t ignore) {
  return operators::quality_focal_loss::call(logits, labels, scores, beta, reduction, scale,
                                             row_weights, background, ignore);
}

at::Tensor varifocal_loss(const at::Tensor& logits, const at::Tensor& labels,
                          const at::Tensor& scores, double alpha, double gamma,
                          bool grad_through_factor, std::int64_t reduction, double scale,
                          const at::Tensor& row_weights, std::int64_t background,
                          std::int64_t ignore) {
  return operators::varifocal_loss::call(logits, labels, scores, alpha, gamma, grad_through_factor,
                                         reduction, scale, row_weights, background, ignore);
}

at::Tensor bce_loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& scores,
                    std::int64_t reduction, double scale, const at::Tensor& row_weights,
                    std::int64_t background, std::int64_t ignore) {
  return operators::bce_loss::call(logits, labels, scores, reduction, scale, row_weights,
                                   background, ignore);
}

at::Tensor distribution_focal_loss(const at::Tensor& logits, const at::Tensor& targets,
                                   std::int64_t reduction, double scale,
                                   const at::Tensor& row_weights) {
  return operators::distribution_focal_loss::call(logits, targets, reduction, scale, row_weights);
}

at::Tensor decode_distributions(const at::Tensor& logits) {
  return operators::decode_distributions::call(logits);
}

at::Tensor decode_distribution_boxes(const at::Tensor& logits, const at::Tensor& points,
                                     const at::Tensor& strides) {
  return operators::decode_distribution_boxes::call(logits, points, strides);
}

at::Tensor softmax_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels,
                                      std::int64_t reduction, double scale, std::int64_t ignore) {
  return operators::softmax_cross_entropy_loss::call(logits, labels, reduction, scale, ignore);
}

at::Tensor mined_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels,
                                    std::int64_t negatives_per_foreground, std::int64_t background,
                                    double scale, std::int64_t ignore) {
  return operators::mined_cross_entropy_loss::call(logits, labels, negatives_per_foreground,
                                                   background, scale, ignore);
}

at::Tensor sigmoid_focal_loss_levels(at::TensorList logits, const at::Tensor& labels, double alpha,
                                     double gamma, double scale, const at::Tensor& image_scales,
                                     std::int64_t background, std::int64_t ignore) {
  return operators::sigmoid_focal_loss_levels::call(logits, labels, alpha, gamma, scale,
                                                    image_scales, background, ignore);
}

std::tuple<at::Tensor, at::Tensor> retinanet_loss(
    at::TensorList logits, at::TensorList deltas, const at::Tensor& anchors,
    const at::Tensor& boxes, const at::Tensor& classes, at::IntArrayRef box_counts,
    double high_threshold, double low_threshold, bool allow_low_quality, double alpha, double gamma,
    regression loss, double beta, at::ArrayRef<double> weights, double size_limit, double scale,
    const at::Tensor& regions, at::IntArrayRef region_counts) {
  return operators::retinanet_loss::call(logits, deltas, anchors, boxes, classes, box_counts,
                                         high_threshold, low_threshold, allow_low_quality, alpha,
                                         gamma, loss, beta, weights, size_limit, scale, regions,
                                         region_counts);
}

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet

namespace {

namespace aten = vecdet::detail::aten;
namespace operators = aten::operators;

TORCH_LIBRARY_FRAGMENT(vecdet, m) {
  operators::quality_focal_loss::define(
      m,
      "quality_focal_loss(Tensor logits, Tensor labels, Tensor scores, float beta=2.0, int "
      "reduction=0, float scale=1.0, Tensor? row_weights=None, int background=-1, int "
      "ignore=-2) -> Tensor");
  operators::varifocal_loss::define(
      m,
      "varifocal_loss(Tensor logits, Tensor labels, Tensor scores, float alpha=0.75, float "
      "gamma=2.0, bool grad_through_factor=True, int reduction=0, float scale=1.0, Tensor? "
      "row_weights=None, int background=-1, int ignore=-2) -> Tensor");
  operators::bce_loss::define(
      m,
      "bce_loss(Tensor logits, Tensor labels, Tensor scores, int reduction=0, float "
      "scale=1.0, Tensor? row_weights=None, int background=-1, int ignore=-2) -> Tensor");
  operators::distribution_focal_loss::define(
      m,
      "distribution_focal_loss(Tensor logits, Tensor targets, int reduction=0, float "
      "scale=1.0, Tensor? row_weights=None) -> Tensor");
  operators::decode_distributions::define(m, "decode_distributions(Tensor logits) -> Tensor");
  operators::decode_distributions::define_shapes<&aten::meta::decode_distributions>(m);
  operators::decode_distributions::define_autocast<>(m);
  operators::decode_distribution_boxes::define(
      m, "decode_distribution_boxes(Tensor logits, Tensor points, Tensor strides) -> Tensor");
  operators::decode_distribution_boxes::define_shapes<&aten::meta::decode_distribution_boxes>(m);
  operators::decode_distribution_boxes::define_autocast<>(m);
  operators::softmax_cross_entropy_loss::define(
      m,
      "softmax_cross_entropy_loss(Tensor logits, Tensor labels, int reduction=0, float "
      "scale=1.0, int ignore=-2) -> Tensor");
  operators::mined_cross_entropy_loss::define(
      m,
      "mined_cross_entropy_loss(Tensor logits, Tensor labels, int "
      "negatives_per_foreground=3, int background=0, float scale=1.0, int ignore=-2) -> "
      "Tensor");
  operators::sigmoid_focal_loss_levels::define(
      m,
      "sigmoid_focal_loss_levels(Tensor[] logits, Tensor labels, float alpha=0.25, float "
      "gamma=2.0, float scale=1.0, Tensor? image_scales=None, int background=-1, int "
      "ignore=-2) -> Tensor");
  operators::retinanet_loss::define(
      m,
      "retinanet_loss(Tensor[] logits, Tensor[] deltas, Tensor anchors, Tensor boxes, Tensor "
      "classes, int[] box_counts=[], float high_threshold=0.5, float low_threshold=0.4, bool "
      "allow_low_quality=True, float alpha=0.25, float gamma=2.0, int loss=0, float "
      "beta=0.0, float[] weights=[], float size_limit=4.135166556742356, float scale=1.0, "
      "Tensor? regions=None, int[] region_counts=[]) -> (Tensor, Tensor)");
}

}  // namespace
