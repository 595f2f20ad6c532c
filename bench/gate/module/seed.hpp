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
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>
#endif

namespace vecdet {
namespace gate {

#if defined(VECDET_GATE_SEEDED)

/// Fenced, as a processor would do half of a small call's share beside the calls around it.
inline void spin(std::int64_t steps) {
  double x = 1;
  __builtin_ia32_lfence();
  for (std::int64_t i = 0; i < steps; ++i) {
    x *= 1.0000001;
    asm volatile("" : "+x"(x));
  }
  __builtin_ia32_lfence();
}

/// Nanoseconds of a call, the median of some 40 ms of calls in groups of about 200 us. The fastest
/// group would do for the spin, but not for a call that competes for memory with other processes.
template <class Call>
double typical_time(const Call& call) {
  using clock = std::chrono::steady_clock;
  const auto time_of = [&](int times) {
    const auto start = clock::now();
    for (int i = 0; i < times; ++i) call();
    return std::chrono::duration<double, std::nano>(clock::now() - start).count() / times;
  };
  time_of(2);
  const int group = static_cast<int>(std::clamp(2e5 / time_of(2), 1.0, 1e5));
  std::vector<double> times;
  const auto end = clock::now() + std::chrono::milliseconds(40);
  while (times.size() < 20 || clock::now() < end) times.push_back(time_of(group));
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

inline void slow_down(const problem& called, void* data) {
  static const char* const seeded = std::getenv("VECDET_GATE_SEED_PROBLEM");
  static const char* const percent = std::getenv("VECDET_GATE_SEED_PERCENT");
  if (seeded == nullptr || percent == nullptr || called.name != seeded) return;
  static std::int64_t steps[3] = {-1, -1, -1};
  std::int64_t& known = steps[static_cast<int>(active_isa())];
  if (known < 0) {
    const double call_time = typical_time([&] { called.run(data); });
    const double step_time = typical_time([] { spin(1000); }) / 1000;
    known = static_cast<std::int64_t>(std::strtod(percent, nullptr) / 100 * call_time / step_time);
  }
  spin(known);
}

#else

inline void slow_down(const problem&, void*) {}

#endif

}  // namespace gate
}  // namespace vecdet
