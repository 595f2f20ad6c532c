// SPDX-License-Identifier: Apache-2.0
// Finds the change points of a series by e-divisive means, which Apache Otava (once Hunter) builds
// on as well. Matteson & James: "A Nonparametric Approach for Multiple Change Point Analysis of
// Multivariate Data", Journal of the American Statistical Association 109 (2014), arXiv 1306.4933;
// alpha = 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace vecdet::gate {

struct change_point_params {
  std::size_t least_points = 3;  ///< on both sides of a change; at least 2
  int permutations = 199;
  double significance = 0.01;
};

/// A split of part of a series: points begin .. at-1 differ most from at .. end-1.
struct divergent_split {
  std::size_t at = 0, end = 0;
  double divergence = -1;  ///< the paper's Q; negative: too few points to split
};

/// The energy divergence of all splits of a series, from sums over the matrix of distances.
class energy_divergence {
 public:
  explicit energy_divergence(const std::vector<double>& points)
      : size_(points.size()), sums_((size_ + 1) * (size_ + 1), 0.0) {
    for (std::size_t i = 0; i < size_; ++i) {
      double row = 0;
      for (std::size_t k = 0; k < size_; ++k) {
        row += std::abs(points[i] - points[k]);
        sums_[(i + 1) * (size_ + 1) + k + 1] = sums_[i * (size_ + 1) + k + 1] + row;
      }
    }
  }

  /// Q = mn/(m+n) (2 E|X-Y| - E|X-X'| - E|Y-Y'|) of X = begin .. at-1 and Y = at .. end-1, each of
  /// at least two points; the means within X and within Y are over pairs of different points.
  double operator()(std::size_t begin, std::size_t at, std::size_t end) const {
    const double m = static_cast<double>(at - begin), n = static_cast<double>(end - at);
    const double between = sum(begin, at, at, end) / (m * n);
    const double within_x = sum(begin, at, begin, at) / (m * (m - 1));
    const double within_y = sum(at, end, at, end) / (n * (n - 1));
    return m * n / (m + n) * (2 * between - within_x - within_y);
  }

  /// The largest divergence over `at` and `end`.
  divergent_split best(std::size_t begin, std::size_t end, std::size_t least) const {
    divergent_split found;
    for (std::size_t at = begin + least; at + least <= end; ++at) {
      for (std::size_t last = at + least; last <= end; ++last) {
        const double divergence = (*this)(begin, at, last);
        if (divergence > found.divergence) found = {at, last, divergence};
      }
    }
    return found;
  }

 private:
  /// Of distances between rows a .. b-1 and columns c .. d-1.
  double sum(std::size_t a, std::size_t b, std::size_t c, std::size_t d) const {
    const std::size_t width = size_ + 1;
    return sums_[b * width + d] - sums_[a * width + d] - sums_[b * width + c] +
           sums_[a * width + c];
  }

  std::size_t size_;
  std::vector<double> sums_;
};

/// The least number of runs before and after a step with which it can be told from chance: a random
/// order of the runs separates them as well with the probability 2 / C(2 n, n).
inline std::size_t least_runs(const change_point_params& params = {}) {
  std::size_t runs = 1;
  double orders = 2;  // C(2 n, n)
  while (runs < params.least_points || 2 / orders > params.significance) {
    ++runs;
    orders *= static_cast<double>(2 * (2 * runs - 1)) / static_cast<double>(runs);
  }
  return runs;
}

/// The indices at which a new segment begins, in order. A split is significant if few series, whose
/// points are permuted within each segment, have a split of such divergence: at most the share
/// `significance` of them. The permutations are the same in every run. Time and memory grow with
/// the square of the number of points.
inline std::vector<std::size_t> change_points(const std::vector<double>& points,
                                              const change_point_params& params = {}) {
  std::vector<std::size_t> borders{0, points.size()};
  std::mt19937 random(20140326);
  const auto best_of_all = [&](const std::vector<double>& series) {
    const energy_divergence divergence(series);
    divergent_split best;
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      const divergent_split split =
          divergence.best(borders[i], borders[i + 1], params.least_points);
      if (split.divergence > best.divergence) best = split;
    }
    return best;
  };
  for (;;) {
    const divergent_split best = best_of_all(points);
    if (best.divergence <= 0) break;
    int larger = 0;
    // p = (larger + 1) / (permutations + 1); no need to go on once it is too large.
    const double most = params.significance * (params.permutations + 1) - 1;
    for (int i = 0; i < params.permutations && larger <= most; ++i) {
      std::vector<double> permuted = points;
      for (std::size_t k = 0; k + 1 < borders.size(); ++k) {
        for (std::size_t left = borders[k + 1] - borders[k]; left > 1; --left) {
          const std::size_t other = static_cast<std::size_t>(random()) % left;
          std::swap(permuted[borders[k] + left - 1], permuted[borders[k] + other]);
        }
      }
      larger += best_of_all(permuted).divergence >= best.divergence;
    }
    if (larger > most) break;
    borders.insert(std::upper_bound(borders.begin(), borders.end(), best.at), best.at);
  }
  return {borders.begin() + 1, borders.end() - 1};
}

}  // namespace vecdet::gate
