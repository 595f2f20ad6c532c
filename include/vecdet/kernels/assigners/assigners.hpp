// SPDX-License-Identifier: Apache-2.0
// ATSS. Each ground-truth box chooses points; then a point chosen by several boxes is assigned to
// one of them.
#pragma once

#include <vecdet/args/assigners.hpp>
#include <vecdet/kernels/assigners/grid.hpp>
#include <vecdet/kernels/assigners/pairs.hpp>
#include <vecdet/kernels/assigners/sim_ota.hpp>
#include <vecdet/kernels/assigners/task_aligned.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::atss_args;

inline void anchor_centres(const float* anchors, index_t first, index_t last, float* points) {
  for (index_t i = first; i < last; ++i) {
    const float* const box = anchors + 4 * i;
    const float x = (box[0] + box[2]) * 0.5f, y = (box[1] + box[3]) * 0.5f;
    points[2 * i] = x;
    points[2 * i + 1] = y;
  }
}

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

template <>
struct kernels_of<detail::assigner_kernels> {
  static constexpr detail::assigner_kernels get() {
    detail::assigner_kernels k{};
    k.centres = anchor_centres;
    k.find_off_grid = find_off_grid_point;
    k.atss_candidates = atss_candidates;
    k.atss_matches = atss_matches;
    k.task_aligned_candidates = task_aligned_candidates<upright_boxes>;
    k.task_aligned_matches = task_aligned_matches<upright_boxes>;
    k.rotated_task_aligned_candidates = task_aligned_candidates<rotated_boxes>;
    k.rotated_task_aligned_matches = task_aligned_matches<rotated_boxes>;
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
