// SPDX-License-Identifier: Apache-2.0
// Classification losses whose targets are scores. The target of a row's labelled class is a number
// in [0, 1], usually the IoU of its box with the ground-truth box; all other targets are 0.
// With p = 1 / (1 + exp(-x)), softplus(x) = log(1 + exp(x)) and the cross entropy
// ce = t softplus(-x) + (1-t) softplus(x):
//
//   quality focal   L = |p - t|^beta ce for all classes
//                   dL/dx = |p - t|^beta (p - t) + beta |p - t|^(beta-1) sign(p - t) p (1-p) ce
//                   Li et al.: "Generalized Focal Loss", arXiv 2006.04388
//   varifocal       L = t ce for the labelled class, alpha p^gamma softplus(x) for the others
//                   dL/dx = t (p - t), or alpha p^gamma (gamma (1-p) softplus(x) + p)
//                   Zhang et al.: "VarifocalNet", arXiv 2008.13367
//   bce             L = ce, dL/dx = p - t: binary cross entropy with logits
//
// Logits, labels, scores, weights, accuracy, special values, sums and errors are as in
// focal_loss.hpp, whose functions take scored labels as well. A class with a score of 0 still
// counts as labelled. The quality focal loss and its gradient are 0 where p = t. Labelled classes
// are computed in double from the unrounded logits and scores, all others as in the focal loss.
#pragma once

#include <vecdet/focal_loss.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct quality_focal_params {
  double beta = 2;   ///< focusing exponent, 0 or more; 0, 1 and 2 are fast
  double scale = 1;  ///< factor on loss and gradient; trainers use 1 / max(1, sum of scores)
  vecdet::reduction reduction = vecdet::reduction::sum;
  index_t background = -1;  ///< label of rows in which every class is negative
  index_t ignore = -2;      ///< label of rows that do not count: loss 0 and gradient 0
  /// An additional factor per row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

struct varifocal_params {
  double alpha = 0.75;  ///< weight of negatives, 0 or more
  double gamma = 2;     ///< focusing exponent of negatives, 0 or more; 0, 1 and 2 are fast
  /// Differentiates p^gamma with respect to the logit, as in the reference implementation. If
  /// false, p^gamma is a constant weight, and the gradient of a negative is alpha p^gamma p.
  bool grad_through_factor = true;
  double scale = 1;  ///< factor on loss and gradient; trainers use 1 / max(1, sum of scores)
  vecdet::reduction reduction = vecdet::reduction::sum;
  index_t background = -1;  ///< label of rows in which every class is negative
  index_t ignore = -2;      ///< label of rows that do not count: loss 0 and gradient 0
  /// An additional factor per row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

struct bce_params {
  double scale = 1;  ///< factor on loss and gradient; trainers use 1 / max(1, sum of scores)
  vecdet::reduction reduction = vecdet::reduction::sum;
  index_t background = -1;  ///< label of rows in which every class is negative
  index_t ignore = -2;      ///< label of rows that do not count: loss 0 and gradient 0
  /// An additional factor per row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

/// The reduced quality focal loss of `logits`, rows x classes.
template <class T>
double quality_focal_loss(matrix_view<T> logits, const scored_labels& targets,
                          const quality_focal_params& params = {},
                          threading policy = threading::parallel);

/// Writes the loss of each element to `loss`, which has the logits' shape. params.reduction is not
/// used.
template <class T>
void quality_focal_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                                  matrix_view<value_of<T>> loss,
                                  const quality_focal_params& params = {},
                                  threading policy = threading::parallel);

/// Returns the reduced loss and writes its gradient with respect to the logits to `grad`, in one
/// pass over memory. `grad` has the logits' shape and may be the logits' own memory with the same
/// stride.
template <class T>
double quality_focal_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                                   matrix_view<value_of<T>> grad,
                                   const quality_focal_params& params = {},
                                   threading policy = threading::parallel);

/// The same for a head's levels in place, as in sigmoid_focal_loss_and_grad.
template <class T>
double quality_focal_loss_and_grad(const head_view<T>& logits, const scored_labels& targets,
                                   const head_view<value_of<T>>& grad,
                                   vector_view<const float> image_scales = {},
                                   const quality_focal_params& params = {},
                                   threading policy = threading::parallel);

/// The same four functions for the varifocal loss.
template <class T>
double varifocal_loss(matrix_view<T> logits, const scored_labels& targets,
                      const varifocal_params& params = {}, threading policy = threading::parallel);
template <class T>
void varifocal_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                              matrix_view<value_of<T>> loss, const varifocal_params& params = {},
                              threading policy = threading::parallel);
template <class T>
double varifocal_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                               matrix_view<value_of<T>> grad, const varifocal_params& params = {},
                               threading policy = threading::parallel);
template <class T>
double varifocal_loss_and_grad(const head_view<T>& logits, const scored_labels& targets,
                               const head_view<value_of<T>>& grad,
                               vector_view<const float> image_scales = {},
                               const varifocal_params& params = {},
                               threading policy = threading::parallel);

/// The same four functions for binary cross entropy. With dense targets, use the focal loss with
/// alpha -1 and gamma 0.
template <class T>
double bce_loss(matrix_view<T> logits, const scored_labels& targets, const bce_params& params = {},
                threading policy = threading::parallel);
template <class T>
void bce_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                        matrix_view<value_of<T>> loss, const bce_params& params = {},
                        threading policy = threading::parallel);
template <class T>
double bce_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                         matrix_view<value_of<T>> grad, const bce_params& params = {},
                         threading policy = threading::parallel);
template <class T>
double bce_loss_and_grad(const head_view<T>& logits, const scored_labels& targets,
                         const head_view<value_of<T>>& grad,
                         vector_view<const float> image_scales = {}, const bce_params& params = {},
                         threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/soft_target_loss.hpp>
