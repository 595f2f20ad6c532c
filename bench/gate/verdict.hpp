// SPDX-License-Identifier: Apache-2.0
// What the gate says about a problem, from what up to six fresh processes have measured.
//
// A process finds a problem slow when the median is over 3% above base's and significantly so. It
// says nothing when its own control, base against base's copy, strays over 1%. The first process
// that finds a problem not slow settles it; three that find it slow fail it. A problem is faster
// when the process that settles it finds the median over 3% below base's, as significantly.
#pragma once

#include "measurement.hpp"
#include "statistics.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vecdet {
namespace gate {

constexpr double slow = 1.03;
constexpr double significance = 0.01;
constexpr double stray = 1.01;
constexpr double least_of_ratio = 0.85;  ///< of the recorded ratio to the plain loop
constexpr int processes_to_fail = 3;
constexpr int most_processes = 6;

enum class verdict { undecided, pass, fail };

/// Three in a row of the answers that count, against one.
struct trial {
  verdict answer = verdict::undecided;
  int bad = 0;

  void add(bool found_bad) {
    if (answer != verdict::undecided) return;
    if (!found_bad) answer = verdict::pass;
    if (found_bad && ++bad == processes_to_fail) answer = verdict::fail;
  }
};

struct judged_problem {
  std::string name, isa;
  std::int64_t index;     ///< in head's list
  bool in_base;           ///< otherwise there is nothing to compare speed with
  double recorded_ratio;  ///< of the plain loop's time to ours on this machine; 0: none
  bool with_plain_loop;
  std::vector<measurement> measurements;
  trial speed, ratio;
  bool is_faster = false;

  bool settled() const {
    return (!in_base || speed.answer != verdict::undecided) &&
           (recorded_ratio == 0 || ratio.answer != verdict::undecided);
  }
  bool failed() const { return speed.answer == verdict::fail || ratio.answer == verdict::fail; }

  /// The median over all processes.
  double over_processes(double measurement::*field) const {
    std::vector<double> values;
    for (const measurement& found : measurements) values.push_back(found.*field);
    return median(values);
  }
};

inline bool control_strays(const measurement& found) {
  return std::abs(std::log(found.control_to_base)) > std::log(stray);
}

/// Adds one process's measurements of `measured`, of `tests` comparisons in all.
inline void judge(const std::vector<judged_problem*>& measured, std::size_t tests) {
  std::vector<double> p, p_faster;
  for (const judged_problem* problem : measured) {
    p.push_back(problem->in_base ? problem->measurements.back().p_slower : 1);
    p_faster.push_back(problem->in_base ? 1 - p.back() : 1);
  }
  p = holm(p, tests);
  p_faster = holm(p_faster, tests);
  for (std::size_t i = 0; i < measured.size(); ++i) {
    judged_problem& problem = *measured[i];
    const measurement& found = problem.measurements.back();
    if (problem.in_base && !control_strays(found)) {
      if (problem.speed.answer == verdict::undecided)
        problem.is_faster = found.head_to_base < 1 / slow && p_faster[i] < significance;
      problem.speed.add(found.head_to_base > slow && p[i] < significance);
    }
    if (problem.recorded_ratio > 0) {
      problem.ratio.add(found.plain_to_head < least_of_ratio * problem.recorded_ratio);
    }
  }
}

}  // namespace gate
}  // namespace vecdet
