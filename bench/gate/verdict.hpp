// SPDX-License-Identifier: Apache-2.0
// The gate's verdict on a problem, from the measurements of up to six new processes.
//
// A process finds a problem slow if the median ratio of head to base is over 3% above 1, and
// significantly so. It gives no answer if its control, base against a copy of base, is off by over
// 1%. Both percentages can be changed. The first process that finds the problem not slow settles
// it as passed; three that find it slow settle it as failed. A problem is faster if the process
// that settles it finds the median ratio 3% below 1 or lower, at the same significance.
#pragma once

#include "measurement.hpp"
#include "statistics.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vecdet::gate {

/// What a user may choose.
struct rules {
  double slow = 1.03;   ///< ratio from which a problem is slower
  double stray = 1.01;  ///< of the control, from which a process gives no answer
  int pairs = 100;      ///< rounds in a process
};

constexpr double significance = 0.01;
constexpr double least_of_ratio = 0.85;  ///< of the recorded ratio to the plain loop
constexpr int processes_to_fail = 3;
constexpr int most_processes = 6;

enum class verdict { undecided, pass, fail };

/// Three consecutive bad answers against a single good one; unclear answers do not count.
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
  std::int64_t index = 0;     ///< in head's list
  bool in_base = true;        ///< if false, there is no base speed to compare with
  double recorded_ratio = 0;  ///< the plain loop's time divided by ours on this machine; 0: none
  bool with_plain_loop = false;
  std::vector<measurement> measurements;
  trial speed, ratio;
  bool is_faster = false;
  call_counts base_counts, head_counts;

  std::string full_name() const { return isa.empty() ? name : name + "/" + isa; }
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

inline bool control_strays(const measurement& found, const rules& rule) {
  return std::abs(std::log(found.control_to_base)) > std::log(rule.stray);
}

/// Adds one process's measurements of `measured`, out of `tests` comparisons in all.
inline void judge(const std::vector<judged_problem*>& measured, std::size_t tests,
                  const rules& rule) {
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
    if (problem.in_base && !control_strays(found, rule)) {
      if (problem.speed.answer == verdict::undecided)
        problem.is_faster = found.head_to_base < 1 / rule.slow && p_faster[i] < significance;
      problem.speed.add(found.head_to_base > rule.slow && p[i] < significance);
    }
    if (problem.recorded_ratio > 0) {
      problem.ratio.add(found.plain_to_head < least_of_ratio * problem.recorded_ratio);
    }
  }
}

/// Lets `measure` add a new process's measurements to the problems that are not settled, until all
/// are or most_processes have run.
template <class Measure>
void settle(std::vector<judged_problem>& problems, const rules& rule, const Measure& measure) {
  for (int process = 0; process < most_processes; ++process) {
    std::vector<judged_problem*> unsettled;
    for (judged_problem& problem : problems) {
      if (!problem.settled()) unsettled.push_back(&problem);
    }
    if (unsettled.empty()) return;
    measure(unsettled);
    judge(unsettled, problems.size(), rule);
  }
}

}  // namespace vecdet::gate
