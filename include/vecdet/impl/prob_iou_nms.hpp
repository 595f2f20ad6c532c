// SPDX-License-Identifier: Apache-2.0
// The functions of prob_iou_nms.hpp.
#pragma once

#include <vecdet/impl/rotated_nms.hpp>
#include <vecdet/prob_iou_nms.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

template <class T>
vector_view<const index_t> prob_iou_nms(matrix_view<T> boxes, vector_view<const value_of<T>> scores,
                                        const nms_groups& groups, angle_convention angles,
                                        const nms_params& params, nms_workspace& workspace,
                                        threading policy) {
  return detail::run_rotated_nms<value_of<T>>(
      "prob_iou_nms", detail::rotated_nms_overlap::prob, boxes, scores, groups, angles, params,
      detail::workspace_access::buffers(workspace), active_isa(), policy);
}

template <class T>
std::vector<index_t> prob_iou_nms(matrix_view<T> boxes, vector_view<const value_of<T>> scores,
                                  const nms_groups& groups, angle_convention angles,
                                  const nms_params& params, threading policy) {
  nms_workspace workspace;
  const auto kept = prob_iou_nms(boxes, scores, groups, angles, params, workspace, policy);
  return {kept.begin(), kept.end()};
}

}  // namespace VECDET_ABI
}  // namespace vecdet
