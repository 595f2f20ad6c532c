// SPDX-License-Identifier: Apache-2.0
// Soft-NMS, per class and per image. Bodla, Singh, Chellappa, Davis: "Soft-NMS: improving object
// detection with one line of code", arXiv 1704.04503. The box with the greatest score is picked
// repeatedly. Each pick multiplies the scores of the remaining boxes of its image and class by
//
//   linear     1 - IoU             if IoU >= iou_threshold, else 1
//   gaussian   exp(-IoU^2 / sigma)
//   hard       0                   if IoU >= iou_threshold, else 1
//
// Boxes whose score is then below the floor are dropped. Results are those of mmcv's soft_nms,
// except that ties of scores are broken by lower index. Boxes with NaN scores are dropped; a NaN
// overlap does not change a score.
//
// Boxes and scores have the same type: float, bfloat16 (computed in float) or double. Groups are
// distributed over threads; the result does not depend on the number of threads. The cost is
// quadratic in the number of boxes of a group, since each pick may change every other score.
//
// Every function throws std::invalid_argument if sizes differ, the threshold is outside [0, 1],
// sigma is not above 0, or the floor is NaN.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/impl/soft_nms_buffers.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/soft_nms_method.hpp>
#include <vecdet/views.hpp>

#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

struct soft_nms_params {
  soft_nms_method method = soft_nms_method::linear;
  double iou_threshold = 0.3;  ///< of the hard and the linear method; compared in the IoU's type
  double sigma = 0.5;          ///< of the gaussian method, above 0
  double score_floor = 1e-3;   ///< after a pick, boxes of its group with lower scores are dropped
  bool plus_one = false;       ///< pixel convention: a box is x2 - x1 + 1 wide
};

/// The picked boxes in descending score, with their reduced scores. The memory belongs to the
/// workspace and is valid until its next use.
template <class Real>
struct soft_nms_result {
  vector_view<const index_t> kept;
  vector_view<const Real> scores;
};

/// Scratch memory for soft-NMS, reused from call to call. Real is the compute type: float, or
/// double for double boxes.
template <class Real = float>
class soft_nms_workspace {
  friend detail::workspace_access;
  detail::soft_nms_buffers<Real> buffers_;
};

/// Soft-NMS per group of boxes (N x 4, corners) and scores (N). `groups` is a container or view of
/// the N classes, or nms_groups; {} means a single group.
template <class Boxes, class Groups = nms_groups>
soft_nms_result<compute_type<coordinate_of<Boxes>>> soft_nms(
    const Boxes& boxes, vector_view<const coordinate_of<Boxes>> scores, const Groups& groups,
    const soft_nms_params& params,
    soft_nms_workspace<compute_type<coordinate_of<Boxes>>>& workspace,
    threading policy = threading::parallel);

/// The same for a single group.
template <class Boxes>
soft_nms_result<compute_type<coordinate_of<Boxes>>> soft_nms(
    const Boxes& boxes, vector_view<const coordinate_of<Boxes>> scores,
    const soft_nms_params& params,
    soft_nms_workspace<compute_type<coordinate_of<Boxes>>>& workspace,
    threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/soft_nms.hpp>
