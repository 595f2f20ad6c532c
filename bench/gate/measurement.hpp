// SPDX-License-Identifier: Apache-2.0
// The result of a measuring process, for the process that judges.
#pragma once

#include "statistics.hpp"

#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace vecdet::gate {

/// Nanoseconds per call, one of each per round. What is not measured is empty.
struct rounds {
  std::vector<double> head, base, control, plain;
};

/// For each round, the ratio of a's time to those of the others.
inline round_ratios ratios_of(const std::vector<double>& a,
                              const std::vector<const std::vector<double>*>& others) {
  round_ratios ratios{others.size(), {}};
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (const std::vector<double>* other : others)
      ratios.logarithms.push_back(std::log(a[i] / (*other)[i]));
  }
  return ratios;
}

/// One series for a problem. Ratios are of times: above 1, the first is slower.
struct measurement {
  rounds times;
  round_ratios to_base;   ///< head to base and to control; empty: there is no base
  round_ratios to_plain;  ///< head to the plain loop; empty: not measured
  round_ratios of_base;   ///< control to base
  double base_ns = 0, head_ns = 0;
  double head_to_base = 1, control_to_base = 1, plain_to_head = 0;  ///< estimates

  explicit measurement(rounds found) : times(std::move(found)) {
    head_ns = median(times.head);
    if (!times.base.empty()) {
      to_base = ratios_of(times.head, {&times.base, &times.control});
      of_base = ratios_of(times.control, {&times.base});
      base_ns = median(times.base);
      head_to_base = to_base.estimate();
      control_to_base = of_base.estimate();
    }
    if (!times.plain.empty()) {
      to_plain = ratios_of(times.head, {&times.plain});
      plain_to_head = 1 / to_plain.estimate();
    }
  }
};

/// What one call does, counted and not timed; empty if it could not be counted.
struct call_counts {
  std::optional<double> allocations, page_faults;
};

}  // namespace vecdet::gate
