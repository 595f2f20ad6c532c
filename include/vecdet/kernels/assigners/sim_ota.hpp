// SPDX-License-Identifier: Apache-2.0
// SimOTA. The points near some box of an image, and their predictions, are listed first. Each box
// compares its IoU with all of them, which needs no exp or log, and its costs with those in its
// prior. Only a box with too few points in its prior computes the costs of all listed points.
#pragma once

#include <vecdet/args/assigners.hpp>
#include <vecdet/kernels/assigners/grid.hpp>
#include <vecdet/kernels/assigners/pairs.hpp>
#include <vecdet/simd/math.hpp>
#include <vecdet/simd/math_boxes.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::assigned_image;
using detail::sim_ota_args;

using sim_ota_row = row_pack<float>;

/// The most that the negative logarithm of a probability can be.
constexpr float most_minus_log = 87.0f;

/// The sigmoid p of a logit and 1 - p, each without cancellation.
struct logit_terms {
  sim_ota_row p, other;

  explicit VECDET_INLINE logit_terms(const sim_ota_row& x) {
    const sim_ota_row one = 1.0f, e = exp_minus_abs(x), r = one / (one + e), er = e * r;
    p = select_by_sign(x, er, r);
    other = select_by_sign(x, r, er);
  }
};

/// -log(x) for x in [0, 2], at most 87.
VECDET_INLINE sim_ota_row minus_log_of(const sim_ota_row& x) {
  const sim_ota_row zero = 0.0f, one = 1.0f;
  const sim_ota_row log = log_ratio(max(x, sim_ota_row(0x1p-126f)), zero, one, zero);
  return min(zero - log, sim_ota_row(most_minus_log));
}

/// -log(1 - sqrt(p q)) for sigmoids p and q.
VECDET_INLINE sim_ota_row background_cost(const logit_terms& a, const logit_terms& b) {
  const sim_ota_row one = 1.0f;
  return minus_log_of((a.other + a.p * b.other) / (one + sqrt(a.p * b.p)));
}

/// -log(sigmoid(x)).
VECDET_INLINE sim_ota_row minus_log_sigmoid(const sim_ota_row& x) {
  const sim_ota_row half = 0.5f, zero = 0.0f;
  return half * twice_log1p_unit(exp_minus_abs(x)) - min(x, zero);
}

/// 16 pairs of a box and a point, whose costs are computed together.
struct cost_pairs {
  box_pairs boxes;
  alignas(64) float logit[row_lanes], objectness[row_lanes], background[row_lanes];
  alignas(64) float cost[row_lanes];
  index_t waiting[row_lanes];
  int size = 0;

  /// Adds `number`, the point or box that this pair stands for.
  VECDET_INLINE void add(const sim_ota_args& args, index_t image, index_t point, index_t box,
                         index_t number) {
    const index_t row = image * args.common.point_count + point;
    boxes.set_truth(size, args.common.truth + 4 * box);
    boxes.set_other(size, args.predictions + 4 * row);
    const index_t label = args.classes.size() == 0 ? 0 : args.classes[box];
    logit[size] = args.logits[row * args.stride + label];
    objectness[size] = args.objectness[row];
    background[size] = args.background[row];
    waiting[size++] = number;
  }

  /// The class cost plus `iou_weight` times the IoU cost; NaN if the IoU or a logit is NaN.
  VECDET_NOINLINE void compute(float iou_weight) {
    for (int k = size; k < row_lanes; ++k) logit[k] = objectness[k] = background[k] = 0;
    boxes.repeat_last(size);
    boxes.compute<iou_kind::iou>();
    constexpr int N = sim_ota_row::batches;
    const sim_ota_row c = load_pack<N>(logit), o = load_pack<N>(objectness);
    const sim_ota_row others = load_pack<N>(background), iou = load_pack<N>(boxes.overlap);
    const sim_ota_row foreground =
        min(sim_ota_row(0.5f) * (minus_log_sigmoid(c) + minus_log_sigmoid(o)),
            sim_ota_row(most_minus_log));
    const sim_ota_row class_cost =
        others + (foreground - background_cost(logit_terms(c), logit_terms(o)));
    const sim_ota_row iou_cost = minus_log_of(iou + sim_ota_row(1e-8f));
    const sim_ota_row sum = class_cost + sim_ota_row(iou_weight) * iou_cost;
    const sim_ota_row known = select(others == others, sum, others);
    store_pack<N>(cost, select(iou == iou, known, iou));
  }
};

VECDET_INLINE bool is_finite_box(const float* box) {
  return detail::is_finite(box[0]) && detail::is_finite(box[1]) && detail::is_finite(box[2]) &&
         detail::is_finite(box[3]);
}

/// Rows and columns of a level.
struct grid_part {
  index_range rows, columns;
};

VECDET_INLINE grid_part part_within(const point_level& level, float x1, float y1, float x2,
                                    float y2) {
  return {range_within(level.y, level.height, y1, y2, 0),
          range_within(level.x, level.width, x1, x2, 0)};
}
VECDET_INLINE grid_part part_in_box(const point_level& level, const float* box) {
  return part_within(level, box[0], box[1], box[2], box[3]);
}
/// The points nearer to the box's centre than `reach` on both axes.
VECDET_INLINE grid_part part_in_centre(const point_level& level, const float* box, float reach) {
  const float x = (box[0] + box[2]) * 0.5f, y = (box[1] + box[3]) * 0.5f;
  return part_within(level, x - reach, y - reach, x + reach, y + reach);
}

/// The level of a point, which is not before level `l`.
VECDET_INLINE index_t level_of(const assigner_args& args, index_t point, index_t l = 0) {
  while (point >= args.levels[l].first + args.levels[l].height * args.levels[l].width) ++l;
  return l;
}

/// Whether a point is in the box and in its centre prior.
VECDET_INLINE bool is_in_prior(const float* point, const float* box, float reach) {
  const float x = (box[0] + box[2]) * 0.5f, y = (box[1] + box[3]) * 0.5f;
  const float lows[4] = {box[0], box[1], x - reach, y - reach};
  const float highs[4] = {box[2], box[3], x + reach, y + reach};
  bool inside = true;
  for (int k = 0; k < 4; ++k)
    inside = inside && point[k % 2] - lows[k] > 0 && highs[k] - point[k % 2] > 0;
  return inside;
}

/// Lists the points of an image that are in a box or in its centre prior, ascending, and copies
/// their predictions. Returns how many there are.
inline index_t sim_ota_near(const sim_ota_args& args, index_t image, index_t first, index_t last) {
  const assigner_args& common = args.common;
  const index_t points = common.point_count;
  index_t* const near = args.near + image * (points + 1);
  // First, near[i] is the number of parts that begin at point i minus those that end before it.
  for (index_t i = 0; i <= points; ++i) near[i] = 0;
  for (index_t g = first; g < last; ++g) {
    const float* const box = common.truth + 4 * g;
    if (!is_finite_box(box)) continue;
    for (index_t l = 0; l < common.level_count; ++l) {
      const point_level& level = common.levels[l];
      if (level.height == 0 || level.width == 0) continue;
      const grid_part parts[2] = {part_in_box(level, box),
                                  part_in_centre(level, box, args.reaches[l])};
      for (const grid_part& part : parts) {
        if (part.columns.begin >= part.columns.end) continue;
        for (index_t row = part.rows.begin; row < part.rows.end; ++row) {
          const index_t begin = level.first + row * level.width;
          ++near[begin + part.columns.begin];
          --near[begin + part.columns.end];
        }
      }
    }
  }
  float* const boxes = args.near_boxes + 4 * image * (points + row_lanes);
  index_t count = 0, covering = 0;
  for (index_t i = 0; i < points; ++i) {
    covering += near[i];
    if (covering == 0) continue;
    box_pairs::copy(boxes + 4 * count, 0, args.predictions + 4 * (image * points + i));
    near[count++] = i;
  }
  for (index_t i = 4 * count; i < 4 * (count + row_lanes); ++i) boxes[i] = 0;
  return count;
}

/// Computes the cost of background in all classes for points [first, last) of the image's list.
inline void sim_ota_background(const sim_ota_args& args, index_t image, index_t first,
                               index_t last) {
  constexpr int N = sim_ota_row::batches;
  const index_t points = args.common.point_count;
  const index_t* const near = args.near + image * (points + 1);
  for (index_t k = first; k < last; ++k) {
    const index_t row = image * points + near[k];
    const float* const logits = args.logits + row * args.stride;
    const sim_ota_row objectness = args.objectness[row];
    const logit_terms object(objectness);
    lane_sums sums;
    const auto add = [&](const float* from) VECDET_INLINE_LAMBDA {
      const sim_ota_row c = load_pack<N>(from);
      sums.add(select(c == c, background_cost(logit_terms(c), object), c));
    };
    index_t c = 0;
    for (; c + row_lanes <= args.class_count; c += row_lanes) add(logits + c);
    if (c < args.class_count) {
      alignas(64) float rest[row_lanes];
      for (int i = 0; i < row_lanes; ++i)
        rest[i] = c + i < args.class_count ? logits[c + i] : -infinity<float>();
      add(rest);
    }
    const float total = static_cast<float>(sums.total());
    args.background[row] = detail::is_nan(args.objectness[row]) ? not_a_number<float>() : total;
  }
}

/// The number of points that a box gets: the sum of its greatest IoUs, rounded down, at least 1.
VECDET_INLINE index_t points_wanted(const sim_ota_args& args, index_t count,
                                    const float* near_boxes, const float* truth, float* greatest) {
  constexpr int N = sim_ota_row::batches;
  const box_pack<float, N> box{truth[0], truth[1], truth[2], truth[3]};
  const sim_ota_row area = area_of(box);
  index_t size = 0;
  float least = 0;  // of the greatest IoUs, once there are enough
  for (index_t i = 0; i < count; i += row_lanes) {
    const box_pack<float, N> other = load_boxes<N>(near_boxes + 4 * i);
    const sim_ota_row iou =
        to_box_order(iou_of<iou_kind::iou>(box, area, other, area_of(other), empty_iou::nan));
    std::uint32_t above = to_bits(iou > sim_ota_row(least));
    if (above == 0) continue;
    alignas(64) float ious[row_lanes];
    store_pack<N>(ious, iou);
    for (; above != 0; above &= above - 1) {
      const float value = ious[lowest_bit(above)];
      if (size == args.common.most && !(value > greatest[size - 1])) continue;
      index_t at = size < args.common.most ? size++ : size - 1;
      for (; at > 0 && greatest[at - 1] < value; --at) greatest[at] = greatest[at - 1];
      greatest[at] = value;
    }
    if (size == args.common.most) least = greatest[size - 1];
  }
  double sum = 0;
  for (index_t i = 0; i < size; ++i) sum += static_cast<double>(greatest[i]);
  const auto wanted = static_cast<index_t>(sum);
  return wanted < 1 ? 1 : wanted < args.common.most ? wanted : args.common.most;
}

/// Chooses the points with the lowest costs, first those in the prior.
inline void sim_ota_choose(const sim_ota_args& args, index_t image, index_t box) {
  const assigner_args& common = args.common;
  const float* const truth = common.truth + 4 * box;
  const index_t points = common.point_count, count = args.near_counts[image];
  index_t* const chosen = common.chosen + box * common.most;
  float* const lowest = common.values + box * common.most;
  common.counts[box] = 0;
  if (count == 0 || !is_finite_box(truth)) return;
  const index_t* const near = args.near + image * (points + 1);
  const index_t wanted =
      points_wanted(args, count, args.near_boxes + 4 * image * (points + row_lanes), truth, lowest);

  cost_pairs pairs;
  index_t begin = 0, size = 0;  // choices before `begin` come first, whatever their costs are
  const auto compute = [&] {
    if (pairs.size == 0) return;
    pairs.compute(args.iou_weight);
    for (int k = 0; k < pairs.size; ++k) {
      // Points come in ascending order: an equal cost does not displace an earlier point.
      const float cost = pairs.cost[k];
      if (detail::is_nan(cost) || (size == wanted && !(cost < lowest[size - 1]))) continue;
      index_t at = size < wanted ? size++ : size - 1;
      for (; at > begin && lowest[at - 1] > cost; --at) {
        lowest[at] = lowest[at - 1];
        chosen[at] = chosen[at - 1];
      }
      lowest[at] = cost;
      chosen[at] = pairs.waiting[k];
    }
    pairs.size = 0;
  };
  const auto add = [&](index_t point) {
    pairs.add(args, image, point, box, point);
    if (pairs.size == row_lanes) compute();
  };
  for (index_t l = 0; l < common.level_count; ++l) {
    const point_level& level = common.levels[l];
    if (level.height == 0 || level.width == 0) continue;
    const grid_part inside = part_in_box(level, truth);
    const grid_part centre = part_in_centre(level, truth, args.reaches[l]);
    for (index_t row = inside.rows.begin; row < inside.rows.end; ++row) {
      if (row < centre.rows.begin || row >= centre.rows.end) continue;
      for (index_t c = inside.columns.begin; c < inside.columns.end; ++c)
        if (c >= centre.columns.begin && c < centre.columns.end)
          add(level.first + row * level.width + c);
    }
  }
  compute();
  if (size < wanted) {
    begin = size;
    index_t l = 0;
    for (index_t k = 0; k < count; ++k) {
      l = level_of(common, near[k], l);
      if (!is_in_prior(common.points + 2 * near[k], truth, args.reaches[l])) add(near[k]);
    }
    compute();
  }
  common.counts[box] = size;
}

/// The box with the lowest cost for a point: among those whose prior contains the point, or among
/// all if there are none.
VECDET_NOINLINE inline index_t cheapest_box(const sim_ota_args& args, const assigned_image& image,
                                            index_t point, cost_pairs& pairs) {
  const assigner_args& common = args.common;
  const index_t l = level_of(common, point);
  index_t best = -1;
  float lowest = infinity<float>();
  const auto compute = [&] {
    if (pairs.size == 0) return;
    pairs.compute(args.iou_weight);
    for (int k = 0; k < pairs.size; ++k) {
      // Costs may be infinite: the first box then is as good as any.
      if (!(pairs.cost[k] < lowest || (best < 0 && pairs.cost[k] == lowest))) continue;
      lowest = pairs.cost[k];
      best = pairs.waiting[k];
    }
    pairs.size = 0;
  };
  for (int round = 0; round < 2 && best < 0; ++round) {
    for (index_t box = image.first; box < image.last; ++box) {
      const float* const truth = common.truth + 4 * box;
      if (!is_finite_box(truth)) continue;
      if (round == 0 && !is_in_prior(common.points + 2 * point, truth, args.reaches[l])) continue;
      pairs.add(args, image.image, point, box, box);
      if (pairs.size == row_lanes) compute();
    }
    compute();
  }
  return best;
}

/// Assigns each point that several boxes have chosen to the one with the lowest cost. Returns the
/// number of assigned points. All matches are -1 before.
inline index_t sim_ota_matches(const sim_ota_args& args, const assigned_image& image) {
  const assigner_args& common = args.common;
  constexpr index_t several_boxes = -2;
  index_t* const positives = args.positives + image.first * common.most;
  index_t count = 0;
  for (index_t box = image.first; box < image.last; ++box) {
    for (index_t i = 0; i < common.counts[box]; ++i) {
      const index_t point = common.chosen[box * common.most + i];
      index_t& match = image.matches[point];
      if (match == -1) positives[count++] = point;
      match = match == -1 ? box : several_boxes;
    }
  }
  cost_pairs costs;
  box_pairs pairs;
  const float* const predictions = args.predictions + 4 * image.image * common.point_count;
  for (index_t first = 0; first < count; first += row_lanes) {
    const int size = static_cast<int>(count - first < row_lanes ? count - first : row_lanes);
    for (int k = 0; k < size; ++k) {
      const index_t point = positives[first + k];
      index_t& match = image.matches[point];
      if (match == several_boxes) match = cheapest_box(args, image, point, costs);
      pairs.set_truth(k, common.truth + 4 * match);
      pairs.set_other(k, predictions + 4 * point);
    }
    pairs.repeat_last(size);
    pairs.compute<iou_kind::iou>();
    for (int k = 0; k < size; ++k) image.targets[positives[first + k]] = pairs.overlap[k];
  }
  return count;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
