// SPDX-License-Identifier: Apache-2.0
// The statistics of a problem: quantiles against exact ones, samples, merging.
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace profile = vecdet::profile;

namespace {

profile::entry record_all(const std::vector<std::int64_t>& durations) {
  profile::detail::interned_problem interned;
  profile::problem p;
  p.function = "recorded";
  interned.key = p;
  auto stats = std::make_unique<profile::detail::statistics>();
  stats->interned = &interned;
  for (const std::int64_t d : durations) stats->record(d, d);
  return profile::detail::read_statistics(*stats);
}

double exact_quantile(std::vector<std::int64_t> sorted, double q) {
  std::sort(sorted.begin(), sorted.end());
  const double rank = q * static_cast<double>(sorted.size() - 1);
  const auto i = static_cast<std::size_t>(rank);
  const auto next = std::min(i + 1, sorted.size() - 1);
  const double f = rank - static_cast<double>(i);
  return static_cast<double>(sorted[i]) * (1 - f) + static_cast<double>(sorted[next]) * f;
}

}  // namespace

TEST_CASE("profile: buckets are consecutive and at most 1/32 wide") {
  for (int b = 0; b < profile::histogram_size - 1; ++b) {
    const double low = profile::histogram_lower_bound(b),
                 high = profile::histogram_lower_bound(b + 1);
    REQUIRE(profile::histogram_bucket(static_cast<std::int64_t>(low)) == b);
    REQUIRE(profile::histogram_bucket(static_cast<std::int64_t>(high) - 1) == b);
    REQUIRE(high > low);
    REQUIRE((high - low <= 1 || (high - low) / low <= 1.0 / 32));
  }
  CHECK(profile::histogram_bucket(INT64_MAX) == profile::histogram_size - 1);
  CHECK(profile::histogram_bucket(0) == 0);
}

TEST_CASE("profile: statistics of known distributions against exact ones") {
  std::mt19937_64 random(1);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  struct distribution {
    const char* name;
    std::vector<std::int64_t> values;
  };
  std::vector<distribution> all;
  for (const int size : {1, 2, 255, 256, 257, 100000}) {
    distribution constant{"constant", {}}, flat{"flat", {}}, exponential{"exponential", {}};
    distribution heavy{"heavy tail", {}}, two{"two peaks", {}};
    for (int i = 0; i < size; ++i) {
      constant.values.push_back(123456);
      flat.values.push_back(static_cast<std::int64_t>(1000 + 5000 * uniform()));
      exponential.values.push_back(static_cast<std::int64_t>(-20000 * std::log(1 - uniform())));
      heavy.values.push_back(static_cast<std::int64_t>(50 / std::pow(1 - uniform(), 1.2)));
      two.values.push_back(
          static_cast<std::int64_t>((uniform() < 0.7 ? 300 : 90000) * (1 + 0.01 * uniform())));
    }
    for (auto* d : {&constant, &flat, &exponential, &heavy, &two}) all.push_back(*d);
  }
  for (const distribution& d : all) {
    CAPTURE(d.name);
    CAPTURE(d.values.size());
    const profile::entry e = record_all(d.values);
    const auto n = static_cast<double>(d.values.size());
    double sum = 0, squares = 0;
    for (const std::int64_t v : d.values) sum += static_cast<double>(v);
    for (const std::int64_t v : d.values) {
      squares += (static_cast<double>(v) - sum / n) * (static_cast<double>(v) - sum / n);
    }
    CHECK(e.count == d.values.size());
    CHECK(e.total_ns == sum);
    CHECK(e.mean_ns() == doctest::Approx(sum / n));
    CHECK(e.stddev_ns() == doctest::Approx(std::sqrt(squares / n)).epsilon(1e-6));
    CHECK(e.min_ns == static_cast<double>(*std::min_element(d.values.begin(), d.values.end())));
    CHECK(e.max_ns == static_cast<double>(*std::max_element(d.values.begin(), d.values.end())));
    const double exactly = d.values.size() <= profile::samples_kept ? 1e-6 : 1.0 / 32;
    for (const double q : {0.0, 0.5, 0.9, 0.99, 1.0}) {
      CAPTURE(q);
      CHECK(e.quantile_ns(q) == doctest::Approx(exact_quantile(d.values, q)).epsilon(exactly));
    }
  }
}

TEST_CASE("profile: the samples kept are drawn evenly from all calls") {
  std::vector<std::int64_t> ramp;
  for (int i = 0; i < 200000; ++i) ramp.push_back(i);
  const profile::entry e = record_all(ramp);
  REQUIRE(e.samples.size() == profile::samples_kept);
  std::vector<float> sorted = e.samples;
  std::sort(sorted.begin(), sorted.end());
  // Kolmogorov-Smirnov against the uniform distribution, at 1e-3.
  double distance = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double expected = static_cast<double>(sorted[i]) / 200000;
    distance = std::max(distance, std::fabs(expected - (static_cast<double>(i) + 0.5) / 256));
  }
  CHECK(distance < 1.95 / 16);
}

TEST_CASE("profile: merging keeps count, mean, variance and extremes") {
  std::vector<std::int64_t> a, b, both;
  for (int i = 0; i < 1000; ++i) {
    a.push_back(100 + i);
    b.push_back(5000 + 3 * i);
  }
  both = a;
  both.insert(both.end(), b.begin(), b.end());
  profile::entry merged = record_all(a);
  profile::detail::merge_entry(merged, record_all(b));
  const profile::entry expected = record_all(both);
  CHECK(merged.count == expected.count);
  CHECK(merged.total_ns == expected.total_ns);
  CHECK(merged.variance_ns2 == doctest::Approx(expected.variance_ns2));
  CHECK(merged.min_ns == expected.min_ns);
  CHECK(merged.max_ns == expected.max_ns);
  CHECK(merged.histogram == expected.histogram);
  CHECK(merged.samples.size() == profile::samples_kept);
  const auto low =
      std::count_if(merged.samples.begin(), merged.samples.end(), [](float s) { return s < 2000; });
  CHECK(low == 128);
}
