// SPDX-License-Identifier: Apache-2.0
// The gate's result, and the table for people.
#pragma once

#include "ratios.hpp"
#include "verdict.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

namespace vecdet::gate {

enum class outcome { pass = 0, fail = 1, error = 2, inconclusive = 3 };

struct gate_result {
  machine_class machine;
  rules rule;
  std::vector<judged_problem> problems;
  std::vector<std::string> skipped;  ///< what there is nothing to compare with, and why

  outcome answer() const {
    bool open = false;
    for (const judged_problem& problem : problems) {
      if (problem.failed()) return outcome::fail;
      open = open || problem.open();
    }
    return open ? outcome::inconclusive : outcome::pass;
  }
};

inline const char* outcome_name(outcome answer) {
  return answer == outcome::pass ? "pass" : answer == outcome::fail ? "fail" : "inconclusive";
}

inline std::string verdict_of(const judged_problem& problem) {
  if (problem.head_failed) return "FAILED";
  if (!problem.trouble.empty()) return "not compared";
  if (problem.speed.answer == verdict::fail) return "SLOWER";
  if (problem.ratio.answer == verdict::fail) return "RATIO FELL";
  if (!problem.settled()) return "inconclusive";
  return problem.is_faster ? "faster" : "pass";
}

/// 1.034 as "+3.4%".
inline std::string percent(double ratio) {
  std::ostringstream text;
  text << std::showpos << std::fixed << std::setprecision(1) << 100 * (ratio - 1) << '%';
  return text.str();
}

/// "12.34 us"
inline std::string time_text(double ns) {
  const char* unit = "ns";
  for (const char* next : {"us", "ms", "s"}) {
    if (ns < 1000) break;
    ns /= 1000;
    unit = next;
  }
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << ns << ' ' << unit;
  return text.str();
}

/// "12", or "12 -> 14", or "-" if it was not counted.
inline std::string count_text(const std::optional<double>& base,
                              const std::optional<double>& head) {
  if (!base && !head) return "-";
  const auto text = [](const std::optional<double>& count) {
    std::ostringstream out;
    if (count) {
      out << *count;
    } else {
      out << '?';
    }
    return out.str();
  };
  return base == head ? text(head) : text(base) + " -> " + text(head);
}

/// Whether it has times of base and head.
inline bool is_compared(const judged_problem& problem) {
  return problem.in_base && problem.trouble.empty() && !problem.measurements.empty();
}

/// What the verdict is based on, or else, if every control strays, the median over all series.
inline double change_of(const judged_problem& problem) {
  return problem.speed.series > 0 ? problem.speed.pooled.estimate()
                                  : problem.over_processes(&measurement::head_to_base);
}

/// "12.34 us", or "-" without a time.
inline std::string head_text(const judged_problem& problem) {
  return problem.measurements.empty() || !problem.trouble.empty()
             ? "-"
             : time_text(problem.over_processes(&measurement::head_ns));
}

/// How many problems became slower, faster or stayed undecided, in words.
inline std::string summary(const gate_result& result) {
  std::size_t slower = 0, failed = 0, faster = 0, open = 0;
  std::size_t compared = 0, left_out = result.skipped.size();
  for (const judged_problem& problem : result.problems) {
    compared += problem.trouble.empty();
    failed += problem.head_failed;
    left_out += !problem.trouble.empty() && !problem.head_failed;
    slower += problem.failed() && !problem.head_failed;
    open += problem.open() && problem.trouble.empty();
    faster += verdict_of(problem) == "faster";
  }
  std::ostringstream text;
  text << compared << " compared, " << slower << " slower, " << faster << " faster, " << open
       << " inconclusive";
  if (failed > 0) text << ", " << failed << " failed";
  if (left_out > 0) text << ", " << left_out << " not compared";
  return text.str();
}

/// "AMD EPYC, family 26, model 2; GCC 12"
inline std::string machine_text(const machine_class& machine) {
  return machine.compiler.empty() ? machine.processor : machine.processor + "; " + machine.compiler;
}

inline void write_table(std::ostream& out, const gate_result& result) {
  std::size_t longest = 7;
  bool plain = false, counted = false;
  for (const judged_problem& problem : result.problems) {
    longest = std::max(longest, problem.full_name().size());
    plain = plain || problem.with_plain_loop;
    counted = counted || problem.base_counts.page_faults || problem.head_counts.page_faults;
  }
  // Columns stay apart even if a text is longer than its column.
  const auto column = [&](int width, const std::string& text) {
    out << ' ' << std::setw(width - 1) << text;
  };
  const auto name = [&](const std::string& text) {
    out << std::left << std::setw(static_cast<int>(longest)) << text << std::right;
  };
  name("problem");
  column(12, "base");
  column(12, "head");
  column(9, "change");
  column(10, "control");
  if (plain) column(17, "x plain (before)");
  if (counted) {
    column(15, "allocations");
    column(15, "page faults");
  }
  column(11, "processes");
  out << "  verdict\n";
  for (const judged_problem& problem : result.problems) {
    const bool compared = is_compared(problem);
    name(problem.full_name());
    column(12, compared ? time_text(problem.over_processes(&measurement::base_ns)) : "-");
    column(12, head_text(problem));
    column(9, compared ? percent(change_of(problem)) : "-");
    column(10, compared ? percent(problem.over_processes(&measurement::control_to_base)) : "-");
    if (plain) {
      std::ostringstream ratio;
      if (problem.with_plain_loop) {
        ratio << std::fixed << std::setprecision(1)
              << problem.over_processes(&measurement::plain_to_head);
        if (problem.recorded_ratio > 0) ratio << " (" << problem.recorded_ratio << ')';
      }
      column(17, ratio.str());
    }
    if (counted) {
      const call_counts &base = problem.base_counts, &head = problem.head_counts;
      column(15, count_text(base.allocations, head.allocations));
      column(15, count_text(base.page_faults, head.page_faults));
    }
    column(11, std::to_string(problem.measurements.size()));
    out << "  " << verdict_of(problem) << (problem.trouble.empty() ? "" : ": ") << problem.trouble;
    if (verdict_of(problem) == "faster") {
      out << ", " << std::fixed << std::setprecision(0) << 100 * (change_of(problem) - 1) << " %";
    }
    out << '\n';
  }
  for (const std::string& line : result.skipped) out << line << '\n';
  out << "vecdet-gate: " << outcome_name(result.answer()) << " (" << summary(result) << "; "
      << result.rule.pairs << " pairs; " << machine_text(result.machine) << ")\n";
}

}  // namespace vecdet::gate
