// SPDX-License-Identifier: Apache-2.0
// The profiler's clock. It is the processor's time stamp counter, calibrated against
// std::chrono::steady_clock, if that has a constant rate; otherwise it is steady_clock. Reading the
// counter takes about a third of the time of reading steady_clock.
#pragma once

#include <vecdet/detail/cpu_features.hpp>
#include <vecdet/detail/target.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>

/// Makes the profiler's state unique in the process, even if a shared library is compiled with
/// hidden visibility.
#define VECDET_PROFILE_SHARED __attribute__((visibility("default")))

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

inline std::int64_t steady_nanoseconds() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Whether the processor has a counter with a constant rate that continues in idle states.
inline bool has_constant_counter() noexcept {
#if defined(__x86_64__)
  return (vecdet::detail::this_cpu{}.cpuid(0x80000007u, 0).edx & (1u << 8)) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

inline std::int64_t read_counter() noexcept {
#if defined(__x86_64__)
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
  std::int64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return steady_nanoseconds();
#endif
}

/// Set once, before the first scope is recorded.
struct clock_rate {
  std::atomic<bool> uses_counter{false};
  std::atomic<double> nanoseconds_per_tick{1.0};
};

VECDET_PROFILE_SHARED inline clock_rate rate;

inline std::int64_t ticks() noexcept {
  return rate.uses_counter.load(std::memory_order_relaxed) ? read_counter() : steady_nanoseconds();
}

/// Converts a span of ticks to nanoseconds, rounded to nearest. Spans are never negative, so adding
/// 0.5 rounds like lround(), without the call.
inline std::int64_t to_nanoseconds(std::int64_t span) noexcept {
  const double exact =
      static_cast<double>(span) * rate.nanoseconds_per_tick.load(std::memory_order_relaxed);
  return static_cast<std::int64_t>(exact + 0.5);  // NOLINT(bugprone-incorrect-roundings)
}

/// Compares counter and steady_clock over two milliseconds. The relative error is below 1e-4 if the
/// two can be read within 100 ns of each other.
inline void calibrate_clock() noexcept {
  if (!has_constant_counter()) return;
  const auto read_both = [](std::int64_t& counter, std::int64_t& nanoseconds) {
    // The least disturbed of several tries counts, so a context switch between the two reads does
    // no harm.
    std::int64_t best = INT64_MAX;
    for (int attempt = 0; attempt < 8; ++attempt) {
      const std::int64_t before = read_counter();
      const std::int64_t now = steady_nanoseconds();
      const std::int64_t after = read_counter();
      if (after - before < best) {
        best = after - before;
        counter = before + (after - before) / 2;
        nanoseconds = now;
      }
    }
  };
  std::int64_t first_counter = 0, first_time = 0, last_counter = 0, last_time = 0;
  read_both(first_counter, first_time);
  while (steady_nanoseconds() - first_time < 2000000) {
  }
  read_both(last_counter, last_time);
  if (last_counter <= first_counter || last_time <= first_time) return;
  rate.nanoseconds_per_tick = static_cast<double>(last_time - first_time) /
                              static_cast<double>(last_counter - first_counter);
  rate.uses_counter = true;
}

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
