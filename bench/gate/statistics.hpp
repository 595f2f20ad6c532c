// SPDX-License-Identifier: Apache-2.0
// The gate's statistics: median, a test on ranks within rounds and Holm's correction.
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

/// In each round, head's time is compared with that of one or two others. `logarithms` are those of
/// head's ratios to the others, round by round.
///
/// The order within a round is drawn at random. If head took `ratio` times as long as the others,
/// the times of a round, head's divided by `ratio`, would thus come from the same distribution, and
/// head's rank among them would be any with the same probability, independently of the other
/// rounds, whatever else the machine does. This is the one assumption of what follows.
struct round_ratios {
  std::size_t others = 1;  ///< per round
  std::vector<double> logarithms;

  /// Appends further rounds.
  void add(const round_ratios& more) {
    others = more.others;
    logarithms.insert(logarithms.end(), more.logarithms.begin(), more.logarithms.end());
  }

  /// The ratio that half of the ratios exceed.
  double estimate() const { return std::exp(median(logarithms)); }

  /// The probability that head ranks so high if it takes `ratio` times as long as the others, or
  /// less. Normal approximation with correction for continuity, for 20 rounds or more; ties count
  /// for neither side.
  double p_above(double ratio) const { return p_of(1, ratio); }

  /// The same for ranks so low if it takes `ratio` times as long, or longer.
  double p_below(double ratio) const { return p_of(-1, ratio); }

 private:
  double p_of(double side, double ratio) const {
    const double at = std::log(ratio), m = static_cast<double>(others);
    double sum = 0;  // of (others below head - others above head) / others
    for (const double each : logarithms) sum += side * ((each > at) - (each < at)) / m;
    // Of m + 1 equally probable values, 2/m apart, per round.
    const double variance = static_cast<double>(logarithms.size()) / m * (m + 2) / (3 * m);
    if (variance <= 0) return 1;
    return std::erfc((sum - 1 / m) / std::sqrt(2 * variance)) / 2;
  }
};

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
