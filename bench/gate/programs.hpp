// SPDX-License-Identifier: Apache-2.0
// Measures the benchmarks of two programs built with Google Benchmark. The programs need no change.
//
// Each piece is a new process that runs a benchmark for about a millisecond, so its memory layout
// is different each time. A round has one piece of head, of base and of the control, which is base
// again, in a newly drawn order.
#pragma once

#include "counter.hpp"
#include "google_benchmark.hpp"
#include "measurement.hpp"
#include "process.hpp"
#include "report.hpp"
#include "statistics.hpp"
#include "verdict.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

namespace vecdet::gate {

/// Google Benchmark's minimum time of a piece, in seconds.
constexpr const char* piece_seconds = "0.001";

/// A program and the folder in which it runs.
class benchmark_program {
 public:
  /// `role` is "--base" or "--head", for messages.
  benchmark_program(const std::string& path, std::string folder, const std::string& role)
      : folder_(std::move(folder)) {
    std::error_code failed;
    path_ = std::filesystem::canonical(path, failed).string();
    if (failed) throw std::runtime_error(role + " \"" + path + "\": " + failed.message());
    if (std::filesystem::is_directory(path_) || access(path_.c_str(), X_OK) != 0)
      throw std::runtime_error(role + " \"" + path + "\" is not an executable program");
  }

  const std::string& path() const { return path_; }

  /// Every benchmark that matches Google Benchmark's filter, after one iteration of each.
  std::vector<benchmark_run> list(const std::string& filter) const {
    return run(filter, {"--benchmark_min_time=1e-9"}).first;
  }

  /// Seconds that the program needs to start and end without running a benchmark.
  double start_seconds() const {
    double least = 1e9;
    for (int i = 0; i < 3; ++i)
      least = std::min(least,
                       run_program({{path_, "--benchmark_list_tests=true"}, folder_, {}}).seconds);
    return least;
  }

  /// Nanoseconds per iteration of each benchmark. On one processor, a piece whose process was
  /// preempted is measured again.
  std::vector<double> time(const std::vector<std::string>& names, bool pinned) const {
    constexpr int attempts = 3;
    for (int attempt = 1;; ++attempt) {
      const auto ran =
          run(filter_for(names), {std::string("--benchmark_min_time=") + piece_seconds});
      if (pinned && ran.second.preemptions > 0 && attempt < attempts) continue;
      std::vector<double> times;
      for (const std::string& name : names) times.push_back(time_in(ran.first, name));
      return times;
    }
  }

  /// Counts of one benchmark, in a process whose measured time does not matter.
  call_counts count(const std::string& name) const {
    const auto ran = run(
        filter_for({name}),
        {"--benchmark_min_time=1e-9", "--benchmark_repetitions=" + std::to_string(counted_calls)},
        counting_environment());
    if (ran.first.size() != 1) return {};
    const counted_pieces pieces(ran.second.counts);
    const std::size_t repetitions = ran.first[0].ns.size();
    return counts_per_call(pieces, 0, pieces.page_faults.size(), repetitions,
                           ran.first[0].iterations / static_cast<double>(repetitions));
  }

 private:
  std::pair<std::vector<benchmark_run>, finished_program> run(
      const std::string& filter, const std::vector<std::string>& arguments,
      std::vector<std::pair<std::string, std::string>> environment = {}) const {
    program_start start{{path_, "--benchmark_filter=" + filter, "--benchmark_out=/dev/fd/3",
                         "--benchmark_out_format=json"},
                        folder_,
                        std::move(environment)};
    start.command.insert(start.command.end(), arguments.begin(), arguments.end());
    finished_program ended = run_program(start);
    const std::string what =
        "\"" + path_ + "\"" + (filter.empty() ? "" : ", benchmarks \"" + filter + "\"");
    if (!ended.succeeded()) throw std::runtime_error(what + ": " + ended.failure());
    if (ended.results.empty()) return {{}, std::move(ended)};
    try {
      return {read_google_benchmark(ended.results), std::move(ended)};
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(what + ": " + error.what());
    }
  }

  double time_in(const std::vector<benchmark_run>& runs, const std::string& name) const {
    for (const benchmark_run& found : runs) {
      if (found.name != name) continue;
      const double ns = found.ns.empty() ? 0 : median(found.ns);
      if (ns <= 0)
        throw std::runtime_error("\"" + path_ + "\", benchmark \"" + name + "\": its time is " +
                                 std::to_string(ns) + " ns, expected more than 0");
      return ns;
    }
    throw std::runtime_error("\"" + path_ + "\" has not run its benchmark \"" + name + "\"");
  }

  std::string path_, folder_;
};

/// Compares the benchmarks that two programs share.
class program_comparison {
 public:
  program_comparison(benchmark_program base, benchmark_program head)
      : base_(std::move(base)), head_(std::move(head)), random_(std::random_device{}()) {}

  gate_result compare(const std::string& filter, const rules& rule) {
    gate_result result;
    result.machine.processor = processor_name();
    result.rule = rule;
    find_problems(filter, result);
    for (judged_problem& problem : result.problems) {
      if (!is_countable(problem.name)) continue;
      problem.base_counts = base_.count(problem.name);
      problem.head_counts = head_.count(problem.name);
    }
    const double start = std::max(base_.start_seconds(), head_.start_seconds());
    settle(result.problems, rule, [&](const std::vector<judged_problem*>& problems) {
      for (const std::vector<judged_problem*>& batch : batches(problems, start))
        measure(batch, rule.pairs);
    });
    return result;
  }

 private:
  void find_problems(const std::string& filter, gate_result& result) {
    const std::vector<benchmark_run> in_base = base_.list(filter), in_head = head_.list(filter);
    if (in_base.empty() && in_head.empty())
      throw std::runtime_error(
          "no benchmark to measure: " +
          (filter.empty() ? "neither program has one"
                          : "--filter \"" + filter + "\" matches none") +
          " (programs must take Google Benchmark's options and write its JSON)");
    std::map<std::string, const benchmark_run*> base_runs;
    for (const benchmark_run& run : in_base) base_runs[run.name] = &run;
    for (const benchmark_run& run : in_head) {
      const auto at = base_runs.find(run.name);
      if (at == base_runs.end()) {
        result.skipped.push_back(run.name + ": not in base");
        continue;
      }
      const benchmark_run& before = *at->second;
      base_runs.erase(at);
      if (!run.skipped.empty() || !before.skipped.empty()) {
        result.skipped.push_back(run.name + ": " +
                                 (run.skipped.empty() ? before.skipped : run.skipped));
        continue;
      }
      anywhere_[run.name] = run.parallel || run.wall_clock;
      judged_problem problem;
      problem.name = run.name;
      result.problems.push_back(problem);
    }
    for (const benchmark_run& run : in_base) {
      if (base_runs.count(run.name) > 0) result.skipped.push_back(run.name + ": not in head");
    }
    if (result.problems.empty())
      throw std::runtime_error("the programs have no benchmark in common: base has \"" +
                               (in_base.empty() ? "" : in_base[0].name) + "\", head has \"" +
                               (in_head.empty() ? "" : in_head[0].name) + "\"");
  }

  /// A benchmark with a minimum time of its own also runs pieces that are not in its result.
  bool is_countable(const std::string& name) const {
    return !anywhere_.at(name) && name.find("/min_time:") == std::string::npos &&
           name.find("/min_warmup_time:") == std::string::npos;
  }

  /// Benchmarks that share a process. They are as many as keep the start of the process shorter
  /// than the measurements.
  std::vector<std::vector<judged_problem*>> batches(const std::vector<judged_problem*>& problems,
                                                    double start) const {
    constexpr double busy = 0.005;  // seconds, with Google Benchmark's search for the iterations
    const auto size = static_cast<std::size_t>(std::max(1.0, std::round(start / busy)));
    std::vector<std::vector<judged_problem*>> batches;
    for (const bool anywhere : {false, true}) {
      bool fresh = true;
      for (judged_problem* problem : problems) {
        if (anywhere_.at(problem->name) != anywhere) continue;
        if (fresh || batches.back().size() == size) batches.emplace_back();
        fresh = false;
        batches.back().push_back(problem);
      }
    }
    return batches;
  }

  /// Benchmarks with several threads run on any processor. So do those that measure real time,
  /// which may have threads of their own.
  void measure(const std::vector<judged_problem*>& batch, int pairs) {
    const bool pin = !anywhere_.at(batch[0]->name);
    const on_one_processor pinned(pin);
    std::vector<std::string> names;
    for (const judged_problem* problem : batch) names.push_back(problem->name);
    std::vector<rounds> times(batch.size());
    struct side {
      const benchmark_program* program;
      std::vector<double> rounds::*list;
    };
    std::array<side, 3> order{
        {{&head_, &rounds::head}, {&base_, &rounds::base}, {&base_, &rounds::control}}};
    for (int round = 0; round < pairs; ++round) {
      std::shuffle(order.begin(), order.end(), random_);
      for (const side& next : order) {
        const std::vector<double> ns = next.program->time(names, pin);
        for (std::size_t i = 0; i < batch.size(); ++i) (times[i].*next.list).push_back(ns[i]);
      }
    }
    for (std::size_t i = 0; i < batch.size(); ++i)
      batch[i]->measurements.push_back(compare_rounds(times[i]));
  }

  benchmark_program base_, head_;
  std::map<std::string, bool> anywhere_;
  std::mt19937 random_;
};

}  // namespace vecdet::gate
