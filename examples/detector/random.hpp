// SPDX-License-Identifier: Apache-2.0
// Random numbers as functions of a seed: reproducible in every run, thread and standard library,
// and after a run is resumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace detector {

/// SplitMix64 (Steele, Lea, Flood 2014), seeded with a hash of several numbers.
class random_source {
 public:
  random_source(std::initializer_list<std::uint64_t> seeds) {
    for (const std::uint64_t seed : seeds) {
      state_ ^= seed;
      state_ = next();
    }
  }

  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  /// In [from, to).
  double uniform(double from, double to) {
    return from + (to - from) * static_cast<double>(next() >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_ = 0;
};

/// A permutation of 0 .. count-1 for each epoch.
inline std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed,
                                         std::uint64_t epoch) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  random_source random{seed, epoch, 0x0d0e};
  for (std::size_t i = count; i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.next() % i)]);
  return order;
}

}  // namespace detector
