// SPDX-License-Identifier: Apache-2.0
// The gate's statistics: median, Wilcoxon's signed-rank test and Holm's correction.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace vecdet::gate {

/// The median of at least one number.
inline double median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  if (numbers.size() % 2 == 1) return *middle;
  return (*std::max_element(numbers.begin(), middle) + *middle) / 2;
}

/// The sum of the ranks of the positive differences, and its distribution if the differences are
/// symmetric. Zeros are dropped; ties share their mean rank.
struct signed_ranks {
  double positive_sum = 0;
  double mean = 0, variance = 0;

  explicit signed_ranks(std::vector<double> differences) {
    differences.erase(std::remove(differences.begin(), differences.end(), 0.0), differences.end());
    std::sort(differences.begin(), differences.end(),
              [](double a, double b) { return std::abs(a) < std::abs(b); });
    const std::size_t count = differences.size();
    double ties = 0;
    for (std::size_t first = 0, last; first < count; first = last) {
      last = first;
      while (last < count && std::abs(differences[last]) == std::abs(differences[first])) ++last;
      const double alike = static_cast<double>(last - first);
      ties += alike * (alike * alike - 1);
      const double rank = static_cast<double>(first + 1 + last) / 2;
      for (std::size_t i = first; i < last; ++i) positive_sum += differences[i] > 0 ? rank : 0;
    }
    const double n = static_cast<double>(count);
    mean = n * (n + 1) / 4;
    variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48;
  }
};

/// Wilcoxon's signed-rank test, one-sided: the probability of so many and so large positive
/// differences if the median is 0. Normal approximation with correction for continuity and ties,
/// for 20 differences or more.
/// Wilcoxon: "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1 (1945).
inline double signed_rank_p_greater(const std::vector<double>& differences) {
  const signed_ranks ranks(differences);
  if (ranks.variance <= 0) return 1;
  const double z = (ranks.positive_sum - ranks.mean - 0.5) / std::sqrt(ranks.variance);
  return std::erfc(z / std::sqrt(2.0)) / 2;
}

/// Probabilities corrected for `tests` tests of which only these were carried out; the others count
/// as not significant.
/// Holm: "A Simple Sequentially Rejective Multiple Test Procedure", Scand. J. Statist. 6 (1979).
inline std::vector<double> holm(const std::vector<double>& p, std::size_t tests) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, p[order[i]] * static_cast<double>(tests - i)));
    corrected[order[i]] = largest;
  }
  return corrected;
}

}  // namespace vecdet::gate
