// SPDX-License-Identifier: Apache-2.0
// Softmax cross entropy for classifiers with few classes, forward and backward in one pass over
// memory. SSD's variant counts only the foreground and the hardest negatives.
//
//   L(x, t) = log(sum of exp(x)) - x_t      dL/dx_c = softmax(x)_c - [c = t]
//
// Logits are rows x classes of float with any row stride. Labels are classes. One class is
// background: 0 in torchvision, the last in detectron2. A row with the label `ignore` has loss and
// gradient 0 for any logits. Any other label is an error.
//
// Mining, Liu et al., arXiv 1512.02325, section 2.2: each image counts its foreground rows and
// negatives_per_foreground times as many background rows, those with the largest losses. If there
// are fewer background rows, all of them count. Ties are broken by lower index; NaN is the largest.
// Trainers scale by 1 / max(1, count_foreground(labels, background, ignore)).
//
// Accuracy: the error of a loss is at most 4e-7 times the sum of the loss and the magnitude of the
// logits' differences. Gradients are within 4e-7 times the scale. Sums are accumulated in double.
// No probability is below 2e-38. Loss and gradient are NaN in a row that has a NaN or +infinity, or
// only -infinity.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ, a label is
// invalid, or the scale is not a finite float. Results may not share memory with other arguments,
// except that without mining the gradient may be the logits' own memory.
#pragma once

#include <vecdet/impl/softmax_buffers.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct softmax_cross_entropy_params {
  double scale = 1;  ///< factor on losses, sum and gradient
  /// Label of rows that do not count; -100 in torch. If `ignore` is a class, the rows of that class
  /// do not count. If it is the background, there are no negatives to mine.
  index_t ignore = -2;
};

/// Rows are stored image after image, the same number per image.
struct hard_negative_mining {
  index_t images = 1;                    ///< 1 or more; divides the rows
  index_t negatives_per_foreground = 3;  ///< 0 or more
  index_t background = 0;                ///< a class
};

/// Scratch memory for mining: about 12 bytes per row, reused by later calls. Only one call at a
/// time may use it.
class softmax_cross_entropy_workspace {
  friend detail::workspace_access;
  detail::hard_negative_buffers buffers_;
};

/// The sum of the losses of `logits`, rows x classes.
double softmax_cross_entropy_loss(matrix_view<const float> logits, labels_view labels,
                                  const softmax_cross_entropy_params& params = {},
                                  threading policy = threading::parallel);

/// Writes the loss of each row to `loss`.
void softmax_cross_entropy_loss_unreduced(matrix_view<const float> logits, labels_view labels,
                                          vector_view<float> loss,
                                          const softmax_cross_entropy_params& params = {},
                                          threading policy = threading::parallel);

/// Returns the sum of the losses and writes its gradient with respect to the logits to `grad`,
/// rows x classes. `grad` may be the logits' own memory with the same stride.
double softmax_cross_entropy_loss_and_grad(matrix_view<const float> logits, labels_view labels,
                                           matrix_view<float> grad,
                                           const softmax_cross_entropy_params& params = {},
                                           threading policy = threading::parallel);

/// The same for the foreground and the mined rows; the gradient of all other rows is 0.
double softmax_cross_entropy_loss_and_grad(matrix_view<const float> logits, labels_view labels,
                                           const hard_negative_mining& mining,
                                           matrix_view<float> grad,
                                           const softmax_cross_entropy_params& params,
                                           softmax_cross_entropy_workspace& workspace,
                                           threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/softmax_cross_entropy.hpp>
