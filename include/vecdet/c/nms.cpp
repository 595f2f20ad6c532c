// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression, soft-NMS and merging. Boxes are count x 4, scores have one number per
// box.
#include <vecdet/c/support.hpp>
#include <vecdet/merging.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/prob_iou_nms.hpp>
#include <vecdet/rotated_nms.hpp>
#include <vecdet/soft_nms.hpp>

namespace vecdet_c {
namespace {

/// NMS of boxes of Types. Writes the indices that find(of, params, workspace, policy) returns.
template <class... Types, class Find>
vecdet_status keep(const char* function, vecdet_dtype type, int64_t count,
                   const vecdet_nms_params* params, vecdet_workspace* workspace, int64_t* kept,
                   int64_t* kept_count, const Find& find) {
  return guarded([&] {
    check_pointer(kept, function, "kept", count);
    check_pointer(kept_count, function, "kept_count");
    scratch memory(workspace);
    on_type<Types...>(type, function, [&](auto of, threading policy) {
      const auto result =
          find(of, params_of<nms_params>(params, function), memory.get<nms_workspace>(), policy);
      copy_view(result, kept);
      *kept_count = result.size();
    });
  });
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// NMS of boxes of one class and image. Writes the indices of the kept boxes to `kept`, which has
/// memory for `count`, in the order params->order, and their number to `kept_count`. `params` null:
/// the defaults.
VECDET_C vecdet_status vecdet_nms(vecdet_dtype type, const void* boxes, const void* scores,
                                  int64_t count, const vecdet_nms_params* params,
                                  vecdet_workspace* workspace, int64_t* kept, int64_t* kept_count) {
  return keep("nms", type, count, params, workspace, kept, kept_count,
              [&](auto of, auto&&... with) {
                return nms(of.boxes(boxes, count), of.vector(scores, count), with...);
              });
}

/// NMS per class and image. `classes` and `images` have one number of any value per box; null: all
/// the same. Otherwise as vecdet_nms().
VECDET_C vecdet_status vecdet_batched_nms(vecdet_dtype type, const void* boxes, const void* scores,
                                          const int64_t* classes, const int64_t* images,
                                          int64_t count, const vecdet_nms_params* params,
                                          vecdet_workspace* workspace, int64_t* kept,
                                          int64_t* kept_count) {
  return keep("batched_nms", type, count, params, workspace, kept, kept_count,
              [&](auto of, auto&&... with) {
                return batched_nms(of.boxes(boxes, count), of.vector(scores, count),
                                   groups_of(classes, images, count), with...);
              });
}

/// NMS of rotated boxes, count x 5: centre, width, height, angle; per class and image, by the exact
/// IoU. The type is float or double. Format, overlap and plus_one of `params` must be the defaults.
/// Otherwise as vecdet_batched_nms().
VECDET_C vecdet_status vecdet_rotated_nms(vecdet_dtype type, const void* boxes, const void* scores,
                                          const int64_t* classes, const int64_t* images,
                                          int64_t count, vecdet_angle_convention angles,
                                          const vecdet_nms_params* params,
                                          vecdet_workspace* workspace, int64_t* kept,
                                          int64_t* kept_count) {
  return keep<float, double>("rotated_nms", type, count, params, workspace, kept, kept_count,
                             [&](auto of, auto&&... with) {
                               return rotated_nms(of.matrix(boxes, count, 5),
                                                  of.vector(scores, count),
                                                  groups_of(classes, images, count),
                                                  angles_of(angles, "rotated_nms"), with...);
                             });
}

/// NMS of rotated boxes by their ProbIoU in ultralytics' rule, where suppressed boxes suppress
/// others, too. `params` null: the defaults, which suppress above a threshold of 0.5; pass
/// vecdet_nms_params_ultralytics_obb() for ultralytics' "at or above". Otherwise as
/// vecdet_rotated_nms().
VECDET_C vecdet_status vecdet_prob_iou_nms(vecdet_dtype type, const void* boxes, const void* scores,
                                           const int64_t* classes, const int64_t* images,
                                           int64_t count, vecdet_angle_convention angles,
                                           const vecdet_nms_params* params,
                                           vecdet_workspace* workspace, int64_t* kept,
                                           int64_t* kept_count) {
  return keep<float, double>("prob_iou_nms", type, count, params, workspace, kept, kept_count,
                             [&](auto of, auto&&... with) {
                               return prob_iou_nms(of.matrix(boxes, count, 5),
                                                   of.vector(scores, count),
                                                   groups_of(classes, images, count),
                                                   angles_of(angles, "prob_iou_nms"), with...);
                             });
}

/// Soft-NMS, arXiv 1704.04503, per class and image. Writes the picked boxes in descending score to
/// `kept` and their reduced scores to `kept_scores`: double if `type` is, else float. Both have
/// memory for `count`.
VECDET_C vecdet_status vecdet_soft_nms(vecdet_dtype type, const void* boxes, const void* scores,
                                       const int64_t* classes, const int64_t* images, int64_t count,
                                       const vecdet_soft_nms_params* params,
                                       vecdet_workspace* workspace, int64_t* kept,
                                       void* kept_scores, int64_t* kept_count) {
  return guarded([&] {
    check_pointer(kept, "soft_nms", "kept", count);
    check_pointer(kept_scores, "soft_nms", "kept_scores", count);
    check_pointer(kept_count, "soft_nms", "kept_count");
    scratch memory(workspace);
    on_type(type, "soft_nms", [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      using Real = compute_type<T>;
      const auto result = soft_nms(of.boxes(boxes, count), of.vector(scores, count),
                                   groups_of(classes, images, count),
                                   params_of<soft_nms_params>(params, "soft_nms"),
                                   memory.get<soft_nms_workspace<Real>>(), policy);
      copy_view(result.kept, kept);
      copy_view(result.scores, as<Real>(kept_scores));
      *kept_count = result.kept.size();
    });
  });
}

/// Merges boxes that NMS would suppress into the box that would suppress them, per class and image.
/// Writes the groups in descending score: the merged boxes and their scores (double if `type` is,
/// else float), and the members of group k, the best first, to members[offsets[k]] up to
/// members[offsets[k + 1]]. Merged boxes, scores and members have memory for `count`, offsets for
/// count + 1. `params` null: vecdet_merge_params_sahi_greedy_nmm(0.5).
VECDET_C vecdet_status vecdet_merge_boxes(vecdet_dtype type, const void* boxes, const void* scores,
                                          const int64_t* classes, const int64_t* images,
                                          int64_t count, const vecdet_merge_params* params,
                                          vecdet_workspace* workspace, void* merged_boxes,
                                          void* merged_scores, int64_t* members, int64_t* offsets,
                                          int64_t* group_count) {
  return guarded([&] {
    check_pointer(merged_boxes, "merge_boxes", "merged_boxes", count);
    check_pointer(merged_scores, "merge_boxes", "merged_scores", count);
    check_pointer(members, "merge_boxes", "members", count);
    check_pointer(offsets, "merge_boxes", "offsets");
    check_pointer(group_count, "merge_boxes", "group_count");
    scratch memory(workspace);
    on_type(type, "merge_boxes", [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      using Real = compute_type<T>;
      const auto result = merge_boxes(
          of.boxes(boxes, count), of.vector(scores, count), groups_of(classes, images, count),
          params_of<merge_params>(params, "merge_boxes"), memory.get<merge_workspace>(), policy);
      std::copy_n(result.boxes.data(), 4 * result.boxes.size(), as<Real>(merged_boxes));
      copy_view(result.scores, as<Real>(merged_scores));
      copy_view(result.members, members);
      copy_view(result.offsets, offsets);
      *group_count = result.scores.size();
    });
  });
}
