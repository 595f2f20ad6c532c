// SPDX-License-Identifier: Apache-2.0
// Common parts of benchmarks on tensors. A benchmark's argument is ATen's number of threads.
#pragma once

#include "../support/time_calls.hpp"
#include <vecdet/keep_memory.hpp>
#include <vecdet/torch.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

namespace vecdet::bench {

/// Otherwise, large tensors have fresh pages at each call, whose cost depends on the machine.
inline const bool keeps_memory = vecdet::keep_memory();

constexpr std::int64_t anchor_count = 120087, class_count = 91;

/// n boxes in a square of side 800.
inline at::Tensor some_boxes(std::int64_t n) {
  const at::Tensor corner = at::rand({n, 2}) * 700;
  return at::cat({corner, corner + at::rand({n, 2}) * 100 + 1}, 1);
}

/// Registers a benchmark of `call`, which returns a tensor, on one thread and on two.
template <class Call>
void add(const char* name, Call call) {
  benchmark::RegisterBenchmark(name,
                               [call](benchmark::State& state) {
                                 at::set_num_threads(static_cast<int>(state.range(0)));
                                 time_calls(state, [&] { benchmark::DoNotOptimize(call()); });
                               })
      ->ArgName("threads")
      ->Arg(1)
      ->Arg(2)
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

/// The same for a loss and its gradient with respect to `inputs`.
template <class Loss>
void add_step(const char* name, std::vector<at::Tensor> inputs, Loss loss) {
  add(name, [inputs = std::move(inputs), loss] { return torch::autograd::grad({loss()}, inputs); });
}

/// A tensor that requires a gradient.
inline at::Tensor tracked(const at::Tensor& tensor) { return tensor.detach().requires_grad_(); }

}  // namespace vecdet::bench
