// SPDX-License-Identifier: Apache-2.0
// A known slowdown for the gate's own proof. Compiled with VECDET_GATE_SEEDED, a module does extra
// work after each call of the problem that the environment variable VECDET_GATE_SEED_PROBLEM names:
// VECDET_GATE_SEED_PERCENT per cent of the call's time, as a chain of dependent multiplications,
// calibrated once a process and instruction set. Otherwise nothing.
#pragma once

#include "problem.hpp"

#if defined(VECDET_GATE_SEEDED)
#include <vecdet/dispatch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#endif

namespace vecdet {
namespace gate {

#if defined(VECDET_GATE_SEEDED)

inline void spin(std::int64_t steps) {
  double x = 1;
  for (std::int64_t i = 0; i < steps; ++i) {
    x *= 1.0000001;
    asm volatile("" : "+x"(x));
  }
}

/// Nanoseconds of the fastest of some 40 ms of calls, in groups of about 200 us.
template <class Call>
double fastest(const Call& call) {
  using clock = std::chrono::steady_clock;
  const auto time_of = [&](int times) {
    const auto start = clock::now();
    for (int i = 0; i < times; ++i) call();
    return std::chrono::duration<double, std::nano>(clock::now() - start).count() / times;
  };
  time_of(2);
  double best = time_of(2);
  const int group = static_cast<int>(std::clamp(2e5 / best, 1.0, 1e5));
  const auto end = clock::now() + std::chrono::milliseconds(40);
  for (int i = 0; i < 20 || clock::now() < end; ++i) best = std::min(best, time_of(group));
  return best;
}

inline void slow_down(const problem& called, void* data) {
  static const char* const seeded = std::getenv("VECDET_GATE_SEED_PROBLEM");
  static const char* const percent = std::getenv("VECDET_GATE_SEED_PERCENT");
  if (seeded == nullptr || percent == nullptr || called.name != seeded) return;
  static std::int64_t steps[3] = {-1, -1, -1};
  std::int64_t& known = steps[static_cast<int>(active_isa())];
  if (known < 0) {
    const double call_time = fastest([&] { called.run(data); });
    const double step_time = fastest([] { spin(1000); }) / 1000;
    known = static_cast<std::int64_t>(std::strtod(percent, nullptr) / 100 * call_time / step_time);
  }
  spin(known);
}

#else

inline void slow_down(const problem&, void*) {}

#endif

}  // namespace gate
}  // namespace vecdet
