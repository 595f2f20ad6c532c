// SPDX-License-Identifier: Apache-2.0
// Problems for NMS, with the results of NMS and of the reference.
#pragma once

#include "isa.hpp"
#include "values.hpp"
#include <vecdet/nms.hpp>
#include <vecdet/reference/nms.hpp>

#include <limits>
#include <vector>

#include <doctest/doctest.h>

namespace vecdet::test {

using indices = std::vector<index_t>;

constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

/// Boxes and scores of one problem.
template <class T>
struct scene_of {
  std::vector<T> boxes, scores;
  indices classes, images;

  boxes_view<const T> b() const { return boxes; }
  vector_view<const T> s() const { return scores; }
  index_t size() const { return static_cast<index_t>(scores.size()); }
};

template <class T>
indices expected_of(const scene_of<T>& scene, const nms_params& params) {
  return reference::nms(
      scene.b(), scene.s(), params,
      {vector_view<const index_t>(scene.classes), vector_view<const index_t>(scene.images)});
}

template <class T>
indices actual_of(const scene_of<T>& scene, const nms_params& params, nms_workspace& workspace,
                  threading policy = threading::parallel) {
  const nms_groups groups{scene.classes, scene.images};
  const auto kept = scene.classes.empty() && scene.images.empty()
                        ? nms(scene.b(), scene.s(), params, workspace, policy)
                        : batched_nms(scene.b(), scene.s(), groups, params, workspace, policy);
  return {kept.begin(), kept.end()};
}

template <class T>
void check_scene(const scene_of<T>& scene, const nms_params& params) {
  const indices expected = expected_of(scene, params);
  for_each_isa([&](isa) {
    nms_workspace workspace;
    CHECK(actual_of(scene, params, workspace) == expected);
  });
}

template <class T>
std::vector<T> random_scores(index_t count, random_generator& generator) {
  std::vector<T> scores;
  for (index_t i = 0; i < count; ++i) scores.push_back(to<T>(generator.uniform()));
  return scores;
}

/// Boxes jittered around a few objects, at any position and of any size.
template <class T>
scene_of<T> clustered_scene(index_t count, std::uint64_t seed, double centre = 0,
                            double extent = 800) {
  random_generator generator(seed);
  scene_of<T> scene;
  struct object {
    double x, y, w, h;
  };
  const auto any = [&]() -> object {
    const double u = generator.uniform(), v = generator.uniform();
    return {generator.uniform(0, extent), generator.uniform(0, extent),
            extent * (0.01 + 0.5 * u * u), extent * (0.01 + 0.5 * v * v)};
  };
  std::vector<object> objects;
  for (int i = 0; i < 30; ++i) objects.push_back(any());
  for (index_t i = 0; i < count; ++i) {
    object o =
        generator.chance(0.2) ? any() : objects[static_cast<std::size_t>(generator.below(30))];
    o.x += o.w * 0.15 * generator.normal();
    o.y += o.h * 0.15 * generator.normal();
    o.w *= generator.uniform(0.7, 1.3);
    o.h *= generator.uniform(0.7, 1.3);
    for (const double c : {o.x - o.w / 2, o.y - o.h / 2, o.x + o.w / 2, o.y + o.h / 2})
      scene.boxes.push_back(to<T>(centre + c));
  }
  scene.scores = random_scores<T>(count, generator);
  return scene;
}

}  // namespace vecdet::test
