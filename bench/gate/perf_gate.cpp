// SPDX-License-Identifier: Apache-2.0
// Compares the kernels of two revisions, each a module of bench/gate/module, in one process. Exit
// codes: 0 if no problem has become slower, 1 if one has, 2 for an error, 3 if the machine was too
// noisy to tell. See README.md in this folder.
#include "measure.hpp"
#include "ratios.hpp"
#include "report.hpp"
#include "verdict.hpp"
#include "worker.hpp"

#include <cmath>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace {

using namespace vecdet::gate;

struct options {
  std::string base, head, json, ratios, filter, worker;
  std::vector<std::string> isas{"baseline", "avx2", "avx512"};
  int pairs = 100;
  bool record_ratios = false;
};

/// All problems that both revisions can run on this machine, and those that base lacks.
gate_result make_problems(const options& given) {
  const revisions modules{loaded_module(given.base), loaded_module(given.base),
                          loaded_module(given.head)};
  gate_result result{{processor_name(), "baseline", compiler_name()}, given.pairs, {}, {}};
  for (const char* isa : {"baseline", "avx2", "avx512"}) {
    if (modules.head.set_isa(isa)) result.machine.isa = isa;
  }
  recorded_ratios ratios(given.ratios);
  const nlohmann::ordered_json* recorded =
      given.ratios.empty() || given.record_ratios ? nullptr : ratios.of(result.machine);
  const std::regex filter(given.filter);
  for (std::int64_t i = 0; i < modules.head.one().count; ++i) {
    const std::string name = modules.head.one().name(i);
    if (!std::regex_search(name, filter)) continue;
    const bool in_base = modules.base.find(name.c_str()).has_value();
    if (!in_base) result.skipped.push_back(name);
    for (const std::string& isa : given.isas) {
      if (!modules.set_isa(isa.c_str())) continue;
      // The plain loop is compiled for this machine, so only the best instruction set is compared
      // with it.
      const bool with_plain_loop =
          isa == result.machine.isa && modules.head.one().has_plain_loop(i);
      const double ratio =
          with_plain_loop && recorded != nullptr ? recorded->value(name, 0.0) : 0.0;
      if (given.record_ratios ? !with_plain_loop : !in_base && ratio == 0) continue;
      result.problems.push_back({name, isa, i, in_base, ratio, with_plain_loop, {}, {}, {}});
    }
  }
  if (result.problems.empty())
    throw std::runtime_error("no problem to measure: --filter \"" + given.filter +
                             "\" and --isa select none that this machine can run");
  return result;
}

void measure_once(const options& given, const std::vector<judged_problem*>& problems) {
  worker_input job{given.base, given.head, given.pairs, {}};
  for (const judged_problem* problem : problems) {
    job.tasks.push_back({problem->index, problem->isa, problem->with_plain_loop});
  }
  const std::vector<measurement> found = measure_in_fresh_process(job);
  for (std::size_t i = 0; i < problems.size(); ++i)
    problems[i]->measurements.push_back(found.at(i));
}

outcome compare(const options& given) {
  gate_result result = make_problems(given);
  for (int process = 0; process < most_processes; ++process) {
    std::vector<judged_problem*> unsettled;
    for (judged_problem& problem : result.problems) {
      if (!problem.settled()) unsettled.push_back(&problem);
    }
    if (unsettled.empty()) break;
    measure_once(given, unsettled);
    judge(unsettled, result.problems.size());
  }
  write_table(std::cout, result);
  if (!given.json.empty()) {
    std::ofstream file(given.json);
    file << to_json(result).dump(2) << '\n';
    if (!file.flush()) throw std::runtime_error(given.json + ": cannot be written");
  }
  return result.answer();
}

/// Writes the ratios to the plain loops: medians over three processes.
outcome record(const options& given) {
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
  return outcome::pass;
}

}  // namespace

int main(int argc, char** argv) try {
  options given;
  CLI::App app{"Compares the speed of two revisions' kernels"};
  app.add_option("--base", given.base, "module of the revision to compare with");
  app.add_option("--head", given.head, "module of the revision to judge");
  app.add_option("--isa", given.isas, "instruction sets; those that this machine lacks are skipped")
      ->delimiter(',')
      ->check(CLI::IsMember({"baseline", "avx2", "avx512"}))
      ->capture_default_str();
  app.add_option("--filter", given.filter,
                 "only problems whose name matches this regular expression");
  app.add_option("--pairs", given.pairs, "timed pairs per problem")
      ->check(CLI::Range(90, 100000))
      ->capture_default_str();
  app.add_option("--json", given.json, "write the result to this file");
  app.add_option("--ratios", given.ratios, "file of recorded ratios to the plain loops");
  app.add_flag("--record-ratios", given.record_ratios, "write this machine's ratios to that file");
  app.add_option("--worker", given.worker, "internal: run the measurements in this JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(outcome::error);
  }
  if (!given.worker.empty()) {
    work_on(given.worker);
    return 0;
  }
  if (given.base.empty() || given.head.empty())
    throw std::runtime_error("--base and --head are the modules to compare; both are required");
  if (given.record_ratios) given.isas = {"baseline", "avx2", "avx512"};
  return static_cast<int>(given.record_ratios ? record(given) : compare(given));
} catch (const std::exception& error) {
  std::cerr << "perf-gate: " << error.what() << '\n';
  return static_cast<int>(outcome::error);
}
