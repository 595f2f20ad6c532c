// SPDX-License-Identifier: Apache-2.0
// The numbers of a YOLO model's output, for postprocess_yolo(): the shapes and parameters that are
// accepted, the numbers of a box, and what they show about the model.
#pragma once

#include <vecdet/args/filter_topk.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/impl/input_checks.hpp>
#include <vecdet/impl/quantised_numbers.hpp>
#include <vecdet/postprocess_yolo.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The number of extras if a number of scores is rather that of a well-known model's scores and
/// extras: an angle after DOTA's 15 classes; 32 mask coefficients after 1 or COCO's 80 classes; 17
/// key points after 1 class. Otherwise 0.
inline index_t likely_extras(index_t scores) {
  if (scores == 15 + 1) return 1;
  if (scores == 1 + 32 || scores == 80 + 32) return 32;
  return scores == 1 + 51 ? 51 : 0;
}

/// The number of scores if a detector of COCO's 80 classes is taken for one of rotated boxes, whose
/// last number is the angle.
constexpr index_t upright_coco_scores = 79;

/// Whether a score is neither a probability nor NaN.
inline bool is_outside(float x) {
  return is_above(least_probability, x) || is_above(x, greatest_probability);
}

/// The sum of the numbers of a box then fits index_t.
constexpr index_t most_yolo_extras = std::numeric_limits<std::int32_t>::max();

/// The output for a batch: all numbers are in one matrix, or the coordinates are in a matrix of
/// their own.
template <class Scores, class Boxes>
class yolo_numbers {
 public:
  static constexpr const char* function = "postprocess_yolo";

  /// `coordinates` is null if `matrix` has them.
  yolo_numbers(const Boxes* coordinates, const Scores& matrix, index_t images,
               const postprocess_yolo_params& params)
      : coordinates_(coordinates),
        matrix_(matrix),
        params_(params),
        by_rows_(params.layout == yolo_layout::rows),
        separate_(coordinates == nullptr ? 0 : 4),
        images_(images) {}

  /// Throws unless shapes match the parameters; sets the sizes.
  void check_and_measure() {
    check_params();
    check(images_ >= 0, function, "outputs.images", images_, "0 or more");
    const index_t rows = matrix_.rows(), cols = matrix_.cols();
    check(images_ == 0 ? rows == 0 : rows % images_ == 0, function,
          separate_ ? "outputs.scores.rows()" : "outputs.boxes_and_scores.rows()", rows,
          by_rows_ ? "a multiple of the number of images"
                   : "the numbers of a box times the number of images");
    const index_t rows_per_image = images_ == 0 ? 0 : rows / images_;
    const index_t numbers = separate_ + (by_rows_ ? cols : rows_per_image);
    boxes_ = by_rows_ ? rows_per_image : cols;
    if (separate_) check_coordinates();
    const index_t before = first_score() + extras() + index_t{params_.rotated};
    classes_ = scored() ? 1 : numbers - before;
    if (images_ > 0 && boxes_ > 0) {
      check(scored() ? numbers == before + 2 : numbers > before, function,
            separate_  ? "the numbers of a box in outputs.boxes and scores"
            : by_rows_ ? "outputs.boxes_and_scores.cols()"
                       : "outputs.boxes_and_scores.rows() / outputs.images",
            numbers, expected_numbers(numbers));
      if (params_.class_count != 0)
        check_size(function, "params.class_count", params_.class_count, classes_,
                   has_unknown_extras()
                       ? "the number of scores of a box, if params.extras is not given"
                       : "the number of scores of a box");
      check(classes_ < 1 << 24 && boxes_ <= (index_t{1} << 32) / classes_, function,
            "boxes of an image", boxes_,
            "at most 2^32 scores per image and fewer than 2^24 classes");
    }
  }

  /// Throws because of the first objectness or score that is no probability.
  void refuse_outside() const {
    const index_t last = first_score() + classes_;
    for (index_t image = 0; image < images_; ++image)
      for (index_t box = 0; box < boxes_; ++box)
        for (index_t k = 4; k < last; ++k) {
          const float x = number(image, box, k);
          if (is_outside(x))
            throw_invalid_argument(
                function,
                "number " + std::to_string(k) + " of box " + std::to_string(box) + " of image " +
                    std::to_string(image) +
                    (separate_ ? " of outputs.boxes and scores" : " of outputs.boxes_and_scores"),
                x,
                params_.rotated
                    ? "probabilities, not logits; a model of rotated boxes has only the angle "
                      "after its scores: is it one of masks or key points, whose preset has no obb?"
                    : "probabilities, not logits; for mask coefficients or key points after the "
                      "scores, pass extras=<the number of them>; for angles, use the preset of "
                      "rotated boxes, v8_obb()");
        }
  }

  /// With VECDET_CHECK=1, reports a number of scores that other models seem to have, unless the
  /// number of extras or of classes is given.
  void look_at_classes() const {
    if (!has_unknown_extras() || params_.class_count != 0 || scored() || !checks_input()) return;
    const std::string scores = std::to_string(classes_);
    if (params_.rotated) {
      if (classes_ == upright_coco_scores)
        report_input(function, "params.rotated",
                     "set, and the boxes have " + scores +
                         " scores and a last number, as those of "
                         "upright boxes of COCO's 80 classes; use v8() or 'yolov8', or pass "
                         "class_count=" +
                         scores + " if the last number is an angle");
      return;
    }
    const index_t likely = likely_extras(classes_);
    if (likely == 0) return;
    if (likely == 1 && !by_rows_ && params_.scores == yolo_scores::classes)
      return report_input(function, "params.rotated",
                          "not set, and the boxes have " + scores +
                              " scores, as rotated boxes of "
                              "DOTA's 15 classes seem to have; use v8_obb() or 'yolov8-obb', or "
                              "pass class_count=" +
                              scores + " if all are scores");
    report_input(function, "params.extras",
                 "not given, and the boxes have " + scores + " scores, as those of models with " +
                     std::to_string(likely) + " extras seem to have; pass extras=" +
                     std::to_string(likely) + ", or class_count=" + scores + " if all are scores");
  }

  const Scores& matrix() const { return matrix_; }
  index_t images() const { return images_; }
  index_t boxes() const { return boxes_; }      ///< of an image
  index_t classes() const { return classes_; }  ///< 1 if a box has one score and its class
  index_t extras() const { return std::max(params_.extras, index_t{0}); }
  bool by_rows() const { return by_rows_; }
  /// Whether a box has one score and its class.
  bool scored() const { return params_.scores == yolo_scores::score_and_class; }
  bool has_unknown_extras() const {
    return params_.extras == postprocess_yolo_params::unknown_extras;
  }
  /// The position of a box's first score in the matrix.
  index_t first_score_in_matrix() const { return first_score() - separate_; }
  index_t bytes() const {
    return bytes_of(matrix_) + (coordinates_ == nullptr ? 0 : bytes_of(*coordinates_));
  }

  /// Number k of a box.
  float number(index_t image, index_t box, index_t k) const {
    return k < separate_ ? at(*coordinates_, image, box, k)
                         : at(matrix_, image, box, k - separate_);
  }
  /// The row of number k of an image's first box.
  template <class Matrix>
  index_t row_of(const Matrix& matrix, index_t image, index_t k) const {
    return by_rows_ ? image * boxes_ : image * (matrix.rows() / images_) + k;
  }

  /// Extra k of a box.
  float extra(index_t image, index_t box, index_t k) const {
    const index_t before = first_score() + (scored() ? 2 : classes_);
    return number(image, box, before + k);
  }

 private:
  index_t first_score() const { return params_.scores == yolo_scores::objectness ? 5 : 4; }
  template <class Matrix>
  float at(const Matrix& matrix, index_t image, index_t box, index_t k) const {
    return by_rows_ ? static_cast<float>(matrix(image * boxes_ + box, k))
                    : static_cast<float>(matrix(row_of(matrix, image, k), box));
  }

  const char* expected_numbers(index_t numbers) const {
    if (scored() && params_.rotated) return "4 + score + class + angle";
    if (scored())
      return numbers == 7 ? "6 if rotated boxes, whose preset is v26_obb(), are not meant; "
                            "4 + score + class + params.extras"
                          : "4 + score + class + params.extras";
    return params_.rotated ? "4, 1 for the objectness if any, at least 1 class, and the angle"
                           : "4, 1 for the objectness if any, at least 1 class, and params.extras";
  }

  void check_coordinates() const {
    const index_t rows = coordinates_->rows();
    check(by_rows_       ? rows == matrix_.rows()
          : images_ == 0 ? rows == 0
                         : rows % images_ == 0 && rows / images_ == 4,
          function, "outputs.boxes.rows()", rows,
          by_rows_ ? "the rows of outputs.scores" : "4 per image");
    check_size(function, "outputs.boxes.cols()", coordinates_->cols(), by_rows_ ? 4 : boxes_,
               by_rows_ ? "the coordinates of a box" : "the columns of outputs.scores");
  }

  void check_params() const {
    const postprocess_yolo_params& p = params_;
    check(is_within(p.score_threshold, 0, 1), function, "params.score_threshold", p.score_threshold,
          "a number in [0, 1]");
    check(is_within(p.iou_threshold, 0, 1), function, "params.iou_threshold", p.iou_threshold,
          "a number in [0, 1]");
    check(p.max_candidates >= 0, function, "params.max_candidates", p.max_candidates, "0 or more");
    check(p.max_detections >= 0, function, "params.max_detections", p.max_detections, "0 or more");
    check((p.extras >= 0 && p.extras <= most_yolo_extras) || has_unknown_extras(), function,
          "params.extras", p.extras, "0 to 2^31 - 1, or unknown_extras");
    check(p.class_count >= 0 && (p.class_count == 0 || !scored()), function, "params.class_count",
          p.class_count, scored() ? "0 if params.scores is score_and_class" : "0 or more");
    check(p.keypoint_size == 0 || p.keypoint_size == 2 || p.keypoint_size == 3, function,
          "params.keypoint_size", p.keypoint_size, "0, 2 or 3");
    check(p.keypoint_size == 0 || extras() % p.keypoint_size == 0, function, "params.extras",
          p.extras, "a multiple of params.keypoint_size");
    check(by_rows_ || p.scores == yolo_scores::classes, function, "params.layout", "channels",
          "rows if params.scores is objectness or score_and_class");
    check(!p.multi_label || !scored(), function, "params.multi_label", "true",
          "false if params.scores is score_and_class");
    if constexpr (is_quantised<Scores>)
      check(!scored(), function, separate_ ? "outputs.scores" : "outputs.boxes_and_scores",
            "quantised", "floats: models with a class index per box give it as a float tensor");
    if (!p.rotated) return;
    check(p.model_format == box_format::cxcywh, function, "params.model_format",
          static_cast<int>(p.model_format), "cxcywh if params.rotated is set");
    check(!p.normalised, function, "params.normalised", "true", "false if params.rotated is set");
    check(extras() == 0, function, "params.extras", p.extras, "0 if params.rotated is set");
    check(p.keypoint_size == 0, function, "params.keypoint_size", p.keypoint_size,
          "0 if params.rotated is set");
    check(p.rotated_result_format == rotated_format::cxcywhr ||
              p.rotated_result_format == rotated_format::xyxyxyxy,
          function, "params.rotated_result_format", static_cast<int>(p.rotated_result_format),
          "cxcywhr or xyxyxyxy");
  }

  const Boxes* coordinates_;
  const Scores& matrix_;
  const postprocess_yolo_params& params_;
  const bool by_rows_;
  const index_t separate_;  ///< the number of coordinates that are not in the matrix
  const index_t images_;
  index_t boxes_ = 0, classes_ = 0;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
