// SPDX-License-Identifier: Apache-2.0
// The gate's result as JSON, as Markdown for pull requests, and as JUnit's XML for test reports.
#pragma once

#include "report.hpp"

#include <cstddef>
#include <fstream>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace vecdet::gate {

inline nlohmann::ordered_json to_json(const call_counts& counts) {
  const auto number = [](const std::optional<double>& count) {
    return count ? nlohmann::ordered_json(*count) : nlohmann::ordered_json();
  };
  return {{"allocations", number(counts.allocations)}, {"page_faults", number(counts.page_faults)}};
}

inline nlohmann::ordered_json to_json(const gate_result& result) {
  nlohmann::ordered_json problems = nlohmann::ordered_json::array();
  for (const judged_problem& problem : result.problems) {
    const std::string threads = problem.isa.empty() ? "" : "/threads:1";
    nlohmann::ordered_json entry{{"name", problem.full_name() + threads},
                                 {"verdict", verdict_of(problem)},
                                 {"processes", nlohmann::ordered_json::array()}};
    if (!problem.trouble.empty()) entry["reason"] = problem.trouble;
    if (problem.recorded_ratio > 0) entry["recorded_plain_to_head"] = problem.recorded_ratio;
    if (problem.base_counts.page_faults || problem.head_counts.page_faults) {
      entry["counts"] = {{"base", to_json(problem.base_counts)},
                         {"head", to_json(problem.head_counts)}};
    }
    for (const measurement& found : problem.measurements) {
      nlohmann::ordered_json process{{"head_ns", found.head_ns}};
      if (problem.in_base) {
        process["base_ns"] = found.base_ns;
        process["head_to_base"] = found.head_to_base;
        process["p_slower"] = found.to_base.p_above(1);
        process["p_within"] = found.to_base.p_below(result.rule.slow);
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
          {"pairs", result.rule.pairs},
          {"slow", result.rule.slow},
          {"significance", significance},
          {"control_stray", result.rule.stray},
          {"problems", problems},
          {"skipped", result.skipped}};
}

/// Text for a cell of a Markdown table, which GitHub also reads as HTML.
inline std::string markdown_text(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else if (c == '\n') {
      safe += ' ';
    } else {
      if (std::string("\\`*_|[]~").find(c) != std::string::npos) safe += '\\';
      safe += c;
    }
  }
  return safe;
}

/// The verdict in one line, the benchmarks that changed, and a fold with all of them.
inline void write_markdown(std::ostream& out, const gate_result& result) {
  const auto header = [&] {
    out << "| benchmark | base | head | change | allocations | page faults | verdict |\n"
           "|---|--:|--:|--:|--:|--:|---|\n";
  };
  const auto row = [&](const judged_problem& problem) {
    const bool compared = is_compared(problem);
    out << "| " << markdown_text(problem.full_name()) << " | "
        << (compared ? time_text(problem.over_processes(&measurement::base_ns)) : "-") << " | "
        << head_text(problem) << " | " << (compared ? percent(change_of(problem)) : "-") << " | "
        << markdown_text(
               count_text(problem.base_counts.allocations, problem.head_counts.allocations))
        << " | "
        << markdown_text(
               count_text(problem.base_counts.page_faults, problem.head_counts.page_faults))
        << " | " << verdict_of(problem) << (problem.trouble.empty() ? "" : ": ")
        << markdown_text(problem.trouble) << " |\n";
  };
  out << "### Performance gate: " << outcome_name(result.answer()) << "\n\n"
      << summary(result) << ".\n\n";
  bool begun = false;
  for (const judged_problem& problem : result.problems) {
    if (verdict_of(problem) == "pass") continue;
    if (!begun) header();
    begun = true;
    row(problem);
  }
  if (begun) out << '\n';
  out << "<details><summary>All benchmarks</summary>\n\n";
  header();
  for (const judged_problem& problem : result.problems) row(problem);
  out << '\n';
  for (const std::string& line : result.skipped) out << "- " << markdown_text(line) << '\n';
  if (!result.skipped.empty()) out << '\n';
  out << "A benchmark is slower if it takes over " << percent(result.rule.slow).substr(1)
      << " longer; one that passes takes less. Series of " << result.rule.pairs << " pairs on "
      << markdown_text(machine_text(result.machine)) << ".\n</details>\n";
}

/// Text for XML 1.0: control characters, which it cannot hold, become "?".
inline std::string xml_text(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return safe;
}

/// A test case per benchmark: a slower one failed, an inconclusive one was skipped.
inline void write_junit(std::ostream& out, const gate_result& result) {
  std::size_t failures = 0, open = 0;
  for (const judged_problem& problem : result.problems) {
    failures += problem.failed();
    open += problem.open();
  }
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"vecdet-gate\" tests=\""
      << result.problems.size() << "\" failures=\"" << failures << "\" errors=\"0\" skipped=\""
      << open << "\">\n";
  for (const judged_problem& problem : result.problems) {
    out << "  <testcase classname=\"vecdet-gate\" name=\"" << xml_text(problem.full_name())
        << "\" time=\""
        << (head_text(problem) == "-" ? 0 : problem.over_processes(&measurement::head_ns) * 1e-9)
        << "\">";
    std::string numbers = xml_text(problem.trouble);
    if (numbers.empty()) numbers = "head " + head_text(problem);
    if (is_compared(problem)) {
      numbers += ", base " + time_text(problem.over_processes(&measurement::base_ns)) + ", " +
                 percent(change_of(problem));
    }
    if (problem.failed()) {
      out << "<failure message=\"" << verdict_of(problem) << ": " << numbers << "\"/>";
    } else if (problem.open()) {
      out << "<skipped message=\""
          << (problem.trouble.empty() ? "too noisy or too near the threshold to tell"
                                      : "not compared")
          << ": " << numbers << "\"/>";
    }
    out << "<system-out>" << verdict_of(problem) << ": " << numbers << "</system-out></testcase>\n";
  }
  out << "</testsuite>\n";
}

/// Where the result goes besides the terminal; an empty path means nowhere.
struct report_paths {
  std::string json, markdown, junit, history, label;
};

/// Writes what `write` puts into the stream.
template <class Write>
void write_file(const std::string& path, const Write& write) {
  std::ofstream file(path);
  write(file);
  if (!file.flush()) throw std::runtime_error("\"" + path + "\" cannot be written");
}

}  // namespace vecdet::gate
