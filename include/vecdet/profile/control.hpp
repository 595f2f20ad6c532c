// SPDX-License-Identifier: Apache-2.0
// Turning the profiler on and off.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/profile/registry.hpp>
#include <vecdet/profile/thread_log.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

namespace detail {

/// The first call measures the clock and the profiler's own cost; concurrent calls wait for it.
/// Before that, the length of a tick is unknown.
inline void calibrate_once() {
  registry& r = registry::get();
  std::call_once(r.calibration, [&r] {
    watch_forks();
    calibrate();
    const std::lock_guard<std::mutex> lock(r.mutex);
    r.start_era();
  });
}

}  // namespace detail

/// Starts or resumes recording. The first call measures the clock and the profiler's own cost,
/// which takes about 5 ms.
inline void enable() {
  detail::calibrate_once();
  detail::state.fetch_or(1u, std::memory_order_relaxed);
}

/// Stops recording and keeps the recorded data. Scopes that are open are still recorded.
inline void disable() noexcept { detail::state.fetch_and(~1u, std::memory_order_relaxed); }

inline bool enabled() noexcept {
  return detail::is_on(detail::state.load(std::memory_order_relaxed));
}

/// Discards the recorded data and the scopes that are open.
inline void reset() {
  detail::registry& r = detail::registry::get();
  const std::lock_guard<std::mutex> lock(r.mutex);
  r.start_era();
}

/// Keeps the last `events` calls of each thread individually, for a trace. Each takes 24 bytes,
/// allocated when the thread enters its next scope; without enough memory, none are kept. 0, the
/// default, keeps none. Throws std::invalid_argument if `events` is more than memory can address.
inline void keep_events(std::size_t events) {
  constexpr std::size_t most = PTRDIFF_MAX / sizeof(detail::trace_slot);
  if (events > most) {
    throw std::invalid_argument("vecdet::profile::keep_events: events is " +
                                std::to_string(events) + ", expected at most " +
                                std::to_string(most));
  }
  detail::registry& r = detail::registry::get();
  const std::lock_guard<std::mutex> lock(r.mutex);
  r.trace_events = events;
  r.bump_generation();
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
