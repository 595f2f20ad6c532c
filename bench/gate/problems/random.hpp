// SPDX-License-Identifier: Apache-2.0
// Inputs of the gate's problems: the same numbers in every run, on standard types alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace vecdet {
namespace gate {

/// `size` numbers of a normal distribution.
template <class T>
std::vector<T> normal(std::int64_t size, float mean, float deviation, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(mean, deviation);
  std::vector<T> numbers(static_cast<std::size_t>(size));
  for (T& number : numbers) number = T(distribution(random));
  return numbers;
}

/// `size` numbers spread evenly over [low, high).
template <class T>
std::vector<T> uniform(std::int64_t size, float low, float high, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<T> numbers(static_cast<std::size_t>(size));
  for (T& number : numbers) number = T(distribution(random));
  return numbers;
}

}  // namespace gate
}  // namespace vecdet
