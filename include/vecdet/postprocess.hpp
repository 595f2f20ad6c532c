// SPDX-License-Identifier: Apache-2.0
// From the head outputs of a dense detector to its detections, in one call for a batch of images:
//
//   of each image and level, the scores above a threshold, and of them the best k   (filter_topk)
//   boxes decoded from their anchors, clipped to the image, small ones removed
//   NMS per class, and of each image the best detections                            (batched_nms)
//
// as torchvision's detectors do it:
//
//   RetinaNet  score = sigmoid(x); best k of each level
//   FCOS       score = sqrt(sigmoid(x) sigmoid(centerness)); distances decoded by the anchor's size
//   SSD        score = softmax of the row, column 0 being background; best k of each class, of all
//              levels together
//   RPN        score = sigmoid(x), one column; best k of each level, NMS per level, which is the
//              label: the proposals of a two-stage detector (filter_proposals)
//
// Nothing is computed over all logits but what finds those above the threshold. Scores of a level
// are ranked by their logits, where rounded sigmoids may tie. NaN logits never pass.
//
// Throws std::invalid_argument where shapes do not agree, a threshold is outside [0, 1], a limit is
// negative, an image's size is not a positive float, decode_boxes() would reject the coder or its
// anchors are not corners, min_size is not from 0 to 1e35, an image has more than 2^32 logits in
// all of SSD's or, as rows, in a level of FCOS's, or RPN's logits have not one column.
#pragma once

#include <vecdet/box_coding.hpp>
#include <vecdet/box_format.hpp>
#include <vecdet/dense_detector.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/impl/postprocess_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct postprocess_params {
  dense_detector detector = dense_detector::retinanet;
  double score_threshold = 0.05;  ///< In [0, 1]; scores above it count.
  index_t max_candidates = 1000;  ///< Of a level; SSD: of a class.
  double iou_threshold = 0.5;     ///< In [0, 1].
  index_t max_detections = 300;   ///< Of an image.
  coder_params coder;             ///< Of the deltas; anchors are corners. FCOS has none.
  double min_size = 0;  ///< At most 1e35. Boxes of a smaller side are removed; 0 removes none.

  // The defaults of torchvision's detectors.
  static postprocess_params retinanet() { return {}; }
  static postprocess_params fcos() {
    postprocess_params params;
    params.detector = dense_detector::fcos;
    params.score_threshold = 0.2;
    params.iou_threshold = 0.6;
    params.max_detections = 100;
    return params;
  }
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
  /// In training: 2000 per level and 2000 per image. In evaluation torchvision takes 1000 and 1000.
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

/// What the heads give for a batch. Rows run over the images, and in an image over the anchors of
/// its levels.
template <class T>
struct head_outputs {
  matrix_view<const T> logits;  ///< (images x anchors) x classes; SSD's with background first
  lasting<boxes_view<const T>> deltas;       ///< images x anchors
  lasting<vector_view<const T>> centerness;  ///< logits, images x anchors: FCOS only
};

/// The same as the heads' convolutions left it, of RetinaNet, FCOS and an RPN.
template <class T>
struct head_level_outputs {
  head_view<const T> logits;
  head_view<const T> deltas;      ///< its classes are the four numbers of a box
  head_view<const T> centerness;  ///< logits, one class: FCOS only
};

/// The detections of all images: those of image k are [offsets[k], offsets[k + 1]), in descending
/// score. The memory is the workspace's, until its next use.
struct detections_view {
  boxes_view<const float> boxes;  ///< x1 y1 x2 y2 in pixels
  vector_view<const float> scores;
  vector_view<const index_t> labels;  ///< columns of the logits; RPN: levels
  vector_view<const index_t> offsets;
};

/// Memory that postprocess works in: grows to what the largest call needs and is reused. One call
/// at a time.
class postprocess_workspace {
  friend detail::workspace_access;
  detail::postprocess_buffers buffers_;
};

/// The detections of a batch. `anchors` (x1 y1 x2 y2) are the same for all images; `level_sizes`
/// are the numbers of anchors of the levels, or empty for one level; `image_sizes` has an element
/// an image, to which boxes are clipped.
template <class T>
detections_view postprocess(const head_outputs<T>& outputs, boxes_view<const float> anchors,
                            vector_view<const index_t> level_sizes,
                            vector_view<const image_size> image_sizes,
                            const postprocess_params& params, postprocess_workspace& workspace,
                            execution policy = execution::parallel);

/// The same of a head's levels as they lie in memory, in either layout, but for SSD's, which have
/// different numbers of anchors; nothing is transposed or concatenated. The order of anchors and
/// images is head_levels.hpp's, and the detections are the very same.
template <class T>
detections_view postprocess(const head_level_outputs<T>& outputs, boxes_view<const float> anchors,
                            vector_view<const image_size> image_sizes,
                            const postprocess_params& params, postprocess_workspace& workspace,
                            execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/postprocess.hpp>
#include <vecdet/impl/postprocess_levels.hpp>
