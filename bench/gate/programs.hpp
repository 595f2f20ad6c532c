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
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

namespace vecdet::gate {

/// Google Benchmark's minimum time of a piece, in seconds.
constexpr const char* piece_seconds = "0.001";

/// A benchmark's time in one piece, if it is timed.
struct piece_time : run_end {
  double ns = 0;
};

/// Why a benchmark of two programs is not compared; both empty: it is.
struct obstacle {
  std::string nothing_to_compare;
  std::string trouble;       ///< it should be compared, but cannot
  bool head_failed = false;  ///< the trouble is an error that only head reports
};

/// Of a benchmark that both programs have.
inline obstacle obstacle_of(const run_end& base, const run_end& head) {
  if (base.state == run_state::failed) return {"base " + base.reason, {}, false};
  if (head.state == run_state::failed) return {{}, head.reason, true};
  if (head.state == run_state::skipped) return {head.reason, {}, false};
  if (base.state == run_state::skipped) return {"in base, " + base.reason, {}, false};
  if (head.state == run_state::unusable) return {{}, "in head, " + head.reason, false};
  if (base.state == run_state::unusable) return {{}, "in base, " + base.reason, false};
  return {};
}

/// A program and the folder in which it runs.
class benchmark_program {
 public:
  /// `role` is "--base" or "--head", for messages; `time_limit` is that of the rules.
  benchmark_program(const std::string& path, std::string folder, const std::string& role,
                    double time_limit)
      : folder_(std::move(folder)), time_limit_(time_limit) {
    std::error_code failed;
    path_ = std::filesystem::canonical(path, failed).string();
    if (failed) throw std::runtime_error(role + " \"" + path + "\": " + failed.message());
    if (std::filesystem::is_directory(path_) || access(path_.c_str(), X_OK) != 0)
      throw std::runtime_error(role + " \"" + path + "\" is not an executable program");
  }

  const std::string& path() const { return path_; }

  /// Every benchmark that matches Google Benchmark's filter, after one iteration of each. The time
  /// that this takes determines the limits of later processes.
  std::vector<benchmark_run> list(const std::string& filter) {
    auto ran = run(filter, {"--benchmark_min_time=1e-9"});
    list_seconds_ = ran.second.seconds;
    return std::move(ran.first);
  }

  /// Seconds that the program needs to start and end without running a benchmark.
  double start_seconds() const {
    double least = 1e9;
    for (int i = 0; i < 3; ++i) {
      const finished_program ended =
          run_program({{path_, "--benchmark_list_tests=true"}, folder_, {}, limit(1), false, true});
      if (!ended.succeeded())
        throw std::runtime_error("\"" + path_ + "\" --benchmark_list_tests: " + ended.failure());
      least = std::min(least, ended.seconds);
    }
    return least;
  }

  /// The time of each benchmark. On one processor, a piece whose process was preempted is measured
  /// again.
  std::vector<piece_time> time(const std::vector<benchmark_run>& benchmarks, bool pinned) const {
    constexpr int attempts = 3;
    for (int attempt = 1;; ++attempt) {
      const auto ran =
          run(filter_for(benchmarks), {std::string("--benchmark_min_time=") + piece_seconds});
      if (pinned && ran.second.preemptions > 0 && attempt < attempts) continue;
      std::vector<piece_time> times;
      for (const benchmark_run& benchmark : benchmarks)
        times.push_back(time_in(ran.first, benchmark));
      return times;
    }
  }

  /// Counts of one benchmark, in a process whose measured time does not matter.
  call_counts count(const benchmark_run& benchmark) const {
    const auto ran = run(
        filter_for({benchmark}),
        {"--benchmark_min_time=1e-9", "--benchmark_repetitions=" + std::to_string(counted_calls)},
        counting_environment(), counted_calls);
    if (ran.first.size() != 1 || ran.first[0].iterations <= 0) return {};
    const counted_pieces pieces(ran.second.counts);
    const std::size_t repetitions = ran.first[0].ns.size();
    return counts_per_call(pieces, 0, pieces.page_faults.size(), repetitions,
                           ran.first[0].iterations / static_cast<double>(repetitions));
  }

 private:
  /// Seconds in which a process must end that runs its benchmarks `times` times as often as list().
  double limit(int times) const {
    constexpr double first = 600, least = 60, slack = 10;
    if (time_limit_ > 0) return time_limit_;
    return list_seconds_ > 0 ? least + slack * times * list_seconds_ : first;
  }

  std::pair<std::vector<benchmark_run>, finished_program> run(
      const std::string& filter, const std::vector<std::string>& arguments,
      std::vector<std::pair<std::string, std::string>> environment = {}, int times = 1) const {
    program_start start{{path_, "--benchmark_filter=" + filter, "--benchmark_out=/dev/fd/3",
                         "--benchmark_out_format=json"},
                        folder_,
                        std::move(environment),
                        limit(times)};
    start.measured = true;
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

  piece_time time_in(const std::vector<benchmark_run>& runs, const benchmark_run& benchmark) const {
    // The ratio of two such times is a number, too.
    constexpr double least = 1e-100, most = 1e100;
    for (const benchmark_run& found : runs) {
      if (!found.is(benchmark)) continue;
      piece_time piece;
      static_cast<run_end&>(piece) = found;
      if (found.state != run_state::timed) return piece;
      piece.ns = median(found.ns);
      if (piece.ns >= least && piece.ns <= most) return piece;
      std::ostringstream reason;
      reason << "its time is " << piece.ns << " ns, expected " << least << " to " << most;
      piece.state = run_state::unusable;
      piece.reason = reason.str();
      return piece;
    }
    throw std::runtime_error("\"" + path_ + "\" has not run its benchmark \"" + benchmark.name +
                             "\"");
  }

  std::string path_, folder_;
  double time_limit_, list_seconds_ = 0;
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
      const benchmark_run& benchmark = benchmarks_.at(problem.name);
      if (!problem.trouble.empty() || !is_countable(benchmark)) continue;
      problem.base_counts = base_.count(benchmark);
      problem.head_counts = head_.count(benchmark);
    }
    const double start = std::max(base_.start_seconds(), head_.start_seconds());
    settle(result.problems, rule, [&](const std::vector<judged_problem*>& problems) {
      for (const std::vector<judged_problem*>& batch : batches(problems, start))
        measure(batch, rule.pairs);
    });
    leave_out(result);
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
    std::map<std::string, std::pair<int, int>> uses;  // of a name, in base and head
    for (const benchmark_run& run : in_base) ++uses[run.run_name].first;
    for (const benchmark_run& run : in_head) ++uses[run.run_name].second;
    for (const benchmark_run& run : in_head) {
      const std::pair<int, int> used = uses.at(run.run_name);
      if (used.first == 0) {
        result.skipped.push_back(run.name + ": not in base");
        continue;
      }
      if (used.first != used.second) {
        if (run.place == 1)
          add_problem(run,
                      {{},
                       "base has " + std::to_string(used.first) + " of this name, head has " +
                           std::to_string(used.second),
                       false},
                      result);
        continue;
      }
      const auto before = std::find_if(in_base.begin(), in_base.end(),
                                       [&](const benchmark_run& each) { return each.is(run); });
      add_problem(run, obstacle_of(*before, run), result);
    }
    for (const benchmark_run& run : in_base) {
      if (uses.at(run.run_name).second == 0) result.skipped.push_back(run.name + ": not in head");
    }
    leave_out(result);
  }

  void add_problem(const benchmark_run& run, const obstacle& found, gate_result& result) {
    benchmarks_[run.name] = run;
    judged_problem problem;
    problem.name = run.name;
    note(found, problem);
    result.problems.push_back(problem);
  }

  void note(const obstacle& found, judged_problem& problem) {
    const bool nothing = !found.nothing_to_compare.empty();
    problem.trouble = nothing ? found.nothing_to_compare : found.trouble;
    problem.head_failed = found.head_failed;
    if (nothing) nothing_to_compare_.insert(problem.name);
  }

  /// Moves the problems with nothing to compare to those that are skipped.
  void leave_out(gate_result& result) const {
    std::vector<judged_problem> compared;
    for (const judged_problem& problem : result.problems) {
      if (nothing_to_compare_.count(problem.name) == 0)
        compared.push_back(problem);
      else
        result.skipped.push_back(problem.name + ": " + problem.trouble);
    }
    result.problems = std::move(compared);
    if (!result.problems.empty()) return;
    std::string reasons;
    for (const std::string& reason : result.skipped) reasons += "\n  " + reason;
    throw std::runtime_error("no benchmark can be compared:" + reasons);
  }

  /// Whether it may run on any processor: it has several threads, or measures real time and may
  /// have threads of its own.
  static bool anywhere(const benchmark_run& run) { return run.parallel || run.wall_clock; }

  /// A benchmark with a minimum time of its own also runs pieces that are not in its result.
  static bool is_countable(const benchmark_run& run) {
    return !anywhere(run) && run.run_name.find("/min_time:") == std::string::npos &&
           run.run_name.find("/min_warmup_time:") == std::string::npos;
  }

  /// Benchmarks that share a process. They are as many as keep the start of the process shorter
  /// than the measurements.
  std::vector<std::vector<judged_problem*>> batches(const std::vector<judged_problem*>& problems,
                                                    double start) const {
    constexpr double busy = 0.005;  // seconds, with Google Benchmark's search for the iterations
    const auto size = static_cast<std::size_t>(std::max(1.0, std::round(start / busy)));
    std::vector<std::vector<judged_problem*>> batches;
    for (const bool unpinned : {false, true}) {
      bool fresh = true;
      for (judged_problem* problem : problems) {
        if (anywhere(benchmarks_.at(problem->name)) != unpinned) continue;
        if (fresh || batches.back().size() == size) batches.emplace_back();
        fresh = false;
        batches.back().push_back(problem);
      }
    }
    return batches;
  }

  /// Adds a series to each problem, or its trouble. Both programs are asked before that is decided:
  /// the order in a round is random, and an error may be in both.
  void measure(std::vector<judged_problem*> batch, int pairs) {
    const bool pin = !anywhere(benchmarks_.at(batch[0]->name));
    const on_one_processor pinned(pin);
    std::map<judged_problem*, rounds> times;
    enum side { head, base, control };
    std::array<side, 3> order{{head, base, control}};
    for (int round = 0; round < pairs && !batch.empty(); ++round) {
      std::shuffle(order.begin(), order.end(), random_);
      std::vector<benchmark_run> benchmarks;
      for (const judged_problem* problem : batch)
        benchmarks.push_back(benchmarks_.at(problem->name));
      std::array<std::vector<piece_time>, 3> pieces;
      for (const side next : order)
        pieces[next] = (next == head ? head_ : base_).time(benchmarks, pin);
      std::vector<judged_problem*> sound;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const piece_time &of_head = pieces[head][i], &of_base = pieces[base][i],
                         &of_control = pieces[control][i];
        const bool by_control =
            of_base.state == run_state::timed || of_control.state == run_state::failed;
        note(obstacle_of(by_control ? of_control : of_base, of_head), *batch[i]);
        if (!batch[i]->trouble.empty()) continue;
        rounds& all = times[batch[i]];
        all.head.push_back(of_head.ns);
        all.base.push_back(of_base.ns);
        all.control.push_back(of_control.ns);
        sound.push_back(batch[i]);
      }
      batch = std::move(sound);
    }
    for (judged_problem* problem : batch) problem->measurements.emplace_back(times.at(problem));
  }

  benchmark_program base_, head_;
  std::map<std::string, benchmark_run> benchmarks_;  ///< of head, by the problems' names
  std::set<std::string> nothing_to_compare_;         ///< problems' names
  std::mt19937 random_;
};

}  // namespace vecdet::gate
