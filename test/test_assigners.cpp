// SPDX-License-Identifier: Apache-2.0
// ATSS and the task-aligned assigner: the reference and the kernels against golden vectors; the
// kernels against the reference on every instruction set, with grids of every kind, boxes inside
// and outside of them, ties, batches, ignore regions and special values; and every documented
// error.
#include "support/assigner_scene.hpp"
#include "support/box_tensor.hpp"
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/assigners.hpp>

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

using bench::pyramid;

/// The points of each level.
std::vector<index_t> sizes_of(const pyramid& p) {
  std::vector<index_t> sizes;
  for (const grid_size& level : p.levels) sizes.push_back(level.height * level.width);
  return sizes;
}

/// Boxes of all sizes, some beyond the image; of whole numbers if distances and IoUs should tie.
std::vector<float> boxes_near(index_t count, std::uint64_t seed, bool whole) {
  random_generator generator(seed);
  std::vector<float> boxes;
  for (index_t i = 0; i < count; ++i) {
    const double w = generator.uniform(1, generator.chance(0.3) ? 150 : 40);
    const double h = generator.uniform(1, generator.chance(0.3) ? 180 : 40);
    const double x = generator.uniform(-20, 160), y = generator.uniform(-20, 200);
    for (const double number : {x, y, x + w, y + h})
      boxes.push_back(to<float>(whole ? 8 * std::floor(number / 8) : number));
  }
  return boxes;
}

/// Ignore regions of a batch: about `per_image` for each image.
struct image_regions {
  std::vector<float> boxes;
  std::vector<index_t> offsets;

  image_regions(index_t images, index_t per_image, std::uint64_t seed)
      : boxes(boxes_near(images * per_image, seed, true)),
        offsets(offsets_of(images, images * per_image)) {
    // Inverted, empty and NaN regions contain nothing; infinite ones contain all.
    for (std::size_t i = 0; i + 4 <= boxes.size(); i += 4) {
      if (i % 28 == 4) std::swap(boxes[i], boxes[i + 2]);
      if (i % 28 == 8) boxes[i + 3] = boxes[i + 1];
      if (i % 28 == 12) boxes[i + 1] = quiet_nan;
      if (i % 28 == 16) boxes[i] = -infinity;
    }
  }
  boxes_view<const float> of(index_t image) const {
    const auto k = static_cast<std::size_t>(image);
    return {boxes.data() + 4 * offsets[k], offsets[k + 1] - offsets[k]};
  }
  void give(ground_truth& truth) const {
    truth.regions = boxes_view<const float>(boxes);
    if (!truth.image_offsets.empty()) truth.region_offsets = offsets;
  }
};

void check_atss(const pyramid& p, const std::vector<float>& truth, index_t images = 1,
                index_t k = 9) {
  const boxes_view<const float> boxes(truth);
  const std::vector<index_t> offsets = offsets_of(images, boxes.size());
  std::vector<index_t> matches(static_cast<std::size_t>(images * p.size()), 77);
  ground_truth known{boxes};
  if (images > 1) known.image_offsets = offsets;
  atss_params params;
  params.candidates = k;
  assigner_workspace workspace;
  assign_atss(p.boxes(), p.levels, known, matches, params, workspace);
  for (index_t image = 0; image < images; ++image) {
    const index_t first = offsets[static_cast<std::size_t>(image)];
    const index_t last = offsets[static_cast<std::size_t>(image + 1)];
    const auto expected =
        reference::atss(p.boxes(), sizes_of(p), {boxes[first], last - first}, k).matches;
    for (index_t i = 0; i < p.size(); ++i) {
      const index_t match = expected[static_cast<std::size_t>(i)];
      const index_t actual = matches[static_cast<std::size_t>(image * p.size() + i)];
      if (actual != (match < 0 ? -1 : first + match))
        FAIL_CHECK("anchor " << i << " of image " << image << " is matched with " << actual
                             << ", expected " << match << " from " << first);
    }
  }
}

struct task_problem {
  pyramid points;
  std::vector<float> scores, predictions, truth;
  std::vector<index_t> classes, offsets;
  index_t class_count = 5, images, stride;
  task_aligned_params params;
  std::vector<index_t> matches;
  std::vector<float> targets;

  task_problem(const pyramid& p, index_t boxes, std::uint64_t seed, index_t per_image = 1,
               index_t padding = 0)
      : points(p),
        truth(boxes_near(boxes, seed, false)),
        offsets(offsets_of(per_image, boxes)),
        images(per_image),
        stride(class_count + padding),
        matches(static_cast<std::size_t>(per_image * p.size()), 77),
        targets(matches.size(), 77) {
    random_generator generator(seed + 1);
    for (index_t i = 0; i < images * p.size(); ++i) {
      for (index_t c = 0; c < stride; ++c)
        scores.push_back(to<float>(generator.uniform(0.001, 0.9)));
      // Near a ground-truth box or around the point.
      const index_t point = i % p.size();
      for (int k = 0; k < 4; ++k) {
        const float at = p.points[static_cast<std::size_t>(2 * point + (k & 1))];
        predictions.push_back(at + to<float>(generator.uniform(2, 40)) * (k < 2 ? -1.0f : 1.0f));
      }
      if (boxes > 0 && generator.chance(0.4)) {
        const auto near = static_cast<std::size_t>(4 * generator.below(boxes));
        for (std::size_t k = 0; k < 4; ++k)
          predictions[static_cast<std::size_t>(4 * i) + k] =
              truth[near + k] + to<float>(generator.uniform(-4, 4));
      }
    }
    for (index_t g = 0; g < boxes; ++g) classes.push_back(generator.below(class_count));
  }
  task_aligned_predictions said() const {
    return {{scores.data(), images * points.size(), class_count, stride},
            boxes_view<const float>(predictions)};
  }
  ground_truth known() const {
    ground_truth result{boxes_view<const float>(truth), classes};
    if (images > 1) result.image_offsets = offsets;
    return result;
  }
  void run(const ground_truth& truth_and_regions, assigner_workspace& workspace) {
    assign_task_aligned(said(), points.where(), points.levels, truth_and_regions, matches, targets,
                        params, workspace);
  }
  void run(assigner_workspace& workspace) { run(known(), workspace); }
  void check() {
    assigner_workspace workspace;
    run(workspace);
    const index_t n = points.size();
    for (index_t image = 0; image < images; ++image) {
      const index_t first = offsets[static_cast<std::size_t>(image)];
      const index_t count = offsets[static_cast<std::size_t>(image + 1)] - first;
      const auto expected = reference::task_aligned(
          {scores.data() + image * n * stride, n, class_count, stride},
          {predictions.data() + 4 * image * n, n}, points.where(),
          {truth.data() + 4 * first, count}, {classes.data() + first, count},
          {params.top, params.alpha, params.beta, static_cast<float>(params.least_side),
           static_cast<float>(params.grown_side), params.final_top});
      check_assignment(expected, image, first, matches, targets, {2e-5, 1e-9});
    }
  }
};

}  // namespace

TEST_CASE("ATSS: golden vectors") {
  if (!has_data("golden_step/atss_0.npy", "ATSS against torch")) return;
  const std::vector<grid_size> levels{{25, 20}, {13, 10}, {7, 5}, {4, 3}, {2, 2}};
  assigner_workspace workspace;
  for (int k = 0; k < 3; ++k) {
    const std::string number = std::to_string(k);
    const auto anchors = golden_step<float>("atss_anchors_" + number).values;
    const auto truth = golden_step<float>("atss_gt_" + number).values;
    const auto expected = golden_step<std::int64_t>("atss_" + number).values;
    CHECK(reference::atss(boxes_view<const float>(anchors), {500, 130, 35, 12, 4},
                          boxes_view<const float>(truth), 9)
              .matches == std::vector<index_t>(expected.begin(), expected.end()));
    const ground_truth known{boxes_view<const float>(truth)};
    for_each_isa([&](isa) {
      std::vector<index_t> matches(expected.size());
      assign_atss(boxes_view<const float>(anchors), levels, known, matches, {}, workspace);
      CHECK(matches == std::vector<index_t>(expected.begin(), expected.end()));
    });
  }
}

TEST_CASE("task-aligned assigner: golden vectors") {
  if (!has_data("golden_step/tal_index_0.npy", "task-aligned assigner against torch")) return;
  const pyramid p = three_levels();
  assigner_workspace workspace;
  for (int k = 0; k < 3; ++k) {
    const std::string number = std::to_string(k);
    const auto scores = golden_step<float>("tal_scores_" + number).values;
    const auto boxes = golden_step<float>("tal_boxes_" + number).values;
    const auto truth = golden_step<float>("tal_gt_" + number).values;
    const auto classes = golden_step<std::int64_t>("tal_gt_labels_" + number).values;
    const auto index = golden_step<std::int64_t>("tal_index_" + number).values;
    const auto soft = golden_step<double>("tal_soft_" + number).values;
    REQUIRE(golden_step<float>("tal_points_" + number).values == p.points);
    const matrix_view<const float> s(scores.data(), p.size(), 20);
    const std::vector<index_t> expected(index.begin(), index.end());
    const auto exact = reference::task_aligned(
        s, boxes_view<const float>(boxes), p.where(), boxes_view<const float>(truth),
        std::vector<index_t>(classes.begin(), classes.end()));
    CHECK(exact.matches == expected);
    for (std::size_t i = 0; i < soft.size(); ++i)
      CHECK(exact.targets[i] == doctest::Approx(soft[i]).epsilon(1e-5));
    const ground_truth known{boxes_view<const float>(truth), classes};
    const task_aligned_predictions said{s, boxes_view<const float>(boxes)};
    for_each_isa([&](isa) {
      std::vector<index_t> matches(index.size());
      std::vector<float> targets(index.size());
      assign_task_aligned(said, p.where(), p.levels, known, matches, targets, {}, workspace);
      CHECK(matches == expected);
      for (std::size_t i = 0; i < soft.size(); ++i)
        CHECK(static_cast<double>(targets[i]) == doctest::Approx(soft[i]).epsilon(1e-5));
    });
  }
}

TEST_CASE("ATSS: grids, candidates, ties and batches") {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const bool whole : {false, true}) {
      for (const index_t boxes : {0, 1, 2, 7, 60})
        check_atss(three_levels(), boxes_near(boxes, ++seed, whole));
      for (const index_t k : {1, 2, 3, 16, 40, 600, 100000})
        check_atss(three_levels(), boxes_near(20, ++seed, whole), 1, k);
      check_atss(three_levels(), boxes_near(90, ++seed, whole), 5);
      pyramid irregular;  // one row, one column, one point, none; far apart
      irregular.add(1, 30, 8);
      irregular.add(30, 1, 8);
      irregular.add(1, 1, 64);
      irregular.add(0, 5, 8);
      irregular.add(5, 0, 8);
      irregular.add(3, 3, 0.01f, 4000);
      check_atss(irregular, boxes_near(40, ++seed, whole), 2);
      check_atss(irregular, boxes_near(40, ++seed, whole), 1, 1);
    }
    check_atss(pyramid(), boxes_near(3, 1, false));
    // Identical boxes: the first one gets all points.
    std::vector<float> same = boxes_near(1, 3, true);
    same.insert(same.end(), same.begin(), same.end());
    check_atss(three_levels(), same);
  });
}

TEST_CASE("ATSS: rows and columns at any distance") {
  pyramid p;
  for (const float y : {1.0f, 2.0f, 3.0f, 80.0f, 81.0f, 200.0f})
    for (const float x : {-3e4f, 0.0f, 1.0f, 2.0f, 50.0f, 51.0f, 52.5f, 1e6f}) {
      p.points.insert(p.points.end(), {x, y});
      p.anchors.insert(p.anchors.end(), {x - 16, y - 16, x + 16, y + 16});
    }
  p.levels = {{6, 8}};
  for_each_isa([&](isa) {
    for (const index_t k : {1, 9, 30}) check_atss(p, boxes_near(60, 3, false), 1, k);
  });
}

TEST_CASE("ATSS: boxes that are not finite, empty, far away or inverted") {
  for_each_isa([](isa) {
    std::vector<float> truth = special_boxes_as<float>();
    const std::vector<float> more = boxes_near(10, 5, false);
    truth.insert(truth.end(), more.begin(), more.end());
    check_atss(three_levels(), truth);
  });
}

TEST_CASE("task-aligned assigner: grids, candidates, exponents and batches") {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const index_t boxes : {0, 1, 2, 7, 33, 60})
      task_problem(three_levels(), boxes, ++seed).check();
    for (const index_t top : {1, 3, 13, 1000}) {
      task_problem p(three_levels(), 20, ++seed, 1, 3);
      p.params.top = top;
      p.check();
    }
    for (const double alpha : {0.0, 1.0, 2.0})
      for (const double beta : {0.0, 1.0, 3.5}) {
        task_problem p(three_levels(), 20, ++seed);
        p.params.alpha = alpha;
        p.params.beta = beta;
        // If neither counts, all metrics are equal.
        p.check();
      }
    task_problem(three_levels(), 70, ++seed, 4).check();
    task_problem(irregular_levels(), 30, ++seed, 2).check();
    task_problem(pyramid(), 3, ++seed).check();
  });
}

TEST_CASE("task-aligned assigner: small sides grow, and boxes keep their most aligned points") {
  for_each_isa([](isa) {
    std::uint64_t seed = 90;
    for (const auto& params :
         {task_aligned_params::yolo26(), task_aligned_params::yolo26_one_to_one()}) {
      for (const index_t images : {1, 3}) {
        task_problem p(three_levels(), 40, ++seed, images);
        for (std::size_t i = 0; i < p.truth.size(); i += 8)  // half of the boxes become small
          for (const std::size_t k : {i, i + 1}) {
            const float side = (p.truth[k + 2] - p.truth[k]) / 16;
            p.truth[k + 2] = p.truth[k] + side;
          }
        for (std::size_t i = 0; i < p.predictions.size(); i += 12) {  // predictions near them
          const auto near = 8 * (i % (p.truth.size() / 8));
          for (std::size_t k = 0; k < 4; ++k)
            p.predictions[i + k] = p.truth[near + k] + (k < 2 ? -0.5f : 0.75f);
        }
        p.params = params;
        p.check();
      }
    }
    for (const index_t final_top : {1, 2, 5, 10}) {
      for (const double grown : {0.0, 5.0, 60.0}) {
        task_problem p(three_levels(), 50, ++seed);
        p.params.final_top = final_top;
        p.params.least_side = grown == 5 ? 30 : 10;
        p.params.grown_side = grown;
        p.check();
        for (index_t g = 0; g < 50; ++g)
          CHECK(std::count(p.matches.begin(), p.matches.end(), g) <= final_top);
      }
    }
    task_problem p(three_levels(), 12, ++seed);
    p.truth = special_boxes_as<float>();
    p.classes.assign(p.truth.size() / 4, 1);
    p.offsets = {0, static_cast<index_t>(p.truth.size() / 4)};
    p.params = task_aligned_params::yolo26_one_to_one();
    p.check();
    // Equal metrics: the lower points stay.
    task_problem ties(three_levels(), 1, 1);
    ties.truth = {16, 16, 100, 100};
    for (float& score : ties.scores) score = 0.25f;
    for (std::size_t i = 0; i < ties.predictions.size(); ++i)
      ties.predictions[i] = ties.truth[i % 4];
    ties.params.final_top = 3;
    ties.check();
    CHECK(std::vector<index_t>{ties.matches[42], ties.matches[43], ties.matches[44]} ==
          std::vector<index_t>{0, 0, 0});
    CHECK(std::count(ties.matches.begin(), ties.matches.end(), 0) == 3);
  });
}

TEST_CASE("task-aligned assigner: YOLO26's rules, as operations on whole matrices") {
  // NumPy's operations on these numbers, in double, give the matches and targets below.
  pyramid levels;
  levels.add(10, 8, 8);
  levels.add(5, 4, 16);
  levels.add(3, 2, 32);
  constexpr index_t boxes = 8, classes = 3;
  task_problem p(levels, boxes, 1);
  p.class_count = p.stride = classes;
  p.scores.clear();
  for (index_t g = 0; g < boxes; ++g) {
    const double x = scattered(4 * g, 0, 25), y = scattered(4 * g + 1, 0, 30),
                 most = g < 5 ? 12 : 45;
    const double corners[] = {x, y, x + scattered(4 * g + 2, 2, most),
                              y + scattered(4 * g + 3, 2, most)};
    for (index_t k = 0; k < 4; ++k)
      p.truth[static_cast<std::size_t>(4 * g + k)] = to<float>(corners[k]);
    p.classes[static_cast<std::size_t>(g)] = g % classes;
  }
  for (index_t i = 0; i < levels.size(); ++i) {
    for (index_t c = 0; c < classes; ++c)
      p.scores.push_back(to<float>(scattered(5000 + classes * i + c, 0.05, 0.95)));
    for (index_t k = 0; k < 4; ++k)
      p.predictions[static_cast<std::size_t>(4 * i + k)] =
          to<float>(static_cast<double>(p.truth[static_cast<std::size_t>(4 * (i % boxes) + k)]) +
                    scattered(20000 + 4 * i + k, -2, 2));
  }
  struct positive {
    index_t point, box;
    double target;
  };
  const std::vector<positive> expected[] = {{{5, 5, 0.758019181},
                                             {9, 1, 0.0742231066},
                                             {10, 2, 0.438086578},
                                             {13, 5, 0.835054109},
                                             {17, 1, 2.53704317e-09},
                                             {18, 2, 0.407957104},
                                             {19, 3, 0.570748931},
                                             {21, 5, 0.905567507},
                                             {27, 3, 0.359319243},
                                             {29, 5, 0.769122456},
                                             {80, 0, 0.30042188},
                                             {81, 1, 0.09122031},
                                             {82, 5, 7.04593289e-19},
                                             {84, 4, 0.595686848},
                                             {85, 5, 0.740620637},
                                             {93, 7, 0.0281835983}},
                                            {{10, 2, 0.438086578},
                                             {19, 3, 0.570748931},
                                             {21, 5, 0.905567507},
                                             {80, 0, 0.30042188},
                                             {81, 1, 0.09122031},
                                             {84, 4, 0.595686848},
                                             {93, 7, 0.0281835983}}};
  for_each_isa([&](isa) {
    for (const int rule : {0, 1}) {
      p.params =
          rule == 0 ? task_aligned_params::yolo26() : task_aligned_params::yolo26_one_to_one();
      p.check();
      for (const positive& e : expected[rule]) {
        CHECK(p.matches[static_cast<std::size_t>(e.point)] == e.box);
        CHECK(std::abs(static_cast<double>(p.targets[static_cast<std::size_t>(e.point)]) -
                       e.target) <= 2e-5 * e.target + 1e-9);
      }
      CHECK(std::count_if(p.matches.begin(), p.matches.end(), [](index_t m) { return m >= 0; }) ==
            static_cast<std::ptrdiff_t>(expected[rule].size()));
    }
  });
}

TEST_CASE("task-aligned assigner: YOLO26's rule gives every small box a point") {
  random_generator generator(26);
  constexpr index_t boxes = 2000;
  index_t without[2] = {0, 0};
  assigner_workspace workspace;
  for (index_t g = 0; g < boxes; ++g) {  // one box of 3 to 8 pixels per call
    task_problem p(three_levels(), 1, 1);
    const double w = generator.uniform(3, 8), h = generator.uniform(3, 8);
    const double x = generator.uniform(16, 128), y = generator.uniform(16, 160);
    p.truth = {to<float>(x), to<float>(y), to<float>(x + w), to<float>(y + h)};
    for (std::size_t i = 0; i < p.predictions.size(); ++i) p.predictions[i] = p.truth[i % 4];
    for (const int rule : {0, 1}) {
      p.params = rule == 0 ? task_aligned_params() : task_aligned_params::yolo26();
      p.run(workspace);
      without[rule] += std::count(p.matches.begin(), p.matches.end(), 0) == 0;
    }
  }
  MESSAGE("of 2,000 boxes, " << without[0] << " have no point by YOLOv8's rule, " << without[1]
                             << " by YOLO26's");
  CHECK(without[0] > 600);
  CHECK(without[1] == 0);
}

// Each call without regions is compared with its reference in the other tests.
TEST_CASE("assigners: unmatched anchors and points in ignore regions are ignored") {
  pyramid irregular = three_levels();  // anchors of any size about the same centres
  random_generator generator(8);
  for (std::size_t i = 0; i < irregular.anchors.size(); i += 4) {
    const auto w = static_cast<float>(generator.below(60));
    const auto h = static_cast<float>(generator.below(60));
    const float sides[] = {-w, -h, w, h};
    for (std::size_t k = 0; k < 4; ++k)
      irregular.anchors[i + k] = irregular.points[i / 2 + (k & 1)] + sides[k];
  }
  const std::vector<float> whole{-infinity, -infinity, infinity, infinity};
  for_each_isa([&](isa) {
    assigner_workspace workspace;
    std::uint64_t seed = 40;
    index_t ignored = 0, background = 0;
    for (const pyramid& p : std::vector<pyramid>{three_levels(), irregular}) {
      for (const index_t images : {1, 3}) {
        for (const double threshold : {0.5, 0.0, 0.3, 1.0}) {
          const std::vector<float> truth = boxes_near(20, ++seed, false);
          const std::vector<index_t> offsets = offsets_of(images, 20);
          const image_regions regions(images, 4, ++seed);
          ground_truth known{boxes_view<const float>(truth)};
          if (images > 1) known.image_offsets = offsets;
          atss_params atss;
          fcos_assigner_params fcos;
          atss.region_threshold = fcos.region_threshold = threshold;
          for (const bool is_atss : {true, false}) {
            const auto run = [&](const ground_truth& given) {
              std::vector<index_t> matches(static_cast<std::size_t>(images * p.size()), 77);
              if (is_atss)
                assign_atss(p.boxes(), p.levels, given, matches, atss, workspace);
              else
                assign_fcos(p.boxes(), p.levels, given, matches, fcos, workspace);
              return matches;
            };
            const std::vector<index_t> plain = run(known);
            std::vector<index_t> expected;
            for (index_t k = 0; k < images; ++k) {
              std::vector<index_t> own(plain.begin() + k * p.size(),
                                       plain.begin() + (k + 1) * p.size());
              reference::ignore_anchors(own, p.boxes(), regions.of(k), threshold);
              expected.insert(expected.end(), own.begin(), own.end());
            }
            ground_truth given = known;
            regions.give(given);
            CHECK(run(given) == expected);
            ignored += std::count(expected.begin(), expected.end(), -2);
            background += std::count(expected.begin(), expected.end(), -1);
          }
        }
      }
    }
    CHECK(ignored > 1000);
    CHECK(background > 1000);
    for (const index_t images : {1, 3}) {
      task_problem p(three_levels(), 20, ++seed, images);
      p.run(workspace);
      std::vector<index_t> expected;
      const image_regions regions(images, 14, ++seed);
      for (index_t k = 0; k < images; ++k) {
        std::vector<index_t> own(p.matches.begin() + k * p.points.size(),
                                 p.matches.begin() + (k + 1) * p.points.size());
        reference::ignore_points(own, p.points.where(), regions.of(k));
        expected.insert(expected.end(), own.begin(), own.end());
      }
      CHECK(std::count(expected.begin(), expected.end(), -2) > 50);
      const std::vector<float> targets = p.targets;
      ground_truth known = p.known();
      regions.give(known);
      p.run(known, workspace);
      CHECK(p.matches == expected);
      CHECK(p.targets == targets);
    }
    // A region that is the whole plane leaves no background. Its anchors have finite areas.
    task_problem p(three_levels(), 0, 1);
    ground_truth known = p.known();
    known.regions = whole;
    p.run(known, workspace);
    CHECK(std::count(p.matches.begin(), p.matches.end(), -2) == p.points.size());
    assign_atss(p.points.boxes(), p.points.levels, known, p.matches, {}, workspace);
    CHECK(std::count(p.matches.begin(), p.matches.end(), -2) == p.points.size());
  });
}

TEST_CASE("task-aligned assigner: without classes, all boxes have class 0") {
  task_problem p(three_levels(), 20, 3);
  p.classes.assign(p.classes.size(), 0);
  assigner_workspace workspace;
  ground_truth truth = p.known();
  const auto run = [&] {
    assign_task_aligned(p.said(), p.points.where(), p.points.levels, truth, p.matches, p.targets,
                        p.params, workspace);
    return std::pair(p.matches, p.targets);
  };
  const auto expected = run();
  truth.classes = {};
  CHECK(run() == expected);
}

TEST_CASE("task-aligned assigner: ties of metrics and overlaps are broken by lower index") {
  for_each_isa([](isa) {
    task_problem p(three_levels(), 2, 1);
    for (float& score : p.scores) score = 0.25f;
    for (std::size_t i = 0; i < p.predictions.size(); i += 4) {
      const float box[] = {10, 10, 90, 120};
      std::copy(box, box + 4, p.predictions.begin() + static_cast<std::ptrdiff_t>(i));
    }
    p.truth = {16, 16, 100, 100, 16, 16, 100, 100};
    p.classes = {1, 2};
    p.check();
    CHECK(std::count(p.matches.begin(), p.matches.end(), 0) == 10);
    CHECK(std::count(p.matches.begin(), p.matches.end(), 1) == 0);
  });
}

TEST_CASE(
    "task-aligned assigner: points on a side are outside; numbers that are not finite match "
    "nothing") {
  for_each_isa([](isa) {
    task_problem p(three_levels(), 12, 1);
    for (std::size_t k = 0; k < 4; ++k) {
      p.truth[k] = std::vector<float>{4, 4, 20, 28}[k];
      p.truth[4 + k] = std::vector<float>{8, 8, 8, 80}[k];
      p.truth[8 + k] = std::vector<float>{90, 90, 20, 20}[k];
      p.truth[12 + k] = std::vector<float>{quiet_nan, 0, 50, 50}[k];
      p.truth[16 + k] = std::vector<float>{-infinity, -infinity, infinity, infinity}[k];
    }
    for (std::size_t i = 0; i < p.predictions.size(); i += 44) {
      p.predictions[i] = i % 3 == 0 ? quiet_nan : infinity;
      p.scores[i] = quiet_nan;
      p.scores[i + 1] = -1;
      p.scores[i + 2] = 0;
    }
    p.check();
    for (const index_t match : p.matches) CHECK((match < 1 || match > 4));
  });
}

TEST_CASE("assigners: errors name function, argument, value and expectation") {
  task_problem p(three_levels(), 10, 9, 2);
  assigner_workspace workspace;
  ground_truth known = p.known();
  task_aligned_predictions said = p.said();
  std::vector<grid_size> levels = p.points.levels;
  pyramid points = p.points;
  task_aligned_params params;
  atss_params atss;
  const auto refused = refusals(p.matches, p.targets);
  const auto restore = [&] {
    known = p.known();
    said = p.said();
    levels = p.points.levels;
    points = p.points;
    params = {};
    atss = {};
  };
  const auto both_fail = [&](const char* message, const char* atss_message) {
    if (message != nullptr)
      refused(message, [&] {
        assign_task_aligned(said, points.where(), levels, known, p.matches, p.targets, params,
                            workspace);
      });
    if (atss_message != nullptr)
      refused(atss_message,
              [&] { assign_atss(points.boxes(), levels, known, p.matches, atss, workspace); });
    restore();
  };
  const auto fails = [&](const char* message) { both_fail(message, nullptr); };
  const auto atss_fails = [&](const char* message) { both_fail(nullptr, message); };

  known.regions = p.known().boxes;
  both_fail(
      "assign_task_aligned: truth.region_offsets.size() is 0, expected 3, the size of "
      "image_offsets",
      "assign_atss: truth.region_offsets.size() is 0, expected 3");
  const std::vector<index_t> one_image{0, 10}, past{0, 5, 11};
  known.regions = p.known().boxes;
  known.region_offsets = one_image;
  both_fail("assign_task_aligned: truth.region_offsets.size() is 2, expected 3", nullptr);
  known.regions = p.known().boxes;
  known.region_offsets = past;
  both_fail(nullptr, "truth.region_offsets[2] is 11, expected 10, the number of regions");
  for (const double threshold : {-0.1, 1.1, static_cast<double>(quiet_nan)}) {
    atss.region_threshold = threshold;
    both_fail(nullptr, "params.region_threshold is");
  }
  levels[1].height = -1;
  both_fail("assign_task_aligned: levels[1] is -1, expected a height of 0 or more",
            "assign_atss: levels[1] is -1");
  levels[2].width = -1;
  fails("levels[2] is -1, expected a width of 0 or more");
  levels[2].width = 6;
  fails("levels[2] is 7 x 6, expected at most 35 locations, as there are 665 points");
  levels[2].width = std::numeric_limits<index_t>::max();
  fails("levels[2] is 7 x 9223372036854775807");
  levels[2].width = 4;
  both_fail("points.size() is 665, expected 658, the locations of all levels",
            "anchors.size() is 665");
  points.points[2 * 30] += 1;
  fails("points[30] is at 85.000000, 12.000000, expected the x of its column and the y of its row");
  points.points[2 * 501] = points.points[2 * 500];
  fails("points[501] is at 8.000000");
  points.points[2 * 664 + 1] = quiet_nan;
  fails("points[664]");
  points.anchors[4 * 31 + 1] += 4;
  atss_fails("anchors[31] is at 92.000000, 14.000000");
  const std::vector<index_t> from_one{1, 5, 10}, descending{0, 11, 10}, short_of{0, 5, 9};
  known.image_offsets = from_one;
  fails("truth.image_offsets[0] is 1, expected 0");
  known.image_offsets = descending;
  atss_fails("truth.image_offsets[2] is 10, expected at least 11, the element before it");
  known.image_offsets = short_of;
  fails("truth.image_offsets[2] is 9, expected 10, the number of boxes");
  known.image_offsets = {};
  fails("matches.size() is 1330, expected 665, images x points");
  said.scores = {p.scores.data(), 665, 5};
  fails("predictions.scores.rows() is 665");
  said.boxes = boxes_view<const float>(p.predictions.data(), 3);
  fails("predictions.boxes.size() is 3");
  const std::vector<index_t> few(9), large{0, 1, 2, 3, 5, 0, 0, 0, 0, 0};
  known.classes = few;
  fails("truth.classes.size() is 9");
  known.classes = large;
  fails("truth.classes[4] is 5, expected 0 to 4 (5 classes); do your labels start at 1?");
  params.top = 0;
  fails("params.top is 0, expected 1 or more");
  params.alpha = -1;
  fails("params.alpha is -1");
  params.beta = static_cast<double>(infinity);
  fails("params.beta is inf");
  params.least_side = -8;
  fails("params.least_side is -8, expected a finite float, 0 or more");
  params.grown_side = static_cast<double>(infinity);
  fails("params.grown_side is inf");
  params.final_top = 11;
  fails("params.final_top is 11, expected 0 to 10, params.top");
  params.final_top = -1;
  fails("params.final_top is -1");
  atss.candidates = 0;
  atss_fails("params.candidates is 0, expected 1 or more");
  std::vector<float> fewer(3);
  refused("targets.size() is 3", [&] {
    assign_task_aligned(said, points.where(), levels, known, p.matches, fewer, params, workspace);
  });
}
