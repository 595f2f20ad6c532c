// SPDX-License-Identifier: Apache-2.0
// A new process for each set of measurements: its memory layout is different. That part of the
// noise cannot be averaged out by rounds within a process.
#pragma once

#include "measure.hpp"
#include "verdict.hpp"

#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace vecdet {
namespace gate {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(measurement, base_ns, head_ns, head_to_base, p_slower,
                                   control_to_base, plain_to_head)

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
  std::vector<task> tasks;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(worker_input, base, head, rounds, tasks)

/// The worker's side of measure_in_fresh_process.
inline void work_on(const std::string& input) {
  const worker_input job = nlohmann::json::parse(input);
  pin_to_this_processor();
  const revisions modules{loaded_module(job.base), loaded_module(job.base),
                          loaded_module(job.head)};
  std::mt19937 random{std::random_device{}()};
  std::vector<measurement> found;
  for (const task& next : job.tasks) {
    if (!modules.set_isa(next.isa.c_str())) throw std::runtime_error("no " + next.isa + " here");
    found.push_back(measure(modules, next.index, next.with_plain_loop, job.rounds, random));
  }
  std::cout << nlohmann::json(found) << std::flush;
}

/// Runs this program again as `<program> measure-modules <input>` and returns its measurements.
inline std::vector<measurement> measure_in_fresh_process(const worker_input& job) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  const std::string input = nlohmann::json(job).dump();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot start a process");
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl("/proc/self/exe", "vecdet-gate", "measure-modules", input.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string output;
  char buffer[4096];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;) {
    output.append(buffer, static_cast<std::size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error("a measuring process failed");
  }
  return nlohmann::json::parse(output).get<std::vector<measurement>>();
}

}  // namespace gate
}  // namespace vecdet
