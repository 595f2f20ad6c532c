// SPDX-License-Identifier: Apache-2.0
// Runs recorded problems alone: what a step should cost, judged by each of its kernels by itself,
// with warm and with cold caches, on the recorded or on another instruction set or thread count.
// The problem's call is looked up in the catalogue of calls (test/calls) by function and variant.
#pragma once

#include <vecdet/dispatch.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <tbb/task_arena.h>
#include <test/calls/catalogue.hpp>
#include <unistd.h>

namespace vecdet::profile {

/// Calls the kernel once.
using replay_call = std::function<void()>;

/// Whether the catalogue has a call of this function.
inline bool is_replayed(const std::string& function) {
  static const std::set<std::string> functions = [] {
    std::set<std::string> names;
    test::plain_memory at;
    test::for_each_call(
        at, 16, test::source::training,
        [&](const test::family&, const test::call& c) { names.insert(c.function); });
    return names;
  }();
  return functions.count(function) != 0;
}

/// Bytes of one recorded call. They tell which operands it had, where its name does not.
inline double call_bytes(const entry& e) {
  return e.bytes / static_cast<double>(std::max<std::uint64_t>(e.count, 1));
}

/// A call of the catalogue on operands that it owns.
using catalogue_call = std::function<void(threading)>;

/// The call that is_wanted() selects from those of the problem's type, on inputs like those of a
/// detector in training. Empty for a call, type or shape that the catalogue does not have. Of the
/// entry, only type, variant, shape and bytes count.
template <class IsWanted>
catalogue_call find_call(const entry& e, const IsWanted& is_wanted) {
  for (const test::family& f : test::catalogue()) {
    test::problem p{f.sized(16), test::source::training, e.variant, call_bytes(e)};
    if (f.type != e.type) continue;
    const auto at = std::make_shared<test::plain_memory>();
    // Few rows: which calls a family has does not depend on their number.
    const std::vector<test::call> names = f.make(*at, p).calls;
    p.shape = {e.shape.begin(), e.shape.end()};
    if (std::none_of(names.begin(), names.end(), is_wanted) || !f.takes(p)) continue;
    const auto set = std::make_shared<test::call_set>(f.make(*at, p));
    const auto found = std::find_if(set->calls.begin(), set->calls.end(), is_wanted);
    if (found != set->calls.end())
      return [at, set, found](threading policy) { found->run(policy); };
  }
  return {};
}

/// The call of a recorded problem; empty for an unknown variant, type or shape.
inline catalogue_call find_call(const entry& e) {
  return find_call(e, [&](const test::call& c) {
    return c.has_defaults && c.function == e.function && c.variant == e.variant;
  });
}

/// The same, under this policy.
inline replay_call make_replay_call(const entry& e, threading policy) {
  const catalogue_call call = find_call(e);
  if (!call) return {};
  return [call, policy] { call(policy); };
}

struct replay_options {
  double seconds = 0.05;  ///< of each of the repetitions
  int repetitions = 5;
  int cold_calls = 10;  ///< 0: with warm caches alone
};

/// One problem, run alone. Durations of a call in nanoseconds.
struct replayed {
  std::vector<double> warm;  ///< mean of each repetition
  double cold = 0;           ///< median of single calls, the operands out of cache
  double fresh = 0;          ///< the same, and the outputs' pages fresh; 0 where not measured
  /// Median of the repetitions.
  double warm_call() const {
    std::vector<double> sorted = warm;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
  /// Whether the repetitions differ by more than a third.
  bool is_unsteady() const {
    const auto range = std::minmax_element(warm.begin(), warm.end());
    return !warm.empty() && *range.second > *range.first * 4 / 3;
  }
};

/// Explains the mark of such a problem below a table.
inline constexpr const char* unsteady_legend =
    "~: repetitions with warm caches differ by more than a third\n";

/// Calls with warm caches that are timed at least, over all repetitions. Google Benchmark times a
/// single one in each repetition if it takes as long as the repetition should.
constexpr int least_timed_calls = 5;

/// A limit, so that no profile makes this machine start any number of threads.
constexpr int most_threads_replayed = 4096;

namespace detail {

/// Keeps what google-benchmark measures instead of printing it.
class keeping_reporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.iterations == 0) continue;
      // Adjusted to the benchmark's unit, which is nanoseconds.
      times.push_back(run.GetAdjustedRealTime());
    }
  }
  std::vector<double> times;
};

inline double physical_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// Throws the operands out of the caches, by writing to more memory than they hold.
inline void evict_caches() {
  static std::vector<char> memory(
      std::min(std::max(2 * cache_size(3, std::size_t{32} << 20), std::size_t{64} << 20),
               std::size_t{128} << 20));
  for (std::size_t i = 0; i < memory.size(); i += 64) ++memory[i];
  benchmark::ClobberMemory();
}

template <class Configure>
std::vector<double> run_benchmark(const std::string& name,
                                  const std::function<void(benchmark::State&)>& body,
                                  const Configure& configure) {
  benchmark::ClearRegisteredBenchmarks();
  benchmark::internal::Benchmark* b = benchmark::RegisterBenchmark(name.c_str(), body);
  b->Unit(benchmark::kNanosecond);
  configure(*b);
  keeping_reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::ClearRegisteredBenchmarks();
  return reporter.times;
}

}  // namespace detail

/// The instruction set of that name; throws std::invalid_argument for other names.
inline isa isa_of_name(const std::string& name) {
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (name == isa_name(set)) return set;
  }
  throw std::invalid_argument("\"" + name + "\" is not baseline, avx2 or avx512");
}

/// Why a problem cannot be replayed here; empty when it can.
inline std::string why_not_replayed(const entry& e) {
  if (e.source != "vecdet") return "recorded by " + e.source;
  if (e.implementation.empty()) {
    const std::string whole = e.function.substr(0, e.function.find('.'));  // of nms.sort, nms
    return whole != e.function && is_replayed(whole) ? "a part of " + whole + ", on another thread"
                                                     : "a scope";
  }
  if (!is_replayed(e.function)) return "this function cannot be replayed";
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (e.implementation != isa_name(set)) continue;
    return isa_available(set) ? "" : "this machine has no " + e.implementation;
  }
  return "not one of vecdet's implementations";
}

namespace detail {

/// Median of single calls, each after the caches were emptied and `prepare` was called.
inline double cold_call(const std::string& name, const replay_call& call,
                        const replay_call& prepare, const replay_options& options) {
  std::vector<double> times = run_benchmark(
      name,
      [&](benchmark::State& run) {
        for (auto _ : run) {
          evict_caches();
          if (prepare) prepare();
          const auto begin = std::chrono::steady_clock::now();
          call();
          const auto end = std::chrono::steady_clock::now();
          run.SetIterationTime(std::chrono::duration<double>(end - begin).count());
        }
      },
      [&](benchmark::internal::Benchmark& b) {
        b.Iterations(1)->Repetitions(options.cold_calls)->UseManualTime();
      });
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[times.size() / 2];
}

/// Duration of a call in seconds.
inline double seconds_of(const replay_call& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace detail

/// Times the call; `drop_output_pages`, where there is one, makes its outputs' pages fresh.
inline replayed measure_call(const std::string& name, const replay_call& call,
                             const replay_call& drop_output_pages, const replay_options& options) {
  replayed result;
  const int repetitions = std::max(options.repetitions, 1);
  const int least = (least_timed_calls + repetitions - 1) / repetitions;  // in each repetition
  const auto is_long = [&] { return least * detail::seconds_of(call) >= options.seconds; };
  // The first call also makes pages and threads.
  const bool has_least = is_long() && is_long();
  result.warm = detail::run_benchmark(
      name + "/warm",
      [&](benchmark::State& state) {
        for (auto _ : state) call();
      },
      [&](benchmark::internal::Benchmark& b) {
        b.Repetitions(repetitions)->UseRealTime();
        if (has_least)
          b.Iterations(least);
        else
          b.MinTime(options.seconds);
      });
  if (options.cold_calls == 0) return result;
  result.cold = detail::cold_call(name + "/cold", call, nullptr, options);
  if (drop_output_pages)
    result.fresh = detail::cold_call(name + "/fresh", call, drop_output_pages, options);
  return result;
}

/// Runs the problem alone; throws std::runtime_error when its variant, type or shape is unknown.
inline replayed replay(const entry& e, const replay_options& options) {
  // An estimate: about five arrays of operands. The elements of a list are boxes. A convolution has
  // images, channels, height, width and output channels; attention has images, locations, queries,
  // heads and channels.
  double bytes = 5 * (e.type == "f64" ? 8 : 4) * (e.shape.size() == 1 ? 4 : 1);
  if (e.shape.size() == 5) {
    const auto d = [&](std::size_t i) { return static_cast<double>(e.shape[i]); };
    if (e.function.rfind("deformable_attention", 0) == 0) {
      const auto points = test::number_after<double>("points", e.variant, 1);
      bytes *= d(0) * d(3) * ((d(1) + d(2)) * d(4) + 3 * d(2) * points);
    } else {
      bytes *= d(0) * d(2) * d(3) * (d(1) + d(4)) + 9 * d(1) * d(4);
    }
  } else {
    for (const std::int64_t dimension : e.shape) bytes *= static_cast<double>(dimension);
  }
  bytes = std::max(bytes, e.bytes / static_cast<double>(std::max<std::uint64_t>(e.count, 1)));
  if (!(e.threads <= most_threads_replayed)) {
    throw std::runtime_error("on more than " + std::to_string(most_threads_replayed) + " threads");
  }
  if (bytes > detail::physical_memory() / 4) throw std::runtime_error("too large for this machine");
  set_isa(isa_of_name(e.implementation));
  const int threads = std::max(e.threads, 1);
  tbb::task_arena arena(threads);
  const replay_call call =
      make_replay_call(e, threads == 1 ? threading::sequential : threading::parallel);
  if (!call) throw std::runtime_error("this variant, type or shape is not known to replay");
  replayed result;
  arena.execute([&] { result = measure_call(e.name, call, nullptr, options); });
  return result;
}

/// The recorded problem on another instruction set or number of threads, with its name.
inline entry moved_to(entry e, const std::string& implementation, int threads) {
  if (!implementation.empty()) e.implementation = implementation;
  if (threads > 0) e.threads = threads;
  e.name =
      problem_text(e.function, e.variant, e.type, shape_text(e.shape), e.implementation, e.threads);
  return e;
}

/// The measurement as an entry of so many calls, for reports and comparisons.
inline entry projected_entry(const entry& recorded, std::uint64_t calls, const replayed& measured) {
  entry e = recorded;
  const double share = static_cast<double>(calls) / static_cast<double>(e.count);
  e.count = calls;
  e.bytes *= share;
  e.flops *= share;
  const double mean = measured.warm_call();
  e.total_ns = e.inclusive_ns = e.self_ns = mean * static_cast<double>(calls);
  e.samples.clear();
  e.histogram.clear();
  e.concurrency = 1;
  e.variance_ns2 = 0;
  e.min_ns = e.max_ns = mean;
  for (const double w : measured.warm) {
    e.samples.push_back(static_cast<float>(w));
    e.min_ns = std::min(e.min_ns, w);
    e.max_ns = std::max(e.max_ns, w);
    e.variance_ns2 += (w - mean) * (w - mean) / static_cast<double>(measured.warm.size());
  }
  e.histogram[histogram_bucket(static_cast<std::int64_t>(mean))] = e.count;
  return e;
}

}  // namespace vecdet::profile
