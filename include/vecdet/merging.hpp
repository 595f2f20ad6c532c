// SPDX-License-Identifier: Apache-2.0
// Non-maximum merging: boxes that NMS would suppress are merged into the box that would suppress
// them, as SAHI and supervision do for the detections of a sliced image.
//
//   greedy       going down the scores, an untaken box takes all untaken boxes that match it
//   transitive   a taken box takes its own matches, too, for the group of the box that took it
//
// Two boxes match if their IoU, or their intersection over the smaller area (IoS), is at least the
// threshold. It is computed in float, or in double for double boxes, with one rounding per
// operation. Ties of scores are broken by lower x1, y1, x2, y2, then by lower index. A transitive
// merge takes a box of equal score only if it is identical. A box matches no other if its area is
// infinite, NaN or not above 0. Boxes with NaN scores are left out.
//
// Boxes and scores are float, bfloat16 (computed in float) or double, at most 2^32 - 1 of them. The
// result does not depend on the number of threads.
//
// Throws std::invalid_argument, and changes nothing, if sizes differ, the threshold is outside
// (0, 1] or the overlap is neither smaller_area nor positive_area.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/impl/merge_buffers.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct merge_params {
  nms_overlap overlap = nms_overlap::smaller_area;  ///< Or positive_area, the IoU.
  double match_threshold = 0.5;                     ///< In (0, 1].
  bool transitive = false;                          ///< A taken box takes its own matches, too.
  /// A member extends its group's box only if the two still overlap by more than the threshold,
  /// computed in double with the box as extended so far.
  bool recheck = true;

  /// SAHI's GREEDYNMM, its default.
  static merge_params sahi_greedy_nmm(double match_threshold = 0.5);
  /// SAHI's NMM.
  static merge_params sahi_nmm(double match_threshold = 0.5);
  /// The groups of supervision's box_non_max_merge; all members extend the box.
  static merge_params supervision(double match_threshold = 0.5);
};

/// The groups in descending score. The members of group k are [offsets[k], offsets[k + 1]). The
/// first is the box with the greatest score; its class is the group's class. The other members
/// follow in descending score; after a transitive merge, they are ordered by the score of the box
/// that took them, then by index. The memory belongs to the workspace and is valid until its next
/// use.
template <class Real>
struct merged_boxes {
  boxes_view<const Real> boxes;  ///< the smallest rectangles around the merged members
  vector_view<const Real> scores;
  vector_view<const index_t> members;
  vector_view<const index_t> offsets;
};

/// Scratch memory for merge_boxes. It grows to the needs of the largest call and is reused. Only
/// one call at a time may use it.
class merge_workspace {
  friend detail::workspace_access;
  detail::merge_buffers buffers_;
};

/// Merges boxes x1 y1 x2 y2 (N x 4) with scores (N), per class and image. `groups` is a container
/// or view of the N classes, or nms_groups (nms_params.hpp).
template <class T, class Groups = nms_groups>
merged_boxes<compute_type<value_of<T>>> merge_boxes(boxes_view<T> boxes, vector_view<T> scores,
                                                    const Groups& groups,
                                                    const merge_params& params,
                                                    merge_workspace& workspace,
                                                    threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/merging.hpp>
