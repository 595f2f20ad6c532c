// SPDX-License-Identifier: Apache-2.0
// Greedy non-maximum suppression, per class and per image: exact, and sub-quadratic in practice.
//
// Going down the scores, a box is kept unless a kept box of its class and image overlaps it by more
// than the threshold. Ties of scores are broken by lower index. By default, the overlap is
// intersection / (area + area - intersection) with one rounding per operation, bit-identical to
// torchvision's. The kept indices therefore equal torchvision's, even if an overlap is exactly the
// threshold. Options and presets reproduce the results of ONNX Runtime, OpenCV, mmcv and IPEX
// (nms_params.hpp). Coordinates are never shifted to separate classes, so results are exact for
// negative coordinates and any number of classes.
//
// NaN: boxes with NaN scores come first and are kept, unless drop_nan_scores drops them. A box with
// a NaN coordinate or without area suppresses nothing and is kept, unless drop_degenerate drops it.
// OpenCV's overlap differs: a box with a NaN coordinate overlaps every other box by 1, and two
// boxes without area overlap each other by 1, so the first suppresses the later ones. With a
// threshold of 0 and suppress_equal, an overlap of 0 suppresses.
//
// Boxes and scores are float, bfloat16 (computed in float) or double, at most 2^32 - 1 of them.
// split_detections() in box_ops.hpp extracts them from N x 5 or N x 6 detections. The result does
// not depend on the number of threads.
//
// params.classes, class_thresholds and class_groups concern the classes of batched_nms() and
// rotated_nms(). class_thresholds replace score_threshold, and like it they do not concern boxes
// with NaN scores. Groups of classes take the place of classes in max_per_class and in the order.
//
// Every function throws std::invalid_argument, and changes nothing, if sizes differ, iou_threshold
// is outside [0, 1], another threshold is NaN, a limit is negative, a list per class is given and
// the boxes have no classes, or a box takes part whose class has no element in class_thresholds or
// class_groups.
#pragma once

#include <vecdet/impl/nms_buffers.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

/// Scratch memory for NMS, about 100 bytes per box. It grows to the needs of the largest call and
/// is reused, so repeating a call allocates nothing. The needs also depend on the group sizes and
/// the number of threads. Only one call at a time may use it.
class nms_workspace {
  friend detail::workspace_access;
  detail::nms_buffers buffers_;
};

/// NMS of boxes (N x 4) and scores (N), all of one class and image. Returns the indices of the kept
/// boxes in the order params.order, by default descending score. The result is stored in the
/// workspace and is valid until its next use.
template <class Boxes, class Scores, detail::require_boxes<Boxes> = 0,
          detail::require_numbers<Scores> = 0>
vector_view<const index_t> nms(const Boxes& boxes, const Scores& scores, const nms_params& params,
                               nms_workspace& workspace, threading policy = threading::parallel);

/// The same without a workspace; each call allocates its memory.
template <class Boxes, class Scores, detail::require_boxes<Boxes> = 0,
          detail::require_numbers<Scores> = 0>
std::vector<index_t> nms(const Boxes& boxes, const Scores& scores, const nms_params& params = {},
                         threading policy = threading::parallel);

/// NMS per class and image of boxes (N x 4) and scores (N), spread over threads. `groups` is a
/// container or view of the N classes, integers of 32 or 64 bits, or nms_groups for classes and
/// images. The order of the result is params.order, by default descending score over all classes
/// and images.
template <class Boxes, class Scores, class Groups = nms_groups, detail::require_boxes<Boxes> = 0,
          detail::require_numbers<Scores> = 0>
vector_view<const index_t> batched_nms(const Boxes& boxes, const Scores& scores,
                                       const Groups& groups, const nms_params& params,
                                       nms_workspace& workspace,
                                       threading policy = threading::parallel);

/// The same without a workspace; each call allocates its memory.
template <class Boxes, class Scores, class Groups = nms_groups, detail::require_boxes<Boxes> = 0,
          detail::require_numbers<Scores> = 0>
std::vector<index_t> batched_nms(const Boxes& boxes, const Scores& scores, const Groups& groups,
                                 const nms_params& params = {},
                                 threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/nms.hpp>
