// SPDX-License-Identifier: Apache-2.0
// SimOTA: the reference and the kernels against the authors' steps; the kernels against the
// reference on every instruction set, with grids of every kind, numbers of boxes and classes,
// priors, conflicts, ties, batches, ignore regions and special values; and every documented error.
#include "support/assigner_scene.hpp"
#include "support/box_tensor.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/assigners.hpp>
#include <vecdet/iou.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

struct problem {
  strided_pyramid points;
  index_t images, class_count, stride;
  std::vector<float> logits, objectness, predictions, truth;
  std::vector<index_t> classes, offsets;
  sim_ota_params params;
  std::vector<index_t> matches;
  std::vector<float> targets;
  index_t foreground = 0;

  problem(const strided_pyramid& p, index_t boxes, std::uint64_t seed, index_t image_count = 1,
          index_t number_of_classes = 5, index_t padding = 0)
      : points(p),
        images(image_count),
        class_count(number_of_classes),
        stride(number_of_classes + padding),
        offsets(offsets_of(image_count, boxes)),
        matches(static_cast<std::size_t>(image_count * p.size()), 77),
        targets(matches.size(), 77) {
    random_generator generator(seed);
    for (index_t g = 0; g < boxes; ++g) {
      const double w = generator.uniform(2, generator.chance(0.3) ? 150 : 40);
      const double h = generator.uniform(2, generator.chance(0.3) ? 180 : 40);
      const double x = generator.uniform(-20, 150), y = generator.uniform(-20, 190);
      for (const double number : {x, y, x + w, y + h}) truth.push_back(to<float>(number));
      classes.push_back(generator.below(class_count));
    }
    for (index_t i = 0; i < images * p.size(); ++i) {
      for (index_t c = 0; c < stride; ++c) logits.push_back(to<float>(generator.uniform(-6, 4)));
      objectness.push_back(to<float>(generator.uniform(-6, 4)));
      const auto near = static_cast<std::size_t>(4 * generator.below(boxes > 0 ? boxes : 1));
      const bool is_near = boxes > 0 && generator.chance(0.5);
      for (std::size_t k = 0; k < 4; ++k) {
        const auto point = static_cast<std::size_t>(i % p.size());
        const float at = is_near ? truth[near + k] : p.points[2 * point + (k & 1)];
        const double off =
            is_near ? generator.uniform(-4, 4) : generator.uniform(2, 40) * (k < 2 ? -1 : 1);
        predictions.push_back(at + to<float>(off));
      }
    }
  }
  sim_ota_predictions said() const {
    return {{logits.data(), images * points.size(), class_count, stride},
            objectness,
            boxes_view<const float>(predictions)};
  }
  ground_truth known() const {
    ground_truth result{boxes_view<const float>(truth), classes};
    if (images > 1) result.image_offsets = offsets;
    return result;
  }
  void run(const ground_truth& given, assigner_workspace& workspace,
           threading policy = threading::parallel) {
    foreground = assign_sim_ota(said(), points.where(), points.levels, points.strides, given,
                                matches, targets, params, workspace, policy);
  }
  void check() {
    assigner_workspace workspace;
    run(known(), workspace);
    const index_t n = points.size();
    index_t positives = 0;
    for (index_t image = 0; image < images; ++image) {
      const index_t first = offsets[static_cast<std::size_t>(image)];
      const index_t count = offsets[static_cast<std::size_t>(image + 1)] - first;
      const auto expected = reference::sim_ota(
          {logits.data() + image * n * stride, n, class_count, stride},
          {objectness.data() + image * n, n}, {predictions.data() + 4 * image * n, n},
          points.where(), points.point_strides, {truth.data() + 4 * first, count},
          {classes.data() + first, count}, {params.candidates, params.radius, params.iou_weight});
      check_assignment(expected, image, first, matches, targets, {});
      positives += std::count_if(expected.matches.begin(), expected.matches.end(),
                                 [](index_t match) { return match >= 0; });
    }
    CHECK(foreground == positives);
  }
};

}  // namespace

TEST_CASE("SimOTA: equals the authors' steps in torch") {
  // Their operations on these numbers give the matches and IoUs below.
  strided_pyramid levels;
  levels.add_level(10, 8, 8);
  levels.add_level(5, 4, 16);
  levels.add_level(3, 2, 32);
  problem p(levels, 6, 1, 1, 3);
  for (index_t g = 0; g < 6; ++g) {
    const double x = scattered(4 * g, 0, 40), y = scattered(4 * g + 1, 0, 50);
    const double corners[] = {x, y, x + scattered(4 * g + 2, 3, 50),
                              y + scattered(4 * g + 3, 3, 50)};
    for (index_t k = 0; k < 4; ++k)
      p.truth[static_cast<std::size_t>(4 * g + k)] = to<float>(corners[k]);
    p.classes[static_cast<std::size_t>(g)] = g % 3;
  }
  for (index_t i = 0; i < levels.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    for (index_t c = 0; c < 3; ++c)
      p.logits[static_cast<std::size_t>(3 * i + c)] = to<float>(scattered(5000 + 3 * i + c, -4, 4));
    p.objectness[at] = to<float>(scattered(9000 + i, -4, 4));
    for (std::size_t k = 0; k < 4; ++k)
      p.predictions[4 * at + k] =
          to<float>(static_cast<double>(p.truth[4 * (at % 6) + k]) +
                    scattered(20000 + 4 * i + static_cast<index_t>(k), -6, 6));
  }
  const struct {
    index_t point, box;
    double iou;
  } expected[] = {{11, 5, 0.7101902}, {12, 5, 0.2074087}, {18, 0, 0.3689474}, {29, 5, 0.7221364},
                  {30, 5, 0.2097472}, {34, 0, 0.0269699}, {35, 5, 0.7261557}, {36, 5, 0.2105288},
                  {37, 5, 0.054234},  {38, 2, 0.3715631}, {42, 0, 0.3689474}, {45, 3, 0.6049004},
                  {46, 3, 0.0233215}, {47, 3, 0.0128237}, {52, 4, 0.668653},  {53, 3, 0.0118265},
                  {58, 4, 0.6720354}, {60, 4, 0.0993962}, {61, 1, 0.2519397}, {90, 2, 0.0},
                  {94, 4, 0.6926215}, {95, 3, 0.0051381}, {96, 4, 0.0941977}, {101, 5, 0.752314},
                  {102, 4, 0.0933361}};
  for_each_isa([&](isa) {
    p.check();
    CHECK(p.foreground == 25);
    for (const auto& e : expected) {
      const auto at = static_cast<std::size_t>(e.point);
      CHECK(p.matches[at] == e.box);
      CHECK(static_cast<double>(p.targets[at]) == doctest::Approx(e.iou).epsilon(2e-5));
    }
  });
}

TEST_CASE("SimOTA: boxes, classes, parameters and batches") {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const index_t boxes : {0, 1, 2, 7, 33, 60}) problem(three_levels(), boxes, ++seed).check();
    for (const index_t classes : {1, 2, 15, 16, 17, 80})
      problem(three_levels(), 12, ++seed, 1, classes, classes % 3).check();
    for (const index_t images : {2, 4}) problem(three_levels(), 50, ++seed, images).check();
    for (const index_t candidates : {1, 3, 30, 1000}) {
      problem p(three_levels(), 20, ++seed);
      p.params.candidates = candidates;
      p.check();
    }
    for (const double radius : {0.0, 0.4, 1.5, 100.0}) {
      for (const double weight : {0.0, 1.0}) {
        problem p(three_levels(), 20, ++seed);
        p.params.radius = radius;
        p.params.iou_weight = weight;
        p.check();
      }
    }
  });
}

TEST_CASE("SimOTA: grids, and more boxes than points") {
  for_each_isa([](isa) {
    std::uint64_t seed = 100;
    problem(irregular_levels(), 30, ++seed, 2).check();
    strided_pyramid few;
    few.add_level(3, 5, 32);
    problem(few, 200, ++seed).check();
    problem(strided_pyramid(), 3, ++seed).check();
    problem(three_levels(), 300, ++seed).check();
    problem far(three_levels(), 5, ++seed);  // no point is near any box
    for (float& x : far.truth) x += 4000;
    far.check();
    CHECK(far.foreground == 0);
  });
}

TEST_CASE("SimOTA: small boxes without a point in their prior take the cheapest point near a box") {
  for_each_isa([](isa) {
    problem p(three_levels(), 20, 7);
    for (std::size_t i = 0; i < p.truth.size(); i += 8)
      for (std::size_t k = i; k < i + 2; ++k) {
        p.truth[k] = 8 * std::floor(p.truth[k] / 8) + 0.5f;  // between points
        p.truth[k + 2] = p.truth[k] + 3;
      }
    p.check();
    CHECK(p.foreground >= 20);
  });
}

TEST_CASE("SimOTA: numbers that are not finite") {
  for_each_isa([](isa) {
    problem p(three_levels(), 12, 1);
    const float others[] = {quiet_nan, infinity, -infinity, 1e30f, -1e30f, 90, -90};
    for (std::size_t i = 0; i < p.logits.size(); i += 37) p.logits[i] = others[i % 7];
    for (std::size_t i = 0; i < p.objectness.size(); i += 11) p.objectness[i] = others[i % 7];
    for (std::size_t i = 0; i < p.predictions.size(); i += 44) p.predictions[i] = others[i % 7];
    p.check();
    CHECK(p.foreground > 12);
    for (std::size_t i = 0; i < p.matches.size(); ++i)
      if (std::isnan(p.objectness[i])) CHECK(p.matches[i] == -1);
    const std::vector<float> special = special_boxes_as<float>();
    p.truth.insert(p.truth.end(), special.begin(), special.end());
    p.classes.resize(p.truth.size() / 4, 1);
    p.offsets.back() = static_cast<index_t>(p.classes.size());
    p.check();
    for (float& x : p.objectness) x = quiet_nan;
    p.check();
    CHECK(p.foreground == 0);
  });
}

TEST_CASE("SimOTA: ties are broken by lower index") {
  for_each_isa([](isa) {
    problem p(three_levels(), 2, 1);
    p.truth = {16, 16, 100, 100, 16, 16, 100, 100};
    p.classes = {1, 1};
    std::fill(p.logits.begin(), p.logits.end(), 0.5f);
    std::fill(p.objectness.begin(), p.objectness.end(), 0.5f);
    for (std::size_t i = 0; i < p.predictions.size(); ++i) p.predictions[i] = p.truth[i % 4];
    p.check();
    CHECK(p.foreground == 10);
    CHECK(std::count(p.matches.begin(), p.matches.end(), 0) == 10);
    CHECK(p.matches[5 * 20 + 5] == 0);  // the first point within 20 pixels of (58, 58)
  });
}

TEST_CASE("SimOTA: costs beyond float's range are ties") {
  for_each_isa([](isa) {
    problem p(three_levels(), 2, 1);
    p.truth = {16, 16, 100, 100, 16, 16, 100, 100};
    p.classes = {1, 1};
    for (std::size_t i = 0; i < p.predictions.size(); ++i)
      p.predictions[i] = i % 4 < 2 ? 1000.0f : 1010.0f;  // apart from both boxes
    p.params.iou_weight = 3e38;
    p.check();
    CHECK(p.foreground == 1);
    CHECK(std::count(p.matches.begin(), p.matches.end(), 0) == 1);
  });
}

TEST_CASE("SimOTA: targets are the IoUs of pairwise_iou") {
  problem p(three_levels(), 30, 3);
  assigner_workspace workspace;
  p.run(p.known(), workspace);
  std::vector<float> ious(p.matches.size() * 30);
  pairwise_iou(boxes_view<const float>(p.predictions), boxes_view<const float>(p.truth),
               matrix_view<float>(ious.data(), p.points.size(), 30), iou_params());
  for (std::size_t i = 0; i < p.matches.size(); ++i)
    CHECK(p.targets[i] ==
          (p.matches[i] < 0 ? 0.0f : ious[30 * i + static_cast<std::size_t>(p.matches[i])]));
}

TEST_CASE("SimOTA: any number of threads, ignore regions, and no classes") {
  problem p(three_levels(), 60, 5, 3);
  assigner_workspace workspace;
  p.run(p.known(), workspace, threading::sequential);
  const std::vector<index_t> plain = p.matches;
  const std::vector<float> targets = p.targets;
  p.run(p.known(), workspace);
  CHECK(p.matches == plain);
  CHECK(p.targets == targets);
  const std::vector<float> regions{0, 0, 70, 90, 30, 30, 500, 500};
  const std::vector<index_t> region_offsets{0, 1, 1, 2};
  ground_truth known = p.known();
  known.regions = regions;
  known.region_offsets = region_offsets;
  p.run(known, workspace);
  std::vector<index_t> expected;
  for (index_t k = 0; k < 3; ++k) {
    std::vector<index_t> own(plain.begin() + k * p.points.size(),
                             plain.begin() + (k + 1) * p.points.size());
    const index_t count = k == 1 ? 0 : 1;
    reference::ignore_points(own, p.points.where(), {regions.data() + (k == 2 ? 4 : 0), count});
    expected.insert(expected.end(), own.begin(), own.end());
  }
  CHECK(p.matches == expected);
  CHECK(p.targets == targets);
  CHECK(std::count(p.matches.begin(), p.matches.end(), -2) > 100);
  std::fill(p.classes.begin(), p.classes.end(), 0);
  p.run(p.known(), workspace);
  const std::vector<index_t> zeros = p.matches;
  known = p.known();
  known.classes = {};
  p.run(known, workspace);
  CHECK(p.matches == zeros);
}

TEST_CASE("SimOTA: errors name function, argument, value and expectation") {
  problem p(three_levels(), 10, 9, 2);
  assigner_workspace workspace;
  ground_truth known = p.known();
  sim_ota_predictions said = p.said();
  std::vector<double> strides = p.points.strides;
  const auto refused = refusals(p.matches, p.targets);
  const auto fails = [&](const char* message) {
    refused(message, [&] {
      assign_sim_ota(said, p.points.where(), p.points.levels, strides, known, p.matches, p.targets,
                     p.params, workspace);
    });
    known = p.known();
    said = p.said();
    strides = p.points.strides;
    p.params = {};
  };
  strides.pop_back();
  fails("assign_sim_ota: strides.size() is 2, expected 3, the number of levels");
  strides[1] = 0;
  fails("assign_sim_ota: strides[1] is 0, expected a finite float above 0");
  strides[2] = std::nan("");
  fails("strides[2] is nan");
  said.logits = {p.logits.data(), 665, 5};
  fails("predictions.logits.rows() is 665, expected 1330, images x points");
  said.objectness = vector_view<const float>(p.objectness.data(), 3);
  fails("predictions.objectness.size() is 3, expected 1330");
  said.boxes = boxes_view<const float>(p.predictions.data(), 3);
  fails("predictions.boxes.size() is 3, expected 1330");
  const std::vector<index_t> large{0, 1, 2, 3, 5, 0, 0, 0, 0, 0};
  known.classes = large;
  fails("truth.classes[4] is 5, expected 0 to 4 (5 classes)");
  known.regions = p.known().boxes;
  fails("truth.region_offsets.size() is 0, expected 3");
  p.params.candidates = 0;
  fails("params.candidates is 0, expected 1 or more");
  p.params.radius = -1;
  fails("params.radius is -1, expected a finite float, 0 or more");
  p.params.iou_weight = static_cast<double>(infinity);
  fails("params.iou_weight is inf");
  std::vector<float> fewer(3);
  refused("targets.size() is 3, expected 1330", [&] {
    assign_sim_ota(said, p.points.where(), p.points.levels, strides, known, p.matches, fewer,
                   p.params, workspace);
  });
}
