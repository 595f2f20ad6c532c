// SPDX-License-Identifier: Apache-2.0
// The command's input files, of all kinds. A oneDNN log beside one trace of torch.profiler is of
// the same run: its executions join the trace's operators.
#pragma once

#include "import_torch_trace.hpp"
#include "read.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::profile {

/// The content of all files.
struct inputs {
  report recorded;
  onednn_problems problems;        ///< behind the entries of oneDNN's logs
  std::vector<replaceable> parts;  ///< what vecdet can replace in the traces
};

/// The executions in the file if it is a oneDNN log with time stamps; else none.
inline std::vector<logged_execution> stamped_executions(const std::string& file,
                                                        onednn_problems& problems) {
  const std::string text = file_text(file);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  std::vector<logged_execution> found;
  if (start == text.npos || text[start] == '{') return found;
  onednn_problems known;
  bool has_stamps = true;
  for_each_execution(text, [&](onednn_execution execution) {
    has_stamps = has_stamps && execution.stamp_ms.has_value();
    known.emplace(execution.one.name, std::move(execution.problem));
    entry once = execution.one;
    once.histogram.clear();
    once.samples.clear();
    found.push_back({1e6 * execution.stamp_ms.value_or(0), once.total_ns, std::move(once)});
  });
  if (!has_stamps) return {};
  problems.merge(known);
  return found;
}

/// Adds the parts of another trace.
inline void merge_parts(std::vector<replaceable>& into, std::vector<replaceable> from) {
  for (replaceable& each : from) {
    const auto same = std::find_if(into.begin(), into.end(), [&](const replaceable& known) {
      return known.what == each.what;
    });
    if (same == into.end()) {
      into.push_back(std::move(each));
    } else {
      same->calls += each.calls;
      same->observed_ns += each.observed_ns;
    }
  }
}

/// Reads the files. Throws std::runtime_error that names the one that cannot be read.
inline inputs read_inputs(const std::vector<std::string>& files) {
  std::vector<std::string> traces, others;
  for (const std::string& file : files) (is_torch_trace(file) ? traces : others).push_back(file);
  inputs all;
  std::vector<report> reports;
  std::vector<logged_execution> executions;
  std::size_t read = 0;
  const auto show = [&] {
    if (files.size() > 8)
      std::cerr << "\rreading " << ++read << " of " << files.size() << std::flush;
  };
  for (const std::string& file : others) {
    show();
    std::vector<logged_execution> found;
    if (traces.size() == 1) found = stamped_executions(file, all.problems);
    if (found.empty()) {
      reports.push_back(read_report(file, &all.problems));
      const std::vector<process_info>& processes = reports.back().processes;
      if (traces.size() == 1 && processes.size() == 1 && processes[0].command == "oneDNN") {
        reports.back().warnings.push_back(
            "oneDNN's log has no time stamps to join it to the trace, so its time counts twice: "
            "record it with ONEDNN_VERBOSE_TIMESTAMP=1");
      }
    }
    std::move(found.begin(), found.end(), std::back_inserter(executions));
  }
  for (const std::string& file : traces) {
    show();
    torch_import imported = import_torch_trace(file, executions);
    reports.push_back(std::move(imported.recorded));
    merge_parts(all.parts, std::move(imported.parts));
  }
  if (files.size() > 8) std::cerr << '\n';
  all.recorded = merge_reports(reports);
  return all;
}

/// The scope that represents a step: the given one, or torch.profiler's steps if there are any.
inline std::string step_scope(const report& r, const std::string& given) {
  constexpr const char* steps = "ProfilerStep";
  const bool has_steps = std::any_of(r.entries.begin(), r.entries.end(), [&](const entry& e) {
    return e.name == steps && e.source == "torch";
  });
  return given.empty() && has_steps ? steps : given;
}

}  // namespace vecdet::profile
