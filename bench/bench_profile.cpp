// SPDX-License-Identifier: Apache-2.0
// The cost of the profiler itself: a scope when it is off and when it is on. The empty loop is the
// cost of the benchmark's own loop, to be subtracted.
#include "support/implementations.hpp"
#include <vecdet/profile.hpp>

#include <cstdint>

#include <benchmark/benchmark.h>

namespace vecdet::bench {
namespace {

profile::problem kernel_problem(std::int64_t rows) {
  return {"profile_scope", "labels", "f32", {rows, 91}, "avx512", 1, rows * 91 * 8, rows * 91 * 41};
}

/// Enables the profiler for one benchmark. If VECDET_PROFILE has already enabled it, the benchmark
/// is skipped, because its scopes would flood the profile.
class turned_on {
 public:
  explicit turned_on(benchmark::State& state) : ours_(!profile::enabled()) {
    if (ours_) {
      profile::enable();
    } else {
      state.SkipWithError("VECDET_PROFILE is set");
    }
  }
  ~turned_on() {
    if (!ours_) return;
    profile::disable();
    profile::keep_events(0);
    profile::reset();
  }
  turned_on(const turned_on&) = delete;
  turned_on& operator=(const turned_on&) = delete;

 private:
  bool ours_;
};

void empty_loop(benchmark::State& state) {
  std::int64_t rows = 1000;
  for (auto _ : state) benchmark::DoNotOptimize(rows);
}

void off(benchmark::State& state) {
  std::int64_t rows = 1000;
  for (auto _ : state) {
    benchmark::DoNotOptimize(rows);
    const profile::scope timing([&] { return kernel_problem(rows); });
  }
}

void on(benchmark::State& state) {
  const turned_on profiler(state);
  std::int64_t rows = 1000;
  for (auto _ : state) {
    benchmark::DoNotOptimize(rows);
    const profile::scope timing([&] { return kernel_problem(rows); });
  }
}

void on_64_problems(benchmark::State& state) {
  const turned_on profiler(state);
  std::int64_t rows = 1000;
  for (auto _ : state) {
    rows = 1000 + (rows + 1) % 64;
    benchmark::DoNotOptimize(rows);
    const profile::scope timing([&] { return kernel_problem(rows); });
  }
}

void on_nested(benchmark::State& state) {
  const turned_on profiler(state);
  std::int64_t rows = 1000;
  VECDET_PROFILE_SCOPE("outer");
  for (auto _ : state) {
    benchmark::DoNotOptimize(rows);
    VECDET_PROFILE_SCOPE("step");
    const profile::scope timing([&] { return kernel_problem(rows); });
  }
  state.counters["scopes"] = 2;
}

void on_with_trace(benchmark::State& state) {
  const turned_on profiler(state);
  profile::keep_events(1 << 16);
  std::int64_t rows = 1000;
  for (auto _ : state) {
    benchmark::DoNotOptimize(rows);
    const profile::scope timing([&] { return kernel_problem(rows); });
  }
}

const bool registered = [] {
  benchmarks().push_back({"profile_scope/empty_loop", empty_loop});
  benchmarks().push_back({"profile_scope/off", off});
  benchmarks().push_back({"profile_scope/on", on});
  benchmarks().push_back({"profile_scope/on_64_problems", on_64_problems});
  benchmarks().push_back({"profile_scope/on_nested_two_scopes", on_nested});
  benchmarks().push_back({"profile_scope/on_with_trace", on_with_trace});
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
