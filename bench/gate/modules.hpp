// SPDX-License-Identifier: Apache-2.0
// Compares the problems of two modules: shared objects built as in bench/gate/module.
#pragma once

#include "ratios.hpp"
#include "report.hpp"
#include "verdict.hpp"
#include "worker.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace vecdet::gate {

struct module_options {
  std::string base, head, ratios, filter;
  std::vector<std::string> isas{"baseline", "avx2", "avx512"};
  bool record_ratios = false;
  rules rule;
};

/// All problems that both revisions can run on this machine, and those that base lacks.
inline gate_result make_problems(const module_options& given) {
  const module_list listed =
      ask_worker({given.base, given.head, given.rule.pairs, {}}, given.rule.time_limit);
  gate_result result{{processor_name(), "baseline", compiler_name()}, given.rule, {}, {}};
  if (!listed.head_isas.empty()) result.machine.isa = listed.head_isas.back();
  recorded_ratios ratios(given.ratios);
  const nlohmann::ordered_json* recorded =
      given.ratios.empty() || given.record_ratios ? nullptr : ratios.of(result.machine);
  const std::regex filter(given.filter);
  for (const listed_problem& each : listed.problems) {
    if (!std::regex_search(each.name, filter)) continue;
    if (!each.in_base) result.skipped.push_back(each.name + ": not in base");
    for (const std::string& isa : given.isas) {
      if (std::find(listed.isas.begin(), listed.isas.end(), isa) == listed.isas.end()) continue;
      // The plain loop is compiled for this machine, so only the best instruction set is compared
      // with it.
      const bool with_plain_loop = isa == result.machine.isa && each.has_plain_loop;
      const double ratio =
          with_plain_loop && recorded != nullptr ? recorded->value(each.name, 0.0) : 0.0;
      if (given.record_ratios ? !with_plain_loop : !each.in_base && ratio == 0) continue;
      judged_problem problem;
      problem.name = each.name;
      problem.isa = isa;
      problem.index = each.index;
      problem.in_base = each.in_base;
      problem.recorded_ratio = ratio;
      problem.with_plain_loop = with_plain_loop;
      result.problems.push_back(problem);
    }
  }
  if (result.problems.empty())
    throw std::runtime_error("no problem to measure: --filter \"" + given.filter +
                             "\" and --isa select none that this machine can run");
  return result;
}

inline void measure_once(const module_options& given,
                         const std::vector<judged_problem*>& problems) {
  worker_input job{given.base, given.head, given.rule.pairs, {}};
  for (const judged_problem* problem : problems) {
    job.tasks.push_back({problem->index, problem->isa, problem->with_plain_loop});
  }
  const auto found = ask_worker(job, given.rule.time_limit).get<std::vector<rounds>>();
  for (std::size_t i = 0; i < problems.size(); ++i)
    problems[i]->measurements.emplace_back(found.at(i));
}

inline gate_result compare_modules(const module_options& given) {
  gate_result result = make_problems(given);
  settle(result.problems, given.rule,
         [&](const std::vector<judged_problem*>& problems) { measure_once(given, problems); });
  return result;
}

/// Writes the ratios to the plain loops: medians over three processes.
inline void record_ratios(const module_options& given) {
  gate_result result = make_problems(given);
  std::vector<judged_problem*> all;
  for (judged_problem& problem : result.problems) all.push_back(&problem);
  for (int process = 0; process < processes_to_fail; ++process) measure_once(given, all);
  recorded_ratios ratios(given.ratios);
  nlohmann::ordered_json& machine_ratios = *ratios.of(result.machine, true);
  for (const judged_problem& problem : result.problems) {
    const double ratio = problem.over_processes(&measurement::plain_to_head);
    machine_ratios[problem.name] = std::round(100 * ratio) / 100;
    std::cout << problem.name << ": " << machine_ratios[problem.name] << '\n';
  }
  ratios.write();
}

}  // namespace vecdet::gate
