// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression, soft-NMS and merging. Boxes are count x 4, scores have one number per
// box.
#include <vecdet/c/support.hpp>
#include <vecdet/merging.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/soft_nms.hpp>

/// The meaning of a box's four numbers in NMS: x1 y1 x2 y2; two opposite corners in any order;
/// centre, width and height.
typedef enum vecdet_nms_format {
  VECDET_NMS_CORNERS,
  VECDET_NMS_ANY_CORNERS,
  VECDET_NMS_CENTRE
} vecdet_nms_format;

/// The overlap of two boxes: IoU as in torchvision; IoU, but 0 unless both areas are above 0; the
/// intersection over the smaller area, as in SAHI; OpenCV's.
typedef enum vecdet_nms_overlap {
  VECDET_NMS_PLAIN,
  VECDET_NMS_POSITIVE_AREA,
  VECDET_NMS_SMALLER_AREA,
  VECDET_NMS_JACCARD
} vecdet_nms_overlap;

/// The order of the kept boxes: descending score; ascending index; by image, then descending score;
/// by image, then class, then descending score.
typedef enum vecdet_nms_order {
  VECDET_NMS_BY_SCORE,
  VECDET_NMS_BY_INDEX,
  VECDET_NMS_BY_IMAGE,
  VECDET_NMS_BY_IMAGE_AND_CLASS
} vecdet_nms_order;

/// Going down the scores, a box is kept unless a kept box of its class and image overlaps it by
/// more than the threshold.
typedef struct vecdet_nms_params {
  double iou_threshold;    ///< in [0, 1]
  int suppress_equal;      ///< suppresses if overlap >= threshold instead of >
  int float_threshold;     ///< rounds both thresholds to the type they are compared in
  int plus_one;            ///< pixel convention: a box is x2 - x1 + 1 wide
  int drop_nan_scores;     ///< drops NaN scores; else they come first and are kept
  int drop_degenerate;     ///< drops boxes with NaN or without area
  double score_threshold;  ///< boxes with scores above it take part; -infinity: all boxes
  vecdet_nms_format format;
  vecdet_nms_overlap overlap;
  vecdet_nms_order order;
  int64_t max_per_class;  ///< per class and image, best scores first; INT64_MAX: no limit
  int64_t max_per_image;
  int64_t max_total;
} vecdet_nms_params;

/// How soft-NMS reduces a score.
typedef enum vecdet_soft_nms_method {
  VECDET_SOFT_NMS_HARD,
  VECDET_SOFT_NMS_LINEAR,
  VECDET_SOFT_NMS_GAUSSIAN
} vecdet_soft_nms_method;

/// Parameters of vecdet_soft_nms().
typedef struct vecdet_soft_nms_params {
  vecdet_soft_nms_method method;
  double iou_threshold;  ///< of the hard and the linear method, in [0, 1]
  double sigma;          ///< of the gaussian method, above 0
  double score_floor;    ///< boxes whose score falls below it are dropped
  int plus_one;          ///< pixel convention
} vecdet_soft_nms_params;

/// Parameters of vecdet_merge_boxes().
typedef struct vecdet_merge_params {
  vecdet_nms_overlap overlap;  ///< VECDET_NMS_SMALLER_AREA or VECDET_NMS_POSITIVE_AREA
  double match_threshold;      ///< in (0, 1]
  int transitive;              ///< a taken box takes its own matches, too
  int rechecks;                ///< a member extends the box only if the two still overlap enough
} vecdet_merge_params;

namespace vecdet_c {

template <>
inline constexpr int enumerators<nms_format> = 3;
template <>
inline constexpr int enumerators<nms_overlap> = 4;
template <>
inline constexpr int enumerators<nms_order> = 4;
template <>
inline constexpr int enumerators<soft_nms_method> = 3;

template <class C, class Copy>
void each_field(nms_params& p, C& c, const Copy& copy) {
  VECDET_FIELD(iou_threshold);
  VECDET_FIELD(suppress_equal);
  VECDET_FIELD(float_threshold);
  VECDET_FIELD(plus_one);
  VECDET_FIELD(drop_nan_scores);
  VECDET_FIELD(drop_degenerate);
  VECDET_FIELD(score_threshold);
  VECDET_FIELD(format);
  VECDET_FIELD(overlap);
  VECDET_FIELD(order);
  VECDET_FIELD(max_per_class);
  VECDET_FIELD(max_per_image);
  VECDET_FIELD(max_total);
}

template <class C, class Copy>
void each_field(soft_nms_params& p, C& c, const Copy& copy) {
  VECDET_FIELD(method);
  VECDET_FIELD(iou_threshold);
  VECDET_FIELD(sigma);
  VECDET_FIELD(score_floor);
  VECDET_FIELD(plus_one);
}

template <class C, class Copy>
void each_field(merge_params& p, C& c, const Copy& copy) {
  VECDET_FIELD(overlap);
  VECDET_FIELD(match_threshold);
  VECDET_FIELD(transitive);
  VECDET_FIELD(rechecks);
}

namespace {

nms_groups groups_of(const int64_t* classes, const int64_t* images, int64_t count) {
  nms_groups groups;
  groups.classes = optional_labels(classes, count);
  groups.images = optional_labels(images, count);
  return groups;
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// torchvision's NMS with a threshold of 0.5.
VECDET_C vecdet_nms_params vecdet_nms_params_default(void) {
  return c_params_of<vecdet_nms_params>(nms_params());
}
/// mmcv.ops.nms.
VECDET_C vecdet_nms_params vecdet_nms_params_mmcv(double iou_threshold, int plus_one) {
  return c_params_of<vecdet_nms_params>(nms_params::mmcv(iou_threshold, plus_one != 0));
}
/// IPEX's NMS.
VECDET_C vecdet_nms_params vecdet_nms_params_ipex(double iou_threshold) {
  return c_params_of<vecdet_nms_params>(nms_params::ipex(iou_threshold));
}
/// ONNX Runtime's NonMaxSuppression; `centre_format` is its center_point_box.
VECDET_C vecdet_nms_params vecdet_nms_params_onnx(double iou_threshold, int64_t max_per_class,
                                                  int centre_format) {
  return c_params_of<vecdet_nms_params>(
      nms_params::onnx(iou_threshold, max_per_class, centre_format != 0));
}
/// SAHI's NMS, by the smaller area or by IoU.
VECDET_C vecdet_nms_params vecdet_nms_params_sahi(double match_threshold, int smaller_area) {
  return c_params_of<vecdet_nms_params>(nms_params::sahi(match_threshold, smaller_area != 0));
}
/// cv::dnn::NMSBoxes.
VECDET_C vecdet_nms_params vecdet_nms_params_opencv(double iou_threshold, double score_threshold) {
  return c_params_of<vecdet_nms_params>(nms_params::opencv(iou_threshold, score_threshold));
}

/// NMS of boxes of one class and image. Writes the indices of the kept boxes to `kept`, which has
/// memory for `count`, in the order params->order, and their number to `kept_count`. `params` null:
/// the defaults.
VECDET_C vecdet_status vecdet_nms(vecdet_dtype type, const void* boxes, const void* scores,
                                  int64_t count, const vecdet_nms_params* params,
                                  vecdet_workspace* workspace, int64_t* kept, int64_t* kept_count) {
  return guarded([&] {
    check_pointer(kept, "nms", "kept", count);
    check_pointer(kept_count, "nms", "kept_count");
    scratch memory(workspace);
    with_any_type(type, "nms", [&](auto of) {
      using T = typename decltype(of)::type;
      on_threads([&](threading policy) {
        const auto result = nms(
            boxes_view<const T>(as<T>(boxes), count), vector_view<const T>(as<T>(scores), count),
            params_of<nms_params>(params, "nms"), memory.get<nms_workspace>(), policy);
        copy_view(result, kept);
        *kept_count = result.size();
      });
    });
  });
}

/// NMS per class and image. `classes` and `images` have one number of any value per box; null: all
/// the same. Otherwise as vecdet_nms().
VECDET_C vecdet_status vecdet_batched_nms(vecdet_dtype type, const void* boxes, const void* scores,
                                          const int64_t* classes, const int64_t* images,
                                          int64_t count, const vecdet_nms_params* params,
                                          vecdet_workspace* workspace, int64_t* kept,
                                          int64_t* kept_count) {
  return guarded([&] {
    check_pointer(kept, "batched_nms", "kept", count);
    check_pointer(kept_count, "batched_nms", "kept_count");
    scratch memory(workspace);
    with_any_type(type, "batched_nms", [&](auto of) {
      using T = typename decltype(of)::type;
      on_threads([&](threading policy) {
        const auto result = batched_nms(
            boxes_view<const T>(as<T>(boxes), count), vector_view<const T>(as<T>(scores), count),
            groups_of(classes, images, count), params_of<nms_params>(params, "batched_nms"),
            memory.get<nms_workspace>(), policy);
        copy_view(result, kept);
        *kept_count = result.size();
      });
    });
  });
}

/// The linear method with a threshold of 0.3.
VECDET_C vecdet_soft_nms_params vecdet_soft_nms_params_default(void) {
  return c_params_of<vecdet_soft_nms_params>(soft_nms_params());
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
    with_any_type(type, "soft_nms", [&](auto of) {
      using T = typename decltype(of)::type;
      using Real = compute_type<T>;
      on_threads([&](threading policy) {
        const auto result = soft_nms(
            boxes_view<const T>(as<T>(boxes), count), vector_view<const T>(as<T>(scores), count),
            groups_of(classes, images, count), params_of<soft_nms_params>(params, "soft_nms"),
            memory.get<soft_nms_workspace<Real>>(), policy);
        copy_view(result.kept, kept);
        copy_view(result.scores, as<Real>(kept_scores));
        *kept_count = result.kept.size();
      });
    });
  });
}

/// SAHI's GREEDYNMM, its default.
VECDET_C vecdet_merge_params vecdet_merge_params_sahi_greedy_nmm(double match_threshold) {
  return c_params_of<vecdet_merge_params>(merge_params::sahi_greedy_nmm(match_threshold));
}
/// SAHI's NMM.
VECDET_C vecdet_merge_params vecdet_merge_params_sahi_nmm(double match_threshold) {
  return c_params_of<vecdet_merge_params>(merge_params::sahi_nmm(match_threshold));
}
/// The groups of supervision's box_non_max_merge.
VECDET_C vecdet_merge_params vecdet_merge_params_supervision(double match_threshold) {
  return c_params_of<vecdet_merge_params>(merge_params::supervision(match_threshold));
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
    with_any_type(type, "merge_boxes", [&](auto of) {
      using T = typename decltype(of)::type;
      using Real = compute_type<T>;
      on_threads([&](threading policy) {
        const auto result = merge_boxes(
            boxes_view<const T>(as<T>(boxes), count), vector_view<const T>(as<T>(scores), count),
            groups_of(classes, images, count), params_of<merge_params>(params, "merge_boxes"),
            memory.get<merge_workspace>(), policy);
        std::copy_n(result.boxes.data(), 4 * result.boxes.size(), as<Real>(merged_boxes));
        copy_view(result.scores, as<Real>(merged_scores));
        copy_view(result.members, members);
        copy_view(result.offsets, offsets);
        *group_count = result.scores.size();
      });
    });
  });
}
