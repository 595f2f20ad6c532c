// SPDX-License-Identifier: Apache-2.0
// Smooth L1 loss of box regression, forward and backward in one pass over memory.
//
// Girshick: "Fast R-CNN", arXiv 1504.08083, equation 3, with the point beta where the parabola
// meets the line. With d = prediction - target:
//
//   L(d) = d^2 / (2 beta)      dL/dd = d / beta     where |d| < beta
//          |d| - beta / 2              sign(d)      elsewhere
//
// beta = 0, and in float below 3e-39, is |d|, with gradient 0 at d = 0. huber() gives Huber's loss,
// beta times this one.
//
// Predictions and targets are N x 4 of float, bfloat16 or double. The boxes that a box_selection
// selects count, box_selection::all() being all: the others get loss and gradient 0 without being
// read.
//
// Accuracy: in float, losses and gradients within 4 ulp of the exact value; sums are accumulated in
// double. bfloat16 results are such floats rounded once. d = +-inf gives loss inf and gradient +-1;
// NaN gives NaN, in its own element and in the sum. A weight or scale of 0 gives 0 even where the
// loss is infinite, and a loss of 0 stays 0 under an infinite weight; the same holds of gradients.
// These multiply scale and weight first, losses weight and loss: where that is beyond the type's
// range, it is infinite or 0, whatever the rest.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, an output
// shares memory with an input otherwise than said, beta is negative, or a number among the
// parameters is not a finite float (box weights are data).
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
  /// A further factor for each box; empty: all 1.
  lasting<vector_view<const float>> box_weights;

  /// Huber's loss: delta > 0 times the smooth L1 loss of beta = delta.
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
                      const smooth_l1_params& params = {}, execution policy = execution::parallel);

/// The loss of each element into `loss`, N x 4.
template <class Boxes>
void smooth_l1_loss_unreduced(const Boxes& predictions,
                              boxes_view<const coordinate_of<Boxes>> targets,
                              const box_selection& selection, boxes_view<coordinate_of<Boxes>> loss,
                              const smooth_l1_params& params = {},
                              execution policy = execution::parallel);

/// The sum of the losses, and its gradient by the predictions into `grad`, N x 4, in one pass over
/// memory. Where all boxes count, `grad` may be the predictions' own memory.
template <class Boxes>
double smooth_l1_loss_and_grad(const Boxes& predictions,
                               boxes_view<const coordinate_of<Boxes>> targets,
                               const box_selection& selection,
                               boxes_view<coordinate_of<Boxes>> grad,
                               const smooth_l1_params& params = {},
                               execution policy = execution::parallel);

/// The same of a head's levels as they lie in memory, for all images at once. Targets, labels,
/// indices and params.box_weights are of the anchors of all images, in the order of
/// head_levels.hpp. The gradient goes to `grad`, levels of the same sizes and layout, which may be
/// the predictions themselves, each its own, unless a list selects. `image_scales` are a further
/// factor for each image; empty: all 1. Gradients are the bits of boxes in one array.
template <class T>
double smooth_l1_loss_and_grad(const head_view<T>& predictions,
                               boxes_view<const value_of<T>> targets,
                               const box_selection& selection, const head_view<value_of<T>>& grad,
                               vector_view<const float> image_scales = {},
                               const smooth_l1_params& params = {},
                               execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/smooth_l1.hpp>
