// SPDX-License-Identifier: Apache-2.0
// Soft-NMS against the reference: methods, element types, instruction sets, groups, ties,
// degenerate and NaN boxes and scores; and every documented error.
#include "support/isa.hpp"
#include "support/values.hpp"
#include <vecdet/reference/soft_nms.hpp>
#include <vecdet/soft_nms.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

template <class T>
struct soft_scene {
  std::vector<T> boxes, scores;
  std::vector<index_t> classes;
  boxes_view<const T> b() const { return boxes; }
  vector_view<const T> s() const { return scores; }
};

template <class T>
soft_scene<T> random_scene(index_t count, std::uint64_t seed, double grid, bool special,
                           index_t classes) {
  soft_scene<T> scene;
  scene.boxes = random_boxes<T>(count, seed, 40, grid);
  random_generator generator(seed);
  for (index_t i = 0; i < count; ++i)
    scene.scores.push_back(
        to<T>(grid > 0 ? static_cast<double>(1 + generator.below(8)) / 8 : generator.uniform()));
  if (special) {
    for (const T x : special_boxes_as<T>()) scene.boxes.push_back(x);
    for (std::size_t i = scene.scores.size(); i < scene.boxes.size() / 4; ++i)
      scene.scores.push_back(to<T>(i % 5 == 0 ? std::nan("") : 0.5));
  }
  if (classes > 0)
    for (std::size_t i = 0; i < scene.scores.size(); ++i)
      scene.classes.push_back(generator.below(classes));
  return scene;
}

template <class T>
void check_soft(const soft_scene<T>& scene, const soft_nms_params& params) {
  const auto expected = reference::soft_nms(scene.b(), scene.s(), params,
                                            {vector_view<const index_t>(scene.classes), {}});
  const nms_groups groups{scene.classes};
  if (!scene.classes.empty()) {
    soft_nms_workspace<compute_type<T>> workspace;
    const auto actual = soft_nms(scene.b(), scene.s(), scene.classes, params, workspace);
    CHECK(actual.kept.size() == static_cast<index_t>(expected.size()));
  }
  for_each_isa([&](isa) {
    soft_nms_workspace<compute_type<T>> workspace;
    const auto actual = soft_nms(scene.b(), scene.s(), groups, params, workspace);
    REQUIRE(actual.kept.size() == static_cast<index_t>(expected.size()));
    bool same_order = true;
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      same_order = same_order && actual.kept[static_cast<index_t>(i)] == expected[i].index;
      const double left = static_cast<double>(actual.scores[static_cast<index_t>(i)]);
      worst = std::max(worst, std::abs(left - static_cast<double>(expected[i].score)));
    }
    CHECK(same_order);
    CHECK(worst <= (params.method == soft_nms_method::gaussian ? 1e-7 : 0));
  });
}

}  // namespace

TEST_CASE_TEMPLATE("soft-NMS: methods, sizes, groups", T, float, double, bfloat16) {
  for (const auto method :
       {soft_nms_method::linear, soft_nms_method::gaussian, soft_nms_method::hard}) {
    soft_nms_params params;
    params.method = method;
    for (const index_t count : {0, 1, 15, 16, 17, 100, 400}) {
      for (const double grid : {0.0, 4.0}) {
        for (const index_t classes : {0, 3}) {
          CAPTURE(count);
          CAPTURE(grid);
          CAPTURE(classes);
          CAPTURE(static_cast<int>(method));
          const auto scene = random_scene<T>(count, 5 + static_cast<std::uint64_t>(count), grid,
                                             count % 2 == 0, classes);
          check_soft(scene, params);
          soft_nms_params other = params;
          other.score_floor = 0.2;
          other.iou_threshold = 0;
          other.plus_one = true;
          check_soft(scene, other);
          other.iou_threshold = 1e-50;  // 0 as a float
          check_soft(scene, other);
        }
      }
    }
  }
}

TEST_CASE("soft-NMS: zeros keep their sign") {
  // 0 and -0 are equal, so a maximum may be either.
  const std::vector<float> boxes{0, 0, 1, 1, 5, 5, 6, 6, 9, 9, 10, 10};
  for_each_isa([&](isa) {
    for (const std::vector<float>& scores :
         {std::vector<float>{-0.0f, 0.0f, -0.0f}, std::vector<float>{0.0f, -0.0f, 0.0f}}) {
      soft_nms_params params;
      params.score_floor = 0;
      soft_nms_workspace<float> workspace;
      const auto found = soft_nms(boxes_view<const float>(boxes), vector_view<const float>(scores),
                                  params, workspace);
      REQUIRE(found.kept.size() == 3);
      for (index_t i = 0; i < 3; ++i) {
        CHECK(found.kept[i] == i);
        CHECK(std::signbit(found.scores[i]) == std::signbit(scores[static_cast<std::size_t>(i)]));
      }
    }
  });
}

TEST_CASE("soft-NMS: bad arguments throw errors that name them") {
  const std::vector<float> boxes(8), scores(2), three(3);
  const boxes_view<const float> b(boxes);
  const vector_view<const float> s(scores);
  soft_nms_workspace<float> workspace;
  soft_nms_params params;
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(soft_nms(b, s, params, workspace), doctest::Contains(message),
                         std::invalid_argument);
  };
  CHECK_THROWS_WITH_AS(soft_nms(b, vector_view<const float>(three), params, workspace),
                       doctest::Contains("vecdet::soft_nms: scores.size() is 3"),
                       std::invalid_argument);
  params.iou_threshold = 1.5;
  fails("params.iou_threshold is 1.5");
  params = {};
  params.sigma = 0;
  fails("params.sigma is 0");
  params = {};
  params.score_floor = std::nan("");
  fails("params.score_floor is nan");
}
