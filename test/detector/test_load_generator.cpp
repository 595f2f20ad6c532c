// SPDX-License-Identifier: Apache-2.0
// MLPerf's load, on a simulated clock and queues with known answers.
#include "../../examples/detector/load_generator.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace detector;

namespace {

/// A system on a clock that only moves while it works or waits.
class simulated : public measured_system {
 public:
  /// The seconds that a batch takes, by its size.
  explicit simulated(std::function<double(std::size_t)> seconds) : seconds_(std::move(seconds)) {}

  double now() override { return now_; }
  void wait_until(double time) override { now_ = std::max(now_, time); }
  void process(const std::vector<std::size_t>& samples) override {
    queries.push_back(samples);
    now_ += seconds_(samples.size());
  }

  std::vector<std::vector<std::size_t>> queries;

 private:
  std::function<double(std::size_t)> seconds_;
  double now_ = 1000;  // a clock's zero means nothing
};

load_params short_run(double seconds, std::int64_t queries) {
  load_params params;
  params.least_seconds = seconds;
  params.least_queries = queries;
  params.warmup_queries = 0;
  return params;
}

const auto ignore = [](const load_result&) {};

/// Exponentially distributed service times with this mean.
std::function<double(std::size_t)> exponential(double mean, std::uint64_t seed) {
  return [mean, random = random_source{seed}](std::size_t) mutable {
    return -mean * std::log1p(-random.uniform(0, 1));
  };
}

}  // namespace

TEST_CASE("load generator: percentiles are those of the LoadGen") {
  std::vector<double> hundred(100);
  std::iota(hundred.begin(), hundred.end(), 0.0);
  CHECK(percentile(hundred, 0) == 0);
  CHECK(percentile(hundred, 50) == 50);
  CHECK(percentile(hundred, 90) == 90);  // 90 % are below
  CHECK(percentile(hundred, 99) == 99);
  CHECK(percentile({5}, 99) == 5);
  CHECK(percentile({1, 2, 3}, 90) == 3);
  std::vector<double> more(1000);
  std::iota(more.begin(), more.end(), 0.0);
  CHECK(percentile(more, 99) == 990);
  CHECK(percentile_of(scenario_kind::single_stream) == 90);
  CHECK(percentile_of(scenario_kind::multi_stream) == 99);
  CHECK(percentile_of(scenario_kind::server) == 99);
}

TEST_CASE("load generator: arrivals are a Poisson process, given by its seed") {
  load_params params = short_run(0, 100'000);
  const std::vector<double> arrivals = poisson_arrivals(50, params);
  REQUIRE(arrivals.size() == 100'000);
  CHECK(std::is_sorted(arrivals.begin(), arrivals.end()));
  CHECK(arrivals == poisson_arrivals(50, params));
  params.schedule_seed = 1;
  CHECK(arrivals != poisson_arrivals(50, params));
  params.schedule_seed = 0;

  // Intervals: mean and standard deviation are 1 / rate, and e^-1 of them are above it.
  std::vector<double> intervals(arrivals.size());
  std::adjacent_difference(arrivals.begin(), arrivals.end(), intervals.begin());
  double sum = 0, squares = 0, longer = 0;
  for (const double interval : intervals) {
    sum += interval;
    squares += interval * interval;
    longer += interval > 0.02 ? 1 : 0;
  }
  const auto n = static_cast<double>(intervals.size());
  CHECK(sum / n == doctest::Approx(0.02).epsilon(0.02));
  CHECK(std::sqrt(squares / n - sum / n * sum / n) == doctest::Approx(0.02).epsilon(0.02));
  CHECK(longer / n == doctest::Approx(std::exp(-1)).epsilon(0.02));
  // Numbers of arrivals in a second: mean and variance are the rate.
  std::vector<double> counts(static_cast<std::size_t>(arrivals.back()));
  for (const double arrival : arrivals)
    if (arrival < static_cast<double>(counts.size())) ++counts[static_cast<std::size_t>(arrival)];
  const double mean =
      std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double variance = 0;
  for (const double count : counts)
    variance += (count - mean) * (count - mean) / static_cast<double>(counts.size());
  CHECK(mean == doctest::Approx(50).epsilon(0.02));
  CHECK(variance == doctest::Approx(50).epsilon(0.1));

  // Another rate stretches them.
  const std::vector<double> slower = poisson_arrivals(25, params);
  for (const std::size_t i : {std::size_t{0}, std::size_t{7}, std::size_t{99'999}})
    CHECK(slower[i] == doctest::Approx(2 * arrivals[i]));
}

TEST_CASE("load generator: runs last for the minimum duration and number of queries") {
  for (const auto& minimum : {std::make_pair(10.0, 3), std::make_pair(0.5, 70)}) {
    const load_params params = short_run(minimum.first, minimum.second);
    simulated one([](std::size_t) { return 0.25; });
    const load_result stream = run_stream(one, params, 1);
    const std::int64_t expected = minimum.second == 3 ? 40 : 70;
    CHECK(stream.queries == expected);
    CHECK(stream.seconds == doctest::Approx(0.25 * static_cast<double>(expected)));
    CHECK(one.queries.size() == static_cast<std::size_t>(expected));

    simulated batches([](std::size_t count) { return 0.25 * static_cast<double>(count); });
    const load_result offline = run_offline(batches, params);
    CHECK(offline.samples == (minimum.second == 3 ? 40 : 72));  // whole batches of 8

    const std::vector<double> arrivals = poisson_arrivals(2, params);
    CHECK(arrivals.back() >= minimum.first);
    CHECK(static_cast<int>(arrivals.size()) >= minimum.second);
    const bool is_short = arrivals.size() < 2 || arrivals[arrivals.size() - 2] < minimum.first ||
                          static_cast<int>(arrivals.size()) == minimum.second;
    CHECK(is_short);  // and no longer than that
  }
}

TEST_CASE("load generator: warm-up is not measured") {
  load_params params = short_run(0, 20);
  params.warmup_queries = 5;
  int calls = 0;
  const auto slow_at_first = [&](std::size_t) { return ++calls <= 5 ? 100.0 : 1.0; };
  simulated stream(slow_at_first);
  const load_result result = run_stream(stream, params, 1);
  CHECK(result.queries == 20);
  CHECK(result.latencies.back() == doctest::Approx(1));
  CHECK(result.seconds == doctest::Approx(20));
  CHECK(stream.queries.size() == 25);
  calls = 0;
  simulated offline(slow_at_first);
  CHECK(run_offline(offline, params).seconds == doctest::Approx(3));
  calls = 0;
  simulated server(slow_at_first);
  params.bound = 1000;
  CHECK(run_server(server, params, 0.01).latencies.back() < 10);
  calls = 0;
  simulated searched(slow_at_first);
  params.bound = 50;
  CHECK(find_server_rate(searched, params, ignore).rate > 0);
}

TEST_CASE("load generator: latencies of streams") {
  int calls = 0;
  const auto growing = [&](std::size_t) { return ++calls; };
  simulated system(growing);
  const load_result result = run_stream(system, short_run(0, 100), stream_samples);
  CHECK(result.samples == 800);
  CHECK(percentile(result.latencies, 90) == doctest::Approx(91));
  CHECK(percentile(result.latencies, 99) == doctest::Approx(100));
  for (const std::vector<std::size_t>& query : system.queries) {
    REQUIRE(query.size() == 8);
    for (std::size_t i = 1; i < query.size(); ++i) CHECK(query[i] == (query[i - 1] + 1) % 64);
  }
}

TEST_CASE("load generator: samples are given by their seed") {
  load_params params = short_run(0, 200);
  params.samples = 10;
  const auto queries = [&] {
    simulated system([](std::size_t) { return 1; });
    run_stream(system, params, 1);
    return system.queries;
  };
  const auto first = queries();
  CHECK(first == queries());
  std::set<std::size_t> used;
  for (const auto& query : first) used.insert(query[0]);
  CHECK(used.size() == 10);
  CHECK(*used.rbegin() == 9);
  params.sample_seed = 1;
  CHECK(first != queries());

  // Offline, all are used equally often.
  simulated system([](std::size_t) { return 1; });
  params.least_queries = 80;
  CHECK(run_offline(system, params).samples == 80);
  std::vector<int> uses(10);
  for (const auto& batch : system.queries)
    for (const std::size_t sample : batch) ++uses[sample];
  CHECK(uses == std::vector<int>(10, 8));

  // Each pass, and each seed, has an order of its own.
  const auto order_of = [&](std::uint64_t seed) {
    simulated offline([](std::size_t) { return 1; });
    params.sample_seed = seed;
    params.largest_batch = 10;
    run_offline(offline, params);
    return offline.queries;
  };
  const auto order = order_of(1);
  CHECK(order == order_of(1));
  CHECK(order[0] != order[1]);
  CHECK(order[0] != order_of(2)[0]);
}

TEST_CASE("load generator: a server's queue") {
  load_params params = short_run(0, 2000);
  params.largest_batch = 4;
  params.bound = 100;
  simulated system([](std::size_t count) { return 1 + 0.1 * static_cast<double>(count); });
  const load_result result = run_server(system, params, 2);
  CHECK(result.queries == 2000);
  CHECK(result.latencies.size() == 2000);
  CHECK_FALSE(result.is_late);
  CHECK(result.latencies.front() >= 1.1 - 1e-9);
  CHECK(std::is_sorted(result.latencies.begin(), result.latencies.end()));
  std::set<std::size_t> sizes;
  for (const auto& batch : system.queries) sizes.insert(batch.size());
  CHECK(sizes == std::set<std::size_t>{1, 2, 3, 4});
  // It works on whatever waits, at most four at a time: never idle at a rate above its capacity.
  params.bound = 1e9;
  simulated busy([](std::size_t count) { return 1 + 0.1 * static_cast<double>(count); });
  CHECK(run_server(busy, params, 100).seconds == doctest::Approx(500 * 1.4).epsilon(0.01));
}

TEST_CASE("load generator: a server's run ends once its percentile is above the bound") {
  load_params params = short_run(0, 1000);
  params.bound = 2.5;
  params.largest_batch = 1;
  simulated system([](std::size_t) { return 1.0; });
  const load_result result = run_server(system, params, 10);
  CHECK(result.is_late);
  CHECK(result.queries < 20);  // after ten late ones of a thousand: 1 % is index 990
  // Exactly as many late ones as the percentile leaves out are allowed: the last nine of a
  // thousand.
  for (const int late : {9, 10}) {
    int calls = 0;
    simulated some([&](std::size_t) { return ++calls > 1000 - late ? 3.0 : 1e-6; });
    const load_result found = run_server(some, params, 0.01);
    CHECK(found.is_late == (late == 10));
    if (!found.is_late) CHECK(percentile(found.latencies, 99) < params.bound);
  }
  // A percentile equal to the bound is within it.
  const auto run = [&] {
    simulated same([](std::size_t) { return 1.0; });
    return run_server(same, params, 0.5);
  };
  params.bound = 1e9;
  params.bound = percentile(run().latencies, 99);
  CHECK_FALSE(run().is_late);
  params.bound = std::nextafter(params.bound, 0);
  CHECK(run().is_late);
}

TEST_CASE("load generator: the highest rate of a queue with a known answer") {
  // Random arrivals and service times, one server: the time in the system is exponentially
  // distributed with mean 1 / (service rate - rate). Its 99th percentile is ln(100) times that.
  for (const double bound : {0.1, 0.15, 0.2, 0.3, 0.4}) {
    load_params params = short_run(0, 200'000);
    params.largest_batch = 1;
    params.bound = bound;
    simulated system(exponential(0.01, 5));
    int runs = 0;
    double highest = 0;
    const load_result found = find_server_rate(system, params, [&](const load_result& run) {
      ++runs;
      if (!run.is_late) highest = std::max(highest, run.rate);
    });
    CHECK(found.rate == highest);
    const double expected = 100 - std::log(100) / bound;
    CHECK(found.rate == doctest::Approx(expected).epsilon(0.05));
    CHECK_FALSE(found.is_late);
    CHECK(percentile(found.latencies, 99) <= bound);
    CHECK(runs > 5);
    CHECK(runs < 20);
  }
}

TEST_CASE("load generator: the highest rate with batches") {
  // A batch takes as long as a sample. With a generous bound, the capacity is eight per service
  // time, far above what one by one achieves.
  load_params params = short_run(0, 20'000);
  params.bound = 10;
  simulated system([](std::size_t) { return 0.1; });
  CHECK(find_server_rate(system, params, ignore).rate == doctest::Approx(80).epsilon(0.05));
  // A few queries last long enough to find rates that are too high.
  params.least_queries = 4;
  CHECK(find_server_rate(system, params, ignore).rate < 200);
  // Bounds that one sample alone does not meet have no rate.
  params.bound = 0.09;
  const load_result none = find_server_rate(system, params, ignore);
  CHECK(none.rate == 0);
  CHECK(none.queries == 0);
  // Nor have those that two in a hundred do not meet: no rate is tried.
  int calls = 0, runs = 0;
  simulated some([&](std::size_t) { return ++calls % 50 == 0 ? 0.1 : 0.01; });
  CHECK(find_server_rate(some, params, [&](const load_result&) { ++runs; }).rate == 0);
  CHECK(runs == 0);
}

TEST_CASE("load generator: the rate is halved while it is too high") {
  // One in a hundred samples blocks the queue for a second; there is room for those that come
  // alone.
  load_params params = short_run(0, 20'000);
  params.largest_batch = 1;
  params.bound = 1.5;
  int calls = 0;
  simulated system([&](std::size_t) { return ++calls % 125 == 0 ? 1.2 : 0.001; });
  std::vector<double> rates;
  double highest = 0;
  const load_result found = find_server_rate(system, params, [&](const load_result& run) {
    rates.push_back(run.rate);
    if (!run.is_late) highest = std::max(highest, run.rate);
  });
  REQUIRE(rates.size() > 2);
  CHECK(rates[0] == doctest::Approx(500));  // half of what it does one by one
  CHECK(rates[1] == doctest::Approx(rates[0] / 2));
  CHECK(*std::max_element(rates.begin(), rates.end()) == rates[0]);
  CHECK(found.rate > 0);
  CHECK(found.rate == highest);
}
