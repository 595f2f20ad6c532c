// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same with every compiler and standard library: the distributions of
// <random> are not. Integer arithmetic and exact conversions only, no libm.
#pragma once

#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet::test {

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
class random_generator {
 public:
  explicit random_generator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  /// In [low, high).
  double uniform(double low, double high) {
    const volatile double offset = (high - low) * uniform();  // rounded: never contracted
    return low + offset;
  }

  /// In [0, bound), bound > 0. The bias is below bound / 2^64.
  index_t below(index_t bound) {
    return static_cast<index_t>(bits() % static_cast<std::uint64_t>(bound));
  }

  /// True with the given probability.
  bool chance(double probability) { return uniform() < probability; }

  /// Mean 0, variance 1, near to normal: the sum of twelve uniform numbers of 16 bits (three draws
  /// of four), within +-6.
  double normal() {
    constexpr std::uint64_t halves = 0x0000ffff0000ffffu;
    std::uint64_t sums = 0;
    for (int draw = 0; draw < 3; ++draw) {
      const std::uint64_t four = bits();
      sums += (four & halves) + ((four >> 16) & halves);
    }
    const auto sum = static_cast<std::int64_t>((sums >> 32) + (sums & 0xffffffffu));
    return static_cast<double>(sum - 6 * 65535) * 0x1p-16;
  }

  /// A separate generator for part `index` of the work, so that parts can be created in any order.
  random_generator split(std::uint64_t index) const {
    return random_generator(random_generator(state_ ^ index).bits());
  }

 private:
  std::uint64_t state_;
};

}  // namespace vecdet::test
