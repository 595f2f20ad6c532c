// SPDX-License-Identifier: Apache-2.0
// NMS against the reference and golden vectors: every instruction set and element type; sizes
// around the block width and beyond the index's; extreme scenes; limits, groups, orders; and every
// documented error.
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/nms_scene.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/nms.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// A user's box.
struct corner_box {
  float left, top, right, bottom;
};

}  // namespace

template <>
struct vecdet::box_layout<corner_box> : vecdet::box_numbers<float> {};

TEST_CASE("NMS: takes containers of numbers and of boxes, and a threshold") {
  const std::vector<float> numbers{0, 0, 10, 10, 1, 0, 11, 10, 0, 0, 9, 10, 20, 20, 30, 30};
  const std::vector<double> doubles(numbers.begin(), numbers.end());
  const std::vector<float> scores{0.5f, 0.9f, 0.4f, 0.1f};
  std::vector<std::array<float, 4>> arrays;
  std::vector<corner_box> structs;
  for (std::size_t i = 0; i < numbers.size(); i += 4) {
    arrays.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
    structs.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
  }
  const indices expected{1, 3}, of_085{1, 0, 3};
  CHECK(nms(numbers, scores) == expected);
  CHECK(nms(numbers, scores, {}) == expected);
  CHECK(nms(numbers, scores, 0.5) == expected);
  CHECK(nms(numbers, scores, 0.85) == of_085);
  CHECK(nms(doubles, scores, 0.5) == expected);
  CHECK(nms(arrays, scores, 0.5) == expected);
  CHECK(nms(structs, scores, 0.5) == expected);
  CHECK(nms(boxes_view(numbers), vector_view(scores), 0.5) == expected);
#if __cplusplus >= 202002L
  CHECK(nms(std::span(numbers), std::span(scores), 0.5) == expected);
  CHECK(nms(std::span(structs), scores, 0.5) == expected);
#endif
  const std::vector<int> classes{0, 1, 0, 0};
  CHECK(batched_nms(structs, scores, {classes, {}, {}}, 0.5) == indices{1, 0, 3});
  CHECK(batched_nms(structs, scores, classes, 0.5) == indices{1, 0, 3});
  CHECK(batched_nms(structs, scores, std::vector<unsigned>{7, 2, 7, 7}) == indices{1, 0, 3});
  CHECK(batched_nms(structs, scores, labels_view(classes)) == indices{1, 0, 3});
  CHECK(batched_nms(structs, scores, nms_groups{classes}) == indices{1, 0, 3});
  CHECK(batched_nms(structs, scores, {classes}) == indices{1, 0, 3});
  CHECK(batched_nms(structs, scores, {}, 0.5) == expected);
  nms_workspace workspace;
  const auto by_class = batched_nms(structs, scores, classes, 0.5, workspace);
  CHECK(indices(by_class.begin(), by_class.end()) == indices{1, 0, 3});
  const auto kept = nms(arrays, scores, 0.5, workspace);
  CHECK(indices(kept.begin(), kept.end()) == expected);

  const std::vector<float> ten(10);
  CHECK_THROWS_WITH_AS(
      nms(ten, scores, 0.5),
      "vecdet::nms: boxes.size() is 10, expected a multiple of 4, the numbers of a box",
      std::invalid_argument);
}

TEST_CASE("NMS: groups without boxes that take part") {
  const std::vector<float> boxes{0, 0, 10, 10, 1, 0, 11, 10};
  const std::vector<float> degenerate{5, 5, 5, 10, 5, 5, 10, 5}, low{0.1f, 0.2f};
  const std::vector<float> nan(2, std::numeric_limits<float>::quiet_NaN());
  const std::vector<index_t> classes{0, 1}, no_images{0, 0}, three_images{0, 0, 0, 0};
  for (const nms_overlap overlap : {nms_overlap::plain, nms_overlap::smaller_area}) {
    nms_params params;
    params.overlap = overlap;
    params.score_threshold = 0.5;
    CHECK(batched_nms(boxes, low, {classes, {}, {}}, params).empty());
    params.drop_nan_scores = true;
    CHECK(batched_nms(boxes, nan, {classes, {}, {}}, params).empty());
    params = {};
    params.overlap = overlap;
    params.drop_degenerate = true;
    CHECK(batched_nms(degenerate, low, {classes, {}, {}}, params).empty());
    for (const std::vector<index_t>& images : {no_images, three_images}) {
      nms_groups groups;
      groups.image_offsets = images;
      CHECK(batched_nms(std::vector<float>{}, std::vector<float>{}, groups, params).empty());
    }
  }
}

TEST_CASE("NMS: golden vectors") {
  // test_reference_nms compares the reference with torchvision's results.
  if (!has_data("golden/nms_boxes_0.npy", "NMS of golden vectors")) return;
  for (int set = 0; set < 10; ++set) {
    const std::string name = std::to_string(set);
    scene_of<float> scene;
    scene.boxes = golden<float>("nms_boxes_" + name).values;
    scene.scores = golden<float>("nms_scores_" + name).values;
    const auto classes = golden<std::int64_t>("nms_classes_" + name).values;
    for (const int tenths : {1, 3, 5, 6, 7}) {
      CAPTURE(set);
      CAPTURE(tenths);
      scene.classes.clear();
      check_scene(scene, nms_params::torchvision(tenths / 10.0));
      scene.classes = classes;
      check_scene(scene, nms_params::torchvision(tenths / 10.0));
    }
  }
}

TEST_CASE("NMS: recorded proposals and box-head outputs of real detectors") {
  if (!has_data("ipex_real/rpn_nms_proposals.npy", "NMS: recorded tensors")) return;
  // Region proposals of two images, 741 each, of one class; three scores tie.
  scene_of<float> proposals;
  proposals.boxes = load_npy<float>(data_path("ipex_real/rpn_nms_proposals.npy")).values;
  proposals.scores = load_npy<float>(data_path("ipex_real/rpn_nms_objectness.npy")).values;
  for (index_t i = 0; i < proposals.size(); ++i) proposals.images.push_back(i / 741);
  REQUIRE(proposals.size() == 2 * 741);
  // Mask R-CNN's box head: 1000 boxes per image and class, of 80 classes; those above 0.05.
  const auto head = load_npy<float>(data_path("ipex_real/box_head_nms_proposals.npy"));
  const auto probabilities = load_npy<float>(data_path("ipex_real/box_head_nms_class_prob.npy"));
  REQUIRE(head.values.size() == 4 * probabilities.values.size());
  scene_of<float> detections;
  for (std::size_t i = 0; i < probabilities.values.size(); ++i) {
    if (i % 81 == 0 || probabilities.values[i] <= 0.05f) continue;  // class 0 is background
    detections.scores.push_back(probabilities.values[i]);
    detections.classes.push_back(static_cast<index_t>(i % 81));
    detections.images.push_back(static_cast<index_t>(i / (1000 * 81)));
    for (std::size_t k = 0; k < 4; ++k) detections.boxes.push_back(head.values[4 * i + k]);
  }
  REQUIRE(detections.size() > 100);
  for (const auto* scene : {&proposals, &detections}) {
    for (const double threshold : {0.3, 0.5, 0.7}) {
      CAPTURE(threshold);
      check_scene(*scene, nms_params::torchvision(threshold));
      check_scene(*scene, nms_params::ipex(threshold));
    }
    nms_workspace workspace;
    const std::size_t kept = actual_of(*scene, nms_params::torchvision(0.5), workspace).size();
    MESSAGE(scene->size() << " recorded boxes, " << kept << " kept");
    CHECK(kept < static_cast<std::size_t>(scene->size()));
  }
}

TEST_CASE_TEMPLATE("NMS: clusters, with and without the index", T, float, double, bfloat16) {
  for (const index_t count : {1, 15, 16, 17, 31, 33, 255, 499, 520, 999, 1020, 1500, 1520, 4000}) {
    CAPTURE(count);
    for (const double threshold : {0.0, 0.02, 0.3, 0.5, 0.7, 0.95, 1.0}) {
      CAPTURE(threshold);
      if (count > 1500 && threshold != 0.5 && threshold != 0.95) continue;
      check_scene(clustered_scene<T>(count, 7 + static_cast<std::uint64_t>(count)),
                  nms_params::torchvision(threshold));
    }
  }
}

TEST_CASE("NMS: boxes in frames of any size and position") {
  // Hundreds to some thousands of boxes are compared in 16-bit steps of the frame around them,
  // unless most are too small for that. These counts are around the limits for this and for the
  // index, and around the size of a block.
  struct frame {
    float scale, offset, stretch;
  };
  const frame frames[] = {{1, 0, 1},        {1, -3e5f, 1},   {0.01f, 5, 1},    {1e-9f, 0, 1},
                          {3e-3f, 1e5f, 1}, {1e12f, 0, 1},   {1e17f, 0, 1},    {1, 2e7f, 1},
                          {1, 0, 1e-4f},    {1, -400, 1e5f}, {0.25f, 0, 1e9f}, {1e-14f, 0, 1}};
  std::uint64_t seed = 0;
  for (const frame& f : frames) {
    for (const index_t count : {319, 321, 705, 1999, 2040, 4020}) {
      if (count > 2000 && f.stretch != 1) continue;
      CAPTURE(f.scale);
      CAPTURE(f.offset);
      CAPTURE(f.stretch);
      CAPTURE(count);
      scene_of<float> scene = clustered_scene<float>(count, ++seed);
      for (std::size_t i = 0; i < scene.boxes.size(); ++i)
        scene.boxes[i] = scene.boxes[i] * f.scale * (i % 2 == 0 ? f.stretch : 1.0f) + f.offset;
      check_scene(scene, nms_params::torchvision(0.5));
      check_scene(scene, nms_params::mmcv(0.35, true));
    }
  }
  // A distant box, and different numbers of boxes that are smaller than a step.
  for (const std::size_t every : {2u, 14u, 17u, 1000u}) {
    CAPTURE(every);
    scene_of<float> scene = clustered_scene<float>(1500, ++seed);
    for (std::size_t i = 0; i < scene.boxes.size(); i += 4 * every) {
      scene.boxes[i + 2] = scene.boxes[i] + 1.5f;
      scene.boxes[i + 3] = scene.boxes[i + 1] + 1.5f;
    }
    check_scene(scene, nms_params::torchvision(0.5));
    scene.boxes[8] = -3e6f;
    scene.boxes[10] = -2.9e6f;
    check_scene(scene, nms_params::torchvision(0.5));
  }
  // Nearly identical boxes in a frame too large to distinguish them: at high thresholds, hardly any
  // box that passes the test in steps is suppressed.
  random_generator generator(5);
  for (const index_t count : {700, 1990, 3990}) {
    CAPTURE(count);
    scene_of<float> close = clustered_scene<float>(count, ++seed);
    for (std::size_t i = 0; i < close.boxes.size(); i += 4) {
      for (std::size_t k = 0; k < 2; ++k) {
        close.boxes[i + k] = i == 0 ? 0.0f : static_cast<float>(generator.uniform(850, 853));
        if (i == 4) close.boxes[i + k] = 1674;
        close.boxes[i + 2 + k] = close.boxes[i + k] + static_cast<float>(generator.uniform(20, 26));
      }
    }
    for (const double threshold : {0.7, 0.95}) {
      check_scene(close, nms_params::torchvision(threshold));
      check_scene(close, nms_params::opencv(threshold, -1));
    }
    nms_params few = nms_params::torchvision(0.95);
    few.max_total = 300;
    check_scene(close, few);
    for (std::size_t i = 0; i < close.boxes.size(); i += 12)
      close.boxes[i] = static_cast<float>(quiet_nan);
    check_scene(close, nms_params::ipex(0.9));
  }
  // Small whole numbers: many overlaps are exactly the threshold.
  scene_of<float> scene = clustered_scene<float>(1200, ++seed);
  for (std::size_t i = 0; i < scene.boxes.size(); i += 4) {
    for (std::size_t k = 0; k < 2; ++k) {
      scene.boxes[i + k] = std::floor(static_cast<float>(generator.uniform(0, 90)));
      scene.boxes[i + 2 + k] =
          scene.boxes[i + k] + std::floor(static_cast<float>(generator.uniform(2, 13)));
    }
  }
  for (const double threshold : {0.2, 0.25, 1.0 / 3, 0.5, 0.75}) {
    CAPTURE(threshold);
    check_scene(scene, nms_params::torchvision(threshold));
    check_scene(scene, nms_params::onnx(threshold, no_limit));
    check_scene(scene, nms_params::mmcv(threshold, true));
  }
}

TEST_CASE("NMS: extreme scenes") {
  random_generator generator(5);
  const index_t count = under_sanitizer ? 1000 : 3000;
  const auto run = [&](const char* name, const auto& box_of) {
    CAPTURE(std::string(name));
    scene_of<float> scene;
    for (index_t i = 0; i < count; ++i)
      for (const double c : box_of(static_cast<double>(i)))
        scene.boxes.push_back(static_cast<float>(c));
    scene.scores = random_scores<float>(count, generator);
    for (const double threshold : {0.0, 0.1, 0.5, 0.9, 1.0})
      check_scene(scene, nms_params::torchvision(threshold));
  };
  using box = std::array<double, 4>;
  run("all in one place", [](double) { return box{1, 2, 30, 40}; });
  run("no two overlap", [](double i) { return box{3 * i, 0, 3 * i + 2, 2}; });
  run("concentric", [](double i) { return box{-1 - i, -1 - i, 1 + i, 1 + i}; });
  run("a staircase", [](double i) { return box{i / 16, i / 16, 50 + i / 16, 50 + i / 16}; });
  run("a far-off box", [&](double i) {
    const double x = i == 77 ? 1e30 : generator.uniform(0, 500);
    return box{x, x / 2, x + 20, x / 2 + 20};
  });
  run("crosses", [&](double i) {
    const double long_side = 300 + generator.uniform(0, 9);
    const bool upright = static_cast<index_t>(i) % 2 == 0;
    const double w = upright ? 3 : long_side, h = upright ? long_side : 3;
    return box{-w, -h, w, h};
  });
  run("from tiny to vast", [&](double i) {
    const double size = std::ldexp(1.0, static_cast<int>(i) % 100 - 40);
    return box{-size, -size, size * generator.uniform(0.5, 1), size};
  });
  run("some without area, some NaN", [&](double i) {
    const index_t kind = static_cast<index_t>(i) % 5;
    const double x = generator.uniform(0, 100);
    return box{x, 10, kind == 0 ? x : x + 10, kind == 1 ? quiet_nan : kind == 2 ? 5 : 20};
  });
  run("denormal", [&](double i) { return box{0, 0, 1e-41 * (1 + std::fmod(i, 7)), 1e-3}; });
}

TEST_CASE("NMS: classes and images by the hundred") {
  random_generator generator(11);
  scene_of<float> scene = clustered_scene<float>(6000, 12);
  for (index_t i = 0; i < scene.size(); ++i) scene.classes.push_back(generator.below(91));
  check_scene(scene, nms_params::torchvision(0.5));
  for (index_t i = 0; i < scene.size(); ++i) scene.images.push_back(i / 1000);
  for (const nms_order order :
       {nms_order::score, nms_order::index, nms_order::image_score, nms_order::image_class_score}) {
    nms_params params;
    params.order = order;
    params.max_per_image = 300;
    check_scene(scene, params);
    params.max_total = 700;
    check_scene(scene, params);
  }
  check_scene(scene, nms_params::onnx(0.5, 7));

  // The same images as offsets.
  nms_groups by_offset{scene.classes};
  const indices offsets = {0, 1000, 2000, 3000, 4000, 5000, 6000};
  by_offset.image_offsets = offsets;
  CHECK(batched_nms(scene.b(), scene.s(), by_offset) == expected_of(scene, nms_params{}));

  // A separate class for every box; the classes are far apart as numbers.
  for (index_t i = 0; i < scene.size(); ++i)
    scene.classes[static_cast<std::size_t>(i)] = i * (index_t{1} << 50);
  check_scene(scene, nms_params::torchvision(0.5));
}

TEST_CASE_TEMPLATE("NMS: ties across classes are broken by index", T, float, double, bfloat16) {
  // Few scores, so that hundreds of each are kept; doubles differ in their lower halves as well.
  random_generator generator(31);
  scene_of<T> scene = clustered_scene<T>(4000, 32);
  for (T& score : scene.scores) {
    const double step = sizeof(T) == 8 ? 1e-12 : 0.125;
    score = to<T>(0.5 + step * static_cast<double>(generator.below(4)));
  }
  // Later boxes have lower classes: the groups come in another order than the boxes.
  for (index_t i = 0; i < scene.size(); ++i) scene.classes.push_back(generator.below(5) - i / 100);
  for (index_t i = 0; i < scene.size(); ++i) scene.images.push_back(generator.below(3));
  for (const nms_order order :
       {nms_order::score, nms_order::index, nms_order::image_score, nms_order::image_class_score}) {
    for (const index_t limit : {no_limit, index_t{500}}) {
      INFO("order ", static_cast<int>(order), " limit ", limit);
      nms_params params;
      params.order = order;
      params.max_total = limit;
      check_scene(scene, params);
      params.max_per_image = 400;
      check_scene(scene, params);
    }
  }
}

TEST_CASE_TEMPLATE("NMS: the order of the boxes does not change the result", T, float, double) {
  random_generator generator(51);
  const index_t count = 3000;
  scene_of<T> scene = clustered_scene<T>(count, 52), shuffled = scene;
  for (index_t i = 0; i < count; ++i) {
    scene.scores[static_cast<std::size_t>(i)] = static_cast<T>(i) / 4096;  // all different
    scene.classes.push_back(generator.below(3));
  }
  indices from;  // box i of `shuffled` is box from[i] of `scene`
  for (index_t i = 0; i < count; ++i) {
    from.push_back(i);
    std::swap(from.back(), from[static_cast<std::size_t>(generator.below(i + 1))]);
  }
  shuffled.classes = scene.classes;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto k = static_cast<std::size_t>(from[i]);
    std::copy_n(&scene.boxes[4 * k], 4, &shuffled.boxes[4 * i]);
    shuffled.scores[i] = scene.scores[k];
    shuffled.classes[i] = scene.classes[k];
  }
  const auto check = [&] {
    for (const nms_params& params : {nms_params::torchvision(0.5), nms_params::mmcv(0.3, true),
                                     nms_params::onnx(0.5, 40), nms_params::opencv(0.4, 0.1)}) {
      nms_workspace workspace;
      indices kept = actual_of(shuffled, params, workspace);
      for (index_t& i : kept) i = from[static_cast<std::size_t>(i)];
      CHECK(kept == actual_of(scene, params, workspace));
    }
  };
  for_each_isa([&](isa) { check(); });
  scene.classes.clear();
  shuffled.classes.clear();
  for_each_isa([&](isa) { check(); });
}

TEST_CASE("NMS: bad arguments throw errors that name them") {
  const std::vector<float> boxes(8), scores(2), three(3);
  const boxes_view<const float> b(boxes);
  const vector_view<const float> s(scores);
  const auto fails = [&](const nms_params& params, const nms_groups& groups, const char* message) {
    CHECK_THROWS_WITH_AS(batched_nms(b, s, groups, params), doctest::Contains(message),
                         std::invalid_argument);
  };
  CHECK_THROWS_WITH_AS(nms(b, vector_view<const float>(three)),
                       doctest::Contains("vecdet::nms: scores.size() is 3"), std::invalid_argument);
  fails(nms_params::torchvision(-0.1), {}, "batched_nms: params.iou_threshold is -0.1");
  fails(nms_params::torchvision(1.5), {}, "params.iou_threshold is 1.5");
  fails(nms_params::torchvision(quiet_nan), {}, "params.iou_threshold is nan");
  nms_params params;
  params.score_threshold = quiet_nan;
  fails(params, {}, "params.score_threshold is nan");
  for (const auto limit :
       {&nms_params::max_per_class, &nms_params::max_per_image, &nms_params::max_total}) {
    params = {};
    params.*limit = -1;
    fails(params, {}, "is -1, expected 0 or more");
  }
  const indices one = {1}, two = {1, 2}, offsets = {0, 2, 1}, short_offsets = {0, 1};
  // Empty nms_groups mean one group; an empty container of classes is a mistake.
  for (const indices& classes : {indices{}, one, indices{1, 2, 3}})
    CHECK_THROWS_WITH_AS(batched_nms(b, s, classes),
                         ("vecdet::batched_nms: groups.size() is " +
                          std::to_string(classes.size()) + ", expected 2, the number of boxes")
                             .c_str(),
                         std::invalid_argument);
  nms_groups groups{one};
  fails({}, groups, "groups.classes.size() is 1");
  groups = {};
  groups.images = one;
  fails({}, groups, "groups.images.size() is 1");
  groups = {};
  groups.image_offsets = offsets;
  fails({}, groups, "groups.image_offsets[2] is 1");
  groups.image_offsets = short_offsets;
  fails({}, groups, "groups.image_offsets[1] is 1");
  groups.image_offsets = one;
  fails({}, groups, "groups.image_offsets[0] is 1");
  groups.image_offsets = short_offsets;
  groups.images = two;
  fails({}, groups, "groups.images.size() is 2");
  groups = {};
  groups.classes = two;
  const std::vector<double> two_thresholds{0, 0.5}, bad_thresholds{0, 0.5, quiet_nan};
  params = {};
  params.classes = one;
  fails(params, {}, "groups.classes.size() is 0, expected one class per box for params.classes");
  CHECK_THROWS_WITH_AS(nms(b, s, params), doctest::Contains("nms: groups.classes.size() is 0"),
                       std::invalid_argument);
  params.classes = {};
  params.class_thresholds = two_thresholds;
  fails(params, groups,
        "groups.classes[1] is 2, expected 0 to 1 (2 classes in params.class_thresholds or "
        "class_groups)");
  params.class_groups = one;
  fails(params, groups,
        "params.class_groups.size() is 1, expected that of params.class_thresholds");
  params.class_groups = {};
  params.class_thresholds = bad_thresholds;
  fails(params, groups, "params.class_thresholds[2] is nan, expected a number");
}
