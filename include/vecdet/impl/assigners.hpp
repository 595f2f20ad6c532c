// SPDX-License-Identifier: Apache-2.0
// The functions of assigners.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/assigners.hpp>
#include <vecdet/assigners.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/find_first.hpp>
#include <vecdet/impl/ground_truth.hpp>
#include <vecdet/impl/ignore_regions.hpp>
#include <vecdet/impl/input_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/assigners/assigners.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// Checks and preparations of all assigners.
class assigner_call {
 public:
  assigner_call(const char* function, index_t points, const char* points_name,
                const vector_view<const grid_size>& levels, const ground_truth& truth,
                const vector_view<index_t>& matches)
      : assigner_call(function, points, points_name, levels, truth, "truth.boxes.size()",
                      truth.boxes.size(), matches) {
    look_at_boxes(function, "truth.boxes", truth.boxes);
  }
  /// For boxes that are not in `truth`; `boxes_name` names their number in messages.
  assigner_call(const char* function, index_t points, const char* points_name,
                const vector_view<const grid_size>& levels, const ground_truth& truth,
                const char* boxes_name, index_t boxes, const vector_view<index_t>& matches)
      : function_(function),
        points_(points),
        points_name_(points_name),
        levels_(levels),
        truth_(truth),
        boxes_name_(boxes_name),
        boxes_(boxes),
        images_(image_count(truth)) {
    index_t left = points;
    for (index_t l = 0; l < levels.size(); ++l) {
      check_element(levels[l].height >= 0, function, "levels", l, levels[l].height,
                    "a height of 0 or more");
      check_element(levels[l].width >= 0, function, "levels", l, levels[l].width,
                    "a width of 0 or more");
      if (levels[l].height != 0 && levels[l].width > left / levels[l].height) {
        throw_invalid_argument(
            function, element("levels", l),
            std::to_string(levels[l].height) + " x " + std::to_string(levels[l].width),
            "at most " + std::to_string(left) + " locations, as there are " +
                std::to_string(points) + " " + points_name);
      }
      left -= levels[l].height * levels[l].width;
    }
    if (left != 0) {
      throw_invalid_argument(function, std::string(points_name) + ".size()", points,
                             std::to_string(points - left) + ", the locations of all levels");
    }
    const vector_view<const index_t>& offsets = truth.image_offsets;
    if (!offsets.empty())
      check_offsets(function, "truth.image_offsets", offsets, boxes_, "the number of boxes");
    check_regions(function, truth);
    check(images_ == 0 || points <= max_elements<index_t> / images_, function,
          "truth.image_offsets.size()", offsets.size(),
          "at most as many that memory can address images x points");
    check_size(function, "matches.size()", matches.size(), images_ * points, "images x points");
    check_result_apart("matches", matches);
  }

  index_t images() const { return images_; }
  index_t boxes() const { return boxes_; }
  index_t first_box(index_t image) const {
    return first_image_box(truth_.image_offsets, boxes_, image);
  }

  void check_result_apart(const char* result, const address_range& memory) const {
    for_each_memory_of(truth_, [&](const char* truth_name, const address_range& range) {
      check_apart(function_, result, memory, truth_name, range);
    });
    check_apart(function_, result, memory, "levels", levels_);
  }

  struct named_input {
    const char* name;
    address_range memory;
  };
  /// Checks that matches and targets are apart from each other and from all inputs; `inputs` are
  /// those besides the truth and the levels.
  void check_targets_apart(const vector_view<index_t>& matches, const vector_view<float>& targets,
                           std::initializer_list<named_input> inputs) const {
    check_apart(function_, "targets", targets, "matches", matches);
    check_result_apart("targets", targets);
    for (const named_input& input : inputs)
      check_apart(function_, "matches", matches, input.name, input.memory);
    for (const named_input& input : inputs)
      check_apart(function_, "targets", targets, input.name, input.memory);
  }

  /// Checks the predictions of an assigner with targets, of which `rows` are expected.
  void check_predictions(const matrix_view<const float>& points, const char* scores_name,
                         const matrix_view<const float>& scores, const char* boxes_name,
                         index_t boxes, const vector_view<float>& targets, index_t rows) const {
    check(points.cols() == 2 && points.stride() == 2, function_, "points.stride()", points.stride(),
          "2 columns, x and y, without gaps");
    check_size(function_, boxes_name, boxes, rows, "images x points");
    check_size(function_, scores_name, scores.rows(), rows, "images x points");
    check_size(function_, "targets.size()", targets.size(), rows, "images x points");
    check_classes(function_, truth_, boxes_, scores.cols());
  }

  /// Checks that the levels are grids, stores their axes, and allocates memory for `most` choices
  /// per box.
  assigner_args prepare(const assigner_kernels& kernels, const float* points, index_t most,
                        assigner_buffers& buffers, threading policy) const {
    index_t numbers = 0;
    for (const grid_size& level : levels_)
      if (level.height > 0 && level.width > 0) numbers += level.height + level.width;
    float* axis = grown(buffers.axes, numbers);
    point_level* const levels = grown(buffers.levels, levels_.size());
    index_t first = 0;
    for (index_t l = 0; l < levels_.size(); ++l) {
      const index_t height = levels_[l].height, width = levels_[l].width;
      if (height == 0 || width == 0) {
        levels[l] = {first, 0, 0, nullptr, nullptr};
        continue;
      }
      levels[l] = {first, height, width, axis, axis + width};
      for (index_t c = 0; c < width; ++c) *axis++ = points[2 * (first + c)];
      for (index_t r = 0; r < height; ++r) *axis++ = points[2 * (first + r * width) + 1];
      const index_t off = find_off_grid(kernels, points, levels[l], policy);
      if (off < height * width) {
        const float* const point = points + 2 * (first + off);
        throw_invalid_argument(function_, element(points_name_, first + off),
                               "at " + std::to_string(point[0]) + ", " + std::to_string(point[1]),
                               "the x of its column and the y of its row, both ascending");
      }
      first += height * width;
    }
    check(boxes_ == 0 || most <= max_elements<index_t> / boxes_, function_, boxes_name_, boxes_,
          "at most as many as memory can address with their candidates");
    assigner_args args{};
    args.points = points;
    args.point_count = points_;
    args.levels = levels;
    args.level_count = levels_.size();
    args.truth = truth_.boxes.data();
    args.most = most;
    args.chosen = grown(buffers.chosen, most * boxes_);
    args.values = grown(buffers.values, most * boxes_);
    args.counts = grown(buffers.counts, boxes_);
    return args;
  }

  /// Calls choose(image, box) for all boxes, unless choose is null, then match(assigned image) for
  /// all images. Before, sets all matches to -1 and all targets, unless they are null, to 0.
  /// Afterwards, ignores unmatched points in `regions`.
  template <class Choose, class Match>
  void run(const assigner_args& common, const vector_view<index_t>& matches, float* targets,
           const ignore_regions& regions, threading policy, const Choose& choose,
           const Match& match) const {
    // One loop does both: the threads wait for each other once.
    constexpr index_t most_pieces = chunking::max_count / 2;
    constexpr index_t smallest_fill = 32768;
    constexpr bool chooses = !std::is_same<Choose, std::nullptr_t>::value;
    const chunking box_chunks(chooses ? boxes_ : 0,
                              std::max(index_t{1}, (boxes_ + most_pieces - 1) / most_pieces));
    const chunking fill_chunks(
        matches.size(), std::max(smallest_fill, (matches.size() + most_pieces - 1) / most_pieces));
    const chunking all(box_chunks.count + fill_chunks.count, 1);
    for_each_chunk(policy, all, [&](index_t piece, index_t, index_t) {
      if (piece >= box_chunks.count) {
        const index_t begin = fill_chunks.begin(piece - box_chunks.count);
        const index_t end = fill_chunks.end(piece - box_chunks.count);
        std::fill(matches.data() + begin, matches.data() + end, index_t{-1});
        if (targets != nullptr) std::fill(targets + begin, targets + end, 0.0f);
        return;
      }
      if constexpr (chooses) {
        const index_t first = box_chunks.begin(piece), last = box_chunks.end(piece);
        index_t image = 0;
        if (!truth_.image_offsets.empty()) {
          const index_t* const offsets = truth_.image_offsets.data();
          image = std::upper_bound(offsets, offsets + images_ + 1, first) - offsets - 1;
        }
        for (index_t box = first; box < last; ++box) {
          while (box >= first_box(image + 1)) ++image;
          choose(image, box);
        }
      }
    });
    for_each_chunk(policy, chunking(images_, 1), [&](index_t, index_t first, index_t last) {
      for (index_t k = first; k < last; ++k) {
        const assigned_image image{k, first_box(k), first_box(k + 1), matches.data() + k * points_,
                                   targets != nullptr ? targets + k * points_ : nullptr};
        match(image);
        regions.mark(common, image);
      }
    });
  }

  profile::problem problem(const char* variant, index_t bytes, isa target, threading policy) const {
    return {function_,
            variant,
            dtype_name<float>(),
            {profile::rounded_count(std::max(index_t{1}, boxes_)), points_},
            isa_name(target),
            policy.threads(),
            bytes + images_ * points_ * index_t{sizeof(index_t)}};
  }

 private:
  /// The first point of a level that is off the grid; the number of points if there is none.
  static index_t find_off_grid(const assigner_kernels& kernels, const float* points,
                               const point_level& level, threading policy) {
    constexpr index_t smallest = 16384;  // points: some microseconds
    const index_t all = level.height * level.width;
    const chunking rows(level.height, std::max(index_t{1}, smallest / level.width));
    return find_first(rows, all, policy, [&](index_t first, index_t last) {
      // With the row before, above which the first row has to be.
      const index_t begin = std::max(first - 1, index_t{0}), before = begin * level.width;
      const point_level part{level.first + before, last - begin, level.width, level.x,
                             level.y + begin};
      const index_t off = kernels.find_off_grid(points, part);
      return off < part.height * part.width ? before + off : all;
    });
  }

  const char* function_;
  index_t points_;
  const char* points_name_;
  const vector_view<const grid_size>& levels_;
  const ground_truth& truth_;
  const char* boxes_name_;
  index_t boxes_, images_;
};

inline void check_float_from_0(const char* function, const char* argument, double value) {
  check(value >= 0 && fits_float(value), function, argument, value, "a finite float, 0 or more");
}

inline void check_region_threshold(const char* function, double threshold) {
  check(is_within(threshold, 0, 1), function, "params.region_threshold", threshold,
        "a number in [0, 1]");
}

/// Computes the centres of anchors, x and y, in the buffers.
inline float* anchor_centres(const assigner_kernels& kernels,
                             const boxes_view<const float>& anchors, assigner_buffers& buffers,
                             threading policy) {
  float* const centres = grown(buffers.points, 2 * anchors.size());
  constexpr index_t smallest = 16384;
  for_each_chunk(policy, chunking(anchors.size(), smallest),
                 [&](index_t, index_t first, index_t last) {
                   kernels.centres(anchors.data(), first, last, centres);
                 });
  return centres;
}

/// What the task-aligned assigners of upright and of rotated boxes share.
struct task_aligned_call : assigner_call {
  const task_aligned_params& params;

  task_aligned_call(const assigner_call& call, const task_aligned_params& own)
      : assigner_call(call), params(own) {}

  void check_params(const char* function) const {
    check(params.top >= 1, function, "params.top", params.top, "1 or more");
    check_float_from_0(function, "params.alpha", params.alpha);
    check_float_from_0(function, "params.beta", params.beta);
    check_float_from_0(function, "params.least_side", params.least_side);
    check_float_from_0(function, "params.grown_side", params.grown_side);
    if (params.final_top < 0 || params.final_top > params.top) {
      throw_invalid_argument(function, "params.final_top", params.final_top,
                             "0 to " + std::to_string(params.top) + ", params.top");
    }
  }

  profile::problem problem(index_t rows, isa target, threading policy) const {
    return assigner_call::problem(profile::numbered_name("top", static_cast<double>(params.top)),
                                  rows * 2 * index_t{sizeof(float)}, target, policy);
  }

  /// All arguments but the boxes and what is searched.
  task_aligned_args prepare(const assigner_kernels& kernels, const matrix_view<const float>& points,
                            const matrix_view<const float>& scores, const labels_view& classes,
                            assigner_buffers& buffers, threading policy) const {
    const index_t most = std::min(params.top, std::max(index_t{1}, points.rows()));
    task_aligned_args args{};
    args.common = assigner_call::prepare(kernels, points.data(), most, buffers, policy);
    args.scores = scores.data();
    args.stride = scores.stride();
    args.classes = classes;
    args.alpha = static_cast<float>(params.alpha);
    args.beta = static_cast<float>(params.beta);
    args.least_side = static_cast<float>(params.least_side);
    args.grown_side = static_cast<float>(params.grown_side);
    args.final_top = std::min(params.final_top, most);
    args.positives = grown(buffers.positives, most * boxes());
    args.metrics = grown(buffers.metrics, most * boxes());
    args.greatest = grown(buffers.greatest, 2 * boxes());
    return args;
  }
};

/// Stores the boxes in which points are searched, with grown sides, one coordinate per plane.
inline void set_search_planes(task_aligned_args& args, const boxes_view<const float>& boxes,
                              assigner_buffers& buffers) {
  constexpr index_t more = 16;
  const index_t size = boxes.size() + more;
  float* const planes = grown(buffers.planes, 4 * size);
  for (int k = 0; k < 4; ++k) args.planes[k] = planes + k * size;
  const float least = args.least_side, half = args.grown_side / 2;
  for (int axis = 0; axis < 2; ++axis) {
    float* const low = planes + axis * size;
    float* const high = planes + (axis + 2) * size;
    for (index_t i = 0; i < boxes.size(); ++i) {
      low[i] = boxes(i, axis);
      high[i] = boxes(i, axis + 2);
      if (!(least > 0 && high[i] - low[i] < least)) continue;
      const float centre = (low[i] + high[i]) / 2;
      low[i] = centre - half;
      high[i] = centre + half;
    }
    std::fill(low + boxes.size(), low + size, 0.0f);
    std::fill(high + boxes.size(), high + size, 0.0f);
  }
}

}  // namespace detail

inline void assign_atss(boxes_view<const float> anchors, vector_view<const grid_size> levels,
                        const ground_truth& truth, vector_view<index_t> matches,
                        const atss_params& params, assigner_workspace& workspace,
                        threading policy) {
  const char* const function = "assign_atss";
  const index_t points = anchors.size();
  const detail::assigner_call call(function, points, "anchors", levels, truth, matches);
  detail::check(params.candidates >= 1, function, "params.candidates", params.candidates,
                "1 or more");
  detail::check_region_threshold(function, params.region_threshold);
  detail::check_apart(function, "matches", matches, "anchors", anchors);
  const isa target = active_isa();
  const auto& kernels = detail::kernels<detail::assigner_kernels>(target);
  detail::assigner_buffers& buffers = detail::workspace_access::buffers(workspace);
  const profile::scope timing([&] {
    return call.problem(profile::numbered_name("k", static_cast<double>(params.candidates)),
                        4 * points * index_t{sizeof(float)}, target, policy);
  });

  float* const centres = detail::anchor_centres(kernels, anchors, buffers, policy);
  const index_t candidates = std::min(params.candidates, std::max(index_t{1}, points));
  index_t most = 0;
  for (const grid_size& level : levels) most += std::min(candidates, level.height * level.width);
  const detail::atss_args args{call.prepare(kernels, centres, most, buffers, policy),
                               anchors.data(), candidates};
  const detail::ignore_regions regions(truth, args.common, anchors, params.region_threshold,
                                       buffers.extents);
  call.run(
      args.common, matches, nullptr, regions, policy,
      [&](index_t, index_t box) { kernels.atss_candidates(args, box); },
      [&](const detail::assigned_image& image) { kernels.atss_matches(args, image); });
}

inline void assign_task_aligned(const task_aligned_predictions& predictions,
                                matrix_view<const float> points,
                                vector_view<const grid_size> levels, const ground_truth& truth,
                                vector_view<index_t> matches, vector_view<float> targets,
                                const task_aligned_params& params, assigner_workspace& workspace,
                                threading policy) {
  const char* const function = "assign_task_aligned";
  const detail::task_aligned_call call(
      detail::assigner_call(function, points.rows(), "points", levels, truth, matches), params);
  const index_t rows = matches.size();
  const matrix_view<const float>& scores = predictions.scores;
  call.check_predictions(points, "predictions.scores.rows()", scores, "predictions.boxes.size()",
                         predictions.boxes.size(), targets, rows);
  call.check_params(function);
  call.check_targets_apart(matches, targets,
                           {{"predictions.scores", scores},
                            {"predictions.boxes", predictions.boxes},
                            {"points", points}});
  const isa target = active_isa();
  const auto& kernels = detail::kernels<detail::assigner_kernels>(target);
  detail::assigner_buffers& buffers = detail::workspace_access::buffers(workspace);
  const profile::scope timing([&] { return call.problem(rows, target, policy); });

  detail::task_aligned_args args =
      call.prepare(kernels, points, scores, truth.classes, buffers, policy);
  args.predictions = predictions.boxes.data();
  args.truth_stride = args.prediction_stride = 4;
  detail::set_search_planes(args, truth.boxes, buffers);
  call.run(
      args.common, matches, targets.data(), detail::ignore_regions(truth), policy,
      [&](index_t image, index_t box) { kernels.task_aligned_candidates(args, image, box); },
      [&](const detail::assigned_image& image) { kernels.task_aligned_matches(args, image); });
}

}  // namespace VECDET_ABI
}  // namespace vecdet
