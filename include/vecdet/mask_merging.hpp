// SPDX-License-Identifier: Apache-2.0
// Non-maximum merging of masks, as supervision does it for the detections of a sliced image: masks
// that overlap become one object.
//
// Going down the scores, an untaken mask begins a group. It takes all untaken masks of its class
// and image whose overlap with it is at least the threshold. Then the union of the group takes
// masks in the same way, until none is left that matches. The overlap is that of mask_iou()
// (mask_bits.hpp), compared in double. Ties of scores are broken by lower index. All pixels are
// compared; supervision first scales masks, up or down, so that their longer side has 640 pixels.
//
// Masks with NaN scores are left out. Scores are float, bfloat16 or double, at most 2^32 - 1 of
// them. The result does not depend on the number of threads.
//
// Throws std::invalid_argument, and changes nothing, if sizes differ, the threshold is outside
// [0, 1], the overlap is not a mask_overlap, the smallest rectangle around masks.boxes has 2^40
// pixels or more, or for the reasons that mask_bits.hpp lists.
#pragma once

#include <vecdet/impl/mask_merging_buffers.hpp>
#include <vecdet/mask_bits.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The groups in descending score of their first members. The members of group k are [offsets[k],
/// offsets[k + 1]): the mask with the greatest score, then the others in the order in which the
/// group took them; of those that it took at once, in descending score.
struct mask_groups {
  vector_view<const index_t> members;
  vector_view<const index_t> offsets;
};

/// Scratch memory and results. It grows to the needs of the largest call and is reused. Only one
/// call at a time may use it.
class mask_merging_workspace {
  friend detail::workspace_access;
  detail::mask_merging_buffers buffers_;
};

/// The groups of masks that are to be merged, by their scores (N), per class and image. The result
/// is stored in the workspace and is valid until its next use.
/// @param match_threshold in [0, 1]
template <class T>
mask_groups group_masks(const masks_view& masks, vector_view<T> scores, const nms_groups& groups,
                        mask_overlap overlap, double match_threshold,
                        mask_merging_workspace& workspace, threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/mask_merging.hpp>
