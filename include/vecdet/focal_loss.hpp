// SPDX-License-Identifier: Apache-2.0
// Sigmoid focal loss, forward and backward in one pass over memory.
//
// Lin, Goyal, Girshick, He, Dollar: "Focal Loss for Dense Object Detection", arXiv 1708.02002,
// equation 5. With p = 1 / (1 + exp(-x)) and softplus(x) = log(1 + exp(x)):
//
//   positive   L = alpha (1-p)^gamma softplus(-x)
//              dL/dx = -alpha (1-p)^gamma (gamma p softplus(-x) + 1-p)
//   negative   L = (1-alpha) p^gamma softplus(x)
//              dL/dx = (1-alpha) p^gamma (gamma (1-p) softplus(x) + p)
//
// For a target t in [0, 1], as in torchvision: L = alpha_t (1-p_t)^gamma ce with
// p_t = p t + (1-p)(1-t), alpha_t = alpha t + (1-alpha)(1-t), ce = t softplus(-x) + (1-t)
// softplus(x).
//
// Logits are rows x classes of float, bfloat16 or double, with any row stride. Targets are one of
//   labels    a class, background or ignore value per row; no one-hot tensor is built or read
//   scored    a label and a score per row, as assigners produce them; the score is the target of
//             the labelled class, and all other targets are 0
//   targets   a matrix of the logits' shape and type with values in [0, 1]
//
// With alpha = -1 and gamma = 0 this is plain binary cross entropy. soft_target_loss.hpp provides
// it as bce_loss, together with other losses of scored labels.
//
// Accuracy: in float, losses and gradients are within 8 ulp of the exact value if that is above
// 1e-30. For targets other than 0 and 1 they are within 9 ulp (11 on the baseline). These are ulps
// of the larger of the gradient's two terms, because the terms may cancel. bfloat16 results are
// these floats, rounded once. Gammas of 0, 1 and 2 are fast; other gammas, and scored classes, are
// computed in double.
// Sums are accumulated in double from sums of 16 floats. With logits beyond 2e37, which no network
// produces, a sum may be inf.
// At infinite logits, losses and gradients take their limits (a negative at +inf: loss inf,
// gradient 1-alpha; at -inf: 0 and 0). NaN gives NaN, in its own element and in the sum. Products
// of finite weights do not overflow, even if one is very large. Under an infinite row weight,
// losses and gradients are infinite, except where they would otherwise be 0. A weight of 0 gives 0
// even if
// the loss is infinite.
//
// Each loss and gradient depends only on its own element, not on other elements, strides or
// addresses. The order of summation depends on shape and strides.
//
// Every function throws std::invalid_argument, and writes nothing, if shapes differ, rows overlap,
// an output shares memory with an argument in a way not allowed below, a label is not
// 0 .. classes-1, background or ignore, gamma is negative, alpha is above 1, or a numeric
// parameter is not a finite float (row weights are data and not checked).
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// Reduction of all elements' losses to one number. Without elements, the sum is 0 and the mean
/// NaN.
enum class reduction {
  sum,
  mean,  ///< the sum divided by rows x classes, as in torchvision
};

struct focal_loss_params {
  /// Weight of positives; negatives have weight 1-alpha. If negative, both have weight 1.
  double alpha = 0.25;
  double gamma = 2;  ///< focusing exponent, 0 or more
  double scale = 1;  ///< factor on loss and gradient; trainers use 1 / max(1, foreground)
  vecdet::reduction reduction = vecdet::reduction::sum;
  index_t background = -1;  ///< label of rows in which every class is negative
  index_t ignore = -2;      ///< label of rows that do not count: loss 0 and gradient 0
  /// An additional factor per row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

/// A label per row and the target of its class: a number in [0, 1], e.g. the IoU of prediction and
/// ground-truth box. Scores are data and are not checked: the formulas are applied to any value,
/// NaN gives NaN, and VECDET_CHECK=1 reports scores outside [0, 1]. The scores of background and
/// ignored rows are not used.
struct scored_labels {
  lasting<labels_view> labels;
  lasting<vector_view<const float>> scores;  ///< one per label
};

/// Targets of the logits: one label per row, with or without a score, or dense targets in [0, 1] of
/// the logits' shape. Everything that converts to labels_view or matrix_view<const T> converts to
/// focal_targets, and so does scored_labels.
template <class T>
class focal_targets {
 public:
  focal_targets(const scored_labels& scored) noexcept
      : labels_(scored.labels), scores_(scored.scores), are_labels_(true), are_scored_(true) {}

  template <class Labels, detail::require_convertible<Labels, labels_view> = 0,
            detail::require_lasting<Labels> = 0>
  focal_targets(Labels&& labels) : labels_(labels), are_labels_(true) {}
  template <class Labels, detail::require_convertible<Labels, labels_view> = 0,
            detail::require_temporary_owner<Labels> = 0>
  focal_targets(Labels&& labels VECDET_LIFETIMEBOUND) : labels_(labels), are_labels_(true) {}
  template <class Container, detail::require_no_labels<Container> = 0>
  focal_targets(Container&& needs_integers_of_32_or_64_bits) = delete;

  focal_targets(matrix_view<const T> dense) noexcept : dense_(dense) {}
  focal_targets(matrix_view<T> dense) noexcept : dense_(dense) {}
  template <class U, detail::require_other_pointers<U, T> = 0>
  focal_targets(matrix_view<U> has_another_element_type) = delete;

  template <class Owner, detail::require_temporary_owner<Owner> = 0>
  focal_targets& operator=(Owner&& ends_with_the_statement) = delete;

  bool are_labels() const noexcept { return are_labels_; }
  const labels_view& labels() const noexcept { return labels_; }
  bool are_scored() const noexcept { return are_scored_; }
  const vector_view<const float>& scores() const noexcept { return scores_; }
  const matrix_view<const T>& dense() const noexcept { return dense_; }

 private:
  labels_view labels_;
  vector_view<const float> scores_;
  matrix_view<const T> dense_;
  bool are_labels_ = false, are_scored_ = false;
};

/// The reduced loss of `logits`, rows x classes.
template <class T>
double sigmoid_focal_loss(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                          const focal_loss_params& params = {},
                          threading policy = threading::parallel);

/// Writes the loss of each element to `loss`, which has the logits' shape. params.reduction is not
/// used.
template <class T>
void sigmoid_focal_loss_unreduced(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                                  matrix_view<value_of<T>> loss,
                                  const focal_loss_params& params = {},
                                  threading policy = threading::parallel);

/// Returns the reduced loss and writes its gradient with respect to the logits to `grad`, in one
/// pass over memory. `grad` has the logits' shape and may be the logits' own memory with the same
/// stride.
template <class T>
double sigmoid_focal_loss_and_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                                   matrix_view<value_of<T>> grad,
                                   const focal_loss_params& params = {},
                                   threading policy = threading::parallel);

/// The same for a head's levels in place, for all images at once. The gradient goes to `grad`,
/// whose levels have the same sizes and layout and may reuse the logits' memory, level for level.
/// Targets are labels, with or without scores, one per anchor. `image_scales` holds an additional
/// factor per image, e.g. 1 / max(1, foreground of the image); empty: all 1. params.row_weights
/// must be empty.
template <class T>
double sigmoid_focal_loss_and_grad(const head_view<T>& logits,
                                   const focal_targets<value_of<T>>& targets,
                                   const head_view<value_of<T>>& grad,
                                   vector_view<const float> image_scales = {},
                                   const focal_loss_params& params = {},
                                   threading policy = threading::parallel);

/// The gradient of the reduced loss, multiplied by the upstream gradient `upstream`.
template <class T>
void sigmoid_focal_loss_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                             double upstream, matrix_view<value_of<T>> grad,
                             const focal_loss_params& params = {},
                             threading policy = threading::parallel);

/// The gradients of the unreduced losses, multiplied element by element by `upstream`, which has
/// the logits' shape. params.reduction is not used. Infinity times 0 is NaN, as in autograd; but
/// under an infinite row weight, an `upstream` of 0 gives 0. Ignored rows always have gradient 0.
template <class T>
void sigmoid_focal_loss_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                             matrix_view<const value_of<T>> upstream, matrix_view<value_of<T>> grad,
                             const focal_loss_params& params = {},
                             threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/focal_loss.hpp>
#include <vecdet/impl/focal_loss_levels.hpp>
