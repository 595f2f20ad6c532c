// SPDX-License-Identifier: Apache-2.0
// Google Benchmark's display: a table whose rows appear when their benchmarks have ended, and a
// summary.
// Pass it to benchmark::RunSpecifiedBenchmarks; --benchmark_filter, --benchmark_repetitions,
// --benchmark_out and the like work as usual. Register benchmarks under their full names with
// benchmark::RegisterBenchmark, and let each call count_work.
#pragma once

#include "bandwidth.hpp"
#include "comparison_table.hpp"
#include "plots.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <unistd.h>

namespace vecdet::bench {

/// The model of this processor, as the system names it.
inline std::string processor_name() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

class table_reporter : public benchmark::BenchmarkReporter {
 public:
  /// `benchmarks` is the total number, for the estimate of the remaining time. The summary compares
  /// the instruction set `set`; `ending` follows it. `shows_others` also lists benchmarks and
  /// counters for which the table has no place.
  table_reporter(std::size_t benchmarks, std::string set, std::string ending, bool shows_others)
      : benchmarks_(benchmarks),
        set_(std::move(set)),
        ending_(std::move(ending)),
        shows_others_(shows_others) {}

  /// Without Google Benchmark's own context: its "Library was built as DEBUG" is about Debian's
  /// package of Google Benchmark and says nothing about kernels and loops.
  bool ReportContext(const Context& context) override {
    const int all = oneapi::tbb::this_task_arena::max_concurrency();
    std::ostream& out = GetOutputStream();
    out << processor_name() << ", " << all << (all == 1 ? " thread" : " threads");
    if (!context.cpu_info.load_avg.empty())
      out << ", load " << three_digits(context.cpu_info.load_avg[0]) << " before the run";
    if (context.cpu_info.scaling == benchmark::CPUInfo::ENABLED)
      out << ", variable frequency (times are less steady)";
    out << '\n';
    for (const int threads : {1, all}) {
      out << "copy on " << threads << (threads == 1 ? " thread: " : " threads: ")
          << three_digits(copy_bandwidth(std::size_t{1} << 18, threads) * 1e-9)
          << " GB/s in cache, "
          << three_digits(copy_bandwidth(std::size_t{1} << 28, threads) * 1e-9)
          << " GB/s in memory, bytes read and written\n";
      if (all == 1) break;
    }
    out << '\n' << comparison_table::header(all) << std::flush;
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<const Run*> samples;
    std::string name;
    for (const Run& run : runs) {
      name = run.run_name.function_name;
      if (const std::string* reason = failure_of(run, 0)) {
        fail(name, *reason);
        return;
      }
      if (run.run_type == Run::RT_Iteration) samples.push_back(&run);
    }
    // Aggregates arrive in a separate call, after their runs or without them
    // (--benchmark_report_aggregates_only).
    for (const Run& run : runs)
      if (run.aggregate_name == "median" && !table_.has(name)) samples.push_back(&run);
    if (samples.empty()) return;

    // Show the median run instead of medians of each number, so that a row is consistent.
    std::sort(samples.begin(), samples.end(),
              [](const Run* a, const Run* b) { return seconds(*a) < seconds(*b); });
    const Run& median = *samples[(samples.size() - 1) / 2];
    const result_name parts = parse_result_name(name);
    if (parts.problem != problem_) print_rows();
    problem_ = parts.problem;
    table_.add(name, {seconds(median), counter(median, "copy_rate"),
                      seconds(*samples.back()) / seconds(*samples.front())});
    keep_others(name, median, parts.threads == 0);
    print_progress(name);
  }

  void Finalize() override {
    print_rows();
    std::ostream& out = GetOutputStream();
    if (!table_.empty()) out << table_.legend();
    if (shows_others_ && !others_.empty()) out << '\n' << others_;
    for (const auto& plot : plots()) {
      const std::string exponents = plot.second.exponents();
      if (!exponents.empty()) out << '\n' << exponents;
    }
    const std::string summary = table_.summary(set_);
    if (!summary.empty()) out << '\n' << summary;
    out << ending_ << std::flush;
    write_plots();
  }

 private:
  /// Why a run has no result; null if it has one. Google Benchmark 1.8 renamed the members.
  template <class R>
  static auto failure_of(const R& run, int) -> decltype(&run.error_message) {
    return run.error_occurred ? &run.error_message : nullptr;
  }
  template <class R>
  static auto failure_of(const R& run, long) -> decltype(&run.skip_message) {
    return run.skipped != decltype(run.skipped)() ? &run.skip_message : nullptr;
  }

  void fail(const std::string& name, const std::string& reason) {
    print(name + ": failed: " + reason + "\n");
    table_.add_failure(name);
    print_progress(name);
  }

  static double counter(const Run& run, const char* name) {
    const auto at = run.counters.find(name);
    return at == run.counters.end() ? 0 : at->second.value;
  }

  static double seconds(const Run& run) {
    return run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit);
  }

  /// Writes to the output, in place of the line of progress.
  void print(const std::string& text) {
    if (shows_progress_) GetErrorStream() << "\r\033[K" << std::flush;
    GetOutputStream() << text << std::flush;
  }

  /// The rows of the problem whose last benchmark has ended.
  void print_rows() {
    if (problem_.empty()) return;
    std::string text;
    if (function_of(problem_) != function_)
      text = comparison_table::title(function_ = function_of(problem_));
    print(text + table_.rows(problem_));
    problem_.clear();
  }

  /// What the table does not show: counters of the benchmark's own, and names of another form.
  void keep_others(const std::string& name, const Run& run, bool has_other_form) {
    std::string text;
    for (const auto& own : run.counters)
      if (own.first != "ns_per_element" && own.first != "GB/s" && own.first != "copy_rate")
        text += ", " + own.first + ' ' + three_digits(own.second.value);
    if (has_other_form || !text.empty())
      others_ += name + ": " + three_digits(1e3 * seconds(run)) + " ms" + text + '\n';
  }

  /// On a terminal: "[12/96, 1:40 left]", assuming that the remaining benchmarks take as long as
  /// those before.
  void print_progress(const std::string& name) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    ++ended_;
    if (!shows_progress_) return;
    const auto left = static_cast<double>(benchmarks_ - std::min(ended_, benchmarks_));
    const auto rest = std::lround(spent.count() / static_cast<double>(ended_) * left);
    char text[64];
    std::snprintf(text, sizeof text, "\r\033[K[%zu/%zu, %ld:%02ld left] ", ended_, benchmarks_,
                  rest / 60, rest % 60);
    GetErrorStream() << text << name << std::flush;
  }

  comparison_table table_;
  std::string problem_, function_;  ///< the current ones
  std::string others_;
  std::size_t benchmarks_, ended_ = 0;
  std::string set_, ending_;
  bool shows_others_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const bool shows_progress_ = isatty(STDERR_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
};

}  // namespace vecdet::bench
