// SPDX-License-Identifier: Apache-2.0
// Greedy non-maximum suppression of masks by their overlap in pixels, per class and per image.
//
// Going down the scores, a mask is kept unless a kept mask of its class and image overlaps it by
// more than the threshold. The overlap is that of mask_iou() (mask_bits.hpp): the IoU, or the
// intersection over the smaller area if params.overlap is smaller_area; 0 without common pixels. It
// is compared with the threshold in double, as in supervision. All pixels are compared; supervision
// first scales masks, up or down, so that their longer side has 640 pixels. The other options are
// those of nms(): ties of scores are broken by lower index, and masks with NaN scores come first.
// drop_degenerate drops masks without pixels. With smaller_area, suppress_equal decides whether an
// overlap that equals the threshold suppresses, as with the IoU.
//
// Scores are float, bfloat16 or double, at most 2^32 - 1 of them. The result does not depend on the
// number of threads.
//
// Throws std::invalid_argument, and changes nothing, for the reasons that nms.hpp and mask_bits.hpp
// list, or if params.overlap is jaccard or no nms_overlap, or format or plus_one is not the
// default.
#pragma once

#include <vecdet/impl/mask_nms_buffers.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Scratch memory: copies of masks as bits, and what NMS needs. It grows to the needs of the
/// largest call and is reused. Only one call at a time may use it.
class mask_nms_workspace {
  friend detail::workspace_access;
  detail::mask_nms_buffers buffers_;
};

/// NMS of masks and scores (N), of one class and image, or per class and image as `groups` says.
/// Returns the indices of the kept masks in the order params.order, by default descending score.
/// The result is stored in the workspace and is valid until its next use.
template <class T>
vector_view<const index_t> mask_nms(const masks_view& masks, vector_view<T> scores,
                                    const nms_groups& groups, const nms_params& params,
                                    mask_nms_workspace& workspace,
                                    threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/mask_nms.hpp>
