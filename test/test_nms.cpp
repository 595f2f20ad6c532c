// SPDX-License-Identifier: Apache-2.0
// NMS against the reference and golden vectors: every instruction set, element type, option and
// preset; random cases with ties, duplicates, overlaps exactly at the threshold, degenerate and NaN
// boxes; sizes around the block width and beyond the index's; extreme scenes; limits, groups,
// orders; no allocation, the same result on any number of threads; and every documented error.
#include "support/allocations.hpp"
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/values.hpp"
#include <vecdet/nms.hpp>
#include <vecdet/reference/nms.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

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
                  execution policy = execution::parallel) {
  nms_groups groups;
  groups.classes = scene.classes;
  groups.images = scene.images;
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

/// Scores of few values, so that ties abound.
template <class T>
std::vector<T> tied_scores(index_t count, random_generator& generator) {
  std::vector<T> scores;
  for (index_t i = 0; i < count; ++i)
    scores.push_back(to<T>(static_cast<double>(generator.below(8)) / 8));
  return scores;
}

template <class T>
std::vector<T> random_scores(index_t count, random_generator& generator) {
  std::vector<T> scores;
  for (index_t i = 0; i < count; ++i) scores.push_back(to<T>(generator.uniform()));
  return scores;
}

/// Boxes jittered around a few objects, in any place and of any size.
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

/// All parameters that a random number chooses.
nms_params random_params(random_generator& generator) {
  nms_params params;
  const double thresholds[] = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 0.25, 0.75, 1e-9};
  params.iou_threshold = thresholds[generator.below(14)];
  params.suppress_equal = generator.chance(0.3);
  params.float_threshold = generator.chance(0.3);
  params.plus_one = generator.chance(0.2);
  params.drop_nan_scores = generator.chance(0.3);
  params.drop_degenerate = generator.chance(0.2);
  if (generator.chance(0.2)) params.score_threshold = 0.25;
  if (generator.chance(0.2))
    params.format = generator.chance(0.5) ? nms_format::any_corners : nms_format::centre;
  if (generator.chance(0.2))
    params.overlap = generator.chance(0.5) ? nms_overlap::positive_area : nms_overlap::jaccard;
  params.order = static_cast<nms_order>(generator.below(4));
  if (generator.chance(0.2)) params.max_per_class = generator.below(4);
  if (generator.chance(0.2)) params.max_per_image = generator.below(6);
  if (generator.chance(0.2)) params.max_total = generator.below(10);
  return params;
}

/// A few boxes on a coarse grid: equal, nested, touching, without area, inverted; at times special.
template <class T>
scene_of<T> small_scene(random_generator& generator) {
  scene_of<T> scene;
  const index_t count = generator.below(generator.chance(0.1) ? 70 : 12);
  const bool special = generator.chance(0.1);
  const double shift = generator.chance(0.3) ? -6 : 0;
  for (index_t i = 0; i < count; ++i) {
    if (special && generator.chance(0.3)) {
      const auto& boxes = special_boxes();
      const auto& box =
          boxes[static_cast<std::size_t>(generator.below(static_cast<index_t>(boxes.size())))];
      for (const double c : box) scene.boxes.push_back(to<T>(c));
      continue;
    }
    const double x = static_cast<double>(generator.below(6)) + shift;
    const double y = static_cast<double>(generator.below(6)) + shift;
    for (const double c :
         {x, y, x + static_cast<double>(generator.below(11)) - (generator.chance(0.05) ? 5 : 0),
          y + static_cast<double>(generator.below(11))})
      scene.boxes.push_back(to<T>(c));
  }
  scene.scores = tied_scores<T>(count, generator);
  if (special)
    for (T& score : scene.scores)
      if (generator.chance(0.1)) score = to<T>(generator.chance(0.5) ? quiet_nan : -0.0);
  const index_t wide = index_t{1} << 61;
  if (generator.chance(0.3))
    for (index_t i = 0; i < count; ++i) scene.classes.push_back(generator.below(3) - 1);
  else if (generator.chance(0.1))
    for (index_t i = 0; i < count; ++i) scene.classes.push_back((generator.below(3) - 1) * wide);
  if (generator.chance(0.2))
    for (index_t i = 0; i < count; ++i) scene.images.push_back(generator.below(2) - 1);
  else if (generator.chance(0.1))
    for (index_t i = 0; i < count; ++i) scene.images.push_back((generator.below(4) - 2) * wide);
  return scene;
}

template <class T>
void check_random_cases(index_t cases, std::uint64_t seed) {
  std::vector<isa> sets;
  for_each_isa([&](isa set) { sets.push_back(set); });
  const isa before = active_isa();
  nms_workspace workspace;
  index_t wrong = 0;
  for (index_t c = 0; c < cases && wrong < 5; ++c) {
    random_generator generator(seed + static_cast<std::uint64_t>(c));
    const scene_of<T> scene = small_scene<T>(generator);
    const nms_params params = random_params(generator);
    const indices expected = expected_of(scene, params);
    // Every instruction set in turn: each has its share of the cases.
    set_isa(sets[static_cast<std::size_t>(c) % sets.size()]);
    if (actual_of(scene, params, workspace, execution::sequential) == expected) continue;
    ++wrong;
    FAIL_CHECK("case ", c, " on ", std::string(isa_name(active_isa())));
  }
  set_isa(before);
}

// What the frameworks of two presets document, in a few lines that know nothing of nms_params.

/// Down the scores above the threshold, a box is kept unless suppresses(kept box, box).
template <class Suppresses>
indices kept_of(const indices& candidates, const std::vector<float>& scores, float score_threshold,
                std::size_t limit, const Suppresses& suppresses) {
  const auto score = [&](index_t i) { return scores[static_cast<std::size_t>(i)]; };
  indices order, kept;
  for (const index_t i : candidates)
    if (score(i) > score_threshold) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](index_t a, index_t b) { return score(a) > score(b); });
  for (const index_t i : order) {
    if (kept.size() == limit) break;
    if (std::none_of(kept.begin(), kept.end(), [&](index_t k) { return suppresses(k, i); }))
      kept.push_back(i);
  }
  return kept;
}

template <class Number>
using four = std::array<Number, 4>;

/// Of cv::Rect (int) and cv::Rect2d (double), x y width height: 1 - jaccardDistance in float.
template <class Number>
float opencv_overlap(const four<Number>& a, const four<Number>& b) {
  const Number areas = a[2] * a[3] + b[2] * b[3];
  if (areas <= std::numeric_limits<Number>::epsilon()) return 1;
  const Number w = std::min(a[0] + a[2], b[0] + b[2]) - std::max(a[0], b[0]);
  const Number h = std::min(a[1] + a[3], b[1] + b[3]) - std::max(a[1], b[1]);
  const double shared = w > 0 && h > 0 ? static_cast<double>(w * h) : 0;
  const double distance = 1 - shared / (static_cast<double>(areas) - shared);
  return 1 - static_cast<float>(distance);
}

/// Of two boxes of ONNX's NonMaxSuppression: any two opposite corners, or centre and size.
float onnx_overlap(const float* a, const float* b, bool centre_format) {
  float side[3][2];  // of a, of b, shared
  for (int k = 0; k < 2; ++k) {
    const auto ends = [&](const float* box) -> std::pair<float, float> {
      if (centre_format) return {box[k] - box[k + 2] / 2, box[k] + box[k + 2] / 2};
      return std::minmax({box[k], box[k + 2]});
    };
    const auto of_a = ends(a), of_b = ends(b);
    side[0][k] = of_a.second - of_a.first;
    side[1][k] = of_b.second - of_b.first;
    side[2][k] = std::min(of_a.second, of_b.second) - std::max(of_a.first, of_b.first);
    if (side[2][k] <= 0) return 0;
  }
  const volatile float of_a = side[0][0] * side[0][1], of_b = side[1][0] * side[1][1];
  const volatile float shared = side[2][0] * side[2][1];
  const float joined = of_a + of_b - shared;
  return shared > 0 && of_a > 0 && of_b > 0 && joined > 0 ? shared / joined : 0;
}

/// Scores that meet the thresholds 0.1 and 0.2 as floats, and lie right beside them.
std::vector<float> scores_at_thresholds(index_t count, random_generator& generator) {
  std::vector<float> scores;
  for (index_t i = 0; i < count; ++i) {
    const float at = generator.chance(0.5) ? 0.1f : 0.2f;
    scores.push_back(generator.chance(0.3)   ? at
                     : generator.chance(0.2) ? std::nextafter(at, generator.chance(0.5) ? 0 : 1.0f)
                                             : static_cast<float>(generator.uniform(0, 0.5)));
  }
  return scores;
}

/// Rectangles as opencv_nms takes them: corners of floats for ints, of doubles for doubles.
template <class Number, class Corner>
void check_opencv_preset() {
  random_generator generator(41);
  for (int c = 0; c < 600; ++c) {
    const index_t count = generator.below(50);
    std::vector<four<Number>> rectangles;
    std::vector<Corner> boxes;
    indices all;
    const auto any = [&](index_t bound) {  // in quarters, where those are numbers
      return static_cast<Number>(static_cast<double>(generator.below(4 * bound)) / 4);
    };
    for (index_t i = 0; i < count; ++i) {
      rectangles.push_back({any(16) - 8, any(16) - 8, any(10), any(10)});
      const four<Number>& r = rectangles.back();
      for (const Number corner : {r[0], r[1], r[0] + r[2], r[1] + r[3]})
        boxes.push_back(static_cast<Corner>(corner));
      all.push_back(i);
    }
    const std::vector<float> scores = scores_at_thresholds(count, generator);
    for (const double score_threshold : {0.1, 0.2}) {
      for (const double iou_threshold : {0.0, 0.1, 0.2, 1.0 / 3, 0.4, 0.5, 0.6, 0.7}) {
        const indices expected =
            kept_of(all, scores, static_cast<float>(score_threshold), scores.size(),
                    [&](index_t kept, index_t i) {
                      return opencv_overlap(rectangles[static_cast<std::size_t>(i)],
                                            rectangles[static_cast<std::size_t>(kept)]) >
                             static_cast<float>(iou_threshold);
                    });
        INFO("case ", c, " score threshold ", score_threshold, " IoU threshold ", iou_threshold);
        CHECK(nms(boxes_view<const Corner>(boxes), vector_view<const float>(scores),
                  opencv_nms(iou_threshold, score_threshold)) == expected);
      }
    }
  }
}

void check_onnx_preset(bool centre_format) {
  random_generator generator(42);
  for (int c = 0; c < 600; ++c) {
    const index_t count = generator.below(50);
    std::vector<float> boxes;
    nms_groups groups;
    indices classes, of_class[3];
    for (index_t i = 0; i < count; ++i) {
      for (int k = 0; k < 4; ++k)
        boxes.push_back(generator.chance(0.8) ? static_cast<float>(generator.below(12))
                                              : static_cast<float>(generator.uniform(0, 12)));
      classes.push_back(generator.below(3));
      of_class[classes.back()].push_back(i);
    }
    groups.classes = classes;
    const std::vector<float> scores = scores_at_thresholds(count, generator);
    for (const double score_threshold : {0.1, 0.2}) {
      for (const double iou_threshold : {0.0, 0.1, 0.2, 1.0 / 3, 0.4, 0.5, 0.6, 0.7}) {
        const index_t limit = generator.chance(0.5) ? 4 : 1000;
        indices expected;  // by class, then score
        for (const indices& candidates : of_class) {
          const indices kept =
              kept_of(candidates, scores, static_cast<float>(score_threshold),
                      static_cast<std::size_t>(limit), [&](index_t k, index_t i) {
                        return onnx_overlap(&boxes[static_cast<std::size_t>(4 * i)],
                                            &boxes[static_cast<std::size_t>(4 * k)],
                                            centre_format) > static_cast<float>(iou_threshold);
                      });
          expected.insert(expected.end(), kept.begin(), kept.end());
        }
        nms_params params = onnx_nms(iou_threshold, limit, centre_format);
        params.score_threshold = score_threshold;
        INFO("case ", c, " score threshold ", score_threshold, " IoU threshold ", iou_threshold);
        CHECK(batched_nms(boxes_view<const float>(boxes), vector_view<const float>(scores), groups,
                          params) == expected);
      }
    }
  }
}

}  // namespace

TEST_CASE("NMS: golden vectors") {
  if (!has_data("golden/nms_boxes_0.npy", "NMS: golden vectors")) return;
  for (int set = 0; set < 10; ++set) {
    const std::string name = std::to_string(set);
    scene_of<float> scene;
    scene.boxes = golden<float>("nms_boxes_" + name).values;
    scene.scores = golden<float>("nms_scores_" + name).values;
    const auto classes = golden<std::int64_t>("nms_classes_" + name).values;
    for (const int tenths : {1, 3, 5, 6, 7}) {
      CAPTURE(set);
      CAPTURE(tenths);
      const std::string suffix = name + "_" + std::to_string(tenths);
      const nms_params params = torchvision_nms(tenths / 10.0);
      const indices expected = golden<std::int64_t>("nms_keep_" + suffix).values;
      indices batched = golden<std::int64_t>("nms_batched_" + suffix).values;
      std::sort(batched.begin(), batched.end());
      for_each_isa([&](isa) {
        nms_workspace workspace;
        scene.classes.clear();
        CHECK(actual_of(scene, params, workspace) == expected);
        scene.classes = classes;
        const indices mine = actual_of(scene, params, workspace);
        CHECK(mine == expected_of(scene, params));
        // torchvision does not promise an order of equal scores of different classes.
        indices sorted = mine;
        std::sort(sorted.begin(), sorted.end());
        CHECK(sorted == batched);
      });
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
  // Mask R-CNN's box head: 1000 boxes an image and class, those of 80 classes above 0.05.
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
      check_scene(*scene, torchvision_nms(threshold));
      check_scene(*scene, ipex_nms(threshold));
    }
    nms_workspace workspace;
    const std::size_t kept = actual_of(*scene, torchvision_nms(0.5), workspace).size();
    MESSAGE(scene->size() << " recorded boxes, " << kept << " kept");
    CHECK(kept < static_cast<std::size_t>(scene->size()));
  }
}

TEST_CASE("NMS: a million random cases") {
  check_random_cases<float>(800000, 1);
  check_random_cases<double>(150000, 1u << 30);
  check_random_cases<bfloat16>(50000, 1u << 31);
}

TEST_CASE_TEMPLATE("NMS: clusters, with and without the index", T, float, double, bfloat16) {
  for (const index_t count : {1, 15, 16, 17, 31, 33, 255, 499, 520, 999, 1020, 1500, 1520, 4000}) {
    CAPTURE(count);
    for (const double threshold : {0.0, 0.02, 0.3, 0.5, 0.7, 0.95, 1.0}) {
      CAPTURE(threshold);
      if (count > 1500 && threshold != 0.5 && threshold != 0.95) continue;
      check_scene(clustered_scene<T>(count, 7 + static_cast<std::uint64_t>(count)),
                  torchvision_nms(threshold));
    }
  }
}

TEST_CASE("NMS: boxes in frames of any size and place") {
  // Hundreds to some thousands are compared in 16-bit steps of the frame around them, while most
  // areas are some steps; these counts lie around the limits of that, of the index, and of blocks.
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
      check_scene(scene, torchvision_nms(0.5));
      check_scene(scene, mmcv_nms(0.35, true));
    }
  }
  // A box far off, and more or fewer that are no steps large.
  for (const std::size_t every : {2u, 14u, 17u, 1000u}) {
    CAPTURE(every);
    scene_of<float> scene = clustered_scene<float>(1500, ++seed);
    for (std::size_t i = 0; i < scene.boxes.size(); i += 4 * every) {
      scene.boxes[i + 2] = scene.boxes[i] + 1.5f;
      scene.boxes[i + 3] = scene.boxes[i + 1] + 1.5f;
    }
    check_scene(scene, torchvision_nms(0.5));
    scene.boxes[8] = -3e6f;
    scene.boxes[10] = -2.9e6f;
    check_scene(scene, torchvision_nms(0.5));
  }
  // Boxes that nearly coincide, in a frame too large to tell them apart: at high thresholds, hardly
  // any is suppressed that the steps let pass.
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
      check_scene(close, torchvision_nms(threshold));
      check_scene(close, opencv_nms(threshold, -1));
    }
    nms_params few = torchvision_nms(0.95);
    few.max_total = 300;
    check_scene(close, few);
    for (std::size_t i = 0; i < close.boxes.size(); i += 12)
      close.boxes[i] = static_cast<float>(quiet_nan);
    check_scene(close, ipex_nms(0.9));
  }
  // Small whole numbers: many overlaps are just the threshold.
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
    check_scene(scene, torchvision_nms(threshold));
    check_scene(scene, onnx_nms(threshold, no_limit));
    check_scene(scene, mmcv_nms(threshold, true));
  }
}

TEST_CASE("NMS: every preset on many boxes") {
  scene_of<float> scene = clustered_scene<float>(4000, 3, -400);
  for (float& c : scene.boxes) c = std::floor(c);
  for (const double threshold : {0.1, 0.3, 0.5, 0.75}) {
    CAPTURE(threshold);
    check_scene(scene, torchvision_nms(threshold));
    check_scene(scene, mmcv_nms(threshold));
    check_scene(scene, mmcv_nms(threshold, true));
    check_scene(scene, ipex_nms(threshold));
    check_scene(scene, onnx_nms(threshold, no_limit));
    check_scene(scene, opencv_nms(threshold, 0.25));
  }
  // Centre and size.
  scene_of<float> centres = scene;
  for (std::size_t i = 0; i < centres.boxes.size(); i += 4)
    for (std::size_t k = 0; k < 2; ++k) centres.boxes[i + 2 + k] -= centres.boxes[i + k];
  check_scene(centres, onnx_nms(0.5, no_limit, true));
}

TEST_CASE("NMS: OpenCV's preset is NMSBoxes") {
  for_each_isa([](isa) {
    check_opencv_preset<int, float>();
    check_opencv_preset<double, double>();
  });
}

TEST_CASE("NMS: ONNX Runtime's preset is NonMaxSuppression") {
  for_each_isa([](isa) {
    check_onnx_preset(false);
    check_onnx_preset(true);
  });
}

TEST_CASE_TEMPLATE("NMS: odd boxes among many, by every rule", T, float, double, bfloat16) {
  random_generator generator(31);
  const nms_params presets[] = {
      torchvision_nms(0.5),       mmcv_nms(0.3, true), ipex_nms(0.5),      onnx_nms(0.4, no_limit),
      opencv_nms(0.5, -1),        ipex_nms(0),         torchvision_nms(0), mmcv_nms(1e-5, true),
      mmcv_nms(2e-3, true),       onnx_nms(0.5, 40),   opencv_nms(0, -1),  opencv_nms(1e-3, -1),
      torchvision_nms(0.5 - 1e-9)};
  for (const double share : {0.0004, 0.02, 0.5, 1.0}) {
    scene_of<T> scene = clustered_scene<T>(2500, 5, -100);
    for (std::size_t i = 0; i < scene.boxes.size(); i += 4) {
      if (!generator.chance(share)) continue;
      T* const box = &scene.boxes[i];
      const double x = static_cast<double>(box[0]), y = static_cast<double>(box[1]);
      switch (generator.below(9)) {
        case 0:  // no area
          box[2] = box[0];
          break;
        case 1:  // inverted
          std::swap(box[0], box[2]);
          break;
        case 2:  // inverted both ways: its area is above 0
          std::swap(box[0], box[2]);
          std::swap(box[1], box[3]);
          break;
        case 3:
          box[generator.below(4)] = to<T>(quiet_nan);
          break;
        case 4:
          box[generator.below(4)] = to<T>(std::numeric_limits<double>::infinity());
          break;
        case 5: {  // so small that products of its sides lose digits
          const double side = std::ldexp(1.0, -static_cast<int>(generator.below(75)));
          box[0] = box[1] = to<T>(0);
          box[2] = box[3] = to<T>(side);
          break;
        }
        case 6:  // of a side of nearly 0 where pixels are counted
          box[2] = to<T>(x - 0.99);
          break;
        case 7:
          box[2] = to<T>(x - 1);
          box[3] = to<T>(y - 1);
          break;
        default:  // of an infinite area in float
          box[0] = box[1] = to<T>(-1e20);
          box[2] = box[3] = to<T>(1e20);
      }
    }
    for (const nms_params& params : presets) {
      CAPTURE(share);
      CAPTURE(params.iou_threshold);
      CAPTURE(params.plus_one);
      check_scene(scene, params);
    }
  }
}

TEST_CASE("NMS: a few odd boxes keep no preset from the index") {
  scene_of<float> scene = clustered_scene<float>(9000, 3);
  for (std::size_t i = 0; i < scene.boxes.size(); i += 400) scene.boxes[i + 2] = scene.boxes[i];
  scene.boxes[4] = scene.boxes[5] = 0;
  scene.boxes[6] = scene.boxes[7] = 1e-16f;
  for_each_isa([&](isa) {
    const auto& kernels =
        vecdet::detail::kernels<vecdet::detail::nms_kernels<float>>(vecdet::active_isa());
    for (const nms_params& params : {torchvision_nms(0.5), mmcv_nms(0.5), mmcv_nms(0.5, true),
                                     ipex_nms(0.5), onnx_nms(0.5, no_limit), opencv_nms(0.5, 0)}) {
      std::vector<vecdet::detail::nms_record> order(scene.scores.size()), kept(order.size());
      vecdet::detail::nms_args<float> args{};
      args.boxes = scene.boxes.data();
      args.format = params.format;
      args.overlap = params.overlap;
      args.plus_one = params.plus_one;
      args.least_overlap = static_cast<double>(vecdet::detail::least_overlap<float>(params));
      args.max_kept = no_limit;
      vecdet::detail::nms_state state{};
      state.order = order.data();
      state.count = kernels.select(scene.scores.data(), 0, scene.size(), -1, false, order.data());
      state.kept = kept.data();
      std::vector<vecdet::detail::cache_line> scratch(
          static_cast<std::size_t>(kernels.scratch_bytes(state.count) / 64 + 1));
      state.scratch = scratch.data();
      kernels.begin(args, state);
      CHECK(!state.done);
    }
  });
}

TEST_CASE("NMS: extreme scenes") {
  random_generator generator(5);
  const index_t count = 3000;
  const auto run = [&](const char* name, const auto& box_of) {
    CAPTURE(std::string(name));
    scene_of<float> scene;
    for (index_t i = 0; i < count; ++i)
      for (const double c : box_of(static_cast<double>(i)))
        scene.boxes.push_back(static_cast<float>(c));
    scene.scores = random_scores<float>(count, generator);
    for (const double threshold : {0.0, 0.1, 0.5, 0.9, 1.0})
      check_scene(scene, torchvision_nms(threshold));
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
  check_scene(scene, torchvision_nms(0.5));
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
  check_scene(scene, onnx_nms(0.5, 7));

  // The same images by their offsets.
  nms_groups by_offset;
  by_offset.classes = scene.classes;
  const indices offsets = {0, 1000, 2000, 3000, 4000, 5000, 6000};
  by_offset.image_offsets = offsets;
  CHECK(batched_nms(scene.b(), scene.s(), by_offset) == expected_of(scene, nms_params{}));

  // Every box of a class of its own, far apart as numbers.
  for (index_t i = 0; i < scene.size(); ++i)
    scene.classes[static_cast<std::size_t>(i)] = i * (index_t{1} << 50);
  check_scene(scene, torchvision_nms(0.5));
}

TEST_CASE_TEMPLATE("NMS: equal scores across classes go by index", T, float, double, bfloat16) {
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

TEST_CASE_TEMPLATE("NMS: boxes in another order are kept in the same", T, float, double) {
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
    for (const nms_params& params :
         {torchvision_nms(0.5), mmcv_nms(0.3, true), onnx_nms(0.5, 40), opencv_nms(0.4, 0.1)}) {
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

TEST_CASE("NMS: any number of threads gives the same, and later calls allocate nothing") {
  scene_of<float> scene = clustered_scene<float>(20000, 21);
  random_generator generator(22);
  for (index_t i = 0; i < scene.size(); ++i) scene.classes.push_back(generator.below(20));
  nms_workspace workspace;
  const indices sequential = actual_of(scene, nms_params{}, workspace, execution::sequential);
  for (const int threads : {1, 2, 3, 300}) {
    tbb::task_arena arena(threads);
    arena.execute([&] { CHECK(actual_of(scene, nms_params{}, workspace) == sequential); });
  }
  nms_groups groups;
  groups.classes = scene.classes;
  for (const execution policy : {execution::sequential, execution::parallel}) {
    const allocation_count allocations;
    batched_nms(scene.b(), scene.s(), groups, {}, workspace, policy);
    nms(scene.b(), scene.s(), {}, workspace, policy);
    const std::int64_t first = allocations.since();
    for (int i = 0; i < 3; ++i) {
      batched_nms(scene.b(), scene.s(), groups, {}, workspace, policy);
      nms(scene.b(), scene.s(), {}, workspace, policy);
    }
    CHECK(allocations.since() == first);
  }
}

TEST_CASE("NMS: bad arguments are named") {
  const std::vector<float> boxes(8), scores(2), three(3);
  const boxes_view<const float> b(boxes);
  const vector_view<const float> s(scores);
  const auto fails = [&](const nms_params& params, const nms_groups& groups, const char* message) {
    CHECK_THROWS_WITH_AS(batched_nms(b, s, groups, params), doctest::Contains(message),
                         std::invalid_argument);
  };
  CHECK_THROWS_WITH_AS(nms(b, vector_view<const float>(three)),
                       doctest::Contains("vecdet::nms: scores.size() is 3"), std::invalid_argument);
  fails(torchvision_nms(-0.1), {}, "batched_nms: params.iou_threshold is -0.1");
  fails(torchvision_nms(1.5), {}, "params.iou_threshold is 1.5");
  fails(torchvision_nms(quiet_nan), {}, "params.iou_threshold is nan");
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
  nms_groups groups;
  groups.classes = one;
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
}
