// SPDX-License-Identifier: Apache-2.0
// The function of yolo_postprocess.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/yolo_postprocess.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/impl/class_options.hpp>
#include <vecdet/impl/input_checks.hpp>
#include <vecdet/impl/quantised_numbers.hpp>
#include <vecdet/impl/yolo_class_lists.hpp>
#include <vecdet/impl/yolo_detections.hpp>
#include <vecdet/impl/yolo_rotated.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/yolo_postprocess.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/yolo_postprocess/yolo_postprocess.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

inline yolo_postprocess_params yolo_postprocess_params::v5() {
  yolo_postprocess_params params;
  params.layout = yolo_layout::rows;
  params.scores = yolo_scores::objectness;
  params.iou_threshold = 0.45;
  return params;
}

inline yolo_postprocess_params yolo_postprocess_params::v8() { return {}; }

inline yolo_postprocess_params yolo_postprocess_params::v10() {
  yolo_postprocess_params params;
  params.layout = yolo_layout::rows;
  params.scores = yolo_scores::score_and_class;
  params.boxes = box_format::xyxy;
  params.suppresses = false;
  return params;
}

inline yolo_postprocess_params yolo_postprocess_params::rt_detr() {
  yolo_postprocess_params params;
  params.layout = yolo_layout::rows;
  params.normalised = true;
  params.suppresses = false;
  return params;
}

inline yolo_postprocess_params yolo_postprocess_params::v8_obb() {
  yolo_postprocess_params params;
  params.rotated = true;
  return params;
}

inline yolo_postprocess_params yolo_postprocess_params::v26_obb() {
  yolo_postprocess_params params;
  params.layout = yolo_layout::rows;
  params.scores = yolo_scores::score_and_class;
  params.suppresses = false;
  params.rotated = true;
  return params;
}

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

/// One call of postprocess_yolo. Its numbers are in one matrix, or the coordinates are in a matrix
/// of their own.
template <class Scores, class Boxes = Scores>
class yolo_call {
 public:
  static constexpr const char* function = "postprocess_yolo";

  yolo_call(isa target, const Boxes* boxes, const Scores& numbers, index_t images,
            vector_view<const letterbox_transform> transforms,
            const yolo_postprocess_params& params)
      : target_(target),
        transforms_(transforms),
        coordinates_(boxes),
        numbers_(numbers),
        params_(params),
        lists_(params),
        by_rows_(params.layout == yolo_layout::rows),
        separate_(boxes == nullptr ? 0 : 4),
        images_(images) {}

  /// Throws unless shapes match the parameters; sets the sizes.
  void check_arguments() {
    check_params();
    check(images_ >= 0, function, "outputs.images", images_, "0 or more");
    const index_t rows = numbers_.rows(), cols = numbers_.cols();
    check(images_ == 0 ? rows == 0 : rows % images_ == 0, function,
          separate_ ? "outputs.scores.rows()" : "outputs.numbers.rows()", rows,
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
            : by_rows_ ? "outputs.numbers.cols()"
                       : "outputs.numbers.rows() / outputs.images",
            numbers,
            scored() ? params_.rotated ? "4 + score + class + angle"
                       : numbers == 7
                           ? "6 if rotated boxes, whose preset is v26_obb(), are not meant; "
                             "4 + score + class + params.extras"
                           : "4 + score + class + params.extras"
            : params_.rotated
                ? "4, 1 for the objectness if any, at least 1 class, and the angle"
                : "4, 1 for the objectness if any, at least 1 class, and params.extras");
      if (params_.class_count != 0)
        check_size(function, "params.class_count", params_.class_count, classes_,
                   is_unknown() ? "the number of scores of a box, if params.extras is not given"
                                : "the number of scores of a box");
      check(classes_ < 1 << 24 && boxes_ <= (index_t{1} << 32) / classes_, function,
            "boxes of an image", boxes_,
            "at most 2^32 scores per image and fewer than 2^24 classes");
    }
    lists_.check(function, !scored() && images_ > 0 && boxes_ > 0 ? classes_ : -1);
    check_transforms(function, transforms_, images_);
    for (index_t i = 0; params_.rotated && i < transforms_.size(); ++i)
      check_element(is_equal(transforms_[i].scale_x, transforms_[i].scale_y), function,
                    "transforms", i, transforms_[i].scale_y,
                    "the same scale for both axes: rotated boxes would lose their right angles");
  }

  /// Sets the limits of classes; `buffer` keeps them. A score that is no probability is an error in
  /// any class, so it is found in classes that are not wanted as well.
  void set_class_limits(std::vector<float>& buffer) {
    threshold_ = static_cast<float>(lowest_threshold(params_));  // compared in float, as elsewhere
    if (!scored())
      class_limits_ = class_limits(
          params_, images_ > 0 && boxes_ > 0 ? classes_ : 0, buffer,
          [](double score) { return static_cast<float>(score); },
          is_unknown() ? greatest_probability : std::numeric_limits<float>::infinity());
  }

  profile::problem problem(threading policy) const {
    return {function,
            params_.rotated                                  ? scored()   ? "rotated_score_and_class"
                                                               : by_rows_ ? "rotated_rows"
                                                                          : "rotated_channels"
            : params_.scores == yolo_scores::score_and_class ? "score_and_class"
            : params_.scores == yolo_scores::objectness      ? "objectness"
            : by_rows_                                       ? "rows"
                                                             : "channels",
            dtype_of(numbers_),
            {images_, boxes_, classes_, extras()},
            isa_name(target_),
            policy.threads(),
            bytes_of(numbers_) + (separate_ ? bytes_of(*coordinates_) : 0)};
  }

  /// Finds the candidates of an image, best score first.
  void collect(index_t image, yolo_buffers::candidates& out, threading policy) const {
    out.count = 0;
    if (boxes_ == 0 || params_.max_candidates == 0) return;
    if (scored()) return collect_scored(image, out);
    const bool is_multi = params_.multi_label;
    const chunking chunks = search_chunks(boxes_, classes_, policy);
    const index_t limit = params_.max_candidates;
    const index_t capacity = filter_topk_capacity(limit, chunks.size * (is_multi ? classes_ : 1));
    const index_t first = first_score() - separate_;
    // `args` are those of a search, with has_outside or has_negative as `outside`. Elements count
    // from the chunk's first box if `is_from_chunk`.
    const auto find = [&](const auto& args, auto outside, auto search, bool is_from_chunk) {
      search_best(
          out.search, chunks, capacity, limit, policy,
          [&](index_t begin, index_t end, std::uint64_t* records, std::uint64_t* spare) {
            auto own_args = args;
            bool has_outside = false;
            if (is_unknown()) own_args.*outside = &has_outside;
            const index_t found = search(own_args, begin, end, records, spare);
            note_outside(has_outside);
            return found;
          },
          [&](index_t total) {
            out.count = total;
            reserve(out, total);
          },
          [&](index_t i, index_t begin, std::uint64_t record) {
            const index_t element =
                static_cast<index_t>(record & 0xffffffffu) + (is_from_chunk ? begin * classes_ : 0);
            const float score = score_of_record(record);
            note_outside(is_above(score, greatest_probability));
            put(image, out, i, element / classes_, element % classes_, score);
          });
    };
    const bool has_objectness = params_.scores == yolo_scores::objectness;
    // Element indices of planes count from the chunk's first box.
    const bool has_planes = is_multi && !by_rows_;
    if constexpr (is_quantised<Scores>) {
      const quantised_numbers numbers(numbers_);
      quantised_search_args args = numbers.search_args();
      args.scores = numbers.bytes(row_of(numbers_, image, first)) + (by_rows_ ? first : 0);
      args.objectness = has_objectness ? args.scores - 1 : nullptr;
      args.classes = classes_;
      args.stride = numbers_.stored().stride();
      args.multi_label = is_multi;
      args.threshold = static_cast<double>(threshold_);
      args.class_limits = class_limits_;
      args.limit = limit;
      args.capacity = capacity;
      const auto& own = kernels<quantised_kernels>(target_);
      find(args, &quantised_search_args::has_outside,
           by_rows_     ? own.search_rows
           : has_planes ? own.search_planes
                        : own.search_channels,
           has_planes);
    } else {
      using T = number_in<Scores>;
      const T* const scores = numbers_.row(row_of(numbers_, image, first)) + (by_rows_ ? first : 0);
      if (has_planes) {
        plane_search_args<T> planes{};
        planes.logits = scores;
        planes.anchors = 1;
        planes.classes = classes_;
        planes.plane = numbers_.stride();
        planes.threshold = static_cast<double>(threshold_);
        planes.limit = limit;
        planes.class_limits = class_limits_;
        planes.capacity = capacity;
        return find(planes, &plane_search_args<T>::has_negative,
                    kernels<filter_topk_kernels<T>>(target_).search_planes, true);
      }
      yolo_search_args<T> args{};
      args.scores = scores;
      args.objectness = has_objectness ? scores - 1 : nullptr;
      args.classes = classes_;
      args.stride = numbers_.stride();
      args.multi_label = is_multi;
      args.threshold = threshold_;
      args.class_limits = class_limits_;
      args.limit = limit;
      args.capacity = capacity;
      const auto& own = kernels<yolo_kernels<T>>(target_);
      find(args, &yolo_search_args<T>::has_outside,
           by_rows_ ? own.search_rows : own.search_channels, false);
    }
  }

  /// Throws if the number of extras is not given and collect() has read an objectness or a score
  /// that is no probability.
  void check_scores() const {
    if (!is_unknown() || !has_outside_.load(std::memory_order_relaxed)) return;
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
                    (separate_ ? " of outputs.boxes and scores" : " of outputs.numbers"),
                x,
                params_.rotated
                    ? "probabilities, not logits; a model of rotated boxes has only the angle "
                      "after "
                      "its scores: is it one of masks or key points, whose preset has no obb?"
                    : "probabilities, not logits; for mask coefficients or key points after the "
                      "scores, pass extras=<the number of them>; for angles, use the preset of "
                      "rotated boxes, v8_obb() or 'yolov8-obb'");
        }
  }

  /// Throws if a class of score_and_class has no element in a list that has one per class.
  void check_labels() const {
    if (!has_unknown_label_.load(std::memory_order_relaxed)) return;
    for (index_t image = 0; image < images_; ++image)
      for (index_t box = 0; box < boxes_; ++box) {
        const float label = number(image, box, 5);
        if (is_above(number(image, box, 4), threshold_) && !lists_.knows(class_of_number(label)))
          throw_invalid_argument(
              function,
              "the class of box " + std::to_string(box) + " of image " + std::to_string(image),
              label,
              index_range(lists_.size(), "classes in params.class_thresholds or class_groups"));
      }
  }

  /// With VECDET_CHECK=1, reports a number of scores that other models seem to have, unless the
  /// number of extras or of classes is given.
  void look_at_numbers() const {
    if (!is_unknown() || params_.class_count != 0 || scored() || !checks_input()) return;
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

  index_t extras() const { return std::max(params_.extras, index_t{0}); }
  /// Extra k of a box.
  float extra(index_t image, index_t box, index_t k) const {
    const index_t before = first_score() + (scored() ? 2 : classes_);
    return number(image, box, before + k);
  }
  /// The centre, size and angle of a rotated box.
  void read_rotated(index_t image, index_t box, float* five) const {
    for (index_t k = 0; k < 4; ++k) five[k] = number(image, box, k);
    five[4] = extra(image, box, 0);
  }
  index_t images() const { return images_; }
  const letterbox_transform& transform(index_t image) const { return transforms_[image]; }

 private:
  bool is_unknown() const { return params_.extras == yolo_postprocess_params::unknown_extras; }
  void note_outside(bool outside) const {
    if (outside) has_outside_.store(true, std::memory_order_relaxed);
  }
  bool scored() const { return params_.scores == yolo_scores::score_and_class; }
  index_t first_score() const { return params_.scores == yolo_scores::objectness ? 5 : 4; }

  /// Number k of a box.
  float number(index_t image, index_t box, index_t k) const {
    return k < separate_ ? at(*coordinates_, image, box, k)
                         : at(numbers_, image, box, k - separate_);
  }
  template <class Matrix>
  float at(const Matrix& matrix, index_t image, index_t box, index_t k) const {
    return by_rows_ ? static_cast<float>(matrix(image * boxes_ + box, k))
                    : static_cast<float>(matrix(row_of(matrix, image, k), box));
  }
  /// The row of number k of an image's first box.
  template <class Matrix>
  index_t row_of(const Matrix& matrix, index_t image, index_t k) const {
    return by_rows_ ? image * boxes_ : image * (matrix.rows() / images_) + k;
  }

  void check_coordinates() const {
    const index_t rows = coordinates_->rows();
    check(by_rows_       ? rows == numbers_.rows()
          : images_ == 0 ? rows == 0
                         : rows % images_ == 0 && rows / images_ == 4,
          function, "outputs.boxes.rows()", rows,
          by_rows_ ? "the rows of outputs.scores" : "4 per image");
    check_size(function, "outputs.boxes.cols()", coordinates_->cols(), by_rows_ ? 4 : boxes_,
               by_rows_ ? "the coordinates of a box" : "the columns of outputs.scores");
  }

  void check_params() const {
    const yolo_postprocess_params& p = params_;
    check(is_within(p.score_threshold, 0, 1), function, "params.score_threshold", p.score_threshold,
          "a number in [0, 1]");
    check(is_within(p.iou_threshold, 0, 1), function, "params.iou_threshold", p.iou_threshold,
          "a number in [0, 1]");
    check(p.max_candidates >= 0, function, "params.max_candidates", p.max_candidates, "0 or more");
    check(p.max_detections >= 0, function, "params.max_detections", p.max_detections, "0 or more");
    check((p.extras >= 0 && p.extras <= most_yolo_extras) || is_unknown(), function,
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
      check(!scored(), function, separate_ ? "outputs.scores" : "outputs.numbers", "quantised",
            "floats: models with a class index per box give it as a float tensor");
    if (!p.rotated) return;
    check(p.boxes == box_format::cxcywh, function, "params.boxes", static_cast<int>(p.boxes),
          "cxcywh if params.rotated is set");
    check(!p.normalised, function, "params.normalised", "true", "false if params.rotated is set");
    check(extras() == 0, function, "params.extras", p.extras, "0 if params.rotated is set");
    check(p.keypoint_size == 0, function, "params.keypoint_size", p.keypoint_size,
          "0 if params.rotated is set");
    check(p.rotated_results == rotated_format::cxcywhr ||
              p.rotated_results == rotated_format::xyxyxyxy,
          function, "params.rotated_results", static_cast<int>(p.rotated_results),
          "cxcywhr or xyxyxyxy");
  }

  static void reserve(yolo_buffers::candidates& out, index_t count) {
    grown(out.boxes, 4 * count);
    grown(out.scores, count);
    grown(out.labels, count);
    grown(out.sources, count);
  }

  void put(index_t image, yolo_buffers::candidates& out, index_t at, index_t box, index_t label,
           float score) const {
    const auto i = static_cast<std::size_t>(at);
    float four[4];
    for (int k = 0; k < 4; ++k) four[k] = number(image, box, k);
    write_corners(params_.boxes, four, out.boxes.data() + 4 * i);
    out.scores[i] = score;
    out.labels[i] = label;
    out.sources[i] = box;
  }

  /// Finds the candidates of rows with a score and a class. There are a few hundred rows.
  void collect_scored(index_t image, yolo_buffers::candidates& out) const {
    std::uint64_t* const records = grown(out.search.records, boxes_);
    std::uint64_t* const spare = grown(out.search.spare, boxes_);
    const auto score = [&](index_t box) { return number(image, box, 4); };
    const auto label = [&](index_t box) { return class_of_number(number(image, box, 5)); };
    std::uint64_t* end = spare;
    for (index_t box = 0; box < boxes_; ++box) {
      note_outside(is_outside(score(box)));
      if (!is_above(score(box), threshold_) || !lists_.wants(label(box))) continue;
      if (!lists_.knows(label(box)))
        has_unknown_label_.store(true, std::memory_order_relaxed);
      else if (lists_.passes(score(box), label(box)))
        *end++ = static_cast<std::uint64_t>(box);
    }
    std::copy(spare, end, records);
    std::uint64_t* const last = records + (end - spare);
    sort_by_score(records, last, score);
    out.count = std::min<index_t>(end - spare, params_.max_candidates);
    reserve(out, out.count);
    for (index_t i = 0; i < out.count; ++i) {
      const auto box = static_cast<index_t>(records[i]);
      put(image, out, i, box, label(box), score(box));
    }
  }

  const isa target_;
  vector_view<const letterbox_transform> transforms_;
  const Boxes* coordinates_;  ///< null: the first numbers of numbers_
  const Scores& numbers_;
  const yolo_postprocess_params& params_;
  const yolo_class_lists lists_;
  const bool by_rows_;
  const index_t separate_;  ///< the number of coordinates that are not in numbers_
  const index_t images_;
  index_t boxes_ = 0, classes_ = 0;
  float threshold_ = 0;
  const float* class_limits_ = nullptr;
  mutable std::atomic<bool> has_outside_{false}, has_unknown_label_{false};
};

/// postprocess_yolo() of one matrix, or of two.
template <class Boxes, class Scores>
yolo_detections_view run_postprocess_yolo(const Boxes* boxes, const Scores& numbers, index_t images,
                                          vector_view<const letterbox_transform> transforms,
                                          const yolo_postprocess_params& params,
                                          yolo_buffers& buffers, threading policy) {
  const isa target = active_isa();
  yolo_call<Scores, Boxes> call(target, boxes, numbers, images, transforms, params);
  call.check_arguments();
  call.set_class_limits(buffers.class_limits);
  const profile::scope timing([&] { return call.problem(policy); });
  const yolo_detections_view found =
      params.rotated
          ? find_rotated_detections(call, buffers, params, !transforms.empty(), target, policy)
          : find_detections(call, buffers, params, !transforms.empty(), target, policy);
  call.check_labels();
  call.check_scores();
  call.look_at_numbers();
  look_at_scores("postprocess_yolo", boxes == nullptr ? "outputs.numbers" : "outputs.scores",
                 found.scores, [](index_t) { return true; });
  return found;
}

}  // namespace detail

template <class T>
yolo_detections_view postprocess_yolo(const yolo_outputs<T>& outputs,
                                      vector_view<const letterbox_transform> transforms,
                                      const yolo_postprocess_params& params,
                                      yolo_postprocess_workspace& workspace, threading policy) {
  using matrix = matrix_view<const T>;
  return detail::run_postprocess_yolo<matrix>(nullptr, outputs.numbers, outputs.images, transforms,
                                              params, detail::workspace_access::buffers(workspace),
                                              policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
