// SPDX-License-Identifier: Apache-2.0
// The amount of work of a benchmark, as counters that table_reporter.hpp reads.
#pragma once

#include "bandwidth.hpp"

#include <cstddef>

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

}  // namespace vecdet::bench
