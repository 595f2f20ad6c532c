// SPDX-License-Identifier: Apache-2.0
// Softmax cross entropy of classifiers with few classes, forward and backward in one pass over
// memory; and SSD's, of which only the foreground and its hardest negatives count.
//
//   L(x, t) = log(sum of exp(x)) - x_t      dL/dx_c = softmax(x)_c - [c = t]
//
// Logits are rows x classes of float with any row stride. Labels are classes, of which one is
// background: 0 in torchvision, the last in detectron2. A row whose label is `ignore` has loss and
// gradient 0, whatever it holds. Any other label is an error.
//
// Mining, Liu et al., arXiv 1512.02325, section 2.2: of each image count the foreground and, of its
// background, the negatives_per_foreground times as many rows whose loss is largest, or all where
// there are no more. Equal losses go by lower index; NaN is the largest. Trainers scale by
// 1 / max(1, count_foreground(labels, background, ignore)).
//
// Accuracy: losses within 4e-7 of the sum of the loss and the size of the logits' differences,
// gradients within 4e-7 of the scale; sums are accumulated in double. Probabilities are not below
// 2e-38. A row with a NaN or +infinity, and one of nothing but -infinity, have loss and gradient
// NaN.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, a label is
// invalid, or the scale is not a finite float. Results may not share memory with other arguments,
// except that the gradient may be the logits' own memory where nothing is mined.
#pragma once

#include <vecdet/impl/softmax_buffers.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct softmax_cross_entropy_params {
  double scale = 1;  ///< factor on losses, sum and gradient
  /// The label of rows that do not count; -100 in torch. It may be a class; then the rows of that
  /// class do not count. If it is the background, nothing is mined.
  index_t ignore = -2;
};

/// The rows of one image after the other's, the same number of each.
struct hard_negative_mining {
  index_t images = 1;                    ///< 1 or more; divides the rows
  index_t negatives_per_foreground = 3;  ///< 0 or more
  index_t background = 0;                ///< a class
};

/// Memory that mining works in: some 12 bytes a row. It is reused from then on. One call at a time.
class softmax_cross_entropy_workspace {
  friend detail::workspace_access;
  detail::hard_negative_buffers buffers_;
};

/// The sum of the losses of `logits`, rows x classes.
double softmax_cross_entropy_loss(matrix_view<const float> logits, labels_view labels,
                                  const softmax_cross_entropy_params& params = {},
                                  execution policy = execution::parallel);

/// The loss of each row into `loss`.
void softmax_cross_entropy_loss_unreduced(matrix_view<const float> logits, labels_view labels,
                                          vector_view<float> loss,
                                          const softmax_cross_entropy_params& params = {},
                                          execution policy = execution::parallel);

/// The sum of the losses, and its gradient by the logits into `grad`, rows x classes. `grad` may be
/// the logits' own memory with the same stride.
double softmax_cross_entropy_loss_and_grad(matrix_view<const float> logits, labels_view labels,
                                           matrix_view<float> grad,
                                           const softmax_cross_entropy_params& params = {},
                                           execution policy = execution::parallel);

/// The same of the rows that are mined; the gradient of the others is 0.
double softmax_cross_entropy_loss_and_grad(matrix_view<const float> logits, labels_view labels,
                                           const hard_negative_mining& mining,
                                           matrix_view<float> grad,
                                           const softmax_cross_entropy_params& params,
                                           softmax_cross_entropy_workspace& workspace,
                                           execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/softmax_cross_entropy.hpp>
