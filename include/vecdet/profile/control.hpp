// SPDX-License-Identifier: Apache-2.0
// Turning the profiler on and off, and taking what it has recorded.
#pragma once

#include <vecdet/detail/environment_variable.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/profile/registry.hpp>
#include <vecdet/profile/report.hpp>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

namespace detail {

/// Measures the clock and the profiler's own cost, the first time; others that call meanwhile wait.
/// Before that ticks have no length.
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

/// Starts or goes on recording. The first time it measures the clock and the profiler's own cost,
/// which takes about 5 ms.
inline void enable() {
  detail::calibrate_once();
  detail::state.fetch_or(1u, std::memory_order_relaxed);
}

/// Stops recording; what was recorded stays. Scopes that are open are still recorded.
inline void disable() noexcept { detail::state.fetch_and(~1u, std::memory_order_relaxed); }

inline bool enabled() noexcept {
  return detail::is_on(detail::state.load(std::memory_order_relaxed));
}

/// Forgets what was recorded, and the scopes that are open.
inline void reset() {
  detail::registry& r = detail::registry::get();
  const std::lock_guard<std::mutex> lock(r.mutex);
  r.start_era();
}

/// Keeps the last `events` calls of each thread one by one, for a trace: 24 bytes each, taken when
/// the thread enters its next scope; none where memory is short for them. 0, the default, keeps
/// none. Throws std::invalid_argument for more than any memory holds.
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

namespace detail {

/// Rank and number of the job's processes, from the variables that launchers set; {-1, 0} without.
inline std::pair<int, int> job_rank() {
  constexpr const char* names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                      {"PMIX_RANK", ""},
                                      {"PMI_RANK", "PMI_SIZE"},
                                      {"SLURM_PROCID", "SLURM_NTASKS"},
                                      {"RANK", "WORLD_SIZE"}};
  for (const auto& name : names) {
    const char* rank = vecdet::detail::environment_variable(name[0]);
    if (rank == nullptr || *rank < '0' || *rank > '9') continue;
    const char* size = *name[1] != '\0' ? vecdet::detail::environment_variable(name[1]) : nullptr;
    return {std::atoi(rank), size != nullptr ? std::atoi(size) : 0};
  }
  return {-1, 0};
}

inline std::string command_name() {
  std::ifstream file("/proc/self/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

inline std::string host_name() {
  std::ifstream file("/proc/sys/kernel/hostname");
  std::string name;
  std::getline(file, name);
  return name;
}

inline std::string text_or_empty(const char* s) { return s != nullptr ? s : ""; }

/// Takes a sample of 256 from two, each drawn evenly from so many calls.
inline void merge_samples(std::vector<float>& into, std::uint64_t into_count,
                          const std::vector<float>& from, std::uint64_t from_count) {
  if (into.size() + from.size() <= samples_kept) {
    into.insert(into.end(), from.begin(), from.end());
    return;
  }
  const double share =
      static_cast<double>(from_count) / static_cast<double>(into_count + from_count);
  std::size_t take = static_cast<std::size_t>(share * static_cast<double>(samples_kept) + 0.5);
  take = std::min(take, from.size());
  const std::size_t keep = std::min(samples_kept - take, into.size());
  // Evenly spread picks: the samples are in no order that matters.
  const auto pick = [](const std::vector<float>& all, std::size_t n) {
    std::vector<float> some;
    for (std::size_t i = 0; i < n; ++i) some.push_back(all[i * all.size() / n]);
    return some;
  };
  std::vector<float> merged = pick(into, keep);
  const std::vector<float> others = pick(from, take);
  merged.insert(merged.end(), others.begin(), others.end());
  into = std::move(merged);
}

/// Adds what another thread or process knows of the same problem.
inline void merge_entry(entry& into, const entry& from) {
  if (from.count == 0) return;
  if (into.count == 0) {
    into = from;
    return;
  }
  const auto a = static_cast<double>(into.count), b = static_cast<double>(from.count);
  const double difference = from.mean_ns() - into.mean_ns();
  into.variance_ns2 = (a * into.variance_ns2 + b * from.variance_ns2) / (a + b) +
                      difference * difference * a * b / ((a + b) * (a + b));
  const double weight = into.total_ns + from.total_ns;
  if (weight > 0) {
    into.concurrency =
        (into.concurrency * into.total_ns + from.concurrency * from.total_ns) / weight;
  }
  merge_samples(into.samples, into.count, from.samples, from.count);
  into.count += from.count;
  into.total_ns += from.total_ns;
  into.inclusive_ns += from.inclusive_ns;
  into.self_ns += from.self_ns;
  into.min_ns = std::min(into.min_ns, from.min_ns);
  into.max_ns = std::max(into.max_ns, from.max_ns);
  into.bytes += from.bytes;
  into.flops += from.flops;
  into.seen_on_threads += from.seen_on_threads;
  for (const auto& bucket : from.histogram) into.histogram[bucket.first] += bucket.second;
}

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
