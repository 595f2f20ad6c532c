// SPDX-License-Identifier: Apache-2.0
// The buckets of the profiler's duration histograms, and quantiles computed from them. Buckets are
// log-linear: 1 ns wide below 64 ns, then 32 per power of two. A duration is therefore known to
// within 1/32; interpolation inside a bucket is more accurate. The last bucket counts all durations
// above 73 minutes.
#pragma once

#include <vecdet/detail/target.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

constexpr int histogram_sub_bits = 5;
constexpr int histogram_top_bit = 41;
constexpr int histogram_size = (histogram_top_bit - histogram_sub_bits + 2) << histogram_sub_bits;

/// The bucket of a duration in nanoseconds, 0 or more.
inline int histogram_bucket(std::int64_t nanoseconds) noexcept {
  const auto value = static_cast<std::uint64_t>(nanoseconds);
  if (value < (1u << (histogram_sub_bits + 1))) return static_cast<int>(value);
  const int shift = 63 - __builtin_clzll(value) - histogram_sub_bits;
  const int bucket = (shift << histogram_sub_bits) + static_cast<int>(value >> shift);
  return bucket < histogram_size ? bucket : histogram_size - 1;
}

/// The smallest duration in nanoseconds in the bucket, 0 <= bucket <= histogram_size.
inline double histogram_lower_bound(int bucket) noexcept {
  if (bucket < (1 << (histogram_sub_bits + 1))) return bucket;
  const int shift = (bucket >> histogram_sub_bits) - 1;
  const int mantissa = bucket - (shift << histogram_sub_bits);
  return static_cast<double>(static_cast<std::int64_t>(mantissa) << shift);
}

/// Counts by bucket, without the empty ones.
using sparse_histogram = std::map<int, std::uint64_t>;

/// The k-th smallest (from 0) of the durations in the histogram, assuming that durations are spread
/// evenly over their bucket. 0 for an empty histogram.
inline double histogram_order_statistic(const sparse_histogram& histogram, std::uint64_t k) {
  std::uint64_t below = 0;
  for (const auto& bucket : histogram) {
    if (k < below + bucket.second) {
      // Durations are rounded to the nearest nanosecond, so a bucket starts half a nanosecond below
      // its smallest value.
      const double low = histogram_lower_bound(bucket.first) - 0.5;
      const double high = histogram_lower_bound(bucket.first + 1) - 0.5;
      return low + (high - low) * (static_cast<double>(k - below) + 0.5) /
                       static_cast<double>(bucket.second);
    }
    below += bucket.second;
  }
  return histogram.empty() ? 0 : histogram_lower_bound(histogram.rbegin()->first + 1);
}

/// The q-quantile (0 <= q <= 1) of the durations in the histogram, interpolated between neighbours
/// as sample_quantile() does. 0 for an empty histogram.
inline double histogram_quantile(const sparse_histogram& histogram, double q) {
  std::uint64_t count = 0;
  for (const auto& bucket : histogram) count += bucket.second;
  if (count == 0) return 0;
  const double rank = q * static_cast<double>(count - 1);
  const auto lower = static_cast<std::uint64_t>(rank);
  const double fraction = rank - static_cast<double>(lower);
  return histogram_order_statistic(histogram, lower) * (1 - fraction) +
         histogram_order_statistic(histogram, std::min(lower + 1, count - 1)) * fraction;
}

/// The q-quantile of the samples, interpolated between neighbours (NumPy's default, Hyndman and
/// Fan's type 7). 0 without samples. Sorts the samples.
inline double sample_quantile(std::vector<float>& samples, double q) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const double rank = q * static_cast<double>(samples.size() - 1);
  const auto lower = static_cast<std::size_t>(rank);
  const std::size_t upper = std::min(lower + 1, samples.size() - 1);
  const double fraction = rank - static_cast<double>(lower);
  return static_cast<double>(samples[lower]) * (1 - fraction) +
         static_cast<double>(samples[upper]) * fraction;
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
