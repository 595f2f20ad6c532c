// SPDX-License-Identifier: Apache-2.0
// The load of MLPerf Inference's four scenarios (Reddi et al., "MLPerf Inference Benchmark", ISCA
// 2020, arXiv 1911.02549; multi-stream by the rules since version 2.0) on any system. Uses only the
// standard library.
#pragma once

#include "random.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace detector {

enum class scenario_kind {
  single_stream,  ///< one sample at a time, each sent when the one before is done
  multi_stream,   ///< the same with `stream_samples` at a time
  server,         ///< samples that arrive at random times, as a Poisson process
  offline,        ///< all samples at once
};

constexpr std::size_t stream_samples = 8;  ///< of a query in multi_stream

/// The percentile of the latencies that is a scenario's result, or has to be within its bound.
constexpr int percentile_of(scenario_kind scenario) {
  return scenario == scenario_kind::single_stream ? 90 : 99;
}

struct load_params {
  /// A run ends when both are reached. The duration of a server's run is that of its arrivals. Each
  /// sample is a query of its own offline.
  double least_seconds = 60;
  std::int64_t least_queries = 0;
  std::int64_t warmup_queries = 8;  ///< before that, not measured
  std::size_t samples = 64;         ///< of the system, which queries choose from
  std::size_t largest_batch = 8;    ///< samples that a server or an offline system takes at once
  double bound = 0.1;               ///< of a server's latencies, in seconds
  std::uint64_t sample_seed = 0, schedule_seed = 0;
};

/// What is measured, with its clock.
class measured_system {
 public:
  measured_system() = default;
  measured_system(const measured_system&) = delete;
  measured_system& operator=(const measured_system&) = delete;
  virtual ~measured_system() = default;

  virtual double now() = 0;  ///< in seconds
  virtual void wait_until(double time) = 0;
  /// Returns when the results of these samples are complete.
  virtual void process(const std::vector<std::size_t>& samples) = 0;
};

struct load_result {
  std::vector<double> latencies;  ///< of the queries, ascending; none offline
  std::int64_t queries = 0, samples = 0;
  double seconds = 0;  ///< until the last was done
  double rate = 0;     ///< of a server: arrivals per second
  /// Of a server: more latencies are above the bound than its percentile allows. The run then ends
  /// early.
  bool is_late = false;
};

/// The latency at index floor(n x percent / 100) of n in ascending order, as the LoadGen counts. It
/// is at least as large as `percent` per cent of them.
inline double percentile(const std::vector<double>& ascending, int percent) {
  return ascending.at(ascending.size() * static_cast<std::size_t>(percent) / 100);
}

/// Times of arrival in ascending order, for the run's minimum duration and number of queries. The
/// intervals are exponentially distributed. Another rate stretches the same arrivals.
inline std::vector<double> poisson_arrivals(double rate, const load_params& params) {
  std::vector<double> arrivals;
  random_source random{params.schedule_seed, 0x5c4ed};
  double time = 0;
  while (time < params.least_seconds ||
         static_cast<std::int64_t>(arrivals.size()) < params.least_queries) {
    time -= std::log1p(-random.uniform(0, 1)) / rate;
    arrivals.push_back(time);
  }
  return arrivals;
}

/// Chooses the samples of queries.
class sample_choice {
 public:
  explicit sample_choice(const load_params& params)
      : random_{params.sample_seed, 0x5a3b1e}, samples_(params.samples) {}

  /// Neighbours, from a sample chosen with replacement.
  std::vector<std::size_t> next(std::size_t count) {
    std::vector<std::size_t> chosen(count);
    std::iota(chosen.begin(), chosen.end(), static_cast<std::size_t>(random_.next()) % samples_);
    for (std::size_t& sample : chosen) sample %= samples_;
    return chosen;
  }

 private:
  random_source random_;
  std::size_t samples_;
};

/// single_stream and multi_stream: each query waits for the one before.
inline load_result run_stream(measured_system& system, const load_params& params,
                              std::size_t samples_of_query) {
  load_result result;
  sample_choice choice(params);
  for (std::int64_t i = 0; i < params.warmup_queries; ++i)
    system.process(choice.next(samples_of_query));
  const double start = system.now();
  double sent = start;
  while (sent - start < params.least_seconds || result.queries < params.least_queries) {
    const std::vector<std::size_t> query = choice.next(samples_of_query);
    sent = system.now();
    system.process(query);
    const double done = system.now();
    result.latencies.push_back(done - sent);
    ++result.queries;
    sent = done;
  }
  result.samples = result.queries * static_cast<std::int64_t>(samples_of_query);
  result.seconds = sent - start;
  std::sort(result.latencies.begin(), result.latencies.end());
  return result;
}

/// All samples wait from the beginning. Each is used as often as the others, in random order.
inline load_result run_offline(measured_system& system, const load_params& params) {
  load_result result;
  sample_choice choice(params);
  for (std::int64_t i = 0; i < params.warmup_queries; ++i)
    system.process(choice.next(params.largest_batch));
  std::vector<std::size_t> left, batch;
  std::uint64_t pass = 0;
  const double start = system.now();
  while (result.seconds < params.least_seconds || result.samples < params.least_queries) {
    batch.clear();
    while (batch.size() < params.largest_batch) {
      if (left.empty()) left = shuffled(params.samples, params.sample_seed, pass++);
      batch.push_back(left.back());
      left.pop_back();
    }
    system.process(batch);
    result.samples += static_cast<std::int64_t>(batch.size());
    result.seconds = system.now() - start;
  }
  result.queries = result.samples;
  return result;
}

/// Samples arrive at this rate and wait in a queue. The system takes as many of the queue as it
/// may. Latencies are counted from the arrival.
inline load_result run_server(measured_system& system, const load_params& params, double rate) {
  load_result result;
  result.rate = rate;
  sample_choice choice(params);
  for (std::int64_t i = 0; i < params.warmup_queries; ++i) system.process(choice.next(1));
  const std::vector<double> arrivals = poisson_arrivals(rate, params);
  const std::size_t count = arrivals.size();
  const std::size_t allowed = count - 1 - count * percentile_of(scenario_kind::server) / 100;
  std::size_t next = 0, late = 0;
  std::vector<std::size_t> batch;
  const double start = system.now();
  while (next < count && !result.is_late) {
    if (system.now() - start < arrivals[next]) system.wait_until(start + arrivals[next]);
    const double now = system.now() - start;
    const std::size_t first = next;
    batch.clear();
    do {
      batch.push_back(choice.next(1)[0]);
      ++next;
    } while (next < count && batch.size() < params.largest_batch && arrivals[next] <= now);
    system.process(batch);
    result.seconds = system.now() - start;
    for (std::size_t i = first; i < next; ++i) {
      result.latencies.push_back(result.seconds - arrivals[i]);
      if (result.latencies.back() > params.bound) ++late;
    }
    result.is_late = late > allowed;
  }
  result.queries = result.samples = static_cast<std::int64_t>(next);
  std::sort(result.latencies.begin(), result.latencies.end());
  return result;
}

/// Searches the highest rate at which a server stays within its bound, to 2 %. It doubles or halves
/// the rate, from half of what the system does one by one, and then bisects. Returns the run at
/// that rate, and a rate of 0 if the percentile of samples alone is above the bound. `tell` is
/// called with each run.
template <class Tell>
load_result find_server_rate(measured_system& system, const load_params& params, const Tell& tell) {
  constexpr double precision = 1.02;
  constexpr int most_halvings = 10;
  load_params alone = params;
  alone.least_seconds = 0;
  alone.least_queries = 100;
  const load_result one_by_one = run_stream(system, alone, 1);
  // In a shorter run, no rate would be too high.
  load_params lasting = params;
  lasting.least_seconds = std::max(params.least_seconds, 2 * params.bound);
  load_result best;
  if (percentile(one_by_one.latencies, percentile_of(scenario_kind::server)) > params.bound)
    return best;
  const auto try_rate = [&](double rate) {
    load_result found = run_server(system, lasting, rate);
    tell(found);
    const bool is_good = !found.is_late;
    if (is_good) best = std::move(found);
    return is_good;
  };
  double low = 0.5 * static_cast<double>(one_by_one.queries) / one_by_one.seconds;
  double high = 2 * low;
  if (try_rate(low)) {
    while (try_rate(high)) {
      low = high;
      high = 2 * low;
    }
  } else {
    int halvings = 0;
    do {
      if (++halvings > most_halvings) return best;
      high = low;
      low = high / 2;
    } while (!try_rate(low));
  }
  while (high > low * precision) {
    const double middle = 0.5 * (low + high);
    (try_rate(middle) ? low : high) = middle;
  }
  return best;
}

}  // namespace detector
