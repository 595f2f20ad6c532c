// SPDX-License-Identifier: Apache-2.0
// ProbIoU and NMS by it: golden vectors and the reference, on every instruction set, with equal,
// thin, far, tiny and degenerate boxes; hill climbing for the bound; all thresholds, ties, groups,
// many boxes.
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/rotated_rows.hpp"
#include "support/values.hpp"
#include <vecdet/prob_iou.hpp>
#include <vecdet/prob_iou_nms.hpp>
#include <vecdet/reference/prob_iou.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr auto torchvision = angle_convention::torchvision;
constexpr auto ultralytics = angle_convention::ultralytics;
constexpr double pi = 3.14159265358979323846;

/// The ProbIoU of all pairs; elementwise_prob_iou() must give the same bits for each pair, and for
/// each exchanged pair.
template <class T>
std::vector<T> all_pairs(const std::vector<T>& a, const std::vector<T>& b,
                         angle_convention angles) {
  const auto first = rows_of(a), second = rows_of(b);
  std::vector<T> out(static_cast<std::size_t>(first.rows() * second.rows())), each(out.size());
  pairwise_prob_iou(first, second, angles, matrix_view<T>(out.data(), first.rows(), second.rows()));
  const paired_boxes<T> pairs(a, b);
  const auto x = rows_of(pairs.first), y = rows_of(pairs.second);
  elementwise_prob_iou(x, y, angles, vector_view<T>(each));
  CHECK(same_bits(out, each));
  elementwise_prob_iou(y, x, angles, vector_view<T>(each));
  CHECK(same_bits(out, each));
  return out;
}

template <class T>
T one_pair(const std::vector<T>& a, const std::vector<T>& b, angle_convention angles) {
  return all_pairs(a, b, angles)[0];
}

template <class T>
double exact_pair(const std::vector<T>& a, const std::vector<T>& b, angle_convention angles) {
  return exact_overlaps(a, b, angles, reference::prob_iou)[0];
}

template <class T>
void check_against_reference(const std::vector<T>& a, const std::vector<T>& b,
                             angle_convention angles) {
  check_near(all_pairs(a, b, angles), exact_overlaps(a, b, angles, reference::prob_iou),
             rotated_bound<T>);
}

/// The loop over the matrix of ProbIoUs.
template <class T>
std::vector<index_t> unsuppressed(const std::vector<T>& boxes, const std::vector<T>& scores,
                                  const std::vector<index_t>& classes, double threshold,
                                  bool suppress_equal) {
  const auto count = static_cast<index_t>(scores.size());
  std::vector<T> overlap(static_cast<std::size_t>(count * count));
  pairwise_prob_iou(rows_of(boxes), rows_of(boxes), torchvision,
                    matrix_view<T>(overlap.data(), count, count));
  return matrix_nms<T>({overlap.data(), count, count}, vector_view<const T>(scores), classes,
                       threshold, suppress_equal, true);
}

/// Changes a number of a or b at random, `steps` times, and keeps what raises error(a, b). Only
/// pairs of boxes that is_allowed() accepts count. Returns the largest error.
template <class T, class Error, class Allowed, class Change>
double climb(std::vector<T> a, std::vector<T> b, int steps, random_generator& generator,
             const Error& error, const Allowed& is_allowed, const Change& change) {
  double best = error(a, b);
  for (int step = 0; step < steps; ++step) {
    const auto old_a = a, old_b = b;
    std::vector<T>& changed = generator.chance(0.5) ? a : b;
    const auto k = static_cast<std::size_t>(generator.below(5));
    changed[k] += static_cast<T>(change(k));
    const double now = is_allowed(a) && is_allowed(b) ? error(a, b) : 0;
    if (now > best)
      best = now;
    else
      a = old_a, b = old_b;
  }
  return best;
}

/// The error of elementwise_prob_iou().
template <class T>
double pair_error(const std::vector<T>& a, const std::vector<T>& b) {
  T out;
  elementwise_prob_iou(rows_of(a), rows_of(b), torchvision, vector_view<T>(&out, 1),
                       threading::sequential);
  return std::abs(static_cast<double>(out) - exact_pair(a, b, torchvision));
}

}  // namespace

TEST_CASE_TEMPLATE("ProbIoU: golden vectors", T, float, double) {
  if (!has_data("golden_rotated/rotated_far_prob.npy", "golden vectors of ProbIoU")) return;
  for_each_isa([](isa) {
    for (const std::string set : {"random", "thin", "far", "touching"}) {
      CAPTURE(set);
      const auto a = golden_rotated<T, float>("rotated_" + set + "_radians_a");
      const auto b = golden_rotated<T, float>("rotated_" + set + "_radians_b");
      const auto exact = golden_rotated<double>("rotated_" + set + "_prob");
      // In double, the vectors themselves have an error of their matrices' determinants.
      const double within = std::is_same<T, float>::value ? 1e-5 : 1e-10;
      check_near(all_pairs(a, b, ultralytics), exact, within);
      check_near(all_pairs(a, b, angle_convention::mmcv), exact, within);
      check_against_reference(a, b, ultralytics);
    }
  });
}

TEST_CASE_TEMPLATE("ProbIoU: random boxes", T, float, double) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (int convention = 0; convention < 6; ++convention) {
      const auto angles = static_cast<angle_convention>(convention);
      const double turn = convention < 3 ? 400 : 7;
      for (const index_t count : {0, 1, 7, 15, 16, 17, 33, 300}) {
        ++seed;
        const index_t others = count == 300 ? 17 : count;
        const double extent = seed % 3 == 0 ? 1000 : 60, ratio = seed % 2 == 0 ? 40 : 3;
        const auto a = some_boxes<T>(others, seed, extent, 3, 60, ratio, turn);
        check_against_reference(a, some_boxes<T>(count, seed + 100, extent, 3, 60, ratio, turn),
                                angles);
      }
    }
  });
}

TEST_CASE_TEMPLATE("ProbIoU: nearly equal and far boxes keep the bound", T, float, double) {
  for_each_isa([](isa) {
    random_generator generator(5);
    for (const angle_convention angles : {torchvision, ultralytics}) {
      const double turn = angles == torchvision ? 180 : pi;
      for (int round = 0; round < 40; ++round) {
        auto a = some_boxes<T>(8, static_cast<std::uint64_t>(round) + 1,
                               round % 4 == 3 ? 10000 : 30, 40, 400, 40, turn);
        auto b = a;
        for (std::size_t i = 0; i < a.size(); i += 5) {
          const double tiny = std::pow(10, generator.uniform(-9, 0));
          const std::size_t which = i / 5 % 5;
          if (which == 3) std::swap(b[i + 2], b[i + 3]), b[i + 4] += static_cast<T>(turn / 2);
          if (which != 3) b[i + which] += static_cast<T>(tiny * (which == 4 ? turn / 180 : 1));
        }
        check_against_reference(a, b, angles);
      }
    }
  });
}

TEST_CASE_TEMPLATE("ProbIoU: hill climbing finds no error beyond the bound", T, float, double) {
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    random_generator generator(seed);
    const auto a = some_boxes<T>(1, seed, 100, 20, 400, 40, 180);
    const auto b = seed % 2 == 0 ? some_boxes<T>(1, seed + 1000, 100, 20, 400, 40, 180) : a;
    const auto is_allowed = [](const std::vector<T>& box) {
      return box[2] > 1 && box[3] > 1 && box[2] <= 40 * box[3] && box[3] <= 40 * box[2];
    };
    worst =
        std::max(worst, climb(a, b, 400, generator, pair_error<T>, is_allowed, [&](std::size_t) {
                   return generator.uniform(-1, 1) * std::pow(10, generator.uniform(-6, 2));
                 }));
  }
  MESSAGE("largest error found: " << worst);
  CHECK(worst <= rotated_bound<T>);
}

TEST_CASE_TEMPLATE("ProbIoU: hill climbing among small boxes", T, float, double) {
  // In float, boxes of less than 0.06 square pixels are computed in double; in double, they have a
  // bound of their own. Climb on both sides.
  const std::vector<T> known_a{0, 0, T(0.02), T(0.02), 1};
  const std::vector<T> known_b{T(0.0561628491), T(0.0874684528), T(0.022), T(0.0181818176), 1};
  for_each_isa([&](isa) { check_against_reference(known_a, known_b, ultralytics); });
  const auto bound_of = [](const std::vector<T>& x, const std::vector<T>& y) {
    const bool is_small = std::min(x[2] * x[3], y[2] * y[3]) < T(0.06);
    return is_small ? std::max(rotated_bound<T>, 1e-10) : rotated_bound<T>;
  };
  double worst = 0;  // in bounds
  for (std::uint64_t seed = 1; seed <= 90; ++seed) {
    random_generator generator(seed);
    const double middle = std::sqrt(12 * 0.005), low[] = {0.01, 0.5 * middle, middle};
    const double high[] = {0.05, 1.5 * middle, 2 * middle};
    const double ratio = seed % 2 == 0 ? 40 : 2;
    const auto a =
        some_boxes<T>(1, seed, 0.1, low[seed % 3], high[seed % 3] * std::sqrt(ratio), ratio, 180);
    const auto b = seed % 5 == 0 ? some_boxes<T>(1, seed + 1000, 0.1, 0.01, 3, 2, 180) : a;
    const auto is_allowed = [](const std::vector<T>& box) {
      return box[2] > 0 && box[3] > 0 && box[2] <= 40 * box[3] && box[3] <= 40 * box[2];
    };
    const auto error = [&](const std::vector<T>& x, const std::vector<T>& y) {
      return pair_error(x, y) / bound_of(x, y);
    };
    worst =
        std::max(worst, climb(a, b, 600, generator, error, is_allowed, [&](std::size_t k) {
                   const double size = k == 4 ? 90 : 1;
                   return size * generator.uniform(-1, 1) * std::pow(10, generator.uniform(-7, -1));
                 }));
  }
  MESSAGE("largest error found, in bounds: " << worst);
  CHECK(worst <= 1);
}

TEST_CASE_TEMPLATE("ProbIoU: no area, tiny, huge, NaN", T, float, double) {
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinite = std::numeric_limits<T>::infinity();
  for_each_isa([&](isa) {
    const std::vector<T> plain{0, 0, 10, 10, 30}, line{0, 0, 10, 0, 30}, point{3, 3, 0, 0, 10};
    const std::vector<T> far{1000, 0, 0, 5, 12};
    for (const auto& a : {plain, line, point, far})
      for (const auto& b : {plain, line, point, far}) {
        const double exact = exact_pair(a, b, torchvision);
        CHECK(std::abs(static_cast<double>(one_pair(a, b, torchvision)) - exact) <= 1e-5);
      }
    CHECK(one_pair(plain, plain, torchvision) == doctest::Approx(1 - std::sqrt(2e-7)));
    CHECK(one_pair(plain, {-1e5, 0, 10, 10, 0}, torchvision) == doctest::Approx(0).epsilon(1.2e-7));
    for (std::size_t k = 0; k < 5; ++k) {
      for (const T value : {nan, infinite, -infinite, T(-1), T(2e6)}) {
        if ((value == T(-1) && k != 2 && k != 3) || (value == T(2e6) && k != 4)) continue;
        for (const auto& other : {plain, line, far}) {
          std::vector<T> bad = plain;
          bad[k] = value;
          CHECK(std::isnan(one_pair(bad, other, torchvision)));
        }
      }
    }
    for (const double scale : {1e-30, 1e-15, 1e-4, 1e-2, 1e9, 1e15, 1e20, 3e36}) {
      CAPTURE(scale);
      std::vector<T> a{0, 0, 10, 4, 30}, b{1, 1, 8, 5, 80};
      for (std::size_t k = 0; k < 4; ++k) {
        a[k] = static_cast<T>(static_cast<double>(a[k]) * scale);
        b[k] = static_cast<T>(static_cast<double>(b[k]) * scale);
      }
      CHECK(std::abs(static_cast<double>(one_pair(a, b, torchvision)) -
                     exact_pair(a, b, torchvision)) <= 1e-5);
    }
  });
}

TEST_CASE("ProbIoU: strides and gaps") {
  check_gaps<float>([](auto a, auto b, auto out) { pairwise_prob_iou(a, b, torchvision, out); },
                    [](auto a, auto b) { return all_pairs(a, b, torchvision); });
}

TEST_CASE("ProbIoU: bad arguments throw errors that name them and write nothing") {
  std::vector<float> out(12, 5);
  const auto fails = refusals(out);
  const std::vector<float> boxes(20, 1), scores(4, 0.5f);
  const auto view = rows_of(boxes);
  const matrix_view<const float> narrow(boxes.data(), 5, 4);
  const auto result = [&](index_t rows, index_t cols) {
    return matrix_view<float>(out.data(), rows, cols);
  };
  fails("pairwise_prob_iou: a.cols() is 4, expected 5, the numbers of a rotated box",
        [&] { pairwise_prob_iou(narrow, view, torchvision, result(5, 4)); });
  fails("pairwise_prob_iou: out.cols() is 3",
        [&] { pairwise_prob_iou(view, view, torchvision, result(4, 3)); });
  fails("pairwise_prob_iou: angles is 6",
        [&] { pairwise_prob_iou(view, view, static_cast<angle_convention>(6), result(4, 4)); });
  fails("elementwise_prob_iou: out.size() is 12",
        [&] { elementwise_prob_iou(view, view, torchvision, vector_view<float>(out)); });
  const auto run = [&](const nms_params& params) {
    return prob_iou_nms(view, vector_view<const float>(scores), {}, torchvision, params);
  };
  fails("prob_iou_nms: params.iou_threshold is 2, expected a number in [0, 1]", [&] { run(2.0); });
  nms_params params;
  params.plus_one = true;
  fails("prob_iou_nms: params.plus_one is true, expected false", [&] { run(params); });
  params = {};
  params.overlap = nms_overlap::jaccard;
  fails("prob_iou_nms: params.overlap is 3", [&] { run(params); });
}

TEST_CASE("NMS by ProbIoU: golden vectors") {
  if (!has_data("golden_rotated/rotated_nms_boxes.npy", "golden vectors of NMS by ProbIoU")) return;
  const auto boxes = golden_rotated<float>("rotated_nms_boxes");
  const auto scores = golden_rotated<float>("rotated_nms_scores");
  for_each_isa([&](isa) {
    for (const int threshold : {2, 5, 7}) {
      // The degrees are counter-clockwise; ultralytics' turn is mirrored, which changes no overlap.
      const auto expected = golden_rotated<index_t, std::int64_t>("rotated_nms_prob_kept_" +
                                                                  std::to_string(threshold));
      CHECK(prob_iou_nms(rows_of(boxes), vector_view<const float>(scores), {}, torchvision,
                         nms_params::ultralytics_obb(threshold / 10.0)) == expected);
      CHECK(reference::prob_iou_nms(rows_of(boxes), vector_view<const float>(scores), torchvision,
                                    threshold / 10.0) == expected);
    }
  });
}

TEST_CASE_TEMPLATE("NMS by ProbIoU: the loop over the matrix", T, float, double) {
  for_each_isa([](isa) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      CAPTURE(seed);
      random_generator generator(seed);
      const auto count = static_cast<index_t>(seed % 2 == 0 ? seed : 13 * seed);
      auto boxes = some_boxes<T>(count, seed, seed % 3 == 0 ? 60 : 400, 2, 42, 9, 180);
      std::vector<T> scores;
      std::vector<index_t> classes;
      for (index_t i = 0; i < count; ++i) {
        T* const box = &boxes[5 * static_cast<std::size_t>(i)];
        if (seed % 7 == 0) box[0] += T(9000);
        if (seed % 11 == 0)
          for (int k = 0; k < 4; ++k) box[k] *= static_cast<T>(seed % 2 == 0 ? 1e-3 : 1e12);
        if (seed % 5 == 0 && generator.chance(0.05)) box[2 + generator.below(2)] = 0;
        if (seed % 5 == 0 && generator.chance(0.03))
          box[generator.below(5)] = std::numeric_limits<T>::quiet_NaN();
        const double score = generator.uniform();
        scores.push_back(static_cast<T>(seed % 3 == 0 ? std::round(10 * score) / 10 : score));
        if (seed % 4 == 0) classes.push_back(generator.below(3) - 1);
      }
      nms_groups groups;
      groups.classes = classes;
      for (const double threshold : {0.0, 1e-4, 0.01, 0.125, 0.5, 0.75, 0.9995, 1.0}) {
        for (const bool equal : {false, true}) {
          CAPTURE(threshold);
          CAPTURE(equal);
          nms_params params = nms_params::ultralytics_obb(threshold);
          params.suppress_equal = equal;
          const auto rounded = static_cast<double>(static_cast<T>(threshold));
          CHECK(prob_iou_nms(rows_of(boxes), vector_view<const T>(scores), groups, torchvision,
                             params) == unsuppressed(boxes, scores, classes, rounded, equal));
        }
      }
    }
  });
}

TEST_CASE("NMS by ProbIoU: many boxes on any number of threads; suppressed boxes suppress") {
  const auto boxes = some_boxes<float>(3000, 11, 500, 2, 42, 9, 180);
  random_generator generator(3);
  std::vector<float> scores;
  std::vector<index_t> classes;
  for (int i = 0; i < 3000; ++i) {
    scores.push_back(static_cast<float>(generator.uniform()));
    classes.push_back(generator.below(3));
  }
  const auto all = unsuppressed(boxes, scores, {}, 0.5, true);
  const auto by_class = unsuppressed(boxes, scores, classes, 0.5, true);
  nms_groups groups;
  groups.classes = classes;
  for_each_isa([&](isa) {
    nms_workspace workspace;
    for (const int threads : {1, 4}) {
      tbb::task_arena(threads).execute([&] {
        const auto kept = [&](const nms_groups& of) {
          const auto result =
              prob_iou_nms(rows_of(boxes), vector_view<const float>(scores), of, torchvision,
                           nms_params::ultralytics_obb(0.5), workspace);
          return std::vector<index_t>(result.begin(), result.end());
        };
        CHECK(kept({}) == all);
        CHECK(kept(groups) == by_class);
      });
    }
    // The second box suppresses the third, although the first suppresses the second.
    const std::vector<float> row{0, 0, 20, 10, 0, 7, 0, 20, 10, 0, 14, 0, 20, 10, 0};
    const std::vector<float> falling{0.9f, 0.8f, 0.7f};
    CHECK(prob_iou_nms(rows_of(row), vector_view<const float>(falling), {}, torchvision, 0.4) ==
          std::vector<index_t>{0});
    nms_params params(0.4);
    params.max_total = 1;
    CHECK(prob_iou_nms(rows_of(boxes), vector_view<const float>(scores), {}, torchvision, params)
              .size() == 1);
  });
}
