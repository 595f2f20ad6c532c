// SPDX-License-Identifier: Apache-2.0
// ATSS and the task-aligned assigner. Each ground-truth box chooses points; then a point chosen by
// several boxes is assigned to one of them.
#pragma once

#include <vecdet/args/assigners.hpp>
#include <vecdet/kernels/assigners/grid.hpp>
#include <vecdet/kernels/assigners/pairs.hpp>
#include <vecdet/kernels/assigners/sim_ota.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::atss_args;
using detail::task_aligned_args;

inline void anchor_centres(const float* anchors, index_t first, index_t last, float* points) {
  for (index_t i = first; i < last; ++i) {
    const float* const box = anchors + 4 * i;
    const float x = (box[0] + box[2]) * 0.5f, y = (box[1] + box[3]) * 0.5f;
    points[2 * i] = x;
    points[2 * i + 1] = y;
  }
}

// ---- ATSS

/// Chooses among the candidates of all levels: those whose centre is inside the box and whose IoU
/// with it is at least the mean plus the standard deviation over all candidates.
inline void atss_candidates(const atss_args& args, index_t box) {
  const assigner_args& common = args.common;
  const float* const truth = common.truth + 4 * box;
  index_t* const chosen = common.chosen + box * common.most;
  float* const ious = common.values + box * common.most;
  common.counts[box] = 0;
  const float x = (truth[0] + truth[2]) * 0.5f, y = (truth[1] + truth[3]) * 0.5f;
  if (!detail::is_finite(x) || !detail::is_finite(y))
    return;  // no point is near a box that is not finite

  index_t count = 0;
  for (index_t l = 0; l < common.level_count; ++l)
    count += nearest_points(common.levels[l], x, y, args.candidates, chosen + count, ious + count);
  if (count == 0) return;

  box_pairs pairs;
  pairs.set_all_truth(truth);
  for (index_t i = 0; i < count; i += row_lanes) {
    const int size = static_cast<int>(count - i < row_lanes ? count - i : row_lanes);
    for (int k = 0; k < size; ++k) pairs.set_other(k, args.anchors + 4 * chosen[i + k]);
    pairs.repeat_last(size);
    pairs.compute<iou_kind::iou>();
    for (int k = 0; k < size; ++k) ious[i + k] = pairs.overlap[k];
  }
  double sum = 0, squares = 0;
  for (index_t i = 0; i < count; ++i) sum += static_cast<double>(ious[i]);
  const double mean = sum / static_cast<double>(count);
  for (index_t i = 0; i < count; ++i) {
    const double difference = static_cast<double>(ious[i]) - mean;
    squares += rounded(difference * difference);
  }
  const double deviation = __builtin_sqrt(squares / static_cast<double>(count - 1));
  const float threshold = static_cast<float>(mean + deviation);

  constexpr float margin = 0.01f;
  index_t positives = 0;
  for (index_t i = 0; i < count; ++i) {
    const float* const point = common.points + 2 * chosen[i];
    const bool is_positive = ious[i] >= threshold && point[0] - truth[0] > margin &&
                             point[1] - truth[1] > margin && truth[2] - point[0] > margin &&
                             truth[3] - point[1] > margin;
    chosen[positives] = chosen[i];
    ious[positives] = ious[i];
    positives += static_cast<index_t>(is_positive);
  }
  common.counts[box] = positives;
}

/// Assigns each point to the chosen box with the greatest IoU. All matches are -1 before.
inline void atss_matches(const atss_args& args, const assigned_image& image) {
  const assigner_args& common = args.common;
  // Until all boxes have been processed, a match is the number of a choice: its box and its IoU.
  for (index_t box = image.first; box < image.last; ++box) {
    for (index_t i = 0; i < common.counts[box]; ++i) {
      const index_t choice = box * common.most + i;
      index_t& match = image.matches[common.chosen[choice]];
      if (match < 0 || common.values[choice] > common.values[match]) match = choice;
    }
  }
  for (index_t box = image.first; box < image.last; ++box) {
    for (index_t i = 0; i < common.counts[box]; ++i) {
      const index_t choice = box * common.most + i;
      index_t& match = image.matches[common.chosen[choice]];
      // Final matches are below -1.
      if (match == choice) match = -2 - box;
    }
  }
  for (index_t box = image.first; box < image.last; ++box) {
    for (index_t i = 0; i < common.counts[box]; ++i) {
      index_t& match = image.matches[common.chosen[box * common.most + i]];
      if (match < -1) match = -2 - match;
    }
  }
}

// ---- task-aligned

constexpr float task_aligned_margin = 1e-9f;

/// The class of a box: 0 if no classes are given.
inline index_t class_of(const task_aligned_args& args, index_t box) {
  return args.classes.size() == 0 ? 0 : args.classes[box];
}

/// Chooses the points in the box with the greatest metrics.
inline void task_aligned_candidates(const task_aligned_args& args, index_t image, index_t box) {
  const assigner_args& common = args.common;
  const float* const truth = common.truth + 4 * box;
  const float* const predictions = args.predictions + 4 * image * common.point_count;
  const float* const scores =
      args.scores + image * common.point_count * args.stride + class_of(args, box);
  index_t* const chosen = common.chosen + box * common.most;
  float* const best = common.values + box * common.most;
  index_t count = 0, waiting[row_lanes];
  int size = 0;
  alignas(64) float score[row_lanes], metric[row_lanes];
  box_pairs pairs;
  pairs.set_all_truth(truth);
  const float searched[4] = {args.planes[0][box], args.planes[1][box], args.planes[2][box],
                             args.planes[3][box]};

  const auto compute = [&]() VECDET_INLINE_LAMBDA {
    if (size == 0) return;
    for (int k = size; k < row_lanes; ++k) score[k] = 0;
    pairs.repeat_last(size);
    pairs.compute<iou_kind::ciou>();
    alignment_metrics(score, pairs.overlap, args.alpha, args.beta, metric);
    for (int k = 0; k < size; ++k) {
      // Points come in ascending order: an equal metric does not displace an earlier point.
      const float value = metric[k];
      if (!(value > 0) || (count == common.most && !(value > best[count - 1]))) continue;
      index_t at = count < common.most ? count++ : count - 1;
      for (; at > 0 && best[at - 1] < value; --at) {
        best[at] = best[at - 1];
        chosen[at] = chosen[at - 1];
      }
      best[at] = value;
      chosen[at] = waiting[k];
    }
    size = 0;
  };
  for_points_within(common, searched, task_aligned_margin,
                    [&](index_t first, index_t last) VECDET_INLINE_LAMBDA {
                      for (index_t i = first; i < last; ++i) {
                        pairs.set_other(size, predictions + 4 * i);
                        score[size] = scores[i * args.stride];
                        waiting[size++] = i;
                        if (size == row_lanes) compute();
                      }
                    });
  compute();
  common.counts[box] = count;
}

/// Among the boxes [first, last) that contain a point, chooses the one with the greatest overlap
/// with the point's prediction.
VECDET_NOINLINE inline index_t best_box_about(const task_aligned_args& args, index_t first,
                                              index_t last, const float* point,
                                              const float* prediction, box_pairs& pairs) {
  using real = row_pack<float>;
  constexpr int N = real::batches;
  const real x = point[0], y = point[1], margin = task_aligned_margin;
  index_t best = first, waiting[row_lanes];
  float greatest = -1;
  int size = 0;
  for (int k = 0; k < row_lanes; ++k) pairs.set_other(k, prediction);
  const auto compute = [&] {
    if (size == 0) return;
    pairs.repeat_last(size);
    pairs.compute<iou_kind::ciou>();
    for (int k = 0; k < size; ++k) {
      const float overlap = pairs.overlap[k] > 0 ? pairs.overlap[k] : 0;
      if (!(overlap > greatest)) continue;
      greatest = overlap;
      best = waiting[k];
    }
    size = 0;
  };
  for (index_t i = first; i < last; i += row_lanes) {
    const auto coordinate = [&](int k) { return load_pack<N>(args.planes[k] + i); };
    std::uint32_t inside = to_bits((x - coordinate(0) > margin) & (y - coordinate(1) > margin) &
                                   (coordinate(2) - x > margin) & (coordinate(3) - y > margin));
    if (last - i < row_lanes) inside &= (1u << (last - i)) - 1;
    for (; inside != 0; inside &= inside - 1) {
      waiting[size] = i + lowest_bit(inside);
      pairs.set_truth(size, args.common.truth + 4 * waiting[size]);
      if (++size == row_lanes) compute();
    }
  }
  compute();
  return best;
}

/// Of the assigned points of each box, keeps the `final_top` with the greatest metrics; ties are
/// broken by lower point. Removes the others from the list of positives and their matches. Returns
/// how many are left. Overwrites the chosen points.
VECDET_NOINLINE inline index_t keep_most_aligned(const task_aligned_args& args,
                                                 const assigned_image& image, index_t count) {
  const assigner_args& common = args.common;
  index_t* const positives = args.positives + image.first * common.most;
  float* const metrics = args.metrics + image.first * common.most;
  float* const overlaps = common.values + image.first * common.most;
  for (index_t box = image.first; box < image.last; ++box) common.counts[box] = 0;
  const auto comes_before = [&](index_t a, index_t b) VECDET_INLINE_LAMBDA {
    return metrics[a] > metrics[b] || (metrics[a] == metrics[b] && positives[a] < positives[b]);
  };
  for (index_t i = 0; i < count; ++i) {
    const index_t box = image.matches[positives[i]];
    index_t* const kept = common.chosen + box * common.most;
    index_t& size = common.counts[box];
    if (size == args.final_top && !comes_before(i, kept[size - 1])) continue;
    index_t at = size < args.final_top ? size++ : size - 1;
    for (; at > 0 && comes_before(i, kept[at - 1]); --at) kept[at] = kept[at - 1];
    kept[at] = i;
  }
  for (index_t i = 0; i < count; ++i) image.matches[positives[i]] = -1;
  index_t left = 0;
  for (index_t box = image.first; box < image.last; ++box) {
    const index_t* const kept = common.chosen + box * common.most;
    for (index_t k = 0; k < common.counts[box]; ++k) image.matches[positives[kept[k]]] = box;
  }
  for (index_t i = 0; i < count; ++i) {
    if (image.matches[positives[i]] < 0) continue;
    positives[left] = positives[i];
    metrics[left] = metrics[i];
    overlaps[left++] = overlaps[i];
  }
  return left;
}

inline void task_aligned_matches(const task_aligned_args& args, const assigned_image& image) {
  const assigner_args& common = args.common;
  index_t* const matches = image.matches;
  constexpr index_t several_boxes = -2;
  index_t* const positives = args.positives + image.first * common.most;
  index_t count = 0;
  for (index_t box = image.first; box < image.last; ++box) {
    for (index_t i = 0; i < common.counts[box]; ++i) {
      const index_t point = common.chosen[box * common.most + i];
      if (matches[point] == -1) {
        positives[count++] = point;
        matches[point] = box;
      } else {
        matches[point] = several_boxes;
      }
    }
  }

  // The overlap and the metric of each point with its assigned box.
  const float* const predictions = args.predictions + 4 * image.image * common.point_count;
  const float* const scores = args.scores + image.image * common.point_count * args.stride;
  float* const metrics = args.metrics + image.first * common.most;
  float* const overlaps = common.values + image.first * common.most;
  box_pairs pairs, about;
  alignas(64) float score[row_lanes], metric[row_lanes];
  for (index_t first = 0; first < count; first += row_lanes) {
    const int size = static_cast<int>(count - first < row_lanes ? count - first : row_lanes);
    for (int k = 0; k < row_lanes; ++k) {
      const index_t point = positives[first + (k < size ? k : size - 1)];
      const float* const prediction = predictions + 4 * point;
      if (matches[point] == several_boxes)
        matches[point] = best_box_about(args, image.first, image.last, common.points + 2 * point,
                                        prediction, about);
      pairs.set_truth(k, common.truth + 4 * matches[point]);
      pairs.set_other(k, prediction);
      score[k] = scores[point * args.stride + class_of(args, matches[point])];
    }
    pairs.compute<iou_kind::ciou>();
    alignment_metrics(score, pairs.overlap, args.alpha, args.beta, metric);
    for (int k = 0; k < size; ++k) {
      metrics[first + k] = metric[k];
      overlaps[first + k] = pairs.overlap[k];
    }
  }
  if (args.final_top > 0) count = keep_most_aligned(args, image, count);

  float* const greatest = args.greatest;  // of the metric and of the overlap, per box
  for (index_t i = 2 * image.first; i < 2 * image.last; ++i) greatest[i] = 0;
  for (index_t i = 0; i < count; ++i) {
    float* const box_greatest = greatest + 2 * matches[positives[i]];
    if (metrics[i] > box_greatest[0]) box_greatest[0] = metrics[i];
    if (overlaps[i] > box_greatest[1]) box_greatest[1] = overlaps[i];
  }
  for (index_t i = 0; i < count; ++i) {
    const float* const box_greatest = greatest + 2 * matches[positives[i]];
    image.targets[positives[i]] = metrics[i] * box_greatest[1] / (box_greatest[0] + 1e-9f);
  }
}

template <>
struct kernels_of<detail::assigner_kernels> {
  static constexpr detail::assigner_kernels get() {
    detail::assigner_kernels k{};
    k.centres = anchor_centres;
    k.find_off_grid = find_off_grid_point;
    k.atss_candidates = atss_candidates;
    k.atss_matches = atss_matches;
    k.task_aligned_candidates = task_aligned_candidates;
    k.task_aligned_matches = task_aligned_matches;
    k.sim_ota_near = sim_ota_near;
    k.sim_ota_background = sim_ota_background;
    k.sim_ota_choose = sim_ota_choose;
    k.sim_ota_matches = sim_ota_matches;
    return k;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(assigner_kernels)
