// SPDX-License-Identifier: Apache-2.0
// The task-aligned assigner for rotated boxes, as ultralytics trains oriented detectors, on whole
// matrices of boxes x points, for one image.
#pragma once

#include <vecdet/angle_convention.hpp>
#include <vecdet/reference/assigners.hpp>
#include <vecdet/reference/prob_iou.hpp>
#include <vecdet/reference/rotated_boxes.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// Whether the projections of a point onto the directions of a box are on its sides, of which those
/// below params.least_side are params.grown_side.
inline bool is_in_rotated_box(double x, double y, const rotated_box& own,
                              const task_aligned_params& params = {}) {
  const auto side = [&](double length) {
    return length < static_cast<double>(params.least_side) ? static_cast<double>(params.grown_side)
                                                           : length;
  };
  if (!(own.w >= 0 && own.h >= 0)) return false;  // also where a side would grow
  const double dx = x - own.x, dy = y - own.y;
  const double along = dx * own.cosine + dy * own.sine, across = dy * own.cosine - dx * own.sine;
  return std::abs(along) <= side(own.w) / 2 && std::abs(across) <= side(own.h) / 2;
}

inline assignment rotated_task_aligned(matrix_view<const float> scores,
                                       matrix_view<const float> predictions,
                                       matrix_view<const float> points,
                                       matrix_view<const float> truth, angle_convention angles,
                                       vector_view<const index_t> classes,
                                       const task_aligned_params& params = {}) {
  const auto is_inside = [&](index_t i, index_t g) {
    return is_in_rotated_box(static_cast<double>(points(i, 0)), static_cast<double>(points(i, 1)),
                             load_rotated_box(truth, g, angles), params);
  };
  const auto overlap = [&](index_t i, index_t g) {
    const double value =
        prob_iou(load_rotated_box(truth, g, angles), load_rotated_box(predictions, i, angles));
    return value > 0 ? value : 0;
  };
  return task_aligned_by(scores, truth.rows(), classes, params, is_inside, overlap);
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
