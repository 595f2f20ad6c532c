// SPDX-License-Identifier: Apache-2.0
// The losses of independent classes, with one sigmoid per class.
#pragma once

#include <vecdet/focal_loss.hpp>
#include <vecdet/impl/torch/levels.hpp>
#include <vecdet/impl/torch/loss_tensors.hpp>
#include <vecdet/soft_target_loss.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The parameters with the reduction and the weights of a call.
template <class Params>
Params with_rows(Params params, loss_reduction reduction, const weights& row_weights) {
  params.row_weights = row_weights.view();
  if (reduction == loss_reduction::mean) params.reduction = vecdet::reduction::mean;
  return params;
}

/// The loss and gradient of logits that are a transposed level of a head.
inline loss_tensors focal_loss_of_transposed(const at::Tensor& logits, const transposed_head& head,
                                             const labels& label_of,
                                             const focal_loss_params& params, bool float_loss) {
  const at::Tensor grad = gradient_like(logits);
  double sum = 0;
  with_element(logits.scalar_type(), [&](auto element) {
    using T = decltype(element);
    const head_level<const T> read{static_cast<const T*>(logits.data_ptr()), head.locations, 1};
    const head_level<T> written{static_cast<T*>(grad.data_ptr()), head.locations, 1};
    sum = sigmoid_focal_loss_and_grad(head.view<const T>(read), focal_targets<T>(label_of.view()),
                                      head.view<T>(written), {}, params, threads());
  });
  return as_type_of(logits, scalar(sum, loss_type(logits, float_loss)), grad, float_loss);
}

/// The arguments of losses whose rows have a label and a score.
struct scored_rows {
  rows logits;
  labels label_of;
  at::Tensor scores;

  scored_rows(const char* function, const at::Tensor& given, const at::Tensor& given_labels,
              const at::Tensor& given_scores, loss_reduction reduction)
      : logits("logits", checked(function, given, given_labels, given_scores, reduction),
               computed_type(function, "logits", given)),
        label_of(function, "labels", given_labels, logits.count, "one label per row"),
        scores(contiguous("scores", given_scores, at::kFloat)) {}

  scored_labels targets() const { return {label_of.view(), vector<const float>(scores)}; }

 private:
  static const at::Tensor& checked(const char* function, const at::Tensor& logits,
                                   const at::Tensor& labels, const at::Tensor& scores,
                                   loss_reduction reduction) {
    check_dense(function, "logits", logits);
    check_dense(function, "labels", labels);
    check_dense(function, "scores", scores);
    check_reduction(function, reduction);
    const auto row_shape = logits.sizes().slice(0, logits.dim() == 0 ? 0 : logits.dim() - 1);
    check_shape(logits.dim() >= 2, function, "logits", logits, "[..., classes]");
    check_shape(labels.sizes() == row_shape, function, "labels", labels,
                "the logits' shape without the last dimension");
    check_shape(scores.sizes() == row_shape, function, "scores", scores, "the shape of labels");
    return logits;
  }
};

/// A loss of rows that have a label and a score. `each`, `sum` and `sum_and_grad` are the forms of
/// the loss on views.
template <class Params, class Each, class Sum, class SumAndGrad>
loss_tensors scored_loss(const char* function, const at::Tensor& logits, const at::Tensor& labels_,
                         const at::Tensor& scores, const Params& params_, loss_reduction reduction,
                         const optional_tensor& row_weights, bool needs_grad, bool float_loss,
                         const Each& each, const Sum& sum, const SumAndGrad& sum_and_grad) {
  return translated([&] {
    const scored_rows given(function, logits, labels_, scores, reduction);
    const weights weight_of(function, "row_weights", row_weights);
    const Params params = with_rows(params_, reduction, weight_of);
    const scored_labels targets = given.targets();
    return with_element(given.logits.tensor.scalar_type(), [&](auto element) {
      return loss_of_matrix<decltype(element)>(
          logits, given.logits, reduction, needs_grad, float_loss,
          [&](auto x, auto loss) { each(x, targets, loss, params, threads()); },
          [&](auto x) { return sum(x, targets, params, threads()); },
          [&](auto x, auto grad) { return sum_and_grad(x, targets, grad, params, threads()); });
    });
  });
}

namespace cpu {

/// Sigmoid focal loss (focal_loss.hpp) of `logits` (... x classes). Returns the loss of each
/// element, or a scalar, depending on `reduction`; the mean is over rows x classes.
/// @param targets integer labels, one per row, with the logits' shape without the last dimension;
///     or numbers in [0, 1] with the logits' shape
/// @param row_weights an additional factor per row
inline loss_tensors sigmoid_focal_loss(const at::Tensor& logits, const at::Tensor& targets,
                                       const focal_loss_params& params_, loss_reduction reduction,
                                       const optional_tensor& row_weights, bool needs_grad,
                                       bool float_loss) {
  constexpr const char* function = "sigmoid_focal_loss";
  return translated([&] {
    check_dense(function, "logits", logits);
    check_dense(function, "targets", targets);
    check_reduction(function, reduction);
    const bool are_labels = at::isIntegralType(targets.scalar_type(), /*includeBool=*/false) &&
                            logits.dim() >= 2 && targets.dim() == logits.dim() - 1;
    check_shape(targets.sizes() == logits.sizes().slice(0, targets.dim()) &&
                    (are_labels || targets.dim() == logits.dim()),
                function, "targets", targets,
                "the logits' shape, or integers of that shape without the last dimension");
    const at::ScalarType type = computed_type(function, "logits", logits);
    const weights weight_of(function, "row_weights", row_weights);
    const focal_loss_params params = with_rows(params_, reduction, weight_of);
    const auto run = [&](const auto& targets_of) {
      const rows x("logits", logits, type);
      return with_element(type, [&](auto element) {
        using T = decltype(element);
        const focal_targets<T> compared = targets_of(element);
        return loss_of_matrix<T>(
            logits, x, reduction, needs_grad, float_loss,
            [&](auto rows, auto loss) {
              sigmoid_focal_loss_unreduced(rows, compared, loss, params, threads());
            },
            [&](auto rows) {
              return vecdet::sigmoid_focal_loss(rows, compared, params, threads());
            },
            [&](auto rows, auto grad) {
              return sigmoid_focal_loss_and_grad(rows, compared, grad, params, threads());
            });
      });
    };
    if (!are_labels) {
      const rows dense("targets", targets, type);
      return run([&](auto element) { return dense.view<decltype(element)>(); });
    }
    const labels label_of(function, "targets", targets, targets.numel(), "one label per row");
    if (needs_grad && reduction != loss_reduction::none && params.row_weights.empty() &&
        logits.scalar_type() == type) {
      if (const transposed_head head = find_transposed_head(logits))
        return focal_loss_of_transposed(logits, head, label_of, params, float_loss);
    }
    return run([&](auto) { return label_of.view(); });
  });
}

/// Quality focal loss (soft_target_loss.hpp) of `logits` (... x classes). Each row has a label and
/// a score, which is the target of the labelled class. Returns the loss of each element, or a
/// scalar, depending on `reduction`; the mean is over rows x classes.
/// @param row_weights an additional factor per row
inline loss_tensors quality_focal_loss(const at::Tensor& logits, const at::Tensor& labels_,
                                       const at::Tensor& scores, const quality_focal_params& params,
                                       loss_reduction reduction, const optional_tensor& row_weights,
                                       bool needs_grad, bool float_loss) {
  return scored_loss(
      "quality_focal_loss", logits, labels_, scores, params, reduction, row_weights, needs_grad,
      float_loss, [](const auto&... of) { quality_focal_loss_unreduced(of...); },
      [](const auto&... of) { return vecdet::quality_focal_loss(of...); },
      [](const auto&... of) { return quality_focal_loss_and_grad(of...); });
}

/// Varifocal loss, as quality_focal_loss().
/// @param row_weights an additional factor per row
/// @param grad_through_factor differentiates p^gamma; if false, it is a constant weight
inline loss_tensors varifocal_loss(const at::Tensor& logits, const at::Tensor& labels_,
                                   const at::Tensor& scores, const varifocal_params& params,
                                   loss_reduction reduction, const optional_tensor& row_weights,
                                   bool needs_grad, bool float_loss) {
  return scored_loss(
      "varifocal_loss", logits, labels_, scores, params, reduction, row_weights, needs_grad,
      float_loss, [](const auto&... of) { varifocal_loss_unreduced(of...); },
      [](const auto&... of) { return vecdet::varifocal_loss(of...); },
      [](const auto&... of) { return varifocal_loss_and_grad(of...); });
}

/// Binary cross entropy, as quality_focal_loss().
/// @param row_weights an additional factor per row
inline loss_tensors bce_loss(const at::Tensor& logits, const at::Tensor& labels_,
                             const at::Tensor& scores, const bce_params& params,
                             loss_reduction reduction, const optional_tensor& row_weights,
                             bool needs_grad, bool float_loss) {
  return scored_loss(
      "bce_loss", logits, labels_, scores, params, reduction, row_weights, needs_grad, float_loss,
      [](const auto&... of) { bce_loss_unreduced(of...); },
      [](const auto&... of) { return vecdet::bce_loss(of...); },
      [](const auto&... of) { return bce_loss_and_grad(of...); });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
