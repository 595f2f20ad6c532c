// SPDX-License-Identifier: Apache-2.0
// A profile as plain data. snapshot() returns it, the writers write it, and the vecdet-profile
// program reads, merges and compares it. Times are in nanoseconds, without the profiler's own cost
// unless noted.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/profile/histogram.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

/// The data of one problem, over all threads.
struct entry {
  /// The problem's text as written by problem_text(), and its parts.
  std::string name;
  std::string function, variant, type, implementation;
  std::vector<std::int64_t> shape;
  int threads = 0;
  /// "vecdet" for recorded scopes, "onednn" or "google-benchmark" for imported ones.
  std::string source = "vecdet";

  std::uint64_t count = 0;
  double total_ns = 0;      ///< all calls
  double inclusive_ns = 0;  ///< all calls that were not inside another call of the same problem
  double self_ns = 0;       ///< all calls, without nested scopes
  double min_ns = 0, max_ns = 0;
  double variance_ns2 = 0;  ///< population variance of the durations
  double bytes = 0, flops = 0;
  std::uint64_t seen_on_threads = 0;  ///< number of threads (alive at a time) that ran it
  double concurrency = 1;      ///< average number of threads inside it, while at least one is
  sparse_histogram histogram;  ///< counts by histogram_bucket() of the duration
  std::vector<float> samples;  ///< durations sampled evenly from all calls; all of them if few

  double mean_ns() const { return count != 0 ? total_ns / static_cast<double>(count) : 0; }
  double stddev_ns() const { return std::sqrt(variance_ns2); }
  /// Exact if all durations are kept as samples, else computed from the histogram.
  double quantile_ns(double q) const {
    if (samples.size() == count) {
      std::vector<float> sorted = samples;
      return sample_quantile(sorted, q);
    }
    return std::min(std::max(histogram_quantile(histogram, q), min_ns), max_ns);
  }
  /// Bytes and operations per nanosecond of inclusive time: GB/s and GFLOP/s. 0 if unknown.
  double gigabytes_per_second() const { return inclusive_ns > 0 ? bytes / inclusive_ns : 0; }
  double gigaflops_per_second() const { return inclusive_ns > 0 ? flops / inclusive_ns : 0; }
  /// Operations per byte; 0 if unknown.
  double intensity() const { return bytes > 0 ? flops / bytes : 0; }
};

/// A path in the nesting of scopes: indices of entries, outermost first.
struct path {
  std::vector<std::size_t> entries;
  std::uint64_t count = 0;
  double total_ns = 0, self_ns = 0;
};

/// One recorded call, including the profiler's own cost. Times are relative to the start of
/// recording in the process.
struct event {
  std::size_t entry = 0;
  std::size_t process = 0;
  int thread = 0;
  double begin_ns = 0, duration_ns = 0;
};

struct process_info {
  std::int64_t pid = 0;
  int rank = -1;  ///< -1 if unknown
  std::string host, command;
  double started_unix_ns = 0;
  double wall_ns = 0;      ///< from the start of recording to the snapshot
  double recorded_ns = 0;  ///< self time of all scopes on all threads
  double waiting_ns = 0;   ///< the part of recorded_ns spent waiting for other processes
  int threads = 0;         ///< number of threads (alive at a time) that recorded something
  std::uint64_t dropped_scopes = 0, clock_went_back = 0, events_lost = 0;
  double overhead_per_scope_ns = 0;     ///< the profiler's total cost of an empty scope
  double overhead_inside_scope_ns = 0;  ///< the part between the scope's two time stamps
};

/// The measured peak performance of the machine; 0 if not measured.
struct machine_info {
  std::string processor;
  int threads = 0;
  double cache_gbs = 0, memory_gbs = 0;                          ///< one thread
  double cache_gbs_all_threads = 0, memory_gbs_all_threads = 0;  ///< each thread its own
  double gflops_f32 = 0, gflops_f32_all_threads = 0;             ///< multiply-add counts as two
  double cache_bytes = 0;  ///< working sets up to this size count as in cache
};

struct report {
  std::vector<process_info> processes;
  machine_info machine;
  std::vector<entry> entries;
  std::vector<path> paths;
  std::vector<event> events;
  /// Problems that occurred while the report was made, as text for the reader.
  std::vector<std::string> warnings;

  /// Self time of all scopes on all threads; shares in reports are relative to it.
  double whole_ns() const {
    double whole = 0;
    for (const entry& e : entries) whole += e.self_ns;
    return whole;
  }
  std::uint64_t scopes() const {
    std::uint64_t n = 0;
    for (const entry& e : entries) n += e.count;
    return n;
  }
  /// Indices of entries by self time, largest first.
  std::vector<std::size_t> by_self_time() const {
    std::vector<std::size_t> order(entries.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return entries[a].self_ns > entries[b].self_ns;
    });
    return order;
  }
};

/// The position of a problem relative to the machine's roofline.
struct roofline_position {
  double percent = 0;      ///< of the bound; 0 if bytes and flops, or the machine, are unknown
  const char* bound = "";  ///< "memory", "cache" or "compute"
};

inline roofline_position position(const entry& e, const machine_info& m) {
  // With more threads, bandwidth grows proportionally until it reaches that of all threads.
  const auto ceiling = [&](double one, double all) {
    return e.threads == 1 ? one : e.threads > 1 ? std::min(one * e.threads, all) : all;
  };
  const double per_call = e.count != 0 ? e.bytes / static_cast<double>(e.count) : 0;
  const bool cached = per_call > 0 && per_call <= m.cache_bytes * std::max(e.threads, 1);
  const double bandwidth = cached ? ceiling(m.cache_gbs, m.cache_gbs_all_threads)
                                  : ceiling(m.memory_gbs, m.memory_gbs_all_threads);
  const double peak = ceiling(m.gflops_f32, m.gflops_f32_all_threads) * (e.type == "f64" ? 0.5 : 1);
  const double share_of_bandwidth = bandwidth > 0 ? e.gigabytes_per_second() / bandwidth : 0;
  const double share_of_peak = peak > 0 ? e.gigaflops_per_second() / peak : 0;
  if (share_of_bandwidth <= 0 && share_of_peak <= 0) return {};
  if (share_of_peak > share_of_bandwidth) return {100 * share_of_peak, "compute"};
  return {100 * share_of_bandwidth, cached ? "cache" : "memory"};
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
