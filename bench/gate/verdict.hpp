// SPDX-License-Identifier: Apache-2.0
// The gate's verdict on a problem, from up to six series. A series has the rounds of a new process,
// or, for programs, of new processes.
//
// After each series, all rounds of the problem so far are judged together. The problem passes if
// they exclude, at significance 0.01, that head takes 3% longer or more; it fails if, after three
// series or more, head takes over 3% longer by estimate, and longer at all at that significance. If
// six series show neither, the problem is inconclusive. The 3% can be changed.
//
// A series gives no answer if its control, base against base again, is off by over 1%, which also
// can be changed, and significantly so.
#pragma once

#include "measurement.hpp"
#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vecdet::gate {

/// What a user may choose.
struct rules {
  double slow = 1.03;     ///< ratio from which a problem is slower
  double stray = 1.01;    ///< of the control, from which a series gives no answer
  int pairs = 100;        ///< rounds in a series
  double time_limit = 0;  ///< seconds for each measuring process; 0: derived from others
};

constexpr double significance = 0.01;    ///< for a problem's verdict, over all series
constexpr double least_of_ratio = 0.85;  ///< of the recorded ratio to the plain loop
constexpr int processes_to_fail = 3;
constexpr int most_processes = 6;

enum class verdict { undecided, pass, fail };

/// One question, and the rounds of all series about it: does head take over `limit` times as long
/// as others, where unchanged code takes `unchanged` times as long?
struct trial {
  verdict answer = verdict::undecided;
  int series = 0;
  round_ratios pooled;

  void add(const round_ratios& found) {
    ++series;
    pooled.add(found);
  }

  /// Probability of these ranks if head is unchanged.
  double p_slower(double unchanged) const { return series == 0 ? 1 : pooled.p_above(unchanged); }

  /// `p_slower` is corrected for the number of problems. A pass needs no such correction: the
  /// question is whether this problem, if slower, would pass.
  void decide(double unchanged, double limit, double p_slower) {
    if (series == 0) return;
    // A problem is tested up to six times.
    constexpr double significant = significance / most_processes;
    // The rounds of a series may share an error, such as that of the process's memory layout. A
    // third of the margin is left for it; over several series, such errors average out.
    const double margin = std::log(limit / unchanged);
    const double excluded = std::exp(std::log(limit) - margin / 3 / std::sqrt(series));
    if (pooled.p_below(excluded) < significant) {
      answer = verdict::pass;
    } else if (series >= processes_to_fail && pooled.estimate() > limit && p_slower < significant) {
      answer = verdict::fail;
    }
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
  std::string trouble;       ///< why it cannot be compared; empty: it can
  bool head_failed = false;  ///< the trouble is an error that only head reports

  std::string full_name() const { return isa.empty() ? name : name + "/" + isa; }
  /// Whether no more series are needed.
  bool settled() const {
    if (!trouble.empty()) return true;
    return (!in_base || speed.answer != verdict::undecided) &&
           (recorded_ratio == 0 || ratio.answer != verdict::undecided);
  }
  bool failed() const {
    return head_failed || speed.answer == verdict::fail || ratio.answer == verdict::fail;
  }
  /// Whether it is unknown if head is slower.
  bool open() const { return !failed() && (!trouble.empty() || !settled()); }

  /// The median over all series, of which there must be one.
  double over_processes(double measurement::*field) const {
    std::vector<double> values;
    for (const measurement& found : measurements) values.push_back(found.*field);
    return median(values);
  }
};

inline bool control_strays(const measurement& found, const rules& rule) {
  return std::abs(std::log(found.control_to_base)) > std::log(rule.stray) &&
         std::min(found.of_base.p_above(1), found.of_base.p_below(1)) < significance;
}

/// Judges `measured`, each with one more series, out of `tests` comparisons in all.
inline void judge(const std::vector<judged_problem*>& measured, std::size_t tests,
                  const rules& rule) {
  std::vector<judged_problem*> judged;
  std::vector<double> slower, faster, ratio_fell;
  for (judged_problem* const problem : measured) {
    if (!problem->trouble.empty()) continue;
    judged.push_back(problem);
    const measurement& found = problem->measurements.back();
    if (problem->in_base && !control_strays(found, rule)) problem->speed.add(found.to_base);
    if (problem->recorded_ratio > 0) problem->ratio.add(found.to_plain);
    slower.push_back(problem->speed.p_slower(1));
    faster.push_back(problem->speed.series == 0 ? 1 : problem->speed.pooled.p_below(1));
    ratio_fell.push_back(
        problem->recorded_ratio > 0 ? problem->ratio.p_slower(1 / problem->recorded_ratio) : 1);
  }
  slower = holm(slower, tests);
  faster = holm(faster, tests);
  ratio_fell = holm(ratio_fell, tests);
  for (std::size_t i = 0; i < judged.size(); ++i) {
    judged_problem& problem = *judged[i];
    if (problem.speed.answer == verdict::undecided) {
      problem.speed.decide(1, rule.slow, slower[i]);
      problem.is_faster = problem.speed.answer == verdict::pass &&
                          problem.speed.pooled.estimate() < 1 / rule.slow &&
                          faster[i] < significance;
    }
    if (problem.recorded_ratio > 0 && problem.ratio.answer == verdict::undecided) {
      const double recorded = 1 / problem.recorded_ratio;
      problem.ratio.decide(recorded, recorded / least_of_ratio, ratio_fell[i]);
    }
  }
}

/// Lets `measure` add a series to each problem that is not settled, or say what trouble it has,
/// until all are settled or most_processes series have run.
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
