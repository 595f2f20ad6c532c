// SPDX-License-Identifier: Apache-2.0
// Benchmarks whose allocations and page faults are known.
#include <cstddef>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/mman.h>

namespace {

void three_allocations(benchmark::State& state) {
  for (auto _ : state) {
    for (int i = 0; i < 3; ++i) {
      std::vector<int> numbers(100);
      benchmark::DoNotOptimize(numbers.data());
    }
  }
}
BENCHMARK(three_allocations);

void five_page_faults(benchmark::State& state) {
  for (auto _ : state) {
    constexpr std::size_t page = 4096;
    auto* const pages = static_cast<char*>(
        mmap(nullptr, 5 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::size_t i = 0; i < 5; ++i) pages[i * page] = 1;
    munmap(pages, 5 * page);
  }
}
BENCHMARK(five_page_faults);

// What happens while the time is paused does not count.
void paused(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<int> numbers(100);
    state.ResumeTiming();
    benchmark::DoNotOptimize(numbers.data());
  }
}
BENCHMARK(paused)->Iterations(4);

}  // namespace

BENCHMARK_MAIN();
