// SPDX-License-Identifier: Apache-2.0
// From the raw output of a YOLO model to its detections, in one call for a batch of images:
//
//   boxes whose score is above a threshold, and of them the best      (nothing else is computed)
//   NMS per class or over all classes                                 (batched_nms)
//   the letterbox undone: boxes and key points in the image's pixels, clipped to it
//
// as ultralytics, YOLOv5 and YOLOX do it. The output is a tensor of one of these shapes, for each
// image, where `numbers` are those of a box in their order:
//
//   YOLOv5, YOLOX     boxes x numbers    cx cy w h, objectness, a score per class, extras
//   YOLOv8 to v12     numbers x boxes    cx cy w h, a score per class, extras
//   YOLOv10, YOLO26   boxes x numbers    x1 y1 x2 y2, score, class, extras: end to end, no NMS
//   RT-DETR           boxes x numbers    cx cy w h in [0, 1], a score per class: no NMS
//
// Scores are probabilities, not logits. A score is the class's alone, or times the objectness in
// float, which must be above the threshold itself. It is compared in float. A box has its best
// class, of equal ones the lower, or each class above the threshold (multi_label). NaN scores never
// pass. Boxes are compared by torchvision's NMS in the input's pixels, without ultralytics' offset
// of 7680 pixels per class, whose rounding may decide otherwise for boxes at the threshold.
//
// Extras are what a model gives besides: mask coefficients, which are copied, or key points.
//
// Throws std::invalid_argument where shapes do not agree with params, a threshold is outside
// [0, 1], a limit is negative, a transform is not of positive scales and sides that fit a float, or
// an image has more than 2^32 scores.
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/impl/yolo_buffers.hpp>
#include <vecdet/letterbox_transform.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// How an image's numbers lie.
enum class yolo_layout {
  channels,  ///< numbers x boxes: each number has a plane
  rows       ///< boxes x numbers
};

/// What follows the four numbers of a box.
enum class yolo_scores {
  classes,         ///< a score per class
  objectness,      ///< the objectness, then a score per class; rows only
  score_and_class  ///< one score, then the number of its class; rows only
};

struct yolo_postprocess_params {
  yolo_layout layout = yolo_layout::channels;
  yolo_scores scores = yolo_scores::classes;
  box_format boxes = box_format::cxcywh;  ///< Of the output.
  /// Boxes are parts of the image's size, 0 to 1, as of an image that is resized without keeping
  /// its aspect ratio: the transform's scale and padding are not used.
  bool normalised = false;
  box_format results = box_format::xyxy;
  double score_threshold = 0.25;   ///< In [0, 1]; scores above it count.
  bool multi_label = false;        ///< Every class above the threshold; not for score_and_class.
  bool suppresses = true;          ///< By NMS.
  bool class_agnostic = false;     ///< Boxes of different classes suppress each other, too.
  double iou_threshold = 0.7;      ///< In [0, 1].
  index_t max_candidates = 30000;  ///< Of an image: the best ones go to NMS.
  index_t max_detections = 300;    ///< Of an image.
  index_t extras = 0;              ///< Numbers behind the scores.
  /// 0: extras are copied. 2 or 3: they are key points x y or x y visibility in the input's pixels.
  index_t keypoint_size = 0;

  /// YOLOv5 and YOLOX. YOLOX exports decode boxes only with --decode_in_inference.
  static yolo_postprocess_params v5();
  /// YOLOv8 to v12 with their anchor-free heads, as ultralytics predicts.
  static yolo_postprocess_params v8();
  /// YOLOv10 and YOLO26, end to end.
  static yolo_postprocess_params v10();
  /// RT-DETR as ultralytics exports it.
  static yolo_postprocess_params rt_detr();
};

/// A batch's output: rows run over the images, and in an image over its boxes or, of channels, over
/// its numbers.
template <class T>
struct yolo_outputs {
  matrix_view<const T> numbers;  ///< (images x boxes) x numbers, or (images x numbers) x boxes
  index_t images = 1;
};

/// The detections of all images: those of image k are [offsets[k], offsets[k + 1]), in descending
/// score, equal ones by lower box. The memory is the workspace's, until its next use.
struct yolo_detections_view {
  boxes_view<const float> boxes;  ///< as params.results
  vector_view<const float> scores;
  vector_view<const index_t> labels;   ///< classes; -1 where the output's is not in [0, 2^24]
  vector_view<const index_t> sources;  ///< numbers of the boxes in their image's output
  matrix_view<const float> extras;     ///< detections x params.extras
  vector_view<const index_t> offsets;
};

/// Memory that postprocess_yolo works in: grows to what the largest call needs and is reused. One
/// call at a time.
class yolo_postprocess_workspace {
  friend detail::workspace_access;
  detail::yolo_buffers buffers_;
};

/// The detections of a batch. `transforms` has an element an image; where it is empty, results stay
/// in the input's pixels and are not clipped. T is float or bfloat16.
template <class T>
yolo_detections_view postprocess_yolo(const yolo_outputs<T>& outputs,
                                      vector_view<const letterbox_transform> transforms,
                                      const yolo_postprocess_params& params,
                                      yolo_postprocess_workspace& workspace,
                                      execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/yolo_postprocess.hpp>
