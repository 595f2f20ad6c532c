// SPDX-License-Identifier: Apache-2.0
// Registers one problem under the names of all its implementations:
// <function>/<variant>/<type>/<shape>/<implementation>/threads:<n>.
#pragma once

#include "table_reporter.hpp"
#include <vecdet/dispatch.hpp>
#include <vecdet/parallel.hpp>

#include <string>

#include <benchmark/benchmark.h>
#include <tbb/task_arena.h>

namespace vecdet {
namespace bench {

/// What a call of the problem must read and write, and what time is divided by.
struct work {
  double elements;
  double bytes;
};

/// `problem` is "<function>/<variant>/<type>/<shape>". `run(state)` holds the timed loop.
template <class Run>
void register_implementation(const std::string& problem, const std::string& implementation,
                             int threads, work amount, const Run& run) {
  const std::string name = problem + "/" + implementation + "/threads:" + std::to_string(threads);
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    run(state);
    count_work(state, amount.elements, amount.bytes, threads);
  })->UseRealTime();
}

/// vecdet on every available instruction set, on one thread and on all. `call(policy)` is timed,
/// after `prepare()` has made its data.
template <class Prepare, class Call>
void register_vecdet(const std::string& problem, work amount, const Prepare& prepare,
                     const Call& call) {
  const int all_threads = tbb::this_task_arena::max_concurrency();
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (!isa_available(set)) continue;
    for (const int threads : {1, all_threads}) {
      register_implementation(
          problem, isa_name(set), threads, amount, [=](benchmark::State& state) {
            const auto data = prepare();
            set_isa(set);
            const execution policy = threads == 1 ? execution::sequential : execution::parallel;
            for (auto _ : state) call(*data, policy);
          });
      if (all_threads == 1) break;
    }
  }
}

}  // namespace bench
}  // namespace vecdet
