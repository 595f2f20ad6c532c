// SPDX-License-Identifier: Apache-2.0
// The gate's result: a table for people, JSON for machines.
#pragma once

#include "ratios.hpp"
#include "verdict.hpp"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace vecdet {
namespace gate {

enum class outcome { pass = 0, fail = 1, error = 2, inconclusive = 3 };

struct gate_result {
  machine_class machine;
  int rounds;
  std::vector<judged_problem> problems;
  std::vector<std::string> skipped;  ///< base lacks them

  outcome answer() const {
    bool all_settled = true;
    for (const judged_problem& problem : problems) {
      if (problem.failed()) return outcome::fail;
      all_settled = all_settled && problem.settled();
    }
    return all_settled ? outcome::pass : outcome::inconclusive;
  }
};

inline const char* outcome_name(outcome answer) {
  return answer == outcome::pass ? "pass" : answer == outcome::fail ? "fail" : "inconclusive";
}

inline std::string verdict_of(const judged_problem& problem) {
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

inline void write_table(std::ostream& out, const gate_result& result) {
  std::size_t longest = 7;
  for (const judged_problem& problem : result.problems) {
    longest = std::max(longest, problem.name.size() + 1 + problem.isa.size());
  }
  const auto name_width = static_cast<int>(longest);
  out << std::left << std::setw(name_width) << "problem" << std::right << std::setw(11) << "base us"
      << std::setw(11) << "head us" << std::setw(9) << "change" << std::setw(10) << "control"
      << std::setw(17) << "x plain (before)" << std::setw(11) << "processes"
      << "  verdict\n";
  for (const judged_problem& problem : result.problems) {
    const auto number = [&](double measurement::*field) {
      std::ostringstream text;
      text << std::fixed << std::setprecision(2) << problem.over_processes(field) / 1000;
      return text.str();
    };
    std::ostringstream ratio;
    if (problem.with_plain_loop) {
      ratio << std::fixed << std::setprecision(1)
            << problem.over_processes(&measurement::plain_to_head);
      if (problem.recorded_ratio > 0) ratio << " (" << problem.recorded_ratio << ')';
    }
    const bool compared = problem.in_base;
    out << std::left << std::setw(name_width) << problem.name + "/" + problem.isa << std::right
        << std::setw(11) << (compared ? number(&measurement::base_ns) : "-") << std::setw(11)
        << number(&measurement::head_ns) << std::setw(9)
        << (compared ? percent(problem.over_processes(&measurement::head_to_base)) : "-")
        << std::setw(10)
        << (compared ? percent(problem.over_processes(&measurement::control_to_base)) : "-")
        << std::setw(17) << ratio.str() << std::setw(11) << problem.measurements.size() << "  "
        << verdict_of(problem);
    if (verdict_of(problem) == "faster") {
      const double change = problem.over_processes(&measurement::head_to_base) - 1;
      out << ", " << std::fixed << std::setprecision(0) << 100 * change << " %";
    }
    out << '\n';
  }
  for (const std::string& name : result.skipped) out << name << ": not in the base revision\n";
  out << "perf-gate: " << outcome_name(result.answer()) << " (" << result.problems.size()
      << " comparisons, " << result.rounds << " pairs each; " << result.machine.processor << ", "
      << result.machine.compiler << ")\n";
}

inline nlohmann::ordered_json to_json(const gate_result& result) {
  nlohmann::ordered_json problems = nlohmann::ordered_json::array();
  for (const judged_problem& problem : result.problems) {
    nlohmann::ordered_json entry{{"name", problem.name + "/" + problem.isa + "/threads:1"},
                                 {"verdict", verdict_of(problem)},
                                 {"processes", nlohmann::ordered_json::array()}};
    if (problem.recorded_ratio > 0) entry["recorded_plain_to_head"] = problem.recorded_ratio;
    for (const measurement& found : problem.measurements) {
      nlohmann::ordered_json process{{"head_ns", found.head_ns}};
      if (problem.in_base) {
        process["base_ns"] = found.base_ns;
        process["head_to_base"] = found.head_to_base;
        process["p_slower"] = found.p_slower;
        process["control_to_base"] = found.control_to_base;
      }
      if (problem.with_plain_loop) process["plain_to_head"] = found.plain_to_head;
      entry["processes"].push_back(process);
    }
    problems.push_back(entry);
  }
  return {{"verdict", outcome_name(result.answer())},
          {"exit_code", static_cast<int>(result.answer())},
          {"machine",
           {{"processor", result.machine.processor},
            {"isa", result.machine.isa},
            {"compiler", result.machine.compiler}}},
          {"pairs", result.rounds},
          {"slow", slow},
          {"significance", significance},
          {"control_stray", stray},
          {"problems", problems},
          {"skipped", result.skipped}};
}

}  // namespace gate
}  // namespace vecdet
