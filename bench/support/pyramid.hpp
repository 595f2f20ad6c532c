// SPDX-License-Identifier: Apache-2.0
// Data for assigners, in benchmarks, replays and tests: points of a feature pyramid with anchors
// around them, boxes of all sizes, and predictions, some of them near a box. Seeded.
#pragma once

#include "../../test/support/random.hpp"
#include <vecdet/assigners.hpp>
#include <vecdet/views.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

namespace vecdet::bench {

struct pyramid {
  std::vector<grid_size> levels;
  std::vector<float> points, anchors;  ///< x and y; corners

  /// A level; its anchors' sides are `side` strides.
  void add(index_t height, index_t width, double stride, double side = 8) {
    levels.push_back({height, width});
    for (index_t y = 0; y < height; ++y)
      for (index_t x = 0; x < width; ++x) {
        const double px = (static_cast<double>(x) + 0.5) * stride;
        const double py = (static_cast<double>(y) + 0.5) * stride;
        for (const double number : {px, py}) points.push_back(static_cast<float>(number));
        const double half = side / 2 * stride;
        for (const double number : {px - half, py - half, px + half, py + half})
          anchors.push_back(static_cast<float>(number));
      }
  }
  index_t size() const { return static_cast<index_t>(points.size() / 2); }
  matrix_view<const float> where() const { return {points.data(), size(), 2}; }
  boxes_view<const float> boxes() const { return anchors; }
};

/// Levels with strides 8, 16... of an image of side x side.
inline pyramid pyramid_of(index_t side, int levels) {
  pyramid result;
  index_t stride = 8;
  for (int l = 0; l < levels; ++l, stride *= 2) {
    const index_t cells = (side + stride - 1) / stride;
    result.add(cells, cells, static_cast<double>(stride));
  }
  return result;
}

/// A pyramid with this number of points: squares, each a quarter of the one before, and a row with
/// the rest.
inline pyramid pyramid_of_points(index_t points) {
  pyramid result;
  double stride = 8;
  for (int l = 0; l < 5; ++l, stride *= 2) {
    const auto cells = static_cast<index_t>(std::sqrt(0.75 * static_cast<double>(points)));
    result.add(cells, cells, stride);
    points -= cells * cells;
  }
  result.add(1, points, stride);
  return result;
}

/// Ground truth for an image of `extent` pixels, and a detector's predictions for its points.
struct assigner_scene {
  static constexpr index_t class_count = 80;
  pyramid points;
  std::vector<float> truth, scores, predictions, objectness, targets;
  std::vector<index_t> classes, matches;

  assigner_scene(const pyramid& of, index_t boxes, double extent, bool with_predictions)
      : points(of), matches(static_cast<std::size_t>(of.size())) {
    test::random_generator generator(3);
    for (index_t i = 0; i < boxes; ++i) {
      const double w = generator.uniform(0.015, 0.35) * extent;
      const double h = generator.uniform(0.015, 0.35) * extent;
      const double x = generator.uniform(0, extent - w), y = generator.uniform(0, extent - h);
      for (const double number : {x, y, x + w, y + h}) truth.push_back(static_cast<float>(number));
      classes.push_back(generator.below(class_count));
    }
    if (!with_predictions) return;
    targets.resize(matches.size());
    for (index_t i = 0; i < points.size(); ++i) {
      for (index_t c = 0; c < class_count; ++c)
        scores.push_back(static_cast<float>(generator.uniform(0.01, 0.5)));
      for (std::size_t k = 0; k < 4; ++k) {
        const float at = points.points[static_cast<std::size_t>(2 * i) + (k & 1)];
        const auto distance = static_cast<float>(generator.uniform(0.01, 0.2) * extent);
        predictions.push_back(k < 2 ? at - distance : at + distance);
      }
    }
    for (index_t i = 0; i < points.size(); ++i)
      objectness.push_back(static_cast<float>(generator.uniform(-4, 4)));
  }
  ground_truth known() const { return {boxes_view<const float>(truth), classes}; }
  task_aligned_predictions said() const {
    return {{scores.data(), points.size(), class_count}, boxes_view<const float>(predictions)};
  }
  /// The scores as logits.
  sim_ota_predictions said_in_logits() const {
    return {{scores.data(), points.size(), class_count},
            objectness,
            boxes_view<const float>(predictions)};
  }
  matrix_view<const float> where() const { return points.where(); }
};

}  // namespace vecdet::bench
