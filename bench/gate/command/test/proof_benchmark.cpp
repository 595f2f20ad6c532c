// SPDX-License-Identifier: Apache-2.0
// For ../prove: a benchmark that does its work REPEATS times, 25 or, 4% slower, 26.
#include <vector>

#include <benchmark/benchmark.h>

namespace {

void hash(benchmark::State& state) {
  std::vector<unsigned> numbers(1024, 3);
  for (auto _ : state) {
    unsigned sum = 0;
    for (int i = 0; i < REPEATS; ++i) {
      benchmark::DoNotOptimize(numbers.data());
      for (const unsigned number : numbers) sum = (sum ^ number) * 2654435761u;
    }
    benchmark::DoNotOptimize(sum);
  }
}
BENCHMARK(hash);

}  // namespace

BENCHMARK_MAIN();
