// SPDX-License-Identifier: Apache-2.0
// Non-maximum merging: boxes that NMS would suppress are merged into those that would suppress
// them, as SAHI and supervision merge the detections of a sliced image.
//
//   greedy       going down the scores, a box takes all that match it and are not yet taken
//   transitive   boxes that are taken take others, too, for the box that has taken them
//
// Two boxes match where their IoU, or their intersection over the smaller area (IoS), is the
// threshold or more: in float, or in double of double boxes, one rounding an operation. Equal
// scores go by the coordinates x1, y1, x2, y2, the lower first, then by index; a transitive merge
// takes no box of the same score but an identical one. A box whose area is not above 0 and finite
// matches none. NaN scores take no part.
//
// Boxes and scores are float, bfloat16 (computed in float) or double, at most 2^32 - 1 of them. The
// result does not depend on the number of threads.
//
// Throws std::invalid_argument, and changes nothing, when sizes differ, the threshold is not in
// (0, 1] or the overlap is another than those two.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/impl/merge_buffers.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct merge_params {
  nms_overlap overlap = nms_overlap::smaller_area;  ///< Or positive_area: IoU.
  double match_threshold = 0.5;                     ///< In (0, 1].
  bool transitive = false;
  /// A member widens its group's box only where it overlaps what that has grown to by more than the
  /// threshold, computed in double.
  bool rechecks = true;

  /// SAHI's GREEDYNMM, its default, and NMM.
  static merge_params sahi_greedy_nmm(double match_threshold = 0.5);
  static merge_params sahi_nmm(double match_threshold = 0.5);
  /// The groups of supervision's box_non_max_merge; boxes are merged without another look.
  static merge_params supervision(double match_threshold = 0.5);
};

/// The groups in descending score. Members of group k are [offsets[k], offsets[k + 1]): the box of
/// the greatest score, whose class is the group's, and then those merged into it: by descending
/// score, or of a transitive merge by the score of the box that has taken them and then by index.
/// The memory is the workspace's, until its next use.
template <class Real>
struct merged_boxes {
  boxes_view<const Real> boxes;  ///< the least rectangles around the members' boxes
  vector_view<const Real> scores;
  vector_view<const index_t> members;
  vector_view<const index_t> offsets;
};

/// Memory that merge_boxes works in: grows to what the largest call needs and is reused. One call
/// at a time.
class merge_workspace {
  friend detail::workspace_access;
  detail::merge_buffers buffers_;
};

/// Merges boxes x1 y1 x2 y2 (N x 4) of scores (N), per class and image (nms_params.hpp).
template <class T>
merged_boxes<compute_type<value_of<T>>> merge_boxes(boxes_view<T> boxes, vector_view<T> scores,
                                                    const nms_groups& groups,
                                                    const merge_params& params,
                                                    merge_workspace& workspace,
                                                    execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/merging.hpp>
