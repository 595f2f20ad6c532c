// SPDX-License-Identifier: Apache-2.0
// The functions of nms.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/nms.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/class_options.hpp>
#include <vecdet/impl/input_checks.hpp>
#include <vecdet/impl/nms_classes.hpp>
#include <vecdet/impl/nms_groups.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/nms/nms.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

constexpr index_t most_nms_boxes = 0xffffffff;

inline void check_nms_params(const char* function, const nms_params& params) {
  check(is_within(params.iou_threshold, 0, 1), function, "params.iou_threshold",
        params.iou_threshold, "a number in [0, 1]");
  check(!is_nan(params.score_threshold), function, "params.score_threshold", params.score_threshold,
        "a number");
  const bool by_smaller_area = params.overlap == nms_overlap::smaller_area;
  check(!by_smaller_area || !params.plus_one, function, "params.plus_one", "true",
        "false if overlap is smaller_area");
  check(!by_smaller_area || !params.suppress_equal || params.iou_threshold > 0, function,
        "params.iou_threshold", params.iou_threshold,
        "above 0 if suppress_equal is set and overlap is smaller_area");
  check(params.max_per_class >= 0, function, "params.max_per_class", params.max_per_class,
        "0 or more");
  check(params.max_per_image >= 0, function, "params.max_per_image", params.max_per_image,
        "0 or more");
  check(params.max_total >= 0, function, "params.max_total", params.max_total, "0 or more");
}

inline void check_nms(const char* function, index_t boxes, index_t scores,
                      const nms_params& params) {
  check_size(function, "scores.size()", scores, boxes, "the number of boxes");
  check(boxes <= most_nms_boxes, function, "boxes.size()", boxes, "at most 2^32 - 1");
  check_nms_params(function, params);
}

/// The smallest overlap of type Real that suppresses.
template <class Real>
Real least_overlap(const nms_params& params) {
  const double threshold = threshold_for<Real>(params, params.iou_threshold);
  const Real nearest = rounded(static_cast<Real>(threshold));
  const bool suppresses = params.suppress_equal ? static_cast<double>(nearest) >= threshold
                                                : static_cast<double>(nearest) > threshold;
  if (suppresses) return nearest;
  const Real next = std::nextafter(nearest, std::numeric_limits<Real>::infinity());
  // If the processor takes denormal numbers for 0, boxes without any overlap would have this one.
  return next > 0 ? next : std::numeric_limits<Real>::min();
}

/// The profiler's problem for a step of NMS, with the call's type and shape.
template <class T>
profile::problem nms_step(const char* name, index_t boxes) {
  profile::problem p;
  p.function = name;
  p.type = dtype_name<T>();
  p.shape = {profile::rounded_count(boxes)};
  return p;
}

/// The upright boxes of a call: what nms_call needs of them.
template <class T>
class upright_nms {
 public:
  using element = T;

  upright_nms(boxes_view<const T> boxes, const nms_params& params, isa target)
      : boxes_(boxes), params_(params), kernels_(kernels<nms_kernels<T>>(target)) {}

  index_t size() const { return boxes_.size(); }

  /// The scratch memory of a group of `count` boxes.
  index_t scratch_bytes(index_t count) const {
    return by_smaller_area() ? kernels_.merge_scratch_bytes(count) : kernels_.scratch_bytes(count);
  }

  /// Called before any group, with the number of boxes that take part.
  void prepare(nms_buffers& buffers, index_t count) const {
    if (by_smaller_area()) grown(buffers.owners, 2 * count);
  }

  /// Drops the records of boxes with NaN or without area. Returns how many are left.
  index_t drop_degenerate(nms_record* records, index_t count) const {
    return kernels_.drop_degenerate(args(), records, count);
  }

  /// The fewest boxes of a task, if `count` take part.
  index_t least_in_task(index_t count) const { return least_nms_task_boxes(count); }

  /// NMS of a group, the records from `begin` on, in descending score. Returns how many are kept.
  /// The policy is sequential unless the group is the only one.
  index_t suppress(nms_buffers& buffers, index_t begin, nms_state& state, threading) const {
    if (by_smaller_area()) return suppress_by_smaller_area(buffers, begin, state);
    {
      const profile::scope timing([&] { return nms_step<T>("nms.compare", size()); });
      kernels_.begin(args(), state);
    }
    if (state.done) return state.kept_count;
    {
      const profile::scope timing([&] { return nms_step<T>("nms.index", size()); });
      kernels_.build_index(args(), state);
    }
    const profile::scope timing([&] { return nms_step<T>("nms.compare", size()); });
    kernels_.finish(args(), state);
    return state.kept_count;
  }

 private:
  bool by_smaller_area() const { return params_.overlap == nms_overlap::smaller_area; }

  nms_args<T> args() const {
    nms_args<T> a{};
    a.boxes = boxes_.data();
    a.format = params_.format;
    a.overlap = params_.overlap;
    a.plus_one = params_.plus_one;
    a.least_overlap = params_.overlap == nms_overlap::jaccard
                          ? static_cast<double>(least_overlap<float>(params_))
                          : static_cast<double>(least_overlap<compute_type<T>>(params_));
    a.max_kept = std::min({params_.max_per_class, params_.max_per_image, params_.max_total});
    return a;
  }

  /// Keeps a box if merging would not merge it into another.
  index_t suppress_by_smaller_area(nms_buffers& buffers, index_t begin,
                                   const nms_state& state) const {
    const profile::scope timing([&] { return nms_step<T>("nms.compare", size()); });
    merge_args<T> merge{};
    merge.boxes = args();
    merge.order = state.order;
    merge.count = state.count;
    merge.scratch = state.scratch;
    merge.owner = buffers.owners.data() + 2 * begin;
    merge.claimer = merge.owner + state.count;
    kernels_.merge(merge);
    index_t kept = 0;
    for (index_t i = 0; i < state.count && kept < merge.boxes.max_kept; ++i)
      if (merge.owner[i] == static_cast<std::uint32_t>(i)) state.kept[kept++] = state.order[i];
    return kept;
  }

  boxes_view<const T> boxes_;
  const nms_params& params_;
  const nms_kernels<T>& kernels_;
};

/// One call of NMS. Boxes is upright_nms or another class with its functions; S is the stored type
/// of scores.
template <class Boxes, class S>
class nms_call {
  using T = typename Boxes::element;

 public:
  nms_call(const Boxes& boxes, vector_view<const S> scores, const nms_params& params,
           nms_buffers& buffers, isa target, threading policy)
      : boxes_(boxes),
        scores_(scores),
        params_(params),
        buffers_(buffers),
        scores_kernels_(kernels<nms_kernels<S>>(target)),
        policy_(policy) {}

  vector_view<const index_t> run(const nms_groups& given) {
    index_t count = select();
    if (has_class_limits(params_))
      count = select_by_class(given.classes, scores_, params_, buffers_, count);
    const nms_groups groups = by_class_group(given, params_, buffers_);
    const bool grouped =
        groups.classes.size() > 0 || groups.images.size() > 0 || !groups.image_offsets.empty();
    grown(buffers_.spare, count);
    grown(buffers_.kept, count);
    boxes_.prepare(buffers_, count);
    if (!grouped) {
      const index_t kept = suppress(
          0, count, grown(buffers_.scratch, (boxes_.scratch_bytes(count) + 63) / 64), true);
      nms_record* const records = buffers_.kept.data();
      if (params_.order == nms_order::index)
        scores_kernels_.sort_by_index(records, buffers_.spare.data(), kept);
      return indices_of(records, kept);
    }
    {
      const profile::scope timing([&] { return step("nms.partition"); });
      partition_into_groups(groups, boxes_.size(), count, buffers_, policy_);
    }
    suppress_groups(
        buffers_, policy_, boxes_.least_in_task(count),
        [&](index_t boxes) { return boxes_.scratch_bytes(boxes); },
        [&](index_t begin, index_t end, cache_line* scratch) {
          return suppress(begin, end, scratch, end - begin == count);
        });
    return merge();
  }

 private:
  profile::problem step(const char* name) const { return nms_step<T>(name, boxes_.size()); }

  /// Fills buffers.records with the boxes that take part and returns their number.
  index_t select() {
    nms_record* const records = grown(buffers_.records, boxes_.size());
    index_t count = scores_.size();
    const double threshold = params_.class_thresholds.empty()
                                 ? params_.score_threshold
                                 : -std::numeric_limits<double>::infinity();
    if (params_.drop_nan_scores || !is_minus_infinity(threshold)) {
      count = scores_kernels_.select(scores_.data(), 0, count,
                                     threshold_for<compute_type<S>>(params_, threshold),
                                     params_.drop_nan_scores, records);
    } else {
      // All boxes take part, so every chunk knows its position.
      constexpr index_t smallest_chunk = 16384;
      for_each_chunk(policy_, chunking(count, smallest_chunk),
                     [&](index_t, index_t first, index_t last) {
                       scores_kernels_.select(scores_.data(), first, last,
                                              -std::numeric_limits<double>::infinity(), false,
                                              records + first);
                     });
    }
    if (params_.drop_degenerate) count = boxes_.drop_degenerate(records, count);
    return count;
  }

  /// NMS of the records [begin, end). Returns how many are kept; they start at buffers.kept[begin].
  index_t suppress(index_t begin, index_t end, cache_line* scratch, bool are_all) {
    nms_record* const records = buffers_.records.data() + begin;
    nms_state state{};
    state.order = records;
    state.count = end - begin;
    state.kept = buffers_.kept.data() + begin;
    state.scratch = scratch;
    {
      const profile::scope timing([&] { return step("nms.sort"); });
      scores_kernels_.sort(scores_.data(), records, buffers_.spare.data() + begin, state.count);
    }
    return boxes_.suppress(buffers_, begin, state, are_all ? policy_ : threading::sequential);
  }

  /// The kept boxes of all groups in the order params.order.
  vector_view<const index_t> merge() {
    const profile::scope timing([&] { return step("nms.merge"); });
    nms_record* const records = buffers_.records.data();
    nms_record* const spare = buffers_.spare.data();
    index_t count = gather_kept(buffers_);
    const bool limited = params_.max_per_image != no_limit || params_.max_total != no_limit;
    const bool by_score =
        params_.order == nms_order::score || params_.order == nms_order::image_score;
    if (by_score || limited) scores_kernels_.sort_any(scores_.data(), records, spare, count);
    if (limited) count = apply_limits(records, count);
    if (params_.order == nms_order::index) scores_kernels_.sort_by_index(records, spare, count);

    // Gathered records are in group order already, and those of a single image in image order.
    const bool by_image = params_.order == nms_order::image_score && buffers_.images > 1;
    const bool by_class = params_.order == nms_order::image_class_score && limited;
    return by_image || by_class ? group_result(records, count) : indices_of(records, count);
  }

  vector_view<const index_t> indices_of(const nms_record* records, index_t count) {
    index_t* const result = grown(buffers_.result, count);
    for (index_t i = 0; i < count; ++i) result[i] = index_of(records[i]);
    return {result, count};
  }

  index_t image_of(nms_record record) const {
    return buffers_.group_image[buffers_.group_of[index_of(record)]];
  }

  /// Drops records beyond max_per_image and max_total. Records are in descending score.
  index_t apply_limits(nms_record* records, index_t count) {
    index_t* const per_image = grown(buffers_.counters, buffers_.images);
    std::fill(per_image, per_image + buffers_.images, 0);
    index_t left = 0;
    for (index_t i = 0; i < count && left < params_.max_total; ++i) {
      index_t& image_kept = per_image[image_of(records[i])];
      if (image_kept >= params_.max_per_image) continue;
      ++image_kept;
      records[left++] = records[i];
    }
    return left;
  }

  /// A stable counting sort by image, or by image and class.
  vector_view<const index_t> group_result(const nms_record* records, index_t count) {
    const bool by_class = params_.order == nms_order::image_class_score;
    const auto place = [&](nms_record record) {
      return by_class ? index_t{buffers_.group_of[index_of(record)]} : image_of(record);
    };
    const index_t places = by_class ? buffers_.groups : buffers_.images;
    index_t* const result = grown(buffers_.result, count);
    index_t* const at = grown(buffers_.counters, places + 1);
    std::fill(at, at + places + 1, 0);
    for (index_t i = 0; i < count; ++i) ++at[place(records[i]) + 1];
    for (index_t p = 0; p < places; ++p) at[p + 1] += at[p];
    for (index_t i = 0; i < count; ++i) result[at[place(records[i])]++] = index_of(records[i]);
    return {result, count};
  }

  const Boxes& boxes_;
  vector_view<const S> scores_;
  const nms_params& params_;
  nms_buffers& buffers_;
  const nms_kernels<S>& scores_kernels_;
  threading policy_;
};

template <class T, class S>
vector_view<const index_t> run_nms(const char* function, isa target, boxes_view<const T> boxes,
                                   vector_view<const S> scores, const nms_groups& groups,
                                   const nms_params& params, nms_buffers& buffers,
                                   threading policy) {
  check_nms(function, boxes.size(), scores.size(), params);
  check_groups(function, groups, boxes.size());
  check_nms_classes(function, groups, boxes.size(), params, buffers);
  if (params.format == nms_format::corners) look_at_boxes(function, "boxes", boxes);
  look_at_scores(function, "scores", scores, [](index_t) { return true; });
  const profile::scope timing([&] {
    return profile::problem{function,
                            std::is_same<S, T>::value ? nullptr : dtype_name<S>(),
                            dtype_name<T>(),
                            {profile::rounded_count(boxes.size())},
                            isa_name(target),
                            policy.threads(),
                            boxes.size() * static_cast<index_t>(4 * sizeof(T) + sizeof(S))};
  });
  const upright_nms<T> upright(boxes, params, target);
  return nms_call<upright_nms<T>, S>(upright, scores, params, buffers, target, policy).run(groups);
}

}  // namespace detail

template <class Boxes, class Scores, detail::require_boxes<Boxes>, detail::require_numbers<Scores>>
vector_view<const index_t> nms(const Boxes& given_boxes, const Scores& given_scores,
                               const nms_params& params, nms_workspace& workspace,
                               threading policy) {
  const auto boxes = detail::boxes_in(given_boxes, "nms", "boxes");
  const vector_view<const number_of<Scores>> scores = given_scores;
  return detail::run_nms<coordinate_of<Boxes>, number_of<Scores>>(
      "nms", active_isa(), boxes, scores, {}, params, detail::workspace_access::buffers(workspace),
      policy);
}

template <class Boxes, class Scores, detail::require_boxes<Boxes>, detail::require_numbers<Scores>>
std::vector<index_t> nms(const Boxes& given_boxes, const Scores& given_scores,
                         const nms_params& params, threading policy) {
  const auto boxes = detail::boxes_in(given_boxes, "nms", "boxes");
  const vector_view<const number_of<Scores>> scores = given_scores;
  nms_workspace workspace;
  const auto kept = nms(boxes, scores, params, workspace, policy);
  return {kept.begin(), kept.end()};
}

template <class Boxes, class Scores, class Groups, detail::require_boxes<Boxes>,
          detail::require_numbers<Scores>>
vector_view<const index_t> batched_nms(const Boxes& given_boxes, const Scores& given_scores,
                                       const Groups& groups, const nms_params& params,
                                       nms_workspace& workspace, threading policy) {
  const auto boxes = detail::boxes_in(given_boxes, "batched_nms", "boxes");
  const vector_view<const number_of<Scores>> scores = given_scores;
  const nms_groups by_class = detail::groups_of("batched_nms", groups, boxes.size());
  return detail::run_nms<coordinate_of<Boxes>, number_of<Scores>>(
      "batched_nms", active_isa(), boxes, scores, by_class, params,
      detail::workspace_access::buffers(workspace), policy);
}

template <class Boxes, class Scores, class Groups, detail::require_boxes<Boxes>,
          detail::require_numbers<Scores>>
std::vector<index_t> batched_nms(const Boxes& given_boxes, const Scores& given_scores,
                                 const Groups& groups, const nms_params& params, threading policy) {
  const auto boxes = detail::boxes_in(given_boxes, "batched_nms", "boxes");
  const vector_view<const number_of<Scores>> scores = given_scores;
  nms_workspace workspace;
  const nms_groups by_class = detail::groups_of("batched_nms", groups, boxes.size());
  const auto kept = batched_nms(boxes, scores, by_class, params, workspace, policy);
  return {kept.begin(), kept.end()};
}

}  // namespace VECDET_ABI
}  // namespace vecdet
