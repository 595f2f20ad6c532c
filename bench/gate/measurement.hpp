// SPDX-License-Identifier: Apache-2.0
// The result of a measuring process, for the process that judges.
#pragma once

#include "statistics.hpp"

#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

namespace vecdet::gate {

/// One process's result for a problem. Ratios are of times: above 1, the first is slower.
struct measurement {
  double base_ns = 0, head_ns = 0;
  double head_to_base = 1;     ///< median
  double p_slower = 1;         ///< probability that head is not slower than base
  double control_to_base = 1;  ///< median
  double plain_to_head = 0;    ///< median; 0: not measured
};

/// For each round, the logarithm of the ratio of a's time to b's.
inline std::vector<double> log_ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(std::log(a[i] / b[i]));
  return ratios;
}

/// Nanoseconds per call, one of each per round.
struct rounds {
  std::vector<double> head, base, control;
};

/// Base's time in a round is the mean of base and control.
inline measurement compare_rounds(const rounds& times) {
  measurement found;
  found.head_ns = median(times.head);
  found.base_ns = median(times.base);
  std::vector<double> ratios = log_ratios(times.head, times.base);
  const std::vector<double> control = log_ratios(times.control, times.base);
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] -= control[i] / 2;
  found.head_to_base = std::exp(median(ratios));
  found.p_slower = signed_rank_p_greater(ratios);
  found.control_to_base = std::exp(median(control));
  return found;
}

/// What one call does, counted and not timed; empty if it could not be counted.
struct call_counts {
  std::optional<double> allocations, page_faults;
};

}  // namespace vecdet::gate
