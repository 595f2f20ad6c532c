// SPDX-License-Identifier: Apache-2.0
// Compares two Python callables. python/vecdet/gate.py measures them, in a new process for each set
// of rounds; this side judges.
#pragma once

#include "counter.hpp"
#include "measurement.hpp"
#include "process.hpp"
#include "report.hpp"

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace vecdet::gate {

struct callable_pair {
  std::string python = "python3";  ///< the interpreter
  std::string measurer;            ///< gate.py
  std::string base, head;          ///< "module:function" or "file.py:function"
};

namespace detail {

inline finished_program run_measurer(const callable_pair& callables, int pairs, double limit,
                                     std::vector<std::pair<std::string, std::string>> environment) {
  const nlohmann::json job{{"base", callables.base},
                           {"head", callables.head},
                           {"pairs", pairs},
                           {"counted_calls", counted_calls}};
  program_start start;
  start.command = {callables.python, callables.measurer, "--measure", job.dump()};
  start.environment = std::move(environment);
  start.limit = limit;
  start.measured = true;
  const on_one_processor pinned(true);
  finished_program ended = run_program(start);
  if (!ended.succeeded()) throw std::runtime_error("the measuring process: " + ended.failure());
  // Its last line: "done" or its JSON; until then, the callable that runs, if it says so.
  while (!ended.results.empty() && ended.results.back() == '\n') ended.results.pop_back();
  ended.results.erase(0, ended.results.rfind('\n') + 1);
  if (ended.results.empty() || (ended.results != "done" && ended.results[0] != '{')) {
    const std::string by = ended.results.empty()
                               ? "\"" + callables.base + "\" or \"" + callables.head + "\""
                               : "\"" + ended.results + "\"";
    throw std::runtime_error(by +
                             " ended the measuring process (exit code 0), expected it to return");
  }
  return ended;
}

inline std::vector<double> times_in(const nlohmann::json& measured, const char* key, int pairs) {
  const std::vector<double> times = measured.at(key).get<std::vector<double>>();
  if (times.size() != static_cast<std::size_t>(pairs))
    throw std::runtime_error("the measuring process returned " + std::to_string(times.size()) +
                             " times, expected " + std::to_string(pairs));
  for (const double ns : times) {
    if (!(ns > 0) || !std::isfinite(ns))
      throw std::runtime_error("the measuring process returned a time of " + std::to_string(ns) +
                               " ns, expected more than 0");
  }
  return times;
}

}  // namespace detail

inline gate_result compare_callables(const callable_pair& callables, const rules& rule) {
  gate_result result;
  result.machine.processor = processor_name();
  result.rule = rule;
  judged_problem problem;
  problem.name = callables.head;
  // Python's own allocator would hide small objects. Calls of nothing, of base and of head, in
  // turn.
  std::vector<std::pair<std::string, std::string>> counting = counting_environment();
  counting.push_back({"PYTHONMALLOC", "malloc"});
  const double given = rule.time_limit;
  const finished_program counted =
      detail::run_measurer(callables, 0, given > 0 ? given : 600, counting);
  const counted_pieces pieces(counted.counts);
  const auto counts = [&](std::size_t of) {
    return counts_per_call(pieces, of * counted_calls, (of + 1) * counted_calls, counted_calls, 1);
  };
  const call_counts nothing = counts(0);
  const auto net = [&](call_counts found) {
    if (found.allocations && nothing.allocations) *found.allocations -= *nothing.allocations;
    return found;
  };
  problem.base_counts = net(counts(1));
  problem.head_counts = net(counts(2));
  result.problems.push_back(problem);
  settle(result.problems, rule, [&](const std::vector<judged_problem*>& problems) {
    // A series calls the functions three times per pair or more often, the first process 40 times.
    const double limit = given > 0 ? given : 600 + rule.pairs * counted.seconds;
    const finished_program ended = detail::run_measurer(callables, rule.pairs, limit, {});
    const nlohmann::json measured = nlohmann::json::parse(ended.results);
    problems[0]->measurements.push_back(
        measurement({detail::times_in(measured, "head", rule.pairs),
                     detail::times_in(measured, "base", rule.pairs),
                     detail::times_in(measured, "control", rule.pairs),
                     {}}));
  });
  return result;
}

}  // namespace vecdet::gate
