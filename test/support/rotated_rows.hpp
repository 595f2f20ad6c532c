// SPDX-License-Identifier: Apache-2.0
// Rotated boxes as rows of numbers: random ones, all pairs of two lists, golden vectors.
#pragma once

#include "data.hpp"
#include "random.hpp"
#include <vecdet/angle_convention.hpp>
#include <vecdet/reference/rotated_boxes.hpp>
#include <vecdet/views.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

namespace vecdet::test {

/// The documented error of the exact IoU and of ProbIoU, for sides in a ratio of at most 40 : 1.
template <class T>
constexpr double rotated_bound = std::is_same<T, float>::value ? 1e-5 : 1e-12;

template <class T>
matrix_view<const T> rows_of(const std::vector<T>& numbers, index_t cols = 5) {
  return {numbers.data(), static_cast<index_t>(numbers.size()) / cols, cols};
}
template <class T>
matrix_view<T> rows_of(std::vector<T>& numbers, index_t cols = 5) {
  return {numbers.data(), static_cast<index_t>(numbers.size()) / cols, cols};
}

/// Boxes with centres in [0, extent), the longer side in [low, high), the other shorter by at most
/// `ratio`, and angles in [-turn, turn).
template <class T>
std::vector<T> some_boxes(index_t count, std::uint64_t seed, double extent, double low, double high,
                          double ratio, double turn) {
  random_generator generator(seed);
  std::vector<T> boxes;
  for (index_t i = 0; i < count; ++i) {
    const double side = generator.uniform(low, high), other = side / generator.uniform(1, ratio);
    const bool is_wide = generator.chance(0.5);
    for (const double v :
         {generator.uniform(0, extent), generator.uniform(0, extent), is_wide ? side : other,
          is_wide ? other : side, generator.uniform(-turn, turn)})
      boxes.push_back(static_cast<T>(v));
  }
  return boxes;
}

/// Pair k of all pairs of two lists is box k of `first` with box k of `second`.
template <class T>
struct paired_boxes {
  std::vector<T> first, second;

  paired_boxes(const std::vector<T>& a, const std::vector<T>& b) {
    const auto x = rows_of(a), y = rows_of(b);
    for (index_t i = 0; i < x.rows(); ++i) {
      for (index_t j = 0; j < y.rows(); ++j) {
        first.insert(first.end(), x.row(i), x.row(i) + 5);
        second.insert(second.end(), y.row(j), y.row(j) + 5);
      }
    }
  }
};

/// The overlaps of all pairs by the reference's function.
template <class T>
std::vector<double> exact_overlaps(const std::vector<T>& a, const std::vector<T>& b,
                                   angle_convention angles,
                                   double (*overlap)(const reference::rotated_box&,
                                                     const reference::rotated_box&)) {
  std::vector<double> exact;
  for (index_t i = 0; i < rows_of(a).rows(); ++i)
    for (index_t j = 0; j < rows_of(b).rows(); ++j)
      exact.push_back(overlap(reference::load_rotated_box(rows_of(a), i, angles),
                              reference::load_rotated_box(rows_of(b), j, angles)));
  return exact;
}

/// Every number must be within this of the exact one, or NaN where that is NaN.
template <class T>
void check_near(const std::vector<T>& actual, const std::vector<double>& exact, double within) {
  REQUIRE(actual.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto value = static_cast<double>(actual[i]);
    if (std::isnan(exact[i]) ? std::isnan(value) : std::abs(value - exact[i]) <= within) continue;
    FAIL_CHECK("number " << i << " is " << value << ", exact " << exact[i]);
    return;
  }
}

/// A golden vector of rotated boxes, of elements `Stored`, as numbers of type T.
template <class T, class Stored = T>
std::vector<T> golden_rotated(const std::string& name) {
  const auto values = load_npy<Stored>(data_path("golden_rotated/" + name + ".npy")).values;
  return {values.begin(), values.end()};
}

}  // namespace vecdet::test
