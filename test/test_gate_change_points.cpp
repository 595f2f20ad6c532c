// SPDX-License-Identifier: Apache-2.0
// E-divisive means: the divergence against its formula, and change points of made-up series.
#include "bench/gate/change_points.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet::gate;

namespace {

/// The paper's formulas (5) and (6), alpha = 1.
double divergence_by_formula(const std::vector<double>& x, const std::vector<double>& y) {
  const auto pairs_within = [](const std::vector<double>& points) {
    double sum = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      for (std::size_t k = i + 1; k < points.size(); ++k) sum += std::abs(points[i] - points[k]);
    }
    const double n = static_cast<double>(points.size());
    return sum / (n * (n - 1) / 2);
  };
  double between = 0;
  for (const double a : x) {
    for (const double b : y) between += std::abs(a - b);
  }
  const double m = static_cast<double>(x.size()), n = static_cast<double>(y.size());
  return m * n / (m + n) * (2 * between / (m * n) - pairs_within(x) - pairs_within(y));
}

/// Levels with noise of about +-1, the same each time: sums of six digits of a congruential
/// generator.
class noise {
 public:
  explicit noise(std::uint32_t seed) : state_(seed) {}
  double next() {
    double sum = 0;
    for (int i = 0; i < 6; ++i) {
      state_ = state_ * 1664525u + 1013904223u;
      sum += static_cast<double>(state_ >> 8) / 16777216.0 - 0.5;
    }
    return sum;
  }

 private:
  std::uint32_t state_;
};

std::vector<double> series(const std::vector<double>& levels, int points, std::uint32_t seed) {
  noise random(seed);
  std::vector<double> all;
  for (const double level : levels) {
    for (int i = 0; i < points; ++i) all.push_back(level + random.next());
  }
  return all;
}

}  // namespace

TEST_CASE("change points: the divergence") {
  const std::vector<double> points = series({3, 5}, 8, 1);
  const energy_divergence divergence(points);
  for (std::size_t begin = 0; begin < 12; ++begin) {
    for (std::size_t at = begin + 2; at + 2 <= points.size(); ++at) {
      for (std::size_t end = at + 2; end <= points.size(); ++end) {
        const auto part = [&](std::size_t from, std::size_t to) {
          return std::vector<double>(points.begin() + static_cast<std::ptrdiff_t>(from),
                                     points.begin() + static_cast<std::ptrdiff_t>(to));
        };
        CHECK(divergence(begin, at, end) ==
              doctest::Approx(divergence_by_formula(part(begin, at), part(at, end))));
      }
    }
  }
  // 1, 1, 3, 3: all distances between the parts are 2 and within a part 0; Q = 4/4 * 4.
  CHECK(energy_divergence({1, 1, 3, 3})(0, 2, 4) == 4);
  const divergent_split best = energy_divergence({1, 1, 1, 9, 9, 9, 1, 1}).best(0, 8, 2);
  CHECK(best.at == 3);
  CHECK(best.end == 6);  // the return to 1 would only blur the change
}

TEST_CASE("change points: levels") {
  CHECK(change_points(series({10, 14}, 20, 2)) == std::vector<std::size_t>{20});
  CHECK(change_points(series({10, 15, 10}, 15, 3)) == std::vector<std::size_t>{15, 30});
  CHECK(change_points(series({10, 14, 18, 9}, 12, 4)) == std::vector<std::size_t>{12, 24, 36});
  // A single different point is not a new level.
  std::vector<double> outlier = series({10}, 30, 5);
  outlier[14] = 30;
  CHECK(change_points(outlier).empty());
}

TEST_CASE("change points: noise has none, or as rarely as the significance says") {
  int found = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed)
    found += !change_points(series({10}, 25, 1000 + 77 * seed)).empty();
  CHECK(found <= 2);
}

TEST_CASE("change points: short and constant series") {
  for (std::size_t size = 0; size < 6; ++size)
    CHECK(change_points(std::vector<double>(size, 1.0)).empty());
  CHECK(change_points(std::vector<double>(50, 7.0)).empty());
  // Too few points for a p-value of 0.01: 20 ways to choose 3 of 6.
  CHECK(change_points({1, 1.1, 1.2, 5, 5.1, 5.2}).empty());
}

TEST_CASE("change points are the same each time") {
  const std::vector<double> points = series({10, 11, 10.4}, 20, 6);
  const std::vector<std::size_t> first = change_points(points);
  for (int i = 0; i < 3; ++i) CHECK(change_points(points) == first);
}

TEST_CASE("change points: from how many runs a step can be told from chance") {
  CHECK(least_runs() == 5);  // 2 / C(8, 4) = 2.9 %, 2 / C(10, 5) = 0.8 %
  CHECK(least_runs({3, 199, 0.05}) == 4);
  CHECK(least_runs({3, 199, 0.5}) == 3);
  const auto found = [](std::size_t before, std::size_t after) {
    std::vector<double> points(before, 100.0);
    points.resize(before + after, 150.0);
    return change_points(points);
  };
  CHECK(found(4, 4).empty());
  for (std::size_t runs = 5; runs <= 20; ++runs)
    CHECK(found(runs, runs) == std::vector<std::size_t>{runs});
  for (std::size_t before = 14; before <= 30; ++before)
    CHECK(found(before, 3) == std::vector<std::size_t>{before});
}
