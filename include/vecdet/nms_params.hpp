// SPDX-License-Identifier: Apache-2.0
// Frameworks implement non-maximum suppression differently. The options cover the differences, and
// nms_params has a preset for each framework:
//
//                    suppresses  threshold               boxes            order of the result
//   torchvision      > IoU       double, against float   corners          score
//   mmcv             > IoU       float                   corners, +0/+1   score
//   IPEX             >= IoU      float                   corners, +1      index
//   ONNX Runtime     > IoU       float                   any corners, or  image, class, score
//                                                        centre and size
//   OpenCV           > 1-(1-IoU) float                   integers         score
//   SAHI             >= IoU, IoS float                   corners          score
//   ultralytics      >= ProbIoU  float                   rotated          score
#pragma once

#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

#include <limits>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// The meaning of a box's four numbers.
enum class nms_format {
  corners,      ///< x1 y1 x2 y2; a box with x2 < x1 is not reordered.
  any_corners,  ///< Two opposite corners in any order: ONNX.
  centre        ///< Centre x, y, width, height: ONNX with center_point_box.
};

/// The formula for the overlap of two boxes.
enum class nms_overlap {
  plain,          ///< intersection / (area + area - intersection): torchvision, mmcv, IPEX.
  positive_area,  ///< The same, but 0 unless both areas and the intersection are above 0: ONNX.
  /// intersection / the smaller area, but 0 unless both areas are above 0: SAHI, supervision.
  smaller_area,
  /// 1 - float(1 - IoU in double), but 1 if the sum of both areas is NaN or at most 2^-23 (2^-52 in
  /// double): OpenCV.
  jaccard
};

/// The order of the result.
enum class nms_order {
  score,             ///< Descending score over all classes and images.
  index,             ///< Ascending index: IPEX.
  image_score,       ///< By image, then descending score.
  image_class_score  ///< By image, by class, then descending score: ONNX.
};

constexpr index_t no_limit = std::numeric_limits<index_t>::max();

/// Going down the scores, a box is kept unless a kept box of its class and image overlaps it by
/// more than the threshold. In prob_iou_nms(), any better box suppresses, kept or not. The defaults
/// are those of torchvision's NMS with a threshold of 0.5.
struct nms_params {
  nms_params() = default;
  /// torchvision's NMS: nms(boxes, scores, 0.5).
  nms_params(double threshold) : iou_threshold(threshold) {}

  double iou_threshold = 0.5;    ///< In [0, 1].
  bool suppress_equal = false;   ///< Suppresses if overlap >= threshold instead of >.
  bool float_threshold = false;  ///< Rounds thresholds to the type they are compared in.
  bool plus_one = false;         ///< Pixel convention: a box is x2 - x1 + 1 wide.
  bool drop_nan_scores = false;  ///< Drops NaN scores; else they come first and are kept.
  bool drop_degenerate = false;  ///< Drops boxes with NaN or without area.
  /// Only boxes with scores above it take part; -infinity: all boxes.
  double score_threshold = -std::numeric_limits<double>::infinity();
  nms_format format = nms_format::corners;
  nms_overlap overlap = nms_overlap::plain;
  nms_order order = nms_order::score;
  index_t max_per_class = no_limit;  ///< Per class and image, best scores first.
  index_t max_per_image = no_limit;
  index_t max_total = no_limit;
  /// Only boxes of these classes take part; empty: all.
  lasting<vector_view<const index_t>> classes;
  /// A score threshold per class, used instead of score_threshold: only boxes with scores above it
  /// take part; empty: none.
  lasting<vector_view<const double>> class_thresholds;
  /// A group per class, any integer: boxes of classes with the same group suppress each other;
  /// empty: each class is a group of its own.
  lasting<vector_view<const index_t>> class_groups;

  /// torchvision.ops.nms.
  static nms_params torchvision(double iou_threshold) {
    nms_params params;
    params.iou_threshold = iou_threshold;
    return params;
  }

  /// mmcv.ops.nms; its sort is unstable, vecdet's is stable.
  static nms_params mmcv(double iou_threshold, bool plus_one = false) {
    nms_params params = torchvision(iou_threshold);
    params.float_threshold = true;
    params.plus_one = plus_one;
    return params;
  }

  /// IPEX's NMS.
  static nms_params ipex(double iou_threshold) {
    nms_params params = mmcv(iou_threshold, true);
    params.suppress_equal = true;
    params.order = nms_order::index;
    return params;
  }

  /// ONNX Runtime's NonMaxSuppression; `max_per_class` is its max_output_boxes_per_class, and
  /// `centre_format` its center_point_box.
  static nms_params onnx(double iou_threshold, index_t max_per_class, bool centre_format = false) {
    nms_params params = mmcv(iou_threshold);
    params.format = centre_format ? nms_format::centre : nms_format::any_corners;
    params.overlap = nms_overlap::positive_area;
    params.order = nms_order::image_class_score;
    params.max_per_class = max_per_class;
    params.drop_nan_scores = true;
    return params;
  }

  /// SAHI's NMS, by intersection over the smaller area or by IoU. SAHI itself breaks ties of scores
  /// by coordinates.
  static nms_params sahi(double match_threshold, bool smaller_area = true) {
    nms_params params = mmcv(match_threshold);
    params.suppress_equal = true;
    params.overlap = smaller_area ? nms_overlap::smaller_area : nms_overlap::positive_area;
    return params;
  }
  /// NMS of rotated boxes in ultralytics, for prob_iou_nms().
  static nms_params ultralytics_obb(double iou_threshold) {
    nms_params params = mmcv(iou_threshold);
    params.suppress_equal = true;
    return params;
  }
  /// cv::dnn::NMSBoxes with eta 1 and top_k 0. Rectangles are given by their corners, in double, or
  /// in float with integer coordinates and areas up to 2^23.
  static nms_params opencv(double iou_threshold, double score_threshold) {
    nms_params params = mmcv(iou_threshold);
    params.overlap = nms_overlap::jaccard;
    params.score_threshold = score_threshold;
    params.drop_nan_scores = true;
    return params;
  }
};

/// The class and the image of every box: 64-bit or 32-bit integers of any value, signed or
/// unsigned. Empty means that all are the same. Boxes of different classes or images do not
/// suppress each other.
struct nms_groups {
  lasting<labels_view> classes{};
  lasting<labels_view> images{};
  /// An alternative to `images` if boxes are stored image by image: the boxes of image k are
  /// [image_offsets[k], image_offsets[k + 1]). Has one element more than there are images.
  lasting<vector_view<const index_t>> image_offsets{};
};

namespace detail {

/// The argument `groups` of NMS of `boxes` boxes: nms_groups as they are, or a container of one
/// class per box.
template <class Groups>
nms_groups groups_of(const char* function, const Groups& groups, index_t boxes) {
  if constexpr (std::is_convertible<const Groups&, const nms_groups&>::value) {
    return groups;
  } else {
    static_assert(std::is_constructible<labels_view, const Groups&>::value,
                  "groups must be nms_groups or a container of integer classes");
    const labels_view classes(groups);
    check_size(function, "groups.size()", classes.size(), boxes, "the number of boxes");
    return {classes, {}, {}};
  }
}

}  // namespace detail

}  // namespace VECDET_ABI
}  // namespace vecdet
