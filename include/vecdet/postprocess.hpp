// SPDX-License-Identifier: Apache-2.0
// Turns the head outputs of a dense detector into detections, in one call per batch of images:
//
//   per image and level, select the best k of the scores above a threshold    (filter_topk)
//   decode boxes from their anchors, clip them to the image, remove small boxes
//   apply NMS per class, and keep the best detections of each image           (batched_nms)
//
// The rules are those of torchvision's detectors:
//
//   RetinaNet  score = sigmoid(x); best k of each level
//   FCOS       score = sqrt(sigmoid(x) sigmoid(centerness)); distances decoded by the anchor's size
//   SSD        score = softmax of the row, where column 0 is background; best k of each class over
//              all levels together
//   RPN        score = sigmoid(x), one column; best k of each level, NMS per level; the label is
//              the level. These are the proposals of a two-stage detector (filter_proposals).
//
// The only work done on every logit is the threshold test. Scores of a level are ranked by their
// logits, because rounded sigmoids may tie. NaN logits are never selected.
//
// Throws std::invalid_argument if shapes differ, a threshold is outside [0, 1], a limit is
// negative, an image's size is not a positive float, decode_boxes() would reject the coder, its
// anchors are not corners, min_size is outside [0, 1e35], an image has more than 2^32 logits (SSD:
// over all levels; FCOS, logits as rows: on one level), an RPN's logits do not have exactly one
// column, a wanted class is not a class of the logits, or class_thresholds or class_groups do not
// have one element per column.
#pragma once

#include <vecdet/box_coding.hpp>
#include <vecdet/box_format.hpp>
#include <vecdet/dense_detector.hpp>
#include <vecdet/detections_view.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/image_sizes_view.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct postprocess_params {
  dense_detector detector = dense_detector::retinanet;
  double score_threshold = 0.05;  ///< In [0, 1]; scores above it count.
  index_t max_candidates = 1000;  ///< Per level; SSD: per class.
  double iou_threshold = 0.5;     ///< In [0, 1].
  index_t max_detections = 300;   ///< Per image.
  coder_params coder;             ///< For the deltas; anchors are corners. FCOS does not use it.
  double min_size = 0;  ///< At most 1e35. Boxes with a smaller side are removed; 0 removes none.
  /// The wanted classes, columns of the logits; empty: all. Not for an RPN.
  lasting<vector_view<const index_t>> classes;
  /// A threshold per column of the logits, in [0, 1], instead of score_threshold; empty: none.
  /// SSD's background does not use its own. Not for an RPN.
  lasting<vector_view<const double>> class_thresholds;
  /// A group per column of the logits, any integer: boxes of classes with the same group suppress
  /// each other; empty: each class is a group of its own. Not for an RPN.
  lasting<vector_view<const index_t>> class_groups;

  /// torchvision's RetinaNet.
  static postprocess_params retinanet() { return {}; }
  /// torchvision's FCOS.
  static postprocess_params fcos() {
    postprocess_params params;
    params.detector = dense_detector::fcos;
    params.score_threshold = 0.2;
    params.iou_threshold = 0.6;
    params.max_detections = 100;
    return params;
  }
  /// torchvision's SSD.
  static postprocess_params ssd() {
    postprocess_params params;
    params.detector = dense_detector::ssd;
    params.score_threshold = 0.01;
    params.max_candidates = 400;
    params.iou_threshold = 0.45;
    params.max_detections = 200;
    params.coder = coder_params::roi();
    return params;
  }
  /// torchvision's RPN in training: 2000 per level and 2000 per image. In evaluation, torchvision
  /// uses 1000 each.
  static postprocess_params rpn() {
    postprocess_params params;
    params.detector = dense_detector::rpn;
    params.score_threshold = 0;
    params.max_candidates = 2000;
    params.iou_threshold = 0.7;
    params.max_detections = 2000;
    params.min_size = 1e-3;
    return params;
  }
};

/// The heads' outputs for a batch. Rows are ordered by image, then by level, then by anchor.
template <class T>
struct head_outputs {
  matrix_view<const T> logits{};  ///< (images x anchors) x classes; SSD's with background first
  lasting<boxes_view<const T>> deltas{};       ///< images x anchors
  lasting<vector_view<const T>> centerness{};  ///< logits, images x anchors: FCOS only
};

/// The same as the levels of the heads' convolutions, for RetinaNet, FCOS and RPNs.
template <class T>
struct head_level_outputs {
  head_view<const T> logits{};
  head_view<const T> deltas{};      ///< its classes are the four numbers of a box
  head_view<const T> centerness{};  ///< logits, one class: FCOS only
};

/// The detections of a batch. `anchors` (x1 y1 x2 y2) are the same for all images. `level_sizes`
/// holds the number of anchors per level; empty: one level. Boxes are clipped to `image_sizes`: a
/// list with one size per image, or one image_size for all.
template <class T>
detections_view postprocess(const head_outputs<T>& outputs, boxes_view<const float> anchors,
                            vector_view<const index_t> level_sizes,
                            const image_sizes_view& image_sizes, const postprocess_params& params,
                            postprocess_workspace& workspace,
                            threading policy = threading::parallel);

/// The same for a head's levels in place, in either layout; nothing is transposed or concatenated.
/// SSD is not supported, because its levels differ in their number of anchors per location. Anchors
/// and images are in the order of head_levels.hpp. The detections are identical to those of the
/// function above.
template <class T>
detections_view postprocess(const head_level_outputs<T>& outputs, boxes_view<const float> anchors,
                            const image_sizes_view& image_sizes, const postprocess_params& params,
                            postprocess_workspace& workspace,
                            threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/postprocess.hpp>
#include <vecdet/impl/postprocess_levels.hpp>
