// SPDX-License-Identifier: Apache-2.0
// Soft-NMS, per class and per image. Bodla, Singh, Chellappa, Davis: "Soft-NMS: improving object
// detection with one line of code", arXiv 1704.04503. The best remaining box is picked; those of
// its image and class that overlap it lose score by
//
//   linear     1 - IoU             where IoU >= iou_threshold
//   gaussian   exp(-IoU^2 / sigma)
//   hard       0                   where IoU >= iou_threshold
//
// and leave when their score is below the floor. As mmcv's soft_nms, but for ties: equal scores are
// picked by lower index. NaN scores are dropped; a NaN overlap takes nothing off.
//
// Boxes and scores of one type, float, bfloat16 (computed in float) or double. Groups are spread
// over threads; the result does not depend on their number. The cost is quadratic in the boxes of
// a group, since each pick may change every other score.
//
// Every function throws std::invalid_argument when sizes differ, the threshold is outside [0, 1],
// sigma is not above 0, or the floor is NaN.
#pragma once

#include <vecdet/nms.hpp>

#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

/// The boxes picked, in descending score, and the scores that they had left. The memory is the
/// workspace's, until its next use.
template <class Real>
struct soft_nms_result {
  vector_view<const index_t> kept;
  vector_view<const Real> scores;
};

/// Memory that soft-NMS works in, reused from call to call. Real is the type of computation: float,
/// or double for double boxes.
template <class Real = float>
class soft_nms_workspace {
 public:
  // What follows is for vecdet's own functions.
  nms_workspace groups;
  std::vector<Real> rescored, scores;
};

/// Soft-NMS of boxes (N x 4, corners) and scores (N) in their groups; {} is one group.
template <class T>
soft_nms_result<compute_type<std::remove_const_t<T>>> soft_nms(
    boxes_view<T> boxes, vector_view<T> scores, const nms_groups& groups,
    const soft_nms_params& params,
    soft_nms_workspace<compute_type<std::remove_const_t<T>>>& workspace,
    execution policy = execution::parallel) {
  using stored = std::remove_const_t<T>;
  using real = compute_type<stored>;
  constexpr const char* function = "soft_nms";
  const index_t size = boxes.size();
  nms_params limits;
  limits.iou_threshold = params.iou_threshold;
  detail::check_nms(function, size, scores.size(), limits);
  detail::check_groups(function, groups, size);
  detail::check(params.sigma > 0 && detail::is_finite(params.sigma), function, "params.sigma",
                params.sigma, "a finite number above 0");
  detail::check(!detail::is_nan(params.score_floor), function, "params.score_floor",
                params.score_floor, "a number");
  const isa target = active_isa();
  const profile::scope timing([&] {
    return profile::problem{function,
                            params.method == soft_nms_method::linear     ? "linear"
                            : params.method == soft_nms_method::gaussian ? "gaussian"
                                                                         : "hard",
                            dtype_name<stored>(),
                            {size},
                            isa_name(target),
                            policy.threads(),
                            size * index_t{5 * sizeof(T)}};
  });

  const auto& kernels = detail::kernels<detail::nms_kernels<stored>>(target);
  nms_workspace& ws = workspace.groups;
  const index_t count = kernels.select(scores.data(), 0, size, limits.score_threshold, true,
                                       detail::room(ws.records, size));
  detail::partition_into_groups(groups, size, count, ws, policy);
  real* const rescored = detail::room(workspace.rescored, size);
  detail::nms_record* const kept_of_groups = detail::room(ws.kept, count);
  detail::suppress_groups(
      ws, policy, kernels.scratch_bytes,
      [&](index_t begin, index_t end, detail::cache_line* scratch) {
        return kernels.soft({boxes.data(), scores.data(), params.method, params.iou_threshold,
                             params.sigma, params.score_floor, params.plus_one,
                             ws.records.data() + begin, end - begin, scratch, rescored,
                             kept_of_groups + begin});
      });

  const index_t kept = detail::gather_kept(ws);
  detail::kernels<detail::nms_kernels<real>>(target).sort_any(rescored, ws.records.data(),
                                                              ws.spare.data(), kept);
  index_t* const result = detail::room(ws.result, kept);
  real* const left = detail::room(workspace.scores, kept);
  for (index_t i = 0; i < kept; ++i) {
    result[i] = detail::index_of(ws.records[static_cast<std::size_t>(i)]);
    left[i] = rescored[result[i]];
  }
  return {{result, kept}, {left, kept}};
}

/// The same of one group.
template <class T>
soft_nms_result<compute_type<std::remove_const_t<T>>> soft_nms(
    boxes_view<T> boxes, vector_view<T> scores, const soft_nms_params& params,
    soft_nms_workspace<compute_type<std::remove_const_t<T>>>& workspace,
    execution policy = execution::parallel) {
  return soft_nms(boxes, scores, {}, params, workspace, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
