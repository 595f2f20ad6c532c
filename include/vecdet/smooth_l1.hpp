// SPDX-License-Identifier: Apache-2.0
// Smooth L1 loss of box regression, forward and backward in one pass over memory.
//
// Girshick: "Fast R-CNN", arXiv 1504.08083, equation 3. The parabola meets the line at beta. With
// d = prediction - target:
//
//   L(d) = d^2 / (2 beta)      dL/dd = d / beta     where |d| < beta
//          |d| - beta / 2              sign(d)      elsewhere
//
// With beta = 0 (in float: below 3e-39) the loss is |d|, with gradient 0 at d = 0. huber() gives
// Huber's loss, which is beta times this one.
//
// Predictions and targets are N x 4 of float, bfloat16 or double. Only boxes that the box_selection
// selects count. Other boxes are never read and get loss and gradient 0.
//
// Accuracy: in float, losses and gradients are within 4 ulp of the exact value. Sums are
// accumulated in double. bfloat16 results are these floats, rounded once.
// d = +-inf gives loss inf and gradient +-1. NaN gives NaN, in its own element and in the sum. A
// weight or scale of 0 gives 0 even if the loss is infinite, and a loss of 0 stays 0 under an
// infinite weight; the same holds for gradients. Gradients first multiply scale and weight; losses
// first multiply weight and loss. If that product overflows or underflows the type, the result is
// infinite or 0, regardless of the remaining factor.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ, an output
// shares memory with an input in a way not allowed below, beta is negative, or a numeric parameter
// is not a finite float (box weights are data and not checked).
#pragma once

#include <vecdet/box_selection.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

struct smooth_l1_params {
  double beta = 1.0 / 9;  ///< 0 or more; 1/9 as in torchvision's detectors, 0 in detectron2's
  double scale = 1;       ///< factor on losses, sum and gradient; 1 / (4 N) gives the mean
  /// An additional factor per box; empty: all 1.
  lasting<vector_view<const float>> box_weights;

  /// Huber's loss: delta times the smooth L1 loss with beta = delta; delta > 0.
  static smooth_l1_params huber(double delta) {
    smooth_l1_params params;
    params.beta = params.scale = delta;
    return params;
  }
};

/// The sum of the losses of `predictions`, N x 4.
template <class Boxes>
double smooth_l1_loss(const Boxes& predictions, boxes_view<const coordinate_of<Boxes>> targets,
                      const box_selection& selection = box_selection::all(),
                      const smooth_l1_params& params = {}, threading policy = threading::parallel);

/// Writes the loss of each element to `loss`, N x 4. Without `selection`, all boxes are selected.
template <class Boxes>
void smooth_l1_loss_unreduced(const Boxes& predictions,
                              boxes_view<const coordinate_of<Boxes>> targets,
                              const box_selection& selection, boxes_view<coordinate_of<Boxes>> loss,
                              const smooth_l1_params& params = {},
                              threading policy = threading::parallel);
template <class Boxes>
void smooth_l1_loss_unreduced(const Boxes& predictions,
                              boxes_view<const coordinate_of<Boxes>> targets,
                              boxes_view<coordinate_of<Boxes>> loss,
                              const smooth_l1_params& params = {},
                              threading policy = threading::parallel);

/// Returns the sum of the losses and writes its gradient with respect to the predictions to `grad`,
/// N x 4, in one pass over memory. Without `selection`, all boxes are selected; `grad` may then be
/// the predictions' own memory.
template <class Boxes>
double smooth_l1_loss_and_grad(const Boxes& predictions,
                               boxes_view<const coordinate_of<Boxes>> targets,
                               const box_selection& selection,
                               boxes_view<coordinate_of<Boxes>> grad,
                               const smooth_l1_params& params = {},
                               threading policy = threading::parallel);
template <class Boxes>
double smooth_l1_loss_and_grad(const Boxes& predictions,
                               boxes_view<const coordinate_of<Boxes>> targets,
                               boxes_view<coordinate_of<Boxes>> grad,
                               const smooth_l1_params& params = {},
                               threading policy = threading::parallel);

/// The same for a head's levels in place, for all images at once. Targets, labels, indices and
/// params.box_weights have one element per anchor of all images, in the order of head_levels.hpp.
/// The gradient goes to `grad`, whose levels have the same sizes and layout. It may reuse the
/// predictions' memory, level for level, unless `selection` is a list. `image_scales` holds an
/// additional factor per image; empty: all 1. Gradients are bit-identical to those of boxes in one
/// array.
template <class T>
double smooth_l1_loss_and_grad(const head_view<T>& predictions,
                               boxes_view<const value_of<T>> targets,
                               const box_selection& selection, const head_view<value_of<T>>& grad,
                               vector_view<const float> image_scales = {},
                               const smooth_l1_params& params = {},
                               threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/smooth_l1.hpp>
