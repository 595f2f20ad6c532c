// SPDX-License-Identifier: Apache-2.0
// A new process for each set of measurements: its memory layout is different. That part of the
// noise cannot be averaged out by rounds within a process.
#pragma once

#include "measure.hpp"
#include "process.hpp"
#include "utf8.hpp"

#include <cstdint>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace vecdet::gate {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(rounds, head, base, control, plain)

/// The task of a measuring process.
struct task {
  std::int64_t index;
  std::string isa;
  bool with_plain_loop;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(task, index, isa, with_plain_loop)

struct worker_input {
  std::string base, head;  ///< paths
  int rounds;
  std::vector<task> tasks;  ///< none: the modules' problems are listed
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(worker_input, base, head, rounds, tasks)

/// A problem of head.
struct listed_problem {
  std::int64_t index;
  std::string name;
  bool in_base, has_plain_loop;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(listed_problem, index, name, in_base, has_plain_loop)

/// The problems, and the instruction sets of this machine that head and that both modules have.
struct module_list {
  std::vector<listed_problem> problems;
  std::vector<std::string> head_isas, isas;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(module_list, problems, head_isas, isas)

inline module_list list_problems(const revisions& modules) {
  module_list found;
  for (const char* isa : {"baseline", "avx2", "avx512"}) {
    if (modules.head.set_isa(isa)) found.head_isas.emplace_back(isa);
    if (modules.set_isa(isa)) found.isas.emplace_back(isa);
  }
  const vecdet_gate_module& head = modules.head.one();
  for (std::int64_t i = 0; i < head.count; ++i) {
    const std::string name = head.name(i);
    found.problems.push_back(
        {i, valid_utf8(name), modules.base.find(name.c_str()).has_value(), head.has_plain_loop(i)});
  }
  return found;
}

/// The worker's side of ask_worker().
inline void work_on(const std::string& input) {
  const worker_input job = nlohmann::json::parse(input);
  pin_to_this_processor();
  const revisions modules{loaded_module(job.base), loaded_module(job.base),
                          loaded_module(job.head)};
  std::ofstream answer("/dev/fd/3");
  if (job.tasks.empty()) {
    answer << nlohmann::json(list_problems(modules)) << std::flush;
    return;
  }
  std::mt19937 random{std::random_device{}()};
  std::vector<rounds> found;
  for (const task& next : job.tasks) {
    if (!modules.set_isa(next.isa.c_str())) throw std::runtime_error("no " + next.isa + " here");
    found.push_back(measure(modules, next.index, next.with_plain_loop, job.rounds, random));
  }
  answer << nlohmann::json(found) << std::flush;
}

/// Runs this program again as `vecdet-gate measure-modules <input>` and returns its answer. No code
/// of a module runs in this process.
inline nlohmann::json ask_worker(const worker_input& job, double time_limit) {
  program_start start;
  start.command = {"/proc/self/exe", "measure-modules", nlohmann::json(job).dump()};
  // A round takes some 4 ms, or longer if a call does.
  constexpr double least = 600, round_seconds = 0.1;
  start.limit = time_limit > 0
                    ? time_limit
                    : least + round_seconds * job.rounds * static_cast<double>(job.tasks.size());
  start.measured = true;
  const finished_program ended = run_program(start);
  if (!ended.succeeded()) throw std::runtime_error("the measuring process: " + ended.failure());
  return nlohmann::json::parse(ended.results);
}

}  // namespace vecdet::gate
