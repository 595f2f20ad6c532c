// SPDX-License-Identifier: Apache-2.0
// Inputs that kernels get wrong: special logits and boxes, and seeded random ones.
#pragma once

#include "random.hpp"
#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace vecdet::test {

/// A double rounded to the element type.
template <class T>
T to(double value) {
  return T(static_cast<compute_type<T>>(value));
}

template <class T>
bool same_bits(const T* a, const T* b, std::size_t size) {
  return size == 0 || std::memcmp(a, b, size * sizeof(T)) == 0;
}
template <class T, class Allocator>
bool same_bits(const std::vector<T, Allocator>& a, const std::vector<T, Allocator>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

/// The arrays of a problem in tests. Those in fuzzers are fuzz::guarded.
template <class T>
using in_heap = std::vector<T>;

/// Logits at which formulas break: zeros, denormals, the ends of the useful ranges of sigmoid and
/// exp in float and double, the largest numbers, infinities, NaN. Both signs of each.
template <class T>
std::vector<T> special_logits() {
  const double magnitudes[] = {0,
                               std::numeric_limits<float>::denorm_min(),
                               1e-40,
                               std::numeric_limits<float>::min(),
                               1e-7,
                               0.5,
                               1,
                               16.75,
                               17,
                               17.5,
                               87.5,
                               88,
                               89,
                               103.5,
                               104,
                               745,
                               1e4,
                               3e38,
                               std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};
  std::vector<T> logits;
  for (const double magnitude : magnitudes) {
    logits.push_back(to<T>(magnitude));
    logits.push_back(to<T>(-magnitude));
  }
  return logits;
}

/// `count` logits: most near the prior of a trained detector's background (-4.6), some anywhere in
/// +-20, and a few special ones.
template <class T>
std::vector<T> random_logits(index_t count, std::uint64_t seed) {
  random_generator generator(seed);
  const std::vector<T> special = special_logits<T>();
  std::vector<T> logits(static_cast<std::size_t>(count));
  for (T& logit : logits) {
    const double kind = generator.uniform();
    logit = kind < 0.02   ? special[static_cast<std::size_t>(
                              generator.below(static_cast<index_t>(special.size())))]
            : kind < 0.30 ? to<T>(generator.uniform(-20, 20))
                          : to<T>(-4.6 + generator.normal());
  }
  return logits;
}

/// `rows` labels: mostly background (-1), some ignored (-2), the others in [0, classes).
inline std::vector<index_t> random_labels(index_t rows, index_t classes, std::uint64_t seed,
                                          double foreground = 0.3) {
  random_generator generator(seed);
  std::vector<index_t> labels(static_cast<std::size_t>(rows));
  for (index_t& label : labels) {
    label = generator.chance(foreground) ? generator.below(classes)
            : generator.chance(0.1)      ? -2
                                         : -1;
  }
  return labels;
}

/// Boxes x1 y1 x2 y2 that are hard for geometry: regular ones first, then nested, touching,
/// identical, negative, of zero width or height or both, with corners swapped, tiny, huge,
/// overflowing when squared, infinite, and NaN.
inline const std::vector<std::array<double, 4>>& special_boxes() {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  static const std::vector<std::array<double, 4>> boxes = {
      {0, 0, 10, 10},         {2, 2, 8, 8},
      {10, 0, 20, 10},        {0, 0, 10, 10},
      {0, 0, 10, 3},          {-30, -20, -10, -5},
      {-5, -5, 5, 5},         {4, 4, 4, 9},
      {4, 4, 9, 4},           {4, 4, 4, 4},
      {9, 9, 3, 3},           {9, 3, 3, 9},
      {1, 1, 1.0001, 1.0001}, {0, 0, 1e-20, 1e-20},
      {0, 0, 1e-40, 1},       {1e6, 1e6, 1e6 + 1, 1e6 + 1},
      {0, 0, 1e20, 1e20},     {-3e38, -3e38, 3e38, 3e38},
      {0, 0, inf, inf},       {-inf, -inf, inf, inf},
      {inf, inf, inf, inf},   {inf, 0, 5, 5},
      {nan, 0, 5, 5},         {0, 0, 5, nan},
      {nan, nan, nan, nan}};
  return boxes;
}

/// special_boxes() as one array of elements of type T.
template <class T>
std::vector<T> special_boxes_as() {
  std::vector<T> out;
  for (const auto& box : special_boxes())
    for (const double coordinate : box) out.push_back(to<T>(coordinate));
  return out;
}

/// `count` boxes with sides between 1 and half of `extent` in [0, extent] squared. If `grid` is not
/// 0, coordinates are multiples of it, so that equal and touching boxes and IoUs of simple
/// fractions are common.
template <class T>
std::vector<T> random_boxes(index_t count, std::uint64_t seed, double extent = 800,
                            double grid = 0) {
  random_generator generator(seed);
  const auto snapped = [&](double value) {
    return to<T>(grid > 0 ? grid * static_cast<double>(static_cast<index_t>(value / grid)) : value);
  };
  std::vector<T> boxes;
  boxes.reserve(static_cast<std::size_t>(4 * count));
  for (index_t i = 0; i < count; ++i) {
    const double width = generator.uniform(1, extent / 2);
    const double height = generator.uniform(1, extent / 2);
    const double x = generator.uniform(0, extent - width);
    const double y = generator.uniform(0, extent - height);
    for (const double coordinate : {x, y, x + width, y + height})
      boxes.push_back(snapped(coordinate));
  }
  return boxes;
}

/// Deltas of `count` boxes.
template <class T>
std::vector<T> random_deltas(index_t count, std::uint64_t seed, double spread) {
  random_generator generator(seed);
  std::vector<T> deltas;
  for (index_t i = 0; i < 4 * count; ++i) deltas.push_back(to<T>(spread * generator.normal()));
  return deltas;
}

/// The largest difference of two finite logits, at least 1: the size of what cancels in a softmax's
/// loss.
inline double extent_of(vector_view<const float> logits) {
  double least = 1e300, greatest = -1e300;
  for (const float number : logits) {
    if (!std::isfinite(number)) continue;
    least = std::min(least, static_cast<double>(number));
    greatest = std::max(greatest, static_cast<double>(number));
  }
  return std::max(1.0, greatest - least);
}

}  // namespace vecdet::test
