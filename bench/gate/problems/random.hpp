// SPDX-License-Identifier: Apache-2.0
// Inputs of the gate's problems: identical numbers in every run, with only standard types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace vecdet::gate {

/// `size` normally distributed numbers.
template <class T>
std::vector<T> normal(std::int64_t size, float mean, float deviation, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(mean, deviation);
  std::vector<T> numbers(static_cast<std::size_t>(size));
  for (T& number : numbers) number = T(distribution(random));
  return numbers;
}

/// `size` numbers distributed uniformly over [low, high).
template <class T>
std::vector<T> uniform(std::int64_t size, float low, float high, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<T> numbers(static_cast<std::size_t>(size));
  for (T& number : numbers) number = T(distribution(random));
  return numbers;
}

/// Corners of `count` boxes of 20 to 200 pixels, in clusters of 20, in an image of 800 x 800:
/// typical detections before NMS.
inline std::vector<float> clustered_boxes(std::int64_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> place(100, 700), size(20, 200), jitter(-10, 10);
  std::vector<float> boxes;
  float box[4] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % 20 == 0) {
      const float x = place(random), y = place(random), w = size(random), h = size(random);
      box[0] = x - w / 2;
      box[1] = y - h / 2;
      box[2] = x + w / 2;
      box[3] = y + h / 2;
    }
    for (const float number : box) boxes.push_back(number + jitter(random) / 2);
  }
  return boxes;
}

}  // namespace vecdet::gate
