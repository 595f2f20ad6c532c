// SPDX-License-Identifier: Apache-2.0
// The function of postprocess_yolo.hpp: presets, the search for candidates, the profiler's scope.
#pragma once

#include <vecdet/args/postprocess_yolo.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/impl/class_options.hpp>
#include <vecdet/impl/output_detections.hpp>
#include <vecdet/impl/yolo_class_lists.hpp>
#include <vecdet/impl/yolo_numbers.hpp>
#include <vecdet/impl/yolo_rotated.hpp>
#include <vecdet/postprocess_yolo.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/postprocess_yolo/postprocess_yolo.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

inline postprocess_yolo_params postprocess_yolo_params::v5() {
  postprocess_yolo_params params;
  params.layout = yolo_layout::rows;
  params.scores = yolo_scores::objectness;
  params.iou_threshold = 0.45;
  return params;
}

inline postprocess_yolo_params postprocess_yolo_params::v8() { return {}; }

inline postprocess_yolo_params postprocess_yolo_params::v10() {
  postprocess_yolo_params params;
  params.layout = yolo_layout::rows;
  params.scores = yolo_scores::score_and_class;
  params.model_format = box_format::xyxy;
  params.suppress = false;
  return params;
}

inline postprocess_yolo_params postprocess_yolo_params::rt_detr() {
  postprocess_yolo_params params;
  params.layout = yolo_layout::rows;
  params.normalised = true;
  params.suppress = false;
  return params;
}

inline postprocess_yolo_params postprocess_yolo_params::v8_obb() {
  postprocess_yolo_params params;
  params.rotated = true;
  return params;
}

inline postprocess_yolo_params postprocess_yolo_params::v26_obb() {
  postprocess_yolo_params params;
  params.layout = yolo_layout::rows;
  params.scores = yolo_scores::score_and_class;
  params.suppress = false;
  params.rotated = true;
  return params;
}

namespace detail {

/// One call of postprocess_yolo.
template <class Scores, class Boxes = Scores>
class yolo_call {
 public:
  static constexpr const char* function = "postprocess_yolo";

  yolo_call(isa target, const Boxes* boxes, const Scores& numbers, index_t images,
            vector_view<const letterbox_transform> transforms,
            const postprocess_yolo_params& params)
      : target_(target),
        transforms_(transforms),
        numbers_(boxes, numbers, images, params),
        params_(params),
        lists_(params) {}

  /// Throws unless shapes and lists match the parameters; sets the sizes.
  void check_arguments() {
    numbers_.check_and_measure();
    const index_t images = numbers_.images();
    const bool has_classes = !numbers_.scored() && images > 0 && numbers_.boxes() > 0;
    lists_.check(function, has_classes ? numbers_.classes() : -1);
    check_transforms(function, transforms_, images);
    for (index_t i = 0; params_.rotated && i < transforms_.size(); ++i)
      check_element(is_equal(transforms_[i].scale_x, transforms_[i].scale_y), function,
                    "transforms", i, transforms_[i].scale_y,
                    "the same scale for both axes: rotated boxes would lose their right angles");
  }

  /// Sets the limits of classes; `buffer` keeps them. A score that is no probability is an error in
  /// any class, so it is found in classes that are not wanted as well.
  void set_class_limits(std::vector<float>& buffer) {
    threshold_ = static_cast<float>(lowest_threshold(params_));  // compared in float, as elsewhere
    if (!numbers_.scored())
      class_limits_ = class_limits(
          params_, numbers_.images() > 0 && numbers_.boxes() > 0 ? numbers_.classes() : 0, buffer,
          [](double score) { return static_cast<float>(score); },
          numbers_.has_unknown_extras() ? greatest_probability
                                        : std::numeric_limits<float>::infinity());
  }

  profile::problem problem(threading policy) const {
    return {function,
            params_.rotated ? numbers_.scored()    ? "rotated_score_and_class"
                              : numbers_.by_rows() ? "rotated_rows"
                                                   : "rotated_channels"
            : params_.scores == yolo_scores::score_and_class ? "score_and_class"
            : params_.scores == yolo_scores::objectness      ? "objectness"
            : numbers_.by_rows()                             ? "rows"
                                                             : "channels",
            dtype_of(numbers_.matrix()),
            {images(), numbers_.boxes(), numbers_.classes(), extras()},
            isa_name(target_),
            policy.threads(),
            numbers_.bytes()};
  }

  /// Finds the candidates of an image, best score first.
  void collect(index_t image, postprocess_buffers::candidates& out, threading policy) const {
    out.count = 0;
    if (numbers_.boxes() == 0 || params_.max_candidates == 0) return;
    if (numbers_.scored()) return collect_scored(image, out);
    const Scores& matrix = numbers_.matrix();
    const index_t first = numbers_.first_score_in_matrix(), classes = numbers_.classes();
    const bool by_rows = numbers_.by_rows(), is_multi = params_.multi_label;
    const chunking chunks = search_chunks(numbers_.boxes(), classes, policy,
                                          smallest_search(static_cast<double>(threshold_)));
    const index_t limit = params_.max_candidates;
    const index_t capacity = filter_topk_capacity(limit, chunks.size * (is_multi ? classes : 1));
    // `args` are those of a search, with has_outside or has_negative as `outside`. Elements count
    // from the chunk's first box if `is_from_chunk`.
    const auto find = [&](const auto& args, auto outside, auto search, bool is_from_chunk) {
      search_best(
          target_, out.search, chunks, capacity, limit, policy,
          [&](index_t begin, index_t end, std::uint64_t* records, std::uint64_t* spare) {
            auto own_args = args;
            bool has_outside = false;
            if (numbers_.has_unknown_extras()) own_args.*outside = &has_outside;
            const index_t found = search(own_args, begin, end, records, spare);
            note_outside(has_outside);
            return found;
          },
          [&](index_t total) { set_candidates(out, total); },
          [&](index_t i, index_t begin, std::uint64_t record) {
            const index_t element =
                static_cast<index_t>(record & 0xffffffffu) + (is_from_chunk ? begin * classes : 0);
            const float score = score_of_record(record);
            note_outside(is_above(score, greatest_probability));
            put(image, out, i, element / classes, element % classes, score);
          });
    };
    const bool has_objectness = params_.scores == yolo_scores::objectness;
    // Element indices of planes count from the chunk's first box.
    const bool has_planes = is_multi && !by_rows;
    if constexpr (is_quantised<Scores>) {
      const quantised_numbers numbers(matrix);
      quantised_search_args args = numbers.search_args();
      args.scores = numbers.bytes(numbers_.row_of(matrix, image, first)) + (by_rows ? first : 0);
      args.objectness = has_objectness ? args.scores - 1 : nullptr;
      args.classes = classes;
      args.stride = matrix.stored().stride();
      args.multi_label = is_multi;
      args.threshold = static_cast<double>(threshold_);
      args.class_limits = class_limits_;
      args.limit = limit;
      args.capacity = capacity;
      const auto& own = kernels<quantised_kernels>(target_);
      find(args, &quantised_search_args::has_outside,
           by_rows      ? own.search_rows
           : has_planes ? own.search_planes
                        : own.search_channels,
           has_planes);
    } else {
      using T = number_in<Scores>;
      const T* const scores =
          matrix.row(numbers_.row_of(matrix, image, first)) + (by_rows ? first : 0);
      if (has_planes) {
        plane_search_args<T> planes{};
        planes.logits = scores;
        planes.anchors = 1;
        planes.classes = classes;
        planes.plane = matrix.stride();
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
      args.classes = classes;
      args.stride = matrix.stride();
      args.multi_label = is_multi;
      args.threshold = threshold_;
      args.class_limits = class_limits_;
      args.limit = limit;
      args.capacity = capacity;
      const auto& own = kernels<yolo_kernels<T>>(target_);
      find(args, &yolo_search_args<T>::has_outside, by_rows ? own.search_rows : own.search_channels,
           false);
    }
  }

  /// Throws if the number of extras is not given and collect() has read an objectness or a score
  /// that is no probability.
  void check_scores() const {
    if (numbers_.has_unknown_extras() && has_outside_.load(std::memory_order_relaxed))
      numbers_.refuse_outside();
  }

  /// Throws if a class of score_and_class has no element in a list that has one per class.
  void check_labels() const {
    if (!has_unknown_label_.load(std::memory_order_relaxed)) return;
    for (index_t image = 0; image < numbers_.images(); ++image)
      for (index_t box = 0; box < numbers_.boxes(); ++box) {
        const float label = numbers_.number(image, box, 5);
        if (is_above(numbers_.number(image, box, 4), threshold_) &&
            !lists_.knows(class_of_number(label)))
          throw_invalid_argument(
              function,
              "the class of box " + std::to_string(box) + " of image " + std::to_string(image),
              label,
              index_range(lists_.size(), "classes in params.class_thresholds or class_groups"));
      }
  }

  void look_at_numbers() const { numbers_.look_at_classes(); }

  index_t images() const { return numbers_.images(); }
  index_t extras() const { return numbers_.extras(); }
  float extra(index_t image, index_t box, index_t k) const { return numbers_.extra(image, box, k); }
  /// The centre, size and angle of a rotated box.
  void read_rotated(index_t image, index_t box, float* five) const {
    for (index_t k = 0; k < 4; ++k) five[k] = numbers_.number(image, box, k);
    five[4] = extra(image, box, 0);
  }
  const letterbox_transform& transform(index_t image) const { return transforms_[image]; }

 private:
  void note_outside(bool outside) const {
    if (outside) has_outside_.store(true, std::memory_order_relaxed);
  }

  void put(index_t image, postprocess_buffers::candidates& out, index_t at, index_t box,
           index_t label, float score) const {
    float four[4];
    for (int k = 0; k < 4; ++k) four[k] = numbers_.number(image, box, k);
    put_candidate(out, at, params_.model_format, four, label, score, box);
  }

  /// Finds the candidates of rows with a score and a class. There are a few hundred rows.
  void collect_scored(index_t image, postprocess_buffers::candidates& out) const {
    std::uint64_t* const records = grown(out.search.records, numbers_.boxes());
    std::uint64_t* const spare = grown(out.search.spare, numbers_.boxes());
    const auto score = [&](index_t box) { return numbers_.number(image, box, 4); };
    const auto label = [&](index_t box) { return class_of_number(numbers_.number(image, box, 5)); };
    std::uint64_t* end = spare;
    for (index_t box = 0; box < numbers_.boxes(); ++box) {
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
    set_candidates(out, std::min<index_t>(end - spare, params_.max_candidates));
    for (index_t i = 0; i < out.count; ++i) {
      const auto box = static_cast<index_t>(records[i]);
      put(image, out, i, box, label(box), score(box));
    }
  }

  const isa target_;
  vector_view<const letterbox_transform> transforms_;
  yolo_numbers<Scores, Boxes> numbers_;
  const postprocess_yolo_params& params_;
  const yolo_class_lists lists_;
  float threshold_ = 0;
  const float* class_limits_ = nullptr;
  mutable std::atomic<bool> has_outside_{false}, has_unknown_label_{false};
};

/// The detections of all images. If there are transforms, `is_moved`, boxes and key points are
/// converted to the image's pixels.
template <class Call>
detections_view find_detections(const Call& call, postprocess_buffers& buffers,
                                const postprocess_yolo_params& params, bool is_moved, isa target,
                                threading policy) {
  find_candidates(call, buffers, policy);
  const index_t images = call.images();
  const vector_view<const index_t> kept =
      params.suppress
          ? suppress_candidates(buffers, images, params.iou_threshold, params.max_detections,
                                params.class_agnostic, params.class_groups, target, policy)
          : best_candidates(buffers, images, params.max_detections);
  return detections_from(call, buffers, kept,
                         {is_moved, params.normalised, params.result_format, params.keypoint_size});
}

/// postprocess_yolo() of one matrix, or of two.
template <class Boxes, class Scores>
detections_view run_postprocess_yolo(const Boxes* boxes, const Scores& numbers, index_t images,
                                     vector_view<const letterbox_transform> transforms,
                                     const postprocess_yolo_params& params,
                                     postprocess_buffers& buffers, threading policy) {
  const isa target = active_isa();
  yolo_call<Scores, Boxes> call(target, boxes, numbers, images, transforms, params);
  call.check_arguments();
  call.set_class_limits(buffers.class_limits);
  const profile::scope timing([&] { return call.problem(policy); });
  const detections_view found =
      params.rotated
          ? find_rotated_detections(call, buffers, params, !transforms.empty(), target, policy)
          : find_detections(call, buffers, params, !transforms.empty(), target, policy);
  call.check_labels();
  call.check_scores();
  call.look_at_numbers();
  look_at_scores("postprocess_yolo",
                 boxes == nullptr ? "outputs.boxes_and_scores" : "outputs.scores", found.scores,
                 [](index_t) { return true; });
  return found;
}

}  // namespace detail

template <class T>
detections_view postprocess_yolo(const yolo_outputs<T>& outputs,
                                 vector_view<const letterbox_transform> transforms,
                                 const postprocess_yolo_params& params,
                                 postprocess_workspace& workspace, threading policy) {
  using matrix = matrix_view<const T>;
  return detail::run_postprocess_yolo<matrix>(nullptr, outputs.boxes_and_scores, outputs.images,
                                              transforms, params,
                                              detail::workspace_access::buffers(workspace), policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
