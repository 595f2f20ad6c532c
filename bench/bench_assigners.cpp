// SPDX-License-Identifier: Apache-2.0
// ATSS with 300 boxes on a pyramid for 800 x 800, and the task-aligned assigner with 300 boxes on a
// pyramid for 640 x 640, upright and rotated; SimOTA with 100 boxes on the latter. Elements are
// boxes.
#include "plain/assigners.hpp"
#include "support/implementations.hpp"
#include "support/pyramid.hpp"
#include <vecdet/assigners.hpp>
#include <vecdet/rotated_assigner.hpp>

#include <memory>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t boxes = 300;

/// The same boxes and predictions, turned by any angle in degrees.
struct rotated_scene : assigner_scene {
  std::vector<float> turned_truth, turned_predictions;

  rotated_scene() : assigner_scene(pyramid_of(640, 3), boxes, 640, true) {
    test::random_generator generator(5);
    const auto turn = [&](const std::vector<float>& corners, std::vector<float>& to) {
      for (std::size_t i = 0; i < corners.size(); i += 4) {
        const float* const box = corners.data() + i;
        to.insert(to.end(), {(box[0] + box[2]) / 2, (box[1] + box[3]) / 2, box[2] - box[0],
                             box[3] - box[1], static_cast<float>(generator.uniform(-90, 90))});
      }
    };
    turn(truth, turned_truth);
    turn(predictions, turned_predictions);
  }
  static matrix_view<const float> rows(const std::vector<float>& of) {
    return {of.data(), static_cast<index_t>(of.size() / 5), 5};
  }
};

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
  register_with_plain(
      "assign_rotated_task_aligned/top10/f32/300x8400", {boxes, 8400 * 20.0},
      [] { return std::make_shared<rotated_scene>(); },
      [](rotated_scene& data, threading policy) {
        static assigner_workspace workspace;
        rotated_ground_truth known{rotated_scene::rows(data.turned_truth)};
        known.classes = data.classes;
        assign_rotated_task_aligned(
            {data.said().scores, rotated_scene::rows(data.turned_predictions)}, data.where(),
            data.points.levels, known, angle_convention::torchvision, data.matches, data.targets,
            {}, workspace, policy);
      },
      [](rotated_scene& data) {
        VECDET_PLAIN(plain_rotated_task_aligned)
        (data.scores.data(), assigner_scene::class_count, data.turned_predictions.data(),
         data.points.points.data(), data.points.size(), data.turned_truth.data(),
         data.classes.data(), boxes, data.matches.data(), data.targets.data());
      },
      &rotated_scene::targets);
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
  show_in_figures("assign_rotated_task_aligned/top10/f32/300x8400");
  show_in_figures("assign_sim_ota/candidates10/f32/100x8400");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
