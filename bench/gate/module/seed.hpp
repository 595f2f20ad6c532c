// SPDX-License-Identifier: Apache-2.0
// A known slowdown, to prove that the gate detects it. Compiled with VECDET_GATE_SEEDED, a module
// waits after each call of the problem named by the environment variable VECDET_GATE_SEED_PROBLEM.
// It waits VECDET_GATE_SEED_PERCENT per cent of the time of that call, or longer if the call takes
// less than about a microsecond. Without these variables it does nothing. Only for x86.
#pragma once

#include "problem.hpp"

#if defined(VECDET_GATE_SEEDED)
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#endif

namespace vecdet::gate {

#if defined(VECDET_GATE_SEEDED)

/// Reads the processor's clock once all earlier instructions have finished.
inline std::uint64_t ticks() {
  __builtin_ia32_lfence();
  const std::uint64_t now = __builtin_ia32_rdtsc();
  __builtin_ia32_lfence();
  return now;
}

/// The cost of reading the clock.
inline std::uint64_t ticks_of_clock() {
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t begin = ticks();
    least = std::min(least, ticks() - begin);
  }
  return least;
}

inline void run_slowed(const problem& called, void* data) {
  static const char* const seeded = std::getenv("VECDET_GATE_SEED_PROBLEM");
  static const char* const percent = std::getenv("VECDET_GATE_SEED_PERCENT");
  if (seeded == nullptr || percent == nullptr || called.name != seeded) return called.run(data);
  static const double share = std::strtod(percent, nullptr) / 100;
  static const std::uint64_t clock = ticks_of_clock();
  const std::uint64_t begin = ticks();
  called.run(data);
  const std::uint64_t end = ticks();
  const std::uint64_t wait = static_cast<std::uint64_t>(share * static_cast<double>(end - begin));
  // At least three readings of the clock are needed; `end - begin` includes one.
  while (ticks() + 2 * clock < end + wait) {
  }
}

#else

inline void run_slowed(const problem& called, void* data) { called.run(data); }

#endif

}  // namespace vecdet::gate
