// SPDX-License-Identifier: Apache-2.0
// ATSS and the task-aligned assigner with 40 boxes on a level of 40 x 40 points.
#include "../../plain/assigners.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/assigners.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

constexpr std::int64_t side = 40, points = side * side, boxes = 40, classes = 20;

struct scene {
  std::vector<float> where, about, truth, scores, predictions, targets;
  std::vector<std::int64_t> categories, matches;
  std::vector<std::int64_t> level_sizes;

  scene()
      : truth(clustered_boxes(boxes)),
        scores(uniform<float>(points * classes, 0.01f, 0.5f, 2)),
        targets(static_cast<std::size_t>(points)),
        categories(static_cast<std::size_t>(boxes), 3),
        matches(static_cast<std::size_t>(points)),
        level_sizes{points} {
    for (std::int64_t i = 0; i < points; ++i) {
      const float x = 20 * static_cast<float>(i % side) + 10;
      const float y = 20 * static_cast<float>(i / side) + 10;
      where.insert(where.end(), {x, y});
      about.insert(about.end(), {x - 80, y - 80, x + 80, y + 80});
      const float half = 20 + static_cast<float>(i % 90);
      predictions.insert(predictions.end(), {x - half, y - half, x + half, y + half});
    }
  }
};

void run_atss(scene& d) {
  const grid_size levels[] = {{side, side}};
  ground_truth truth;
  truth.boxes = boxes_view<const float>(d.truth);
  assign_atss(boxes_view<const float>(d.about), {levels, 1}, truth, d.matches, {},
              own<assigner_workspace>(), sequential);
}

void run_task_aligned(scene& d) {
  const grid_size levels[] = {{side, side}};
  ground_truth truth;
  truth.boxes = boxes_view<const float>(d.truth);
  truth.classes = d.categories;
  task_aligned_predictions said;
  said.scores = {d.scores.data(), points, classes};
  said.boxes = boxes_view<const float>(d.predictions);
  assign_task_aligned(said, {d.where.data(), points, 2}, {levels, 1}, truth, d.matches, d.targets,
                      {}, own<assigner_workspace>(), sequential);
}

const problems added{
    {"assign_atss/k9/f32/40x1600", make<scene>(), VECDET_GATE_CALL(run_atss(d)),
     VECDET_GATE_CALL(bench::native::plain_atss(d.about.data(), d.level_sizes.data(), 1,
                                                d.truth.data(), boxes, d.matches.data()))},
    {"assign_task_aligned/top10/f32/40x1600", make<scene>(), VECDET_GATE_CALL(run_task_aligned(d)),
     VECDET_GATE_CALL(bench::native::plain_task_aligned(
         d.scores.data(), classes, d.predictions.data(), d.where.data(), points, d.truth.data(),
         d.categories.data(), boxes, d.matches.data(), d.targets.data()))},
};

}  // namespace
}  // namespace vecdet::gate
