// SPDX-License-Identifier: Apache-2.0
// NMS of rotated boxes, whose result's size depends on the data.
#pragma once

#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/rotated_boxes.hpp>
#include <vecdet/prob_iou_nms.hpp>
#include <vecdet/rotated_nms.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {
namespace cpu {

/// The indices of the boxes that find(boxes, scores, groups) on views keeps.
template <class Find>
at::Tensor kept_rotated(const char* function, const at::Tensor& boxes, const at::Tensor& scores,
                        const optional_tensor& classes, const Find& find) {
  return translated([&] {
    check_rotated_boxes(function, "boxes", boxes);
    check_dense(function, "scores", scores);
    check_shape(scores.dim() == 1 && scores.size(0) == boxes.size(0), function, "scores", scores,
                "[N], one per box");
    const at::ScalarType type = rotated_type(function, "boxes", boxes, "scores", scores);
    const at::Tensor x = contiguous("boxes", boxes, type), s = contiguous("scores", scores, type);
    return with_classes(function, classes, s.numel(), [&](const nms_groups& groups) {
      return with_rotated_element(type, [&](auto element) {
        using T = decltype(element);
        return copied(find(matrix<const T>(x, boxes.size(0), 5), vector<const T>(s), groups));
      });
    });
  });
}

/// The indices (int64) of the boxes that non-maximum suppression by the exact IoU keeps
/// (rotated_nms.hpp), in descending score. `boxes` are N x 5: centre, width, height, angle;
/// `scores` N. Computed in float32 for 16-bit types.
/// @param classes as in batched_nms(); undefined: all boxes have the same class
inline at::Tensor rotated_nms(const at::Tensor& boxes, const at::Tensor& scores,
                              angle_convention angles, double iou_threshold,
                              const optional_tensor& classes) {
  constexpr const char* function = "rotated_nms";
  return kept_rotated(function, boxes, scores, classes, [&](auto x, auto s, const auto& groups) {
    return vecdet::rotated_nms(x, s, groups, checked_angles(function, angles),
                               nms_params::torchvision(iou_threshold),
                               thread_workspace<nms_workspace>(), threads());
  });
}

/// The same by ProbIoU in ultralytics' rule (prob_iou_nms.hpp), with
/// nms_params::ultralytics_obb(iou_threshold).
inline at::Tensor prob_iou_nms(const at::Tensor& boxes, const at::Tensor& scores,
                               angle_convention angles, double iou_threshold,
                               const optional_tensor& classes) {
  constexpr const char* function = "prob_iou_nms";
  return kept_rotated(function, boxes, scores, classes, [&](auto x, auto s, const auto& groups) {
    return vecdet::prob_iou_nms(x, s, groups, checked_angles(function, angles),
                                nms_params::ultralytics_obb(iou_threshold),
                                thread_workspace<nms_workspace>(), threads());
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
