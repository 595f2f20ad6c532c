// SPDX-License-Identifier: Apache-2.0
// Losses of dense detectors whose targets are scores: the labelled class of a row has a number in
// [0, 1] as its target, mostly its box's IoU with the ground truth, and all other classes have 0.
// With p = 1 / (1 + exp(-x)), softplus(x) = log(1 + exp(x)) and the cross entropy
// ce = t softplus(-x) + (1-t) softplus(x):
//
//   quality focal   L = |p - t|^beta ce, of all classes
//                   dL/dx = |p - t|^beta (p - t) + beta |p - t|^(beta-1) sign(p - t) p (1-p) ce
//                   Li et al.: "Generalized Focal Loss", arXiv 2006.04388
//   varifocal       L = t ce of the labelled class, alpha p^gamma softplus(x) of the others
//                   dL/dx = t (p - t), and alpha p^gamma (gamma (1-p) softplus(x) + p)
//                   Zhang et al.: "VarifocalNet", arXiv 2008.13367
//   bce             L = ce, dL/dx = p - t: binary cross entropy with logits
//
// Logits, labels, scores, weights, accuracy, special values, sums and errors are those of
// focal_loss.hpp, whose functions take scored labels as well. A labelled class stays one where its
// score is 0. Where p = t, the quality focal loss and its gradient are 0. Labelled classes are
// computed in double, from logits and scores as they are; the rest as the focal loss is.
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
  /// A further factor for each row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

struct varifocal_params {
  double alpha = 0.75;  ///< weight of negatives, 0 or more
  double gamma = 2;     ///< focusing exponent of negatives, 0 or more; 0, 1 and 2 are fast
  /// Whether p^gamma is a function of the logit in the gradient, as in the reference
  /// implementation, or a constant weight: then a negative's gradient is alpha p^gamma p.
  bool grad_through_factor = true;
  double scale = 1;  ///< factor on loss and gradient; trainers use 1 / max(1, sum of scores)
  vecdet::reduction reduction = vecdet::reduction::sum;
  index_t background = -1;  ///< label of rows in which every class is negative
  index_t ignore = -2;      ///< label of rows that do not count: loss 0 and gradient 0
  /// A further factor for each row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

struct bce_params {
  double scale = 1;  ///< factor on loss and gradient; trainers use 1 / max(1, sum of scores)
  vecdet::reduction reduction = vecdet::reduction::sum;
  index_t background = -1;  ///< label of rows in which every class is negative
  index_t ignore = -2;      ///< label of rows that do not count: loss 0 and gradient 0
  /// A further factor for each row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

/// The reduced quality focal loss of `logits`, rows x classes.
template <class T>
double quality_focal_loss(matrix_view<T> logits, const scored_labels& targets,
                          const quality_focal_params& params = {},
                          execution policy = execution::parallel);

/// The loss of each element into `loss`, of the logits' shape; params.reduction does not apply.
template <class T>
void quality_focal_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                                  matrix_view<value_of<T>> loss,
                                  const quality_focal_params& params = {},
                                  execution policy = execution::parallel);

/// The reduced loss, and its gradient by the logits into `grad`, in one pass over memory. `grad`
/// has the logits' shape, and may be the logits' own memory with the same stride.
template <class T>
double quality_focal_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                                   matrix_view<value_of<T>> grad,
                                   const quality_focal_params& params = {},
                                   execution policy = execution::parallel);

/// The same of a head's levels as they lie in memory, as sigmoid_focal_loss_and_grad has it.
template <class T>
double quality_focal_loss_and_grad(const head_view<T>& logits, const scored_labels& targets,
                                   const head_view<value_of<T>>& grad,
                                   vector_view<const float> image_scales = {},
                                   const quality_focal_params& params = {},
                                   execution policy = execution::parallel);

/// The same four of the varifocal loss.
template <class T>
double varifocal_loss(matrix_view<T> logits, const scored_labels& targets,
                      const varifocal_params& params = {}, execution policy = execution::parallel);
template <class T>
void varifocal_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                              matrix_view<value_of<T>> loss, const varifocal_params& params = {},
                              execution policy = execution::parallel);
template <class T>
double varifocal_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                               matrix_view<value_of<T>> grad, const varifocal_params& params = {},
                               execution policy = execution::parallel);
template <class T>
double varifocal_loss_and_grad(const head_view<T>& logits, const scored_labels& targets,
                               const head_view<value_of<T>>& grad,
                               vector_view<const float> image_scales = {},
                               const varifocal_params& params = {},
                               execution policy = execution::parallel);

/// The same four of the binary cross entropy. Of dense targets it is the focal loss with alpha -1
/// and gamma 0.
template <class T>
double bce_loss(matrix_view<T> logits, const scored_labels& targets, const bce_params& params = {},
                execution policy = execution::parallel);
template <class T>
void bce_loss_unreduced(matrix_view<T> logits, const scored_labels& targets,
                        matrix_view<value_of<T>> loss, const bce_params& params = {},
                        execution policy = execution::parallel);
template <class T>
double bce_loss_and_grad(matrix_view<T> logits, const scored_labels& targets,
                         matrix_view<value_of<T>> grad, const bce_params& params = {},
                         execution policy = execution::parallel);
template <class T>
double bce_loss_and_grad(const head_view<T>& logits, const scored_labels& targets,
                         const head_view<value_of<T>>& grad,
                         vector_view<const float> image_scales = {}, const bce_params& params = {},
                         execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/soft_target_loss.hpp>
