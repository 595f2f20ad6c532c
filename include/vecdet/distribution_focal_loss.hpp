// SPDX-License-Identifier: Apache-2.0
// Distribution focal loss, forward and backward in one pass over memory, and decoding of the
// distributions that it trains.
//
// Li et al.: "Generalized Focal Loss", arXiv 2006.04388, equations 5 and 6. The distance to each
// side of a box is predicted as a distribution over bins 0 .. bins - 1: softmax(x) of a row of
// logits. With the target y between the bins l = floor(y) and l + 1:
//
//   L = -((l + 1 - y) log softmax(x)_l + (y - l) log softmax(x)_(l+1))
//   dL/dx_c = softmax(x)_c - max(0, 1 - |c - y|)
//   decoded: the expectation, the sum of c softmax(x)_c
//
// Logits are rows x bins of float with any row stride, with 2 to 2^24 bins. Each row is one side of
// a box; four consecutive rows are the left, top, right and bottom side of one box. Targets are in
// bins: distances divided by the stride of the level. They are clamped to [0, bins - 1]; a trainer
// that needs another limit, such as bins - 1.01, must clamp them before the call.
//
// Accuracy: the error of a loss is at most 4e-7 times the sum of the loss and the magnitude of the
// logits' differences. Gradients are within 4e-7, expectations within 4e-7 times bins. Sums are
// accumulated in double. No probability is below 2e-38. Loss, gradient and expectation are NaN for
// a row that has a NaN or +infinity, or only -infinity. A NaN target makes loss and gradient NaN. A
// row of weight 0 has loss and gradient 0 for any logits; an infinite weight gives infinities and
// NaN.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ, the number of
// bins is out of range, or the scale is not a finite float. Results may not share memory with other
// arguments, except that the gradient may be the logits' own memory.
#pragma once

#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct distribution_focal_loss_params {
  double scale = 1;  ///< factor on losses, sum and gradient
  /// An additional factor per row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

/// The sum of the losses of `logits`, rows x bins, with one target per row.
double distribution_focal_loss(matrix_view<const float> logits, vector_view<const float> targets,
                               const distribution_focal_loss_params& params = {},
                               threading policy = threading::parallel);

/// Writes the loss of each row to `loss`.
void distribution_focal_loss_unreduced(matrix_view<const float> logits,
                                       vector_view<const float> targets, vector_view<float> loss,
                                       const distribution_focal_loss_params& params = {},
                                       threading policy = threading::parallel);

/// Returns the sum of the losses and writes its gradient with respect to the logits to `grad`,
/// rows x bins. `grad` may be the logits' own memory with the same stride.
double distribution_focal_loss_and_grad(matrix_view<const float> logits,
                                        vector_view<const float> targets, matrix_view<float> grad,
                                        const distribution_focal_loss_params& params = {},
                                        threading policy = threading::parallel);

/// Writes the expectation of each row, in bins, to `distances`.
void decode_distributions(matrix_view<const float> logits, vector_view<float> distances,
                          threading policy = threading::parallel);

/// Writes the corners x1 y1 x2 y2 of each box to `boxes`. The distances left, top, right and bottom
/// are decoded from the box's four rows of `logits`, multiplied by its stride, and measured from
/// its point, a row of `points` (N x 2).
void decode_distribution_boxes(matrix_view<const float> logits, matrix_view<const float> points,
                               vector_view<const float> strides, boxes_view<float> boxes,
                               threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/distribution_focal_loss.hpp>
