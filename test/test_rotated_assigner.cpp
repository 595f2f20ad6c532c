// SPDX-License-Identifier: Apache-2.0
// The task-aligned assigner for rotated boxes, on every instruction set: against the reference with
// the overlaps that the library computes and with exact ones, in every convention, with grids of
// every kind, batches, ignore regions, ties, points on sides, small and thin boxes and special
// values; against the assigner of upright boxes; and every documented error.
#include "support/assigner_scene.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"
#include "support/refusals.hpp"
#include <vecdet/prob_iou.hpp>
#include <vecdet/reference/rotated_assigner.hpp>
#include <vecdet/rotated_assigner.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();
constexpr angle_convention degrees = angle_convention::opencv;
constexpr angle_convention all_conventions[] = {
    angle_convention::torchvision, angle_convention::detectron2,
    angle_convention::opencv,      angle_convention::ultralytics,
    angle_convention::mmcv,        angle_convention::mmcv_counter_clockwise};

struct rotated_problem {
  bench::pyramid points;
  angle_convention angles;
  index_t images, padding, class_count = 5;
  std::vector<float> scores, predictions, truth;  ///< rows of boxes have `padding` more numbers
  std::vector<index_t> classes, offsets;
  std::vector<float> regions;
  std::vector<index_t> region_offsets;
  task_aligned_params params;
  std::vector<index_t> matches;
  std::vector<float> targets;

  rotated_problem(const bench::pyramid& p, index_t boxes, std::uint64_t seed,
                  angle_convention convention = degrees, index_t image_count = 1, index_t more = 0)
      : points(p),
        angles(convention),
        images(image_count),
        padding(more),
        offsets(offsets_of(image_count, boxes)) {
    random_generator generator(seed);
    const bool in_degrees = angles == angle_convention::torchvision ||
                            angles == angle_convention::detectron2 || angles == degrees;
    const double turn = in_degrees ? 360 : 6.28;
    const auto add = [&](std::vector<float>& to, std::initializer_list<double> numbers) {
      for (const double number : numbers) to.push_back(static_cast<float>(number));
      to.insert(to.end(), static_cast<std::size_t>(padding), quiet_nan);
    };
    for (index_t g = 0; g < boxes; ++g) {
      const double most = generator.chance(0.3) ? 150 : 40;
      add(truth,
          {generator.uniform(-10, 170), generator.uniform(-10, 210), generator.uniform(1, most),
           generator.uniform(1, most), generator.uniform(-turn, turn)});
      classes.push_back(generator.below(class_count));
    }
    const auto width = static_cast<std::size_t>(5 + padding);
    for (index_t i = 0; i < images * p.size(); ++i) {
      for (index_t c = 0; c < class_count; ++c)
        scores.push_back(static_cast<float>(generator.uniform(0.001, 0.9)));
      const auto at = static_cast<std::size_t>(2 * (i % p.size()));
      const bool is_near = boxes > 0 && generator.chance(0.5);
      const std::size_t near =
          boxes > 0 ? static_cast<std::size_t>(generator.below(boxes)) * width : 0;
      const auto around = [&](std::size_t k, double by) {
        return static_cast<double>(truth[near + k]) + generator.uniform(-by, by);
      };
      if (is_near)
        add(predictions, {around(0, 4), around(1, 4), std::abs(around(2, 4)) + 0.5,
                          std::abs(around(3, 4)) + 0.5, around(4, turn / 40)});
      else
        add(predictions,
            {static_cast<double>(p.points[at]), static_cast<double>(p.points[at + 1]),
             generator.uniform(2, 60), generator.uniform(2, 60), generator.uniform(-turn, turn)});
    }
    matches.assign(static_cast<std::size_t>(images * p.size()), 77);
    targets.assign(matches.size(), 77);
  }

  index_t boxes() const { return offsets.back(); }
  matrix_view<const float> rows(const std::vector<float>& of, index_t first, index_t count) const {
    const index_t stride = 5 + padding;
    return {of.data() + first * stride, count, 5, stride};
  }
  rotated_task_aligned_predictions said() const {
    return {{scores.data(), images * points.size(), class_count},
            rows(predictions, 0, images * points.size())};
  }
  rotated_ground_truth known() const {
    rotated_ground_truth result{rows(truth, 0, boxes()), classes};
    if (images > 1) result.image_offsets = offsets;
    if (regions.empty()) return result;
    result.regions = boxes_view<const float>(regions);
    if (images > 1) result.region_offsets = region_offsets;
    return result;
  }
  void run(threading policy = threading::parallel) {
    assigner_workspace workspace;
    assign_rotated_task_aligned(said(), points.where(), points.levels, known(), angles, matches,
                                targets, params, workspace, policy);
  }

  /// Compares with the reference: with the library's overlaps, within the documented bound; with
  /// exact ones, within `exact_within` relative. With the latter, overlaps that are nearly 0 and
  /// matter little may make other matches.
  void check(double exact_within = 1e-3) {
    run();
    const index_t n = points.size();
    const reference::task_aligned_params own{params.top,
                                             params.alpha,
                                             params.beta,
                                             static_cast<float>(params.least_side),
                                             static_cast<float>(params.grown_side),
                                             params.final_top};
    for (index_t image = 0; image < images; ++image) {
      const index_t first = offsets[static_cast<std::size_t>(image)];
      const index_t count = offsets[static_cast<std::size_t>(image + 1)] - first;
      const matrix_view<const float> s(scores.data() + image * n * class_count, n, class_count);
      const auto boxes_of_image = rows(truth, first, count);
      const auto predicted = rows(predictions, image * n, n);
      const vector_view<const index_t> labels(classes.data() + first, count);
      std::vector<float> overlaps(static_cast<std::size_t>(count * n));
      pairwise_prob_iou(boxes_of_image, predicted, angles,
                        matrix_view<float>(overlaps.data(), count, n));
      const auto is_inside = [&](index_t i, index_t g) {
        return reference::is_in_rotated_box(
            static_cast<double>(points.where()(i, 0)), static_cast<double>(points.where()(i, 1)),
            reference::load_rotated_box(boxes_of_image, g, angles), own);
      };
      const auto overlap = [&](index_t i, index_t g) {
        const auto value = static_cast<double>(overlaps[static_cast<std::size_t>(g * n + i)]);
        return value > 0 ? value : 0;
      };
      const auto expected = reference::task_aligned_by(s, count, labels, own, is_inside, overlap);
      check_assignment(expected, image, first, matches, targets, {2e-5, 1e-9});
      if (exact_within > 0)
        check_assignment(reference::rotated_task_aligned(s, predicted, points.where(),
                                                         boxes_of_image, angles, labels, own),
                         image, first, matches, targets, {exact_within, 1e-9, 1e-4});
    }
  }

  index_t matched() const {
    return std::count_if(matches.begin(), matches.end(), [](index_t m) { return m >= 0; });
  }
};

}  // namespace

TEST_CASE("rotated assigner: conventions, grids, candidates, exponents and batches") {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const angle_convention angles : all_conventions) {
      rotated_problem p(three_levels(), 30, ++seed, angles);
      p.check();
      CHECK(p.matched() > 50);
    }
    for (const index_t boxes : {0, 1, 2, 7, 16, 17, 33, 60})
      rotated_problem(three_levels(), boxes, ++seed).check();
    for (const index_t top : {1, 3, 13, 1000}) {
      rotated_problem p(three_levels(), 20, ++seed, degrees, 1, 3);
      p.params.top = top;
      p.check();
    }
    for (const double alpha : {0.0, 1.0, 2.0})
      for (const double beta : {0.0, 1.0, 3.5}) {
        rotated_problem p(three_levels(), 20, ++seed);
        p.params.alpha = alpha;
        p.params.beta = beta;
        p.check(beta > 1 ? 1e-3 : 0);
      }
    rotated_problem(three_levels(), 70, ++seed, angle_convention::ultralytics, 4, 1).check();
    rotated_problem(irregular_levels(), 30, ++seed, degrees, 2).check();
    rotated_problem(bench::pyramid(), 3, ++seed).check();
  });
}

TEST_CASE("rotated assigner: small sides grow, and boxes keep their most aligned points") {
  for_each_isa([](isa) {
    std::uint64_t seed = 50;
    for (const auto& params :
         {task_aligned_params::yolo26(), task_aligned_params::yolo26_one_to_one()})
      for (const index_t images : {1, 3}) {
        rotated_problem p(three_levels(), 40, ++seed, angle_convention::ultralytics, images);
        for (std::size_t i = 2; i < p.truth.size(); i += 10) p.truth[i] /= 16, p.truth[i + 1] /= 16;
        for (std::size_t i = 0; i < p.predictions.size(); i += 15)  // predictions near them
          for (std::size_t k = 0; k < 5; ++k)
            p.predictions[i + k] = p.truth[10 * (i % (p.truth.size() / 10)) + k] + 0.25f;
        p.params = params;
        p.check();
      }
    for (const index_t final_top : {1, 2, 10}) {
      rotated_problem p(three_levels(), 50, ++seed);
      p.params.final_top = final_top;
      p.check();
      for (index_t g = 0; g < 50; ++g)
        CHECK(std::count(p.matches.begin(), p.matches.end(), g) <= final_top);
    }
  });
}

TEST_CASE("rotated assigner: points on a side are inside, ends included") {
  for_each_isa([](isa) {
    for (const float angle : {0.0f, 90.0f, -270.0f, 180.0f, 360.0f, 36000.0f}) {
      const bool turned = std::fmod(angle, 180.0f) != 0;
      rotated_problem p(three_levels(), 1, 1);
      // Corners 20, 20 and 60, 36: points of the first level are at 4, 12, 20 and so on.
      p.truth = {40, 28, turned ? 16.0f : 40.0f, turned ? 40.0f : 16.0f, angle};
      for (std::size_t i = 0; i < p.predictions.size(); ++i) p.predictions[i] = p.truth[i % 5];
      p.params.top = 1000;
      p.run();
      index_t expected = 0;
      for (index_t i = 0; i < p.points.size(); ++i) {
        const float x = p.points.where()(i, 0), y = p.points.where()(i, 1);
        const bool is_inside = x >= 20 && x <= 60 && y >= 20 && y <= 36;
        expected += is_inside;
        CHECK(p.matches[static_cast<std::size_t>(i)] == (is_inside ? 0 : -1));
      }
      CHECK(expected > 18);
    }
  });
}

TEST_CASE("rotated assigner: thin boxes, far from the origin, and equal ones") {
  bench::pyramid far = three_levels();
  for (std::size_t i = 0; i < far.points.size(); ++i) far.points[i] += 10000;
  for_each_isa([&](isa) {
    for (const bool is_far : {false, true}) {
      rotated_problem p(is_far ? far : three_levels(), 40, 70);
      for (std::size_t g = 0; g < p.truth.size(); g += 5) {
        p.truth[g + 2] = 160;
        p.truth[g + 3] = 4;
      }
      for (std::size_t i = 0; i < p.predictions.size(); i += 5)
        for (std::size_t k = 0; k < 5; ++k)
          p.predictions[i + k] = p.truth[i % p.truth.size() + k] + (k == 2 ? 1.0f : 0.0f);
      for (auto* boxes : {&p.truth, &p.predictions})
        for (std::size_t i = 0; is_far && i < boxes->size(); ++i)
          if (i % 5 < 2) (*boxes)[i] += 10000;
      p.check(0);  // many ProbIoUs are nearly equal
      CHECK(p.matched() > 40);
    }
    rotated_problem p(three_levels(), 2, 1);
    for (float& score : p.scores) score = 0.25f;
    p.truth = {58, 68, 84, 60, 30, 58, 68, 84, 60, 30};
    p.classes = {1, 2};
    for (std::size_t i = 0; i < p.predictions.size(); ++i)
      p.predictions[i] = std::vector<float>{50, 60, 90, 60, 20}[i % 5];
    p.check();
    CHECK(std::count(p.matches.begin(), p.matches.end(), 0) == 10);
    CHECK(std::count(p.matches.begin(), p.matches.end(), 1) == 0);
  });
}

TEST_CASE("rotated assigner: boxes that are not numbers match nothing") {
  const float largest = std::numeric_limits<float>::max();
  const std::vector<std::vector<float>> bad{
      {quiet_nan, 50, 40, 40, 0}, {50, infinity, 40, 40, 0},  {50, 50, -1, 40, 0},
      {50, 50, 40, quiet_nan, 0}, {50, 50, infinity, 40, 0},  {50, 50, 40, 40, quiet_nan},
      {50, 50, 40, 40, 2e6f},     {50, 50, 40, 40, -infinity}};
  const std::vector<std::vector<float>> odd{{50, 50, 0, 40, 30},
                                            {50, 50, 0, 0, 30},
                                            {52, 52, 40, 0, 0},
                                            {50, 50, largest, 40, 30},
                                            {50, 50, largest, largest, 0},
                                            {largest, 50, 9, 9, 0},
                                            {-largest, 0, largest, 9, 45},
                                            {50, 50, 1e-30f, 1e-30f, 10},
                                            {52, 52, 1e-30f, 1e-30f, 0},
                                            {50, 50, 40, 40, 1e6f}};
  for_each_isa([&](isa) {
    rotated_problem p(three_levels(), 40, 90);
    std::size_t g = 0;
    for (const auto* boxes : {&bad, &odd})
      for (const std::vector<float>& box : *boxes)
        std::copy(box.begin(), box.end(), p.truth.begin() + static_cast<std::ptrdiff_t>(5 * g++));
    std::size_t row = 0;
    for (std::size_t i = 0; i < p.predictions.size(); i += 55) {
      const std::vector<float>& box = bad[row++ % bad.size()];
      std::copy(box.begin(), box.end(), p.predictions.begin() + static_cast<std::ptrdiff_t>(i));
      p.scores[i] = quiet_nan;
      p.scores[i + 1] = -1;
      p.scores[i + 2] = 0;
    }
    p.params.least_side = 1;
    p.params.grown_side = 12;
    p.check(0);
    for (const index_t match : p.matches) CHECK((match < 0 || match >= 8));
    CHECK(p.matched() > 50);
    for (const float target : p.targets) CHECK((target >= 0 && target <= 1));
  });
}

TEST_CASE("rotated assigner: unmatched points in ignore regions are ignored") {
  for_each_isa([](isa) {
    for (const index_t images : {1, 3}) {
      rotated_problem p(three_levels(), 20, 110, degrees, images);
      p.run();
      const std::vector<index_t> plain = p.matches;
      const std::vector<float> targets = p.targets;
      for (index_t k = 0; k < images; ++k)
        p.regions.insert(p.regions.end(), {20.0f * static_cast<float>(k), 12, 90, 130});
      for (index_t k = 0; k <= images; ++k) p.region_offsets.push_back(k);
      p.run();
      CHECK(p.targets == targets);
      index_t ignored = 0;
      for (index_t k = 0; k < images; ++k) {
        const index_t n = p.points.size();
        std::vector<index_t> own(plain.begin() + k * n, plain.begin() + (k + 1) * n);
        reference::ignore_points(own, p.points.where(), {p.regions.data() + 4 * k, 1});
        CHECK(std::equal(own.begin(), own.end(), p.matches.begin() + k * n));
        ignored += std::count(own.begin(), own.end(), -2);
      }
      CHECK(ignored > 50);
    }
  });
}

TEST_CASE("rotated assigner: the same bits with AVX2 and AVX-512, for any number of threads") {
  std::vector<std::vector<index_t>> matches;
  std::vector<std::vector<float>> targets;
  for_each_isa([&](isa target) {
    if (target == isa::baseline) return;
    for (const threading policy : {threading::sequential, threading::parallel}) {
      rotated_problem p(three_levels(), 200, 130, angle_convention::ultralytics, 3);
      p.run(policy);
      matches.push_back(p.matches);
      targets.push_back(p.targets);
    }
  });
  for (std::size_t k = 1; k < matches.size(); ++k) {
    CHECK(matches[k] == matches[0]);
    CHECK(targets[k] == targets[0]);
  }
}

TEST_CASE("rotated assigner: errors name function, argument, value and expectation") {
  rotated_problem p(three_levels(), 10, 9, degrees, 2);
  assigner_workspace workspace;
  rotated_ground_truth known = p.known();
  rotated_task_aligned_predictions said = p.said();
  task_aligned_params params;
  angle_convention angles = degrees;
  const auto refused = refusals(p.matches, p.targets);
  const auto fails = [&](const char* message) {
    refused(message, [&] {
      assign_rotated_task_aligned(said, p.points.where(), p.points.levels, known, angles, p.matches,
                                  p.targets, params, workspace);
    });
    known = p.known();
    said = p.said();
    params = {};
    angles = degrees;
  };
  angles = static_cast<angle_convention>(9);
  fails("assign_rotated_task_aligned: angles is 9, expected an angle_convention");
  known.boxes = matrix_view<const float>(p.truth.data(), 10, 4, 5);
  fails(
      "assign_rotated_task_aligned: truth.boxes.cols() is 4, expected 5, the numbers of a rotated");
  said.boxes = matrix_view<const float>(p.predictions.data(), 1330, 4, 5);
  fails("predictions.boxes.cols() is 4, expected 5");
  said.boxes = p.rows(p.predictions, 0, 3);
  fails("predictions.boxes.rows() is 3, expected 1330, images x points");
  said.scores = {p.scores.data(), 665, 5};
  fails("predictions.scores.rows() is 665");
  const std::vector<index_t> few(9), large{0, 1, 2, 3, 5, 0, 0, 0, 0, 0}, short_of{0, 5, 9};
  known.classes = few;
  fails("truth.classes.size() is 9, expected 10, the number of boxes");
  known.classes = large;
  fails("truth.classes[4] is 5, expected 0 to 4");
  known.image_offsets = short_of;
  fails("truth.image_offsets[2] is 9, expected 10, the number of boxes");
  known.image_offsets = {};
  fails("matches.size() is 1330, expected 665, images x points");
  const std::vector<float> region(4);
  known.regions = boxes_view<const float>(region);
  fails("truth.region_offsets.size() is 0, expected 3, the size of image_offsets");
  params.top = 0;
  fails("params.top is 0, expected 1 or more");
  params.final_top = 11;
  fails("params.final_top is 11, expected 0 to 10, params.top");
  params.grown_side = -1;
  fails("params.grown_side is -1");
  const vector_view<float> shared(p.truth.data(), 50);
  refused("matches.size() is 1330", [&] {
    known.image_offsets = {};
    assign_rotated_task_aligned(said, p.points.where(), p.points.levels, known, angles, p.matches,
                                shared, params, workspace);
  });
}
