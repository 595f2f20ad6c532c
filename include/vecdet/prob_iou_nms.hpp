// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression of rotated boxes by their ProbIoU, per class and per image, in
// ultralytics' rule: sub-quadratic in practice.
//
// A box is kept unless any box of its class and image that comes before it in descending score has
// a ProbIoU with it above the threshold (with suppress_equal, which nms_params::ultralytics_obb()
// sets: at or above it). Unlike in other NMS, boxes that are suppressed themselves suppress others,
// too. The ProbIoU is that of pairwise_prob_iou(), so the result is that of the loop over this
// matrix. All options of nms_params but those for the meaning of four numbers are those of nms():
// ties of scores are broken by lower index, and boxes with NaN scores come first. A box that is not
// a number suppresses nothing and is kept; a box without area has a ProbIoU (prob_iou.hpp).
// drop_degenerate drops both.
//
// Boxes of less than 0.06 square pixels are compared with all others, and so are all boxes if the
// threshold is at most 1e-4. Doubles of sides of 1e38 and more overflow (prob_iou.hpp).
//
// Boxes (cxcywhr) and scores are float or double, at most 2^32 - 1 of them.
//
// Every function throws std::invalid_argument, and changes nothing, for the reasons that nms.hpp
// lists, or if params.format, overlap or plus_one is not the default.
#pragma once

#include <vecdet/angle_convention.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/value_of.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

/// NMS of rotated boxes (N x 5) and scores (N), of one class and image, or per class and image as
/// `groups` says. Returns the indices of the kept boxes in the order params.order, by default
/// descending score. The result is stored in the workspace and is valid until its next use.
template <class T>
vector_view<const index_t> prob_iou_nms(matrix_view<T> boxes, vector_view<const value_of<T>> scores,
                                        const nms_groups& groups, angle_convention angles,
                                        const nms_params& params, nms_workspace& workspace,
                                        threading policy = threading::parallel);

/// The same without a workspace; each call allocates its memory.
template <class T>
std::vector<index_t> prob_iou_nms(matrix_view<T> boxes, vector_view<const value_of<T>> scores,
                                  const nms_groups& groups, angle_convention angles,
                                  const nms_params& params, threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/prob_iou_nms.hpp>
