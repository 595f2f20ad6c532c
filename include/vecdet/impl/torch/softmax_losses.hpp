// SPDX-License-Identifier: Apache-2.0
// The losses with one softmax per row, over bins or over classes.
#pragma once

#include <vecdet/distribution_focal_loss.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/loss_tensors.hpp>
#include <vecdet/softmax_cross_entropy.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Throws unless the logits can be computed in float32.
inline void check_distributions(const char* function, const at::Tensor& logits) {
  check_dense(function, "logits", logits);
  check_shape(logits.dim() >= 2, function, "logits", logits, "[..., bins or classes]");
  check(computed_type(function, "logits", logits) != at::kDouble, function, "logits.dtype",
        c10::toString(logits.scalar_type()), "float32, bfloat16 or float16");
}

/// The loss of rows, computed by `each`, `sum` and `sum_and_grad`. For the mean, `scale` is divided
/// by `counted` rows; the mean over no rows is NaN, as in torch.
template <class Each, class Sum, class SumAndGrad>
loss_tensors loss_of_distributions(const char* function, const at::Tensor& logits, const rows& x,
                                   loss_reduction reduction, double& scale, index_t counted,
                                   bool needs_grad, bool float_loss, const Each& each,
                                   const Sum& sum, const SumAndGrad& sum_and_grad) {
  const bool is_mean = reduction == loss_reduction::mean;
  if (is_mean) scale = scale_of_mean(function, scale, counted);
  return loss_and_grad_of(
      logits, at::kFloat, logits.sizes().slice(0, logits.dim() - 1), reduction,
      is_mean && counted == 0, needs_grad, float_loss,
      [&](const at::Tensor& loss) { each(x.view<float>(), vector<float>(loss)); },
      [&] { return sum(x.view<float>()); },
      [&](at::Tensor& grad) {
        grad = gradient_of(logits.sizes(), at::kFloat);
        return sum_and_grad(x.view<float>(), matrix<float>(grad, x.count, x.size));
      });
}

namespace cpu {

/// Distribution focal loss (distribution_focal_loss.hpp) of `logits` (... x bins, not float64)
/// against `targets` in bins. Returns the loss of each row, or a scalar, depending on `reduction`;
/// the mean is over rows.
/// @param row_weights an additional factor per row
inline loss_tensors distribution_focal_loss(const at::Tensor& logits, const at::Tensor& targets,
                                            loss_reduction reduction,
                                            const distribution_focal_loss_params& params_,
                                            const optional_tensor& row_weights, bool needs_grad,
                                            bool float_loss) {
  constexpr const char* function = "distribution_focal_loss";
  return translated([&] {
    check_distributions(function, logits);
    check_dense(function, "targets", targets);
    check_reduction(function, reduction);
    check_shape(targets.sizes() == logits.sizes().slice(0, logits.dim() - 1), function, "targets",
                targets, "the logits' shape without the last dimension");
    computed_type(function, "targets", targets);
    const weights weight_of(function, "row_weights", row_weights);
    const rows x("logits", logits, at::kFloat);
    const at::Tensor t = contiguous("targets", targets, at::kFloat);
    const vector_view<const float> wanted = vector<const float>(t);
    distribution_focal_loss_params params = params_;
    params.row_weights = weight_of.view();
    return loss_of_distributions(
        function, logits, x, reduction, params.scale, x.count, needs_grad, float_loss,
        [&](auto rows, auto loss) {
          distribution_focal_loss_unreduced(rows, wanted, loss, params, threads());
        },
        [&](auto rows) { return vecdet::distribution_focal_loss(rows, wanted, params, threads()); },
        [&](auto rows, auto grad) {
          return distribution_focal_loss_and_grad(rows, wanted, grad, params, threads());
        });
  });
}

/// Softmax cross entropy (softmax_cross_entropy.hpp) of `logits` (... x classes, not float64)
/// against `labels`. Returns the loss of each row, or a scalar, depending on `reduction`; the mean
/// is over rows that are not ignored.
/// @param ignore label of rows that do not count
inline loss_tensors softmax_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels_,
                                               loss_reduction reduction,
                                               const softmax_cross_entropy_params& params_,
                                               bool needs_grad, bool float_loss) {
  constexpr const char* function = "softmax_cross_entropy_loss";
  return translated([&] {
    check_distributions(function, logits);
    check_dense(function, "labels", labels_);
    check_reduction(function, reduction);
    check_shape(labels_.sizes() == logits.sizes().slice(0, logits.dim() - 1), function, "labels",
                labels_, "the logits' shape without the last dimension");
    const rows x("logits", logits, at::kFloat);
    const labels chosen(function, "labels", labels_, x.count, "one label per row");
    softmax_cross_entropy_params params = params_;
    return loss_of_distributions(
        function, logits, x, reduction, params.scale,
        count_foreground(chosen.view(), params.ignore, params.ignore), needs_grad, float_loss,
        [&](auto rows, auto loss) {
          softmax_cross_entropy_loss_unreduced(rows, chosen.view(), loss, params, threads());
        },
        [&](auto rows) {
          return vecdet::softmax_cross_entropy_loss(rows, chosen.view(), params, threads());
        },
        [&](auto rows, auto grad) {
          return softmax_cross_entropy_loss_and_grad(rows, chosen.view(), grad, params, threads());
        });
  });
}

/// SSD's softmax cross entropy of `logits`, images x anchors x classes: the sum of the losses of
/// each image's foreground and of its hardest negatives.
/// @param negatives_per_foreground the number of negatives per foreground anchor
/// @param background the class that is background
/// @param ignore label of rows that do not count
inline loss_tensors mined_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels_,
                                             std::int64_t negatives_per_foreground,
                                             std::int64_t background,
                                             const softmax_cross_entropy_params& params,
                                             bool needs_grad, bool float_loss) {
  constexpr const char* function = "mined_cross_entropy_loss";
  return translated([&] {
    check_distributions(function, logits);
    check_dense(function, "labels", labels_);
    check_shape(logits.dim() == 3, function, "logits", logits, "[images, anchors, classes]");
    check_shape(labels_.sizes() == logits.sizes().slice(0, 2), function, "labels", labels_,
                "[images, anchors]");
    const rows x("logits", logits, at::kFloat);
    const labels chosen(function, "labels", labels_, x.count, "one label per anchor");
    hard_negative_mining mining;
    mining.images = std::max<index_t>(1, logits.size(0));
    mining.negatives_per_foreground = negatives_per_foreground;
    mining.background = background;
    // Mining needs the losses of all rows, so the gradient is always computed.
    const at::Tensor grad = gradient_of(logits.sizes(), x.tensor.scalar_type());
    const double sum = softmax_cross_entropy_loss_and_grad(
        x.view<float>(), chosen.view(), mining, matrix<float>(grad, x.count, x.size), params,
        thread_workspace<softmax_cross_entropy_workspace>(), threads());
    return as_type_of(logits, scalar(sum, loss_type(logits, float_loss)),
                      needs_grad ? grad : at::empty({0}, grad.options()), float_loss);
  });
}

/// The expectation of each row of `logits` (... x bins), in bins.
inline at::Tensor decode_distributions(const at::Tensor& logits) {
  constexpr const char* function = "decode_distributions";
  return translated([&] {
    check_distributions(function, logits);
    const rows x("logits", logits, at::kFloat);
    const at::Tensor distances =
        at::empty(logits.sizes().slice(0, logits.dim() - 1), x.tensor.options());
    vecdet::decode_distributions(x.view<float>(), vector<float>(distances), threads());
    return distances.to(logits.scalar_type());
  });
}

/// Boxes (float32, ... x 4 corners). Each is decoded from four rows of `logits` (... x 4 x bins):
/// the distances left, top, right and bottom from its point in `points` (... x 2), in units of its
/// stride in `strides` (...).
inline at::Tensor decode_distribution_boxes(const at::Tensor& logits, const at::Tensor& points,
                                            const at::Tensor& strides) {
  constexpr const char* function = "decode_distribution_boxes";
  return translated([&] {
    check_distributions(function, logits);
    check_shape(logits.size(-2) == 4, function, "logits", logits, "[..., 4, bins]");
    const auto box_shape = logits.sizes().slice(0, logits.dim() - 2);
    check_dense(function, "points", points);
    check_dense(function, "strides", strides);
    computed_type(function, "points", points);
    computed_type(function, "strides", strides);
    check_shape(points.dim() == logits.dim() - 1 && points.size(-1) == 2 &&
                    points.sizes().slice(0, points.dim() - 1) == box_shape,
                function, "points", points, "[..., 2], one point per box");
    check_shape(strides.sizes() == box_shape, function, "strides", strides, "[...], one per box");
    const rows x("logits", logits, at::kFloat);
    const at::Tensor p = contiguous("points", points, at::kFloat);
    const at::Tensor s = contiguous("strides", strides, at::kFloat);
    const at::Tensor decoded =
        at::empty(logits.sizes().slice(0, logits.dim() - 1), x.tensor.options());
    vecdet::decode_distribution_boxes(x.view<float>(), matrix<const float>(p, p.numel() / 2, 2),
                                      vector<const float>(s), boxes<float>(decoded), threads());
    return decoded;
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
