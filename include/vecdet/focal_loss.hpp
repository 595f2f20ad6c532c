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
// and for a target t in [0, 1], as torchvision has it: L = alpha_t (1-p_t)^gamma ce with
// p_t = p t + (1-p)(1-t), alpha_t = alpha t + (1-alpha)(1-t), ce = t softplus(-x) + (1-t)
// softplus(x).
//
// Logits are rows x classes, of float, bfloat16 or double, with any row stride. Targets are one of
//   labels    a class, background or ignore value for each row: no one-hot tensor is made or read
//   scored    a label and a score for each row: the labelled class has the score as its target, as
//             assigners give them; all other targets are 0
//   targets   a matrix of the logits' shape and type with numbers in [0, 1]
//
// alpha -1 and gamma 0 are the plain binary cross entropy; soft_target_loss.hpp has it by its name,
// and other losses of scored labels.
//
// Accuracy: in float, losses and gradients within 8 ulp of the exact value wherever that is
// above 1e-30; for targets other than 0 and 1 within 9 ulp, 11 on the baseline, those of the
// larger one of the gradient's two terms, which may cancel. bfloat16 results are such floats
// rounded once. gamma 0, 1 and 2 are fast; other gammas, and scored classes, are computed in
// double. Sums are accumulated in double from sums of 16 floats: of logits beyond 2e37, which no
// network gives, a sum may be inf. At infinite logits the functions take their limits (a
// negative at +inf: loss inf, gradient 1-alpha; at -inf: 0 and 0); NaN gives NaN, in its own
// element and in the sum. Finite weights multiply without overflow, however large alone. Of an
// infinite row weight, losses and gradients are infinite but where they are 0 without it; a
// weight of 0 wins over an infinite loss.
//
// A loss or a gradient depends on its own element alone: not on the others, the strides or the
// place. Sums are added in an order that depends on shape and strides.
//
// Every function throws std::invalid_argument, and writes nothing, when shapes differ, a row stride
// overlaps, an output shares memory with an argument otherwise than as said, a label is not
// 0 .. classes-1, background or ignore, gamma is negative, alpha above 1,
// or a number among the parameters is not a finite float (row weights are data).
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// How the losses of all elements become one number. Of no elements, the sum is 0 and the mean NaN.
enum class reduction {
  sum,
  mean,  ///< the sum over rows x classes, as torchvision's
};

struct focal_loss_params {
  double alpha = 0.25;  ///< weight of positives, 1-alpha of negatives; negative: both weigh 1
  double gamma = 2;     ///< focusing exponent, 0 or more
  double scale = 1;     ///< factor on loss and gradient; trainers use 1 / max(1, foreground)
  vecdet::reduction reduction = vecdet::reduction::sum;
  index_t background = -1;  ///< label of rows in which every class is negative
  index_t ignore = -2;      ///< label of rows that do not count: loss 0 and gradient 0
  /// A further factor for each row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

/// A label for each row, and the target of its class: a number in [0, 1], as the IoU of prediction
/// and ground truth. Scores are data and are not checked: the formulas are computed with whatever
/// they are, NaN gives NaN, and VECDET_CHECK=1 reports scores outside [0, 1]. The score of a row
/// without a class is not used.
struct scored_labels {
  lasting<labels_view> labels;
  lasting<vector_view<const float>> scores;  ///< one for each label
};

/// What the logits are compared with: one label a row, with or without a score, or dense targets in
/// [0, 1] of the logits' shape. Converts from whatever labels_view or matrix_view<const T> converts
/// from, and from scored_labels.
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
                          execution policy = execution::parallel);

/// The loss of each element into `loss`, of the logits' shape; params.reduction does not apply.
template <class T>
void sigmoid_focal_loss_unreduced(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                                  matrix_view<value_of<T>> loss,
                                  const focal_loss_params& params = {},
                                  execution policy = execution::parallel);

/// The reduced loss, and its gradient by the logits into `grad`, in one pass over memory. `grad`
/// has the logits' shape, and may be the logits' own memory with the same stride.
template <class T>
double sigmoid_focal_loss_and_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                                   matrix_view<value_of<T>> grad,
                                   const focal_loss_params& params = {},
                                   execution policy = execution::parallel);

/// The same of a head's levels as they lie in memory, for all images at once: the gradient goes to
/// `grad`, levels of the same sizes and layout, which may be the logits themselves, each its own.
/// Targets are labels, with or without scores, one for each anchor. `image_scales` are a further
/// factor for each image, as 1 / max(1, foreground of the image); empty: all 1. params.row_weights
/// must be empty.
template <class T>
double sigmoid_focal_loss_and_grad(const head_view<T>& logits,
                                   const focal_targets<value_of<T>>& targets,
                                   const head_view<value_of<T>>& grad,
                                   vector_view<const float> image_scales = {},
                                   const focal_loss_params& params = {},
                                   execution policy = execution::parallel);

/// The gradient of the reduced loss times `upstream`, the gradient that arrives at it.
template <class T>
void sigmoid_focal_loss_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                             double upstream, matrix_view<value_of<T>> grad,
                             const focal_loss_params& params = {},
                             execution policy = execution::parallel);

/// The gradient of the unreduced losses, each times its element of `upstream`, which has the
/// logits' shape; params.reduction does not apply. A product like any other: infinity times 0 is
/// NaN, as in autograd; but under an infinite row weight, 0 of `upstream` gives 0. Ignored rows
/// have gradient 0 all the same.
template <class T>
void sigmoid_focal_loss_grad(matrix_view<T> logits, const focal_targets<value_of<T>>& targets,
                             matrix_view<const value_of<T>> upstream, matrix_view<value_of<T>> grad,
                             const focal_loss_params& params = {},
                             execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/focal_loss.hpp>
