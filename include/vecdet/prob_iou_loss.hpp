// SPDX-License-Identifier: Apache-2.0
// The loss of predicted rotated boxes, 1 - ProbIoU (prob_iou.hpp), forward and backward in one pass
// over memory. It is ultralytics' loss of oriented detectors, without CIoU's term.
//
//   loss = sqrt(1 - exp(-B) + eps)
//
// The gradient is that of autograd through the formula: 0 where B is clamped, which includes equal
// boxes. Close to equal boxes it is steep, as the root is.
//
// Boxes are N x 5, centre, width, height and angle, of float or double, in the convention of
// rotated_boxes.hpp; the gradient of the angle is per unit of the convention.
//
// Accuracy: everything is computed in double and rounded once. For sides in a ratio of at most
// 40 : 1, losses are within 1e-12 of the exact ones, besides the rounding to float. For gradients,
// multiply each of a box's five derivatives by the size that it refers to: the longer side for the
// centre, the side itself for a side, 1 for an angle in radians. The errors of these products are
// within 1e-9 of the largest of them, besides the rounding to float. Sums are accumulated in
// double.
//
// A pair with a box that is not a number, as prob_iou.hpp defines it, has a loss and gradients of
// NaN. Boxes without area are data: losses and gradients are finite for sides and coordinates up to
// 1e15. A weight of 0 gives 0 even if the loss is infinite, as in smooth_l1.hpp.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ, an output
// shares memory with an input in a way not allowed below, or params.scale is not a finite float
// (box weights are data and not checked).
#pragma once

#include <vecdet/angle_convention.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/value_of.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct prob_iou_loss_params {
  double scale = 1;  ///< factor on losses, sum and gradient; 1 / N gives the mean
  /// An additional factor per box; empty: all 1.
  lasting<vector_view<const float>> box_weights;
};

/// The sum of the losses of all pairs of a predicted box and its target.
template <class T>
double prob_iou_loss(matrix_view<T> predicted, matrix_view<const value_of<T>> targets,
                     angle_convention angles, const prob_iou_loss_params& params = {},
                     threading policy = threading::parallel);

/// Writes the loss of each pair to `loss`.
template <class T>
void prob_iou_loss_unreduced(matrix_view<T> predicted, matrix_view<const value_of<T>> targets,
                             angle_convention angles, vector_view<value_of<T>> loss,
                             const prob_iou_loss_params& params = {},
                             threading policy = threading::parallel);

/// Returns the sum of the losses and writes its gradient with respect to the predicted boxes to
/// `grad`, N x 5, which may be the predicted boxes' own memory with the same stride.
template <class T>
double prob_iou_loss_and_grad(matrix_view<T> predicted, matrix_view<const value_of<T>> targets,
                              angle_convention angles, matrix_view<value_of<T>> grad,
                              const prob_iou_loss_params& params = {},
                              threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/prob_iou_loss.hpp>
