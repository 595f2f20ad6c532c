// SPDX-License-Identifier: Apache-2.0
// The timed loop of every benchmark.
#pragma once

#include <chrono>

#include <benchmark/benchmark.h>

namespace vecdet::bench {

/// The least number of calls that a repetition times, however long they take.
constexpr benchmark::IterationCount least_calls = 5;

/// Times `call()` after one call that is not timed. The first call makes pages, threads and
/// workspaces, and its time depends on what ran before.
/// @return seconds per timed call
template <class Call>
double time_calls(benchmark::State& state, const Call& call) {
  call();
  const auto start = std::chrono::steady_clock::now();
  while (state.KeepRunningBatch(least_calls))
    for (benchmark::IterationCount i = 0; i < least_calls; ++i) call();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / static_cast<double>(state.iterations());
}

}  // namespace vecdet::bench
