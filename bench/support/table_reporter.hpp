// SPDX-License-Identifier: Apache-2.0
// Google Benchmark's display: one line when each benchmark ends, and a table of all at the end.
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
#include <ostream>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

namespace vecdet::bench {

/// Sets the counters of the table, after the timed loop: nanoseconds per element, GB/s, and the
/// fraction of a copy's bandwidth with the same number of threads. `bytes` are those that a call
/// must read and write at least once.
inline void count_work(benchmark::State& state, double elements, double bytes, int threads) {
  using benchmark::Counter;
  state.counters["ns_per_element"] =
      Counter(elements * 1e-9, Counter::kIsIterationInvariantRate | Counter::kInvert);
  state.counters["GB/s"] = Counter(bytes * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["copy_rate"] =
      Counter(bytes / copy_bandwidth(static_cast<std::size_t>(bytes), threads),
              Counter::kIsIterationInvariantRate);
}

class table_reporter : public benchmark::BenchmarkReporter {
 public:
  /// `benchmarks` is the total number: each line shows how many have ended and the estimated
  /// remaining time.
  explicit table_reporter(std::size_t benchmarks) : benchmarks_(benchmarks) {}

  bool ReportContext(const Context& context) override {
    PrintBasicContext(&GetErrorStream(), context);
    for (const int threads : {1, oneapi::tbb::this_task_arena::max_concurrency()}) {
      GetOutputStream() << "copy on " << threads << (threads == 1 ? " thread: " : " threads: ")
                        << three_digits(copy_bandwidth(std::size_t{1} << 18, threads) * 1e-9)
                        << " GB/s in cache, "
                        << three_digits(copy_bandwidth(std::size_t{1} << 28, threads) * 1e-9)
                        << " GB/s in memory, bytes read and written\n";
      if (oneapi::tbb::this_task_arena::max_concurrency() == 1) break;
    }
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<const Run*> samples;
    std::string name;
    for (const Run& run : runs) {
      name = run.run_name.function_name;
      if (has_failed(run, 0)) {
        GetOutputStream() << progress() << name << ": failed\n";
        continue;
      }
      if (run.run_type == Run::RT_Iteration) samples.push_back(&run);
    }
    // Aggregates arrive in a separate call, after their runs or without them
    // (--benchmark_report_aggregates_only).
    for (const Run& run : runs)
      if (run.aggregate_name == "median" && !table_.has(name)) samples.push_back(&run);
    if (samples.empty()) return;

    // Show the median run instead of medians of each number, so that a row is consistent.
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>((samples.size() - 1) / 2);
    std::nth_element(samples.begin(), middle, samples.end(), [](const Run* a, const Run* b) {
      return measured(*a).seconds < measured(*b).seconds;
    });
    table_.add(name, measured(**middle));
    print_progress(name, **middle);
  }

  void Finalize() override {
    if (!table_.empty()) GetOutputStream() << '\n' << table_.text() << std::flush;
    for (const auto& plot : plots()) {
      const std::string exponents = plot.second.exponents();
      if (!exponents.empty()) GetOutputStream() << '\n' << exponents << std::flush;
    }
    write_plots();
  }

 private:
  // Google Benchmark 1.8 renamed Run's failure flag.
  template <class R>
  static auto has_failed(const R& run, int) -> decltype(run.error_occurred) {
    return run.error_occurred;
  }
  template <class R>
  static auto has_failed(const R& run, long) -> decltype(run.skipped != decltype(run.skipped)()) {
    return run.skipped != decltype(run.skipped)();
  }

  static double counter(const Run& run, const char* name) {
    const auto at = run.counters.find(name);
    return at == run.counters.end() ? 0 : at->second.value;
  }

  static measurement measured(const Run& run) {
    return {run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit),
            counter(run, "ns_per_element"), counter(run, "GB/s"), counter(run, "copy_rate")};
  }

  /// "[12/96, 1:40 left] ", assuming that the remaining benchmarks take as long as those before.
  std::string progress() {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    ++ended_;
    const auto left = static_cast<double>(benchmarks_ - std::min(ended_, benchmarks_));
    const auto seconds = std::lround(spent.count() / static_cast<double>(ended_) * left);
    char text[64];
    std::snprintf(text, sizeof text, "[%zu/%zu, %ld:%02ld left] ", ended_, benchmarks_,
                  seconds / 60, seconds % 60);
    return text;
  }

  /// The table's columns for a run, then the counters that the benchmark itself sets.
  void print_progress(const std::string& name, const Run& run) {
    const measurement result = measured(run);
    std::ostream& out = GetOutputStream();
    out << progress() << name << ": " << three_digits(1e3 * result.seconds) << " ms";
    if (result.ns_per_element > 0)
      out << ", " << three_digits(result.ns_per_element) << " ns per element";
    if (result.gigabytes_per_second > 0)
      out << ", " << three_digits(result.gigabytes_per_second) << " GB/s, "
          << std::lround(100 * result.copy_fraction) << "% of copy";
    for (const auto& own : run.counters) {
      if (own.first != "ns_per_element" && own.first != "GB/s" && own.first != "copy_rate")
        out << ", " << own.first << ' ' << three_digits(own.second.value);
    }
    out << std::endl;
  }

  comparison_table table_;
  std::size_t benchmarks_, ended_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace vecdet::bench
