// SPDX-License-Identifier: Apache-2.0
// Distribution focal loss, forward and backward in one pass over memory, and the decoding of the
// distributions that it trains.
//
// Li et al.: "Generalized Focal Loss", arXiv 2006.04388, equations 5 and 6. A side's distance is a
// distribution over bins 0 .. bins - 1, softmax(x) of a row of logits. With the target y between
// the bins l = floor(y) and l + 1:
//
//   L = -((l + 1 - y) log softmax(x)_l + (y - l) log softmax(x)_(l+1))
//   dL/dx_c = softmax(x)_c - max(0, 1 - |c - y|)
//   decoded: the expectation, the sum of c softmax(x)_c
//
// Logits are rows x bins of float with any row stride, at least 2 bins and at most 2^24. A row is a
// side of a box; the four sides of a box, left, top, right and bottom, are four rows one after the
// other. Targets are in bins: distances divided by the stride of the level. They are clamped to
// [0, bins - 1]; trainers that clamp them to bins - 1.01 do so themselves.
//
// Accuracy: losses within 4e-7 of the sum of the loss and the size of the logits' differences,
// gradients within 4e-7, expectations within 4e-7 times bins; sums are accumulated in double.
// Probabilities are not below 2e-38. A row with a NaN or +infinity, one of nothing but -infinity,
// and one whose target is NaN have loss, gradient and expectation NaN. A row of weight 0 has loss
// and gradient 0, whatever it holds; an infinite weight gives infinities and NaN.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, bins are out
// of range, or the scale is not a finite float. Results may not share memory with other arguments,
// except that the gradient may be the logits' own memory.
#pragma once

#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct distribution_focal_loss_params {
  double scale = 1;  ///< factor on losses, sum and gradient
  /// A further factor for each row; empty: all 1.
  lasting<vector_view<const float>> row_weights;
};

/// The sum of the losses of `logits`, rows x bins, with a target for each row.
double distribution_focal_loss(matrix_view<const float> logits, vector_view<const float> targets,
                               const distribution_focal_loss_params& params = {},
                               execution policy = execution::parallel);

/// The loss of each row into `loss`.
void distribution_focal_loss_unreduced(matrix_view<const float> logits,
                                       vector_view<const float> targets, vector_view<float> loss,
                                       const distribution_focal_loss_params& params = {},
                                       execution policy = execution::parallel);

/// The sum of the losses, and its gradient by the logits into `grad`, rows x bins. `grad` may be
/// the logits' own memory with the same stride.
double distribution_focal_loss_and_grad(matrix_view<const float> logits,
                                        vector_view<const float> targets, matrix_view<float> grad,
                                        const distribution_focal_loss_params& params = {},
                                        execution policy = execution::parallel);

/// The expectation of each row, in bins, into `distances`.
void decode_distributions(matrix_view<const float> logits, vector_view<float> distances,
                          execution policy = execution::parallel);

/// The corners x1 y1 x2 y2 of each box: its point, a row of `points`, N x 2, less left and top and
/// plus right and bottom, each times the box's stride. `logits` has four rows a box.
void decode_distribution_boxes(matrix_view<const float> logits, matrix_view<const float> points,
                               vector_view<const float> strides, boxes_view<float> boxes,
                               execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/distribution_focal_loss.hpp>
