// SPDX-License-Identifier: Apache-2.0
// Greedy non-maximum suppression, per class and per image: exact, and sub-quadratic in practice.
//
// Going down the scores, a box is kept unless a kept box of its class and image overlaps it by more
// than the threshold. Equal scores go by lower index. The overlap is the float that torchvision
// computes, intersection / (area + area - intersection) with one rounding an operation, so that the
// result is torchvision's, index for index, also where an overlap lies exactly at the threshold;
// options and presets give ONNX Runtime's, OpenCV's, mmcv's and IPEX's (nms_params.hpp).
// Classes never shift coordinates: negative ones and any number of classes are exact.
//
// NaN: a NaN score comes first and stays, or is dropped (drop_nan_scores). A box with a NaN
// coordinate, or without area, suppresses nothing and stays, or is dropped (drop_degenerate); but
// by OpenCV's overlap a box with a NaN coordinate overlaps every other by 1, and so do two boxes
// without area: the first suppresses the later ones. At a threshold of 0 with suppress_equal, an
// overlap of 0 suppresses.
//
// Boxes and scores are float, bfloat16 (computed in float) or double, at most 2^32 - 1 of them;
// box_ops.hpp's split_detections() makes them of N x 5 or N x 6 detections. The result does not
// depend on the number of threads.
//
// Every function throws std::invalid_argument, and changes nothing, when sizes differ, a threshold
// is outside [0, 1] or a limit is negative.
#pragma once

#include <vecdet/impl/nms_buffers.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

/// Memory that NMS works in, about 100 bytes a box. It grows to what the calls need, which depends
/// on the sizes of the groups and on the threads as well, and is reused: a call like an earlier one
/// allocates nothing. One call at a time.
class nms_workspace {
  friend detail::workspace_access;
  detail::nms_buffers buffers_;
};

/// NMS of boxes (N x 4) and scores (N), all of one class and image: the indices of the boxes kept,
/// in descending score unless params.order says otherwise. The result lies in the workspace, until
/// its next use.
template <class Boxes, class Scores, detail::require_boxes<Boxes> = 0,
          detail::require_numbers<Scores> = 0>
vector_view<const index_t> nms(const Boxes& boxes, const Scores& scores, const nms_params& params,
                               nms_workspace& workspace, execution policy = execution::parallel);

/// The same with memory of its own, which each call allocates.
template <class Boxes, class Scores, detail::require_boxes<Boxes> = 0,
          detail::require_numbers<Scores> = 0>
std::vector<index_t> nms(const Boxes& boxes, const Scores& scores, const nms_params& params = {},
                         execution policy = execution::parallel);

/// NMS per class and image, spread over threads: boxes N x 4, scores N. In descending score over
/// everything unless params.order says otherwise.
template <class Boxes, class Scores, detail::require_boxes<Boxes> = 0,
          detail::require_numbers<Scores> = 0>
vector_view<const index_t> batched_nms(const Boxes& boxes, const Scores& scores,
                                       const nms_groups& groups, const nms_params& params,
                                       nms_workspace& workspace,
                                       execution policy = execution::parallel);

/// The same with memory of its own, which each call allocates.
template <class Boxes, class Scores, detail::require_boxes<Boxes> = 0,
          detail::require_numbers<Scores> = 0>
std::vector<index_t> batched_nms(const Boxes& boxes, const Scores& scores, const nms_groups& groups,
                                 const nms_params& params = {},
                                 execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/nms.hpp>
