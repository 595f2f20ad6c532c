// SPDX-License-Identifier: Apache-2.0
// GIoU, DIoU and CIoU losses of predicted boxes, forward and backward in one pass over memory. They
// are torchvision.ops.giou_loss, distance_box_iou_loss and complete_box_iou_loss:
//
//   IoU  = I / (U + eps)                       I = 0 unless both overlaps are above 0
//   GIoU loss = 1 - IoU + (C - U) / (C + eps)
//   DIoU loss = 1 - IoU + rho^2 / (c^2 + eps)
//   CIoU loss = DIoU loss + alpha v,           alpha = v / (1 - IoU + v + eps) held constant,
//                                              and 0 where v = 0, even if it would be 0 / 0 (equal
//                                              boxes, eps = 0)
//
// I, U and C are the areas of intersection, union and enclosing box; iou.hpp defines the other
// symbols and cites the papers. A predicted side that equals the target's gets half of the gradient
// of min and max, as in autograd.
//
// Boxes are N x 4 corners of float, bfloat16 or double.
//
// Accuracy: in float, losses are within 1e-6. A gradient is a sum of terms, which may cancel; its
// error is within 16 ulp of the largest term, counting the two angles of CIoU's v as terms. Sums
// are accumulated in double. bfloat16 results are these floats, rounded once.
// Degenerate boxes are data. For boxes without area, eps keeps the losses finite, except that
// CIoU's v is 0/0, which is NaN, if the width and height of a box are both 0. NaN coordinates give
// NaN. In float, areas overflow for sides of 1e19 and more. A weight of 0 gives 0 even if the loss
// is infinite, and a loss of 0 stays 0 under an infinite weight, as in smooth_l1.hpp.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ, an output
// shares memory with an input in a way not allowed below, the kind is iou_kind::iou, eps is
// negative, or a numeric parameter is not a finite float (box weights are data and not checked).
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
  /// An additional factor per box; empty: all 1.
  lasting<vector_view<const float>> box_weights;
};

/// The sum of the losses of all boxes. In all functions of this header, `kind` is giou, diou or
/// ciou.
template <class Boxes>
double iou_loss(const Boxes& predicted, boxes_view<const coordinate_of<Boxes>> targets,
                iou_kind kind, const iou_loss_params& params = {},
                threading policy = threading::parallel);

/// Writes the loss of each box to `loss`.
template <class Boxes>
void iou_loss_unreduced(const Boxes& predicted, boxes_view<const coordinate_of<Boxes>> targets,
                        vector_view<coordinate_of<Boxes>> loss, iou_kind kind,
                        const iou_loss_params& params = {}, threading policy = threading::parallel);

/// Returns the sum of the losses and writes its gradient with respect to the predicted boxes to
/// `grad`, N x 4, which may be the predicted boxes' own memory.
template <class Boxes>
double iou_loss_and_grad(const Boxes& predicted, boxes_view<const coordinate_of<Boxes>> targets,
                         boxes_view<coordinate_of<Boxes>> grad, iou_kind kind,
                         const iou_loss_params& params = {},
                         threading policy = threading::parallel);

/// The same for a head's levels in place, N x A*4 x H x W or channels last, for all images at once:
/// the sum of the losses of the boxes that `selection` selects, and its gradient. Targets, labels,
/// indices and params.box_weights have one element per anchor of all images, in the order of
/// head_levels.hpp. The gradient goes to `grad`, whose levels have the same sizes and layout. It is
/// 0 for boxes that are not selected. `grad` may reuse the predicted boxes' memory, level for
/// level, unless `selection` is a list. `image_scales` holds an additional factor per image; empty:
/// all 1. Gradients are bit-identical to those of boxes in one array.
template <class T>
double iou_loss_and_grad(const head_view<T>& predicted, boxes_view<const value_of<T>> targets,
                         const box_selection& selection, const head_view<value_of<T>>& grad,
                         iou_kind kind, vector_view<const float> image_scales = {},
                         const iou_loss_params& params = {},
                         threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/iou_loss.hpp>
