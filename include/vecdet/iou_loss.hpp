// SPDX-License-Identifier: Apache-2.0
// GIoU, DIoU and CIoU losses of predicted boxes, forward and backward in one pass over memory, as
// torchvision.ops.giou_loss, distance_box_iou_loss and complete_box_iou_loss:
//
//   IoU  = I / (U + eps)                       I = 0 unless both overlaps are above 0
//   GIoU loss = 1 - IoU + (C - U) / (C + eps)
//   DIoU loss = 1 - IoU + rho^2 / (c^2 + eps)
//   CIoU loss = DIoU loss + alpha v,           alpha = v / (1 - IoU + v + eps) held constant,
//                                              and 0 where v is: 0 / 0 of equal boxes at eps = 0
//
// with I, U, C the areas of intersection, union and enclosing box; see iou.hpp for the rest and the
// papers. Where a side of the prediction equals the target's, half of the gradient of min and max
// goes to either, as in autograd.
//
// Boxes are N x 4 corners of float, bfloat16 or double.
//
// Accuracy: in float, losses within 1e-6; a gradient within 16 ulp of the largest of the terms that
// it is the sum of, the two angles of CIoU's v among them: where they cancel, no better. Sums are
// accumulated in double. bfloat16 results are such floats rounded once. Degenerate boxes are data:
// without area, eps keeps the losses finite; but CIoU's v, 0/0 of a box whose width and height are
// both 0, is NaN. NaN coordinates give NaN. In float, areas overflow from sides of 1e19 on. A
// weight of 0 gives 0 even where the loss is infinite, and a loss of 0 stays 0 under an infinite
// weight, as in smooth_l1.hpp.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, an output
// shares memory with an input in a way not allowed below, the kind is iou_kind::iou, eps is
// negative, or a number among the parameters is not a finite float (box weights are data).
#pragma once

#include <vecdet/box_selection.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/iou_kind.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

struct iou_loss_params {
  double epsilon = 1e-7;  ///< 0 or more
  double scale = 1;       ///< factor on losses, sum and gradient; 1 / N gives the mean
  /// A further factor for each box; empty: all 1.
  lasting<vector_view<const float>> box_weights;
};

/// The sum of the losses of all boxes. `kind` is giou, diou or ciou, here and in all functions
/// below.
template <class Boxes>
double iou_loss(const Boxes& predicted, boxes_view<const coordinate_of<Boxes>> targets,
                iou_kind kind, const iou_loss_params& params = {},
                execution policy = execution::parallel);

/// The loss of each box into `loss`.
template <class Boxes>
void iou_loss_unreduced(const Boxes& predicted, boxes_view<const coordinate_of<Boxes>> targets,
                        vector_view<coordinate_of<Boxes>> loss, iou_kind kind,
                        const iou_loss_params& params = {}, execution policy = execution::parallel);

/// The sum, and its gradient by the predicted boxes into `grad`, N x 4, which may be the predicted
/// boxes' own memory.
template <class Boxes>
double iou_loss_and_grad(const Boxes& predicted, boxes_view<const coordinate_of<Boxes>> targets,
                         boxes_view<coordinate_of<Boxes>> grad, iou_kind kind,
                         const iou_loss_params& params = {},
                         execution policy = execution::parallel);

/// The same for a head's levels in place, N x A*4 x H x W or channels last, for all images at once:
/// the sum of the losses of the boxes that `selection` selects, and its gradient. Targets, labels,
/// indices and params.box_weights have one element per anchor of all images, in the order of
/// head_levels.hpp. The gradient goes to `grad`, levels of the same sizes and layout, which may
/// reuse the predicted boxes' memory, level for level, unless a list selects; it is 0 where a box
/// is not selected. `image_scales` are a further factor per image; empty: all 1. Gradients are
/// bit-identical to those of boxes in one array.
template <class T>
double iou_loss_and_grad(const head_view<T>& predicted, boxes_view<const value_of<T>> targets,
                         const box_selection& selection, const head_view<value_of<T>>& grad,
                         iou_kind kind, vector_view<const float> image_scales = {},
                         const iou_loss_params& params = {},
                         execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/iou_loss.hpp>
