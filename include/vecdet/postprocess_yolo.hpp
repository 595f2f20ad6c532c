// SPDX-License-Identifier: Apache-2.0
// Turns the raw output of a YOLO model into detections, in one call per batch of images:
//
//   select the best boxes among those whose score is above a threshold (only these are decoded)
//   apply NMS per class or over all classes                            (batched_nms)
//   undo the letterbox: boxes and key points in the image's pixels, clipped to the image
//
// The rules are those of ultralytics, YOLOv5 and YOLOX. The output for each image is a tensor with
// one of these shapes, where `numbers` are the values of a box in the order given:
//
//   YOLOv5, YOLOX     boxes x numbers    cx cy w h, objectness, a score per class, extras
//   YOLOv8 to v12     numbers x boxes    cx cy w h, a score per class, extras
//   YOLOv10, YOLO26   boxes x numbers    x1 y1 x2 y2, score, class, extras: end to end, no NMS
//   RT-DETR           boxes x numbers    cx cy w h in [0, 1], a score per class: no NMS
//   YOLOv8 OBB        numbers x boxes    cx cy w h, a score per class, angle; also YOLO11
//   YOLO26 OBB        boxes x numbers    cx cy w h, score, class, angle: end to end, no NMS
//
// Scores are probabilities, not logits. A score is the class's score or, in models with objectness,
// its product with the objectness in float. The objectness itself must also be above the threshold.
// Scores are compared in float. A box gets its best class (ties: the lower class), or all classes
// above the threshold (multi_label). NaN scores are never selected. Boxes are compared as in
// torchvision's NMS, in the input's pixels. ultralytics adds an offset of 7680 pixels per class
// instead; the rounding of the offset coordinates may change its result for boxes at the threshold.
//
// Extras are further outputs of a model: mask coefficients or angles, which are copied, or key
// points. If params.extras is not given, they would be taken for scores of further classes, so
// scores below -0.001 or above 1.001 throw; the margin is for models in float16 and for quantised
// weights. In the layout channels, every score is checked. In rows, every objectness is, but only
// the scores of boxes with one above the threshold, because the other rows are not read to their
// end. With max_candidates = 0, none is. If params.extras is given, scores are taken as they are.
// With VECDET_CHECK=1, 16, 33, 52 or 112 scores per box, which rotated boxes, masks and poses seem
// to have, are reported unless params.extras or params.class_count is given. So are 79 scores of
// rotated boxes, which COCO's 80 scores of upright boxes seem to be.
//
// Rotated boxes (OBB) are compared by ProbIoU in ultralytics' rule (prob_iou_nms.hpp), with their
// numbers as they are. The results have ultralytics' regular angles (regularize_rboxes): the
// remainder of pi / 2, with width and height exchanged if the remainder of pi is in the second
// half. Undoing the letterbox does not clip them.
//
// The lists of params.classes, class_thresholds and class_groups select and group detections by
// class. With class_thresholds, "the threshold" in this comment is the lowest one of the wanted
// classes, and a detection's score must be above its own class's. With score_and_class, the lists
// cannot be checked against the model: a score above the threshold whose class has no element in
// class_thresholds or class_groups throws.
//
// Throws std::invalid_argument if shapes do not match params, a threshold is outside [0, 1], a
// limit, params.extras, params.class_count or a wanted class is out of range, class_thresholds or
// class_groups do not have one element per class, class_groups are given without NMS or with
// class_agnostic, scales and sides of a transform are not positive and finite in float, or an image
// has more than 2^32 scores. With params.rotated, also if params.model_format is not cxcywh,
// normalised, extras or keypoint_size is set, rotated_result_format is not cxcywhr or xyxyxyxy, or
// a transform has two scales.
#pragma once

#include <vecdet/angle_convention.hpp>
#include <vecdet/box_format.hpp>
#include <vecdet/detections_view.hpp>
#include <vecdet/letterbox_transform.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// The order of an image's numbers in memory.
enum class yolo_layout {
  channels,  ///< numbers x boxes: one plane per number
  rows       ///< boxes x numbers
};

/// The scores that follow the four coordinates of a box.
enum class yolo_scores {
  classes,         ///< a score per class
  objectness,      ///< the objectness, then a score per class; rows only
  score_and_class  ///< one score, then the index of its class; rows only
};

struct postprocess_yolo_params {
  static constexpr index_t unknown_extras = -1;

  yolo_layout layout = yolo_layout::channels;
  yolo_scores scores = yolo_scores::classes;
  box_format model_format = box_format::cxcywh;  ///< Format of the model's output.
  /// Coordinates are fractions of the image's size, 0 to 1, because the image was resized without
  /// keeping its aspect ratio. The transform's scale and padding are not used.
  bool normalised = false;
  box_format result_format = box_format::xyxy;  ///< Format of the detections.
  double score_threshold = 0.25;                ///< In [0, 1]; scores above it count.
  /// One detection per class above the threshold, not only the best one. An error if a box has one
  /// score and its class.
  bool multi_label = false;
  bool suppress = true;         ///< Applies NMS.
  bool class_agnostic = false;  ///< Boxes of different classes suppress each other, too.
  /// In [0, 1]. NMS removes a box if its IoU with a better one is above it.
  double iou_threshold = 0.7;
  index_t max_candidates = 30000;  ///< Per image: only the best go to NMS.
  index_t max_detections = 300;    ///< Per image.
  /// Number of values after the scores. Rotated boxes have 1 (the angle), masks 32, poses 51. With
  /// unknown_extras there are none, and scores outside [0, 1] are an error. At most 2^31 - 1.
  index_t extras = unknown_extras;
  /// The number of classes that the model must have; 0: any. Not with score_and_class.
  index_t class_count = 0;
  /// The wanted classes; empty: all. Without multi_label, a box whose best class of all is not
  /// wanted gives no detection.
  lasting<vector_view<const index_t>> classes;
  /// A threshold per class, in [0, 1], instead of score_threshold; empty: none. Without
  /// multi_label, the best class of a box is chosen before its threshold is applied.
  lasting<vector_view<const double>> class_thresholds;
  /// A group per class, any integer: boxes of classes with the same group suppress each other;
  /// empty: each class is a group of its own.
  lasting<vector_view<const index_t>> class_groups;
  /// 0: extras are copied. 2 or 3: they are key points, x y or x y visibility, in the input's
  /// pixels.
  index_t keypoint_size = 0;
  /// Boxes are rotated: their last number is the angle, in radians and clockwise.
  bool rotated = false;
  /// Format of rotated detections: cxcywhr or xyxyxyxy.
  rotated_format rotated_result_format = rotated_format::cxcywhr;

  /// YOLOv5 and YOLOX: rows of cx cy w h, objectness, and a score per class. YOLOX exports decode
  /// boxes only with --decode_in_inference.
  static postprocess_yolo_params v5();
  /// YOLOv8 to v12 with their anchor-free heads, as in ultralytics' predictor: channels first,
  /// cx cy w h and a score per class.
  static postprocess_yolo_params v8();
  /// YOLOv10 and YOLO26, end to end: rows of x1 y1 x2 y2, score, class.
  static postprocess_yolo_params v10();
  /// RT-DETR as exported by ultralytics.
  static postprocess_yolo_params rt_detr();
  /// YOLOv8, YOLO11 and YOLO12 with rotated boxes: channels first, cx cy w h, a score per class,
  /// angle.
  static postprocess_yolo_params v8_obb();
  /// YOLO26 with rotated boxes, end to end: rows of cx cy w h, score, class, angle.
  static postprocess_yolo_params v26_obb();
};

/// The output for a batch. Rows are ordered by image, then by box (layout rows) or by number
/// (layout channels).
template <class T>
struct yolo_outputs {
  static_assert(!std::is_integral<T>::value, "integers need a scale: quantised_yolo_outputs");
  /// (images x boxes) x numbers, or (images x numbers) x boxes.
  matrix_view<const T> boxes_and_scores;
  index_t images = 1;
};

/// The detections of a batch. `transforms` holds one transform per image. If it is empty, results
/// stay in the input's pixels and are not clipped. T is float or bfloat16.
template <class T>
detections_view postprocess_yolo(const yolo_outputs<T>& outputs,
                                 vector_view<const letterbox_transform> transforms,
                                 const postprocess_yolo_params& params,
                                 postprocess_workspace& workspace,
                                 threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/postprocess_yolo.hpp>
