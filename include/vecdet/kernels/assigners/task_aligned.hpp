// SPDX-License-Identifier: Apache-2.0
// The task-aligned assigner, for upright and for rotated boxes. Each ground-truth box chooses
// points; then a point chosen by several boxes is assigned to one of them.
#pragma once

#include <vecdet/kernels/angles.hpp>
#include <vecdet/kernels/assigners/grid.hpp>
#include <vecdet/kernels/assigners/pairs.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::assigned_image;
using detail::task_aligned_args;

/// Corners; the overlap is CIoU.
struct upright_boxes {
  using pairs = box_pairs;
  static constexpr float margin = 1e-9f;

  static VECDET_INLINE void compute(const task_aligned_args&, pairs& some) {
    some.compute<iou_kind::ciou>();
  }

  /// Calls use(first, last) for each run of points inside a box.
  template <class Use>
  static VECDET_INLINE void for_points(const task_aligned_args& args, index_t box, const Use& use) {
    const float searched[4] = {args.planes[0][box], args.planes[1][box], args.planes[2][box],
                               args.planes[3][box]};
    for_points_within(args.common, searched, margin, use);
  }

  /// Which of the boxes i to i + 15 contain a point.
  static VECDET_INLINE std::uint32_t containing(const task_aligned_args& args, index_t i,
                                                const float* point) {
    using real = row_pack<float>;
    constexpr int N = real::batches;
    const real x = point[0], y = point[1], least = margin;
    const auto coordinate = [&](int k) { return load_pack<N>(args.planes[k] + i); };
    return to_bits((x - coordinate(0) > least) & (y - coordinate(1) > least) &
                   (coordinate(2) - x > least) & (coordinate(3) - y > least));
  }
};

/// Centre, width, height and angle; the overlap is ProbIoU.
struct rotated_boxes {
  using pairs = pairs_of_boxes<5>;

  static VECDET_INLINE void compute(const task_aligned_args& args, pairs& some) {
    args.prob_ious({some.truth, some.other, 5, 5, some.overlap, 0, 0, args.angles, empty_iou::nan},
                   0, row_lanes);
  }

  /// Whether a point at (dx, dy) from a box's centre is inside, by its projections onto the sides.
  /// Real is double or a pack of doubles. Each product is rounded by itself, so that of the points
  /// of a row, those inside follow each other.
  template <class Real>
  static VECDET_INLINE auto is_inside(const Real& dx, const Real& dy, const Real& half_width,
                                      const Real& half_height, const Real& cosine,
                                      const Real& sine) {
    const Real along = rounded(dx * cosine) + rounded(dy * sine);
    const Real across = rounded(dy * cosine) - rounded(dx * sine);
    const Real zero = 0.0;
    return (along <= half_width) & (zero - along <= half_width) & (across <= half_height) &
           (zero - across <= half_height);
  }

  /// Also stores what containing() needs.
  template <class Use>
  static VECDET_INLINE void for_points(const task_aligned_args& args, index_t box, const Use& use) {
    using real = pack<double, 1>;
    const float* const numbers = args.common.truth + args.truth_stride * box;
    const auto half_side = [&](float side) {
      if (args.least_side > 0 && side < args.least_side) side = args.grown_side;
      return 0.5 * static_cast<double>(side);
    };
    const auto turned = directions_of(real(static_cast<double>(numbers[4])), args.angles);
    alignas(64) double cosines[real::lanes], sines[real::lanes];
    store_pack<1>(cosines, turned.cosine);
    store_pack<1>(sines, turned.sine);
    const double x = static_cast<double>(numbers[0]), y = static_cast<double>(numbers[1]);
    const double w = half_side(numbers[2]), h = half_side(numbers[3]), c = cosines[0], s = sines[0];
    const auto absolute = [](double number) { return number < 0 ? -number : number; };
    const double angle = absolute(static_cast<double>(numbers[4]));
    // Boxes that are not numbers contain nothing, also where a side would grow.
    const bool is_box = numbers[2] >= 0 && numbers[3] >= 0 && angle <= greatest_angle &&
                        detail::is_finite(x) && detail::is_finite(y) && detail::is_finite(w) &&
                        detail::is_finite(h);
    const double kept[6] = {x, y, w, h, c, s}, nothing[6] = {0, 0, -1, -1, 1, 0};
    for (int k = 0; k < 6; ++k) args.turned[k][box] = is_box ? kept[k] : nothing[k];
    if (!is_box) return;
    // The enclosing upright box, larger than any rounding.
    const double more = 1e-12 * (w + h);
    const double reach_x = w * absolute(c) + h * absolute(s) + more;
    const double reach_y = w * absolute(s) + h * absolute(c) + more;
    const auto range = [](const float* axis, index_t count, double at, double reach) {
      return index_range{
          first_beyond(axis, count, static_cast<float>(at - reach),
                       [=](float a) { return static_cast<double>(a) - at >= -reach; }),
          first_beyond(axis, count, static_cast<float>(at + reach),
                       [=](float a) { return static_cast<double>(a) - at > reach; })};
    };
    for (index_t l = 0; l < args.common.level_count; ++l) {
      const detail::point_level& level = args.common.levels[l];
      if (level.height == 0 || level.width == 0) continue;
      const index_range rows = range(level.y, level.height, y, reach_y);
      if (rows.begin >= rows.end) continue;
      const index_range columns = range(level.x, level.width, x, reach_x);
      for (index_t row = rows.begin; row < rows.end; ++row) {
        const double dy = static_cast<double>(level.y[row]) - y;
        const auto contains = [&](index_t column) VECDET_INLINE_LAMBDA {
          return is_inside(static_cast<double>(level.x[column]) - x, dy, w, h, c, s);
        };
        index_t begin = columns.begin, end = columns.end;
        while (begin < end && !contains(begin)) ++begin;
        while (begin < end && !contains(end - 1)) --end;
        const index_t first = level.first + row * level.width;
        if (begin < end) use(first + begin, first + end);
      }
    }
  }

  static VECDET_INLINE std::uint32_t containing(const task_aligned_args& args, index_t i,
                                                const float* point) {
    using real = row_pack<double>;
    constexpr int N = real::batches;
    const auto plane = [&](int k) { return load_pack<N>(args.turned[k] + i); };
    const real x = static_cast<double>(point[0]), y = static_cast<double>(point[1]);
    return to_bits(
        is_inside(real(x - plane(0)), real(y - plane(1)), plane(2), plane(3), plane(4), plane(5)));
  }
};

/// The class of a box: 0 if no classes are given.
inline index_t class_of(const task_aligned_args& args, index_t box) {
  return args.classes.size() == 0 ? 0 : args.classes[box];
}

/// Chooses the points in the box with the greatest metrics.
template <class Boxes>
void task_aligned_candidates(const task_aligned_args& args, index_t image, index_t box) {
  const assigner_args& common = args.common;
  const float* const predictions =
      args.predictions + args.prediction_stride * image * common.point_count;
  const float* const scores =
      args.scores + image * common.point_count * args.stride + class_of(args, box);
  index_t* const chosen = common.chosen + box * common.most;
  float* const best = common.values + box * common.most;
  index_t count = 0, waiting[row_lanes];
  int size = 0;
  alignas(64) float score[row_lanes], metric[row_lanes];
  typename Boxes::pairs pairs;
  pairs.set_all_truth(common.truth + args.truth_stride * box);

  const auto compute = [&]() VECDET_INLINE_LAMBDA {
    if (size == 0) return;
    for (int k = size; k < row_lanes; ++k) score[k] = 0;
    pairs.repeat_last(size);
    Boxes::compute(args, pairs);
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
  Boxes::for_points(args, box, [&](index_t first, index_t last) VECDET_INLINE_LAMBDA {
    for (index_t i = first; i < last; ++i) {
      pairs.set_other(size, predictions + args.prediction_stride * i);
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
template <class Boxes>
VECDET_NOINLINE index_t best_box_about(const task_aligned_args& args, index_t first, index_t last,
                                       const float* point, const float* prediction,
                                       typename Boxes::pairs& pairs) {
  index_t best = first, waiting[row_lanes];
  float greatest = -1;
  int size = 0;
  for (int k = 0; k < row_lanes; ++k) pairs.set_other(k, prediction);
  const auto compute = [&] {
    if (size == 0) return;
    pairs.repeat_last(size);
    Boxes::compute(args, pairs);
    for (int k = 0; k < size; ++k) {
      const float overlap = pairs.overlap[k] > 0 ? pairs.overlap[k] : 0;
      if (!(overlap > greatest)) continue;
      greatest = overlap;
      best = waiting[k];
    }
    size = 0;
  };
  for (index_t i = first; i < last; i += row_lanes) {
    std::uint32_t inside = Boxes::containing(args, i, point);
    if (last - i < row_lanes) inside &= (1u << (last - i)) - 1;
    for (; inside != 0; inside &= inside - 1) {
      waiting[size] = i + lowest_bit(inside);
      pairs.set_truth(size, args.common.truth + args.truth_stride * waiting[size]);
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

template <class Boxes>
void task_aligned_matches(const task_aligned_args& args, const assigned_image& image) {
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
  const float* const predictions =
      args.predictions + args.prediction_stride * image.image * common.point_count;
  const float* const scores = args.scores + image.image * common.point_count * args.stride;
  float* const metrics = args.metrics + image.first * common.most;
  float* const overlaps = common.values + image.first * common.most;
  typename Boxes::pairs pairs, about;
  alignas(64) float score[row_lanes], metric[row_lanes];
  for (index_t first = 0; first < count; first += row_lanes) {
    const int size = static_cast<int>(count - first < row_lanes ? count - first : row_lanes);
    for (int k = 0; k < row_lanes; ++k) {
      const index_t point = positives[first + (k < size ? k : size - 1)];
      const float* const prediction = predictions + args.prediction_stride * point;
      if (matches[point] == several_boxes)
        matches[point] = best_box_about<Boxes>(args, image.first, image.last,
                                               common.points + 2 * point, prediction, about);
      pairs.set_truth(k, common.truth + args.truth_stride * matches[point]);
      pairs.set_other(k, prediction);
      score[k] = scores[point * args.stride + class_of(args, matches[point])];
    }
    Boxes::compute(args, pairs);
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

}  // namespace VECDET_TARGET
}  // namespace vecdet
