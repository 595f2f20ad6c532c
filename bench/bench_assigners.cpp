// SPDX-License-Identifier: Apache-2.0
// ATSS with 300 boxes on a pyramid for 800 x 800, and the task-aligned assigner with 300 boxes on a
// pyramid for 640 x 640; SimOTA with 100 boxes on the latter. Elements are boxes.
#include "plain/assigners.hpp"
#include "support/implementations.hpp"
#include "support/pyramid.hpp"
#include <vecdet/assigners.hpp>

#include <memory>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t boxes = 300;

const bool registered = [] {
  register_with_plain(
      "assign_atss/k9/f32/300x13343", {boxes, 13343 * 24.0},
      [] { return std::make_shared<assigner_scene>(pyramid_of(800, 5), boxes, 800, false); },
      [](assigner_scene& data, threading policy) {
        static assigner_workspace workspace;
        assign_atss(boxes_view<const float>(data.points.anchors), data.points.levels, data.known(),
                    data.matches, {}, workspace, policy);
      },
      [](assigner_scene& data) {
        std::vector<index_t> sizes;
        for (const grid_size& level : data.points.levels)
          sizes.push_back(level.height * level.width);
        VECDET_PLAIN(plain_atss)
        (data.points.anchors.data(), sizes.data(), static_cast<index_t>(sizes.size()),
         data.truth.data(), boxes, data.matches.data());
      },
      &assigner_scene::matches);
  register_with_plain(
      "assign_task_aligned/top10/f32/300x8400", {boxes, 8400 * 20.0},
      [] { return std::make_shared<assigner_scene>(pyramid_of(640, 3), boxes, 640, true); },
      [](assigner_scene& data, threading policy) {
        static assigner_workspace workspace;
        assign_task_aligned(data.said(), data.where(), data.points.levels, data.known(),
                            data.matches, data.targets, {}, workspace, policy);
      },
      [](assigner_scene& data) {
        VECDET_PLAIN(plain_task_aligned)
        (data.scores.data(), assigner_scene::class_count, data.predictions.data(),
         data.points.points.data(), data.points.size(), data.truth.data(), data.classes.data(),
         boxes, data.matches.data(), data.targets.data());
      },
      &assigner_scene::targets);
  static constexpr index_t fewer = 100;
  register_with_plain(
      "assign_sim_ota/candidates10/f32/100x8400", {fewer, 8400 * 80 * 4.0},
      [] { return std::make_shared<assigner_scene>(pyramid_of(640, 3), fewer, 640, true); },
      [](assigner_scene& data, threading policy) {
        static assigner_workspace workspace;
        const double strides[] = {8, 16, 32};
        assign_sim_ota(data.said_in_logits(), data.where(), data.points.levels, {strides, 3},
                       data.known(), data.matches, data.targets, {}, workspace, policy);
      },
      [](assigner_scene& data) {
        std::vector<float> strides(6400, 8.0f);
        strides.resize(8000, 16.0f);
        strides.resize(8400, 32.0f);
        VECDET_PLAIN(plain_sim_ota)
        (data.scores.data(), data.objectness.data(), assigner_scene::class_count,
         data.predictions.data(), data.points.points.data(), strides.data(), data.points.size(),
         data.truth.data(), data.classes.data(), fewer, data.matches.data(), data.targets.data());
      },
      &assigner_scene::targets);
  show_in_figures("assign_atss/k9/f32/300x13343");
  show_in_figures("assign_task_aligned/top10/f32/300x8400");
  show_in_figures("assign_sim_ota/candidates10/f32/100x8400");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
