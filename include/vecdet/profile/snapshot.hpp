// SPDX-License-Identifier: Apache-2.0
// Gathers the data recorded by all threads into one report.
#pragma once

#include <vecdet/detail/environment_variable.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/profile/clock.hpp>
#include <vecdet/profile/histogram.hpp>
#include <vecdet/profile/problem.hpp>
#include <vecdet/profile/process_id.hpp>
#include <vecdet/profile/registry.hpp>
#include <vecdet/profile/report.hpp>
#include <vecdet/profile/statistics.hpp>
#include <vecdet/profile/thread_log.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

/// The process's rank in its job, from the environment variables of launchers, or -1.
inline int job_rank() {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"}) {
    const char* rank = vecdet::detail::environment_variable(name);
    if (rank != nullptr && *rank >= '0' && *rank <= '9') return std::atoi(rank);
  }
  return -1;
}

/// The first line of a file; empty if it cannot be read.
inline std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The name of this computer; empty where it is not known.
inline std::string host_name() {
#if defined(_WIN32)
  const char* name = vecdet::detail::environment_variable("COMPUTERNAME");
  return name == nullptr ? "" : name;
#else
  return first_line("/proc/sys/kernel/hostname");
#endif
}

/// The name of this process's program; empty where it is not known.
inline std::string program_name() {
#if defined(_WIN32)
  const std::string path = _pgmptr == nullptr ? "" : _pgmptr;
  return path.substr(path.find_last_of("/\\") + 1);
#else
  return first_line("/proc/self/comm");
#endif
}

/// Merges two samples into one of 256. Each was drawn evenly from the given number of calls.
inline void merge_samples(std::vector<float>& into, std::uint64_t into_count,
                          const std::vector<float>& from, std::uint64_t from_count) {
  if (into.size() + from.size() <= samples_kept) {
    into.insert(into.end(), from.begin(), from.end());
    return;
  }
  const double fraction =
      static_cast<double>(from_count) / static_cast<double>(into_count + from_count);
  std::size_t take = static_cast<std::size_t>(fraction * static_cast<double>(samples_kept) + 0.5);
  take = std::min(take, from.size());
  const std::size_t keep = std::min(samples_kept - take, into.size());
  // Picks are evenly spaced, since the order of the samples does not matter.
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

/// Adds the data of another thread or process for the same problem.
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

inline entry read_statistics(const statistics& s) {
  const problem& key = s.interned->key;
  entry e;
  e.name = problem_text(key);
  e.function = text_or_empty(key.function);
  e.variant = text_or_empty(key.variant);
  e.type = text_or_empty(key.type);
  e.implementation = text_or_empty(key.implementation);
  for (const std::int64_t dimension : key.shape) {
    if (dimension <= 0) break;
    e.shape.push_back(dimension);
  }
  e.threads = key.threads;
  e.seen_on_threads = 1;
  const std::uint64_t n = s.count.get();
  // The count is taken from the histogram, which may be ahead of the other counters by the call
  // that is being recorded.
  for (int i = 0; i < histogram_size; ++i) {
    const std::uint64_t inside = s.histogram[static_cast<std::size_t>(i)].get();
    if (inside != 0) e.histogram[i] = inside;
    e.count += inside;
  }
  e.total_ns = static_cast<double>(s.total.get());
  e.inclusive_ns = static_cast<double>(s.inclusive.get());
  e.self_ns = static_cast<double>(s.self.get());
  e.min_ns = static_cast<double>(s.min.get());
  e.max_ns = static_cast<double>(s.max.get());
  if (n > 1) {
    const double mean = s.sum.get() / static_cast<double>(n);
    e.variance_ns2 = std::max(0.0, s.sum_of_squares.get() / static_cast<double>(n) - mean * mean);
  }
  e.bytes = static_cast<double>(s.bytes.get());
  e.flops = static_cast<double>(s.flops.get());
  if (s.overlap_base.get() > 0) e.concurrency = 1 + s.overlap.get() / s.overlap_base.get();
  for (std::size_t i = 0; i < std::min<std::uint64_t>(n, samples_kept); ++i) {
    e.samples.push_back(s.samples[i].get());
  }
  return e;
}

/// The state needed to build a report from several sources.
struct report_builder {
  report result;
  std::map<std::string, std::size_t> entry_by_name;
  std::map<std::vector<std::size_t>, std::size_t> path_by_entries;

  std::size_t add(const entry& e) {
    const auto at = entry_by_name.emplace(e.name, result.entries.size());
    if (at.second) {
      result.entries.push_back(e);
    } else {
      merge_entry(result.entries[at.first->second], e);
    }
    return at.first->second;
  }

  void add(const path& p) {
    const auto at = path_by_entries.emplace(p.entries, result.paths.size());
    if (at.second) {
      result.paths.push_back(p);
    } else {
      path& known = result.paths[at.first->second];
      known.count += p.count;
      known.total_ns += p.total_ns;
      known.self_ns += p.self_ns;
    }
  }
};

inline void read_paths(const thread_log& log, const std::vector<std::size_t>& entry_of,
                       report_builder& builder) {
  for (std::size_t i = 0; i < log.paths.size(); ++i) {
    const path_node& node = log.paths[i];
    path p;
    p.count = node.count.get();
    if (p.count == 0) continue;
    p.total_ns = static_cast<double>(node.total.get());
    p.self_ns = static_cast<double>(node.self.get());
    for (const path_node* n = &node; n != nullptr; n = n->parent) {
      const std::size_t e = entry_of[n->stats->interned->index];
      // An enclosing scope that has not ended yet has no entry: the path starts inside it.
      if (e == SIZE_MAX) break;
      p.entries.push_back(e);
    }
    std::reverse(p.entries.begin(), p.entries.end());
    if (!p.entries.empty()) builder.add(p);
  }
}

/// Reads the ring's events, except those that the owner may have overwritten meanwhile.
inline std::uint64_t read_events(const thread_log& log, const std::vector<std::size_t>& entry_of,
                                 std::int64_t started, std::vector<event>& into) {
  if (log.ring == nullptr) return 0;
  const std::uint64_t end = log.events.load(std::memory_order_acquire);
  std::uint64_t begin = end > log.ring_size ? end - log.ring_size : 0;
  std::vector<std::pair<std::uint64_t, event>> read;
  const double scale = rate.nanoseconds_per_tick.load(std::memory_order_relaxed);
  for (std::uint64_t i = begin; i < end; ++i) {
    const trace_slot& slot = log.ring[i % log.ring_size];
    event e;
    const statistics* stats = slot.stats.get();
    if (stats == nullptr) continue;
    e.entry = entry_of[stats->interned->index];
    e.thread = log.id;
    e.begin_ns = static_cast<double>(slot.begin.get() - started) * scale;
    e.duration_ns = static_cast<double>(slot.end.get() - slot.begin.get()) * scale;
    if (e.entry != SIZE_MAX) read.emplace_back(i, e);
  }
  const std::uint64_t now = log.events.load(std::memory_order_acquire);
  // The slot of event `now` may be partially written.
  const std::uint64_t safe = now + 1 > log.ring_size ? now + 1 - log.ring_size : 0;
  begin = now > end ? std::max(begin, safe) : begin;
  for (const auto& e : read) {
    if (e.first >= begin) into.push_back(e.second);
  }
  return begin;
}

}  // namespace detail

/// All data recorded since recording began or since reset(). Other threads may continue to record:
/// each of their numbers was correct at some time during the call. Open scopes are not included.
/// Entries are sorted by self time, largest first.
inline report snapshot() {
  detail::registry& r = detail::registry::get();
  detail::report_builder builder;
  process_info process;
  process.rank = detail::job_rank();
  process.host = detail::host_name();
  process.command = detail::program_name();
  process.pid = detail::process_id();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const auto scale = detail::rate.nanoseconds_per_tick.load(std::memory_order_relaxed);
  process.started_unix_ns = static_cast<double>(r.started_unix_ns);
  if (r.era != 0) process.wall_ns = static_cast<double>(detail::ticks() - r.started_ticks) * scale;
  process.overhead_inside_scope_ns = static_cast<double>(detail::overhead.inside.load()) * scale;
  process.overhead_per_scope_ns = static_cast<double>(detail::overhead.whole.load()) * scale;

  std::vector<std::size_t> entry_of(r.problems.size(), SIZE_MAX);
  for (const detail::thread_log* log : r.logs) {
    if (log->era.load(std::memory_order_acquire) != r.era) continue;
    for (const detail::statistics* s : log->all_statistics) {
      const entry e = detail::read_statistics(*s);
      if (e.count != 0) entry_of[s->interned->index] = builder.add(e);
    }
  }
  for (const detail::thread_log* log : r.logs) {
    if (log->era.load(std::memory_order_acquire) != r.era) continue;
    ++process.threads;
    detail::read_paths(*log, entry_of, builder);
    process.events_lost +=
        detail::read_events(*log, entry_of, r.started_ticks, builder.result.events);
    process.dropped_scopes += log->dropped.get();
    process.clock_went_back += log->clock_went_back.get();
  }
  process.dropped_scopes += detail::dropped_elsewhere.load(std::memory_order_relaxed);
  process.recorded_ns = builder.result.whole_ns();
  for (const entry& e : builder.result.entries) {
    if (e.variant == waiting_variant) process.waiting_ns += e.self_ns;
  }
  builder.result.processes.push_back(process);
  return std::move(builder.result);
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
