// SPDX-License-Identifier: Apache-2.0
// Rotated boxes as rows of numbers: random ones, all pairs of two lists, golden vectors.
#pragma once

#include "data.hpp"
#include "matrix_nms.hpp"
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

/// A matrix with `gap` numbers between rows, which are `filler`.
template <class T>
std::vector<T> with_gaps(const std::vector<T>& rows, index_t cols, index_t gap, T filler) {
  std::vector<T> wide;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    wide.push_back(rows[i]);
    if ((i + 1) % static_cast<std::size_t>(cols) == 0)
      wide.insert(wide.end(), static_cast<std::size_t>(gap), filler);
  }
  return wide;
}

/// Checks that pairwise(a, b, out) reads and writes rows with gaps. `all_pairs` has the overlaps of
/// rows without gaps.
template <class T, class Pairwise, class AllPairs>
void check_gaps(const Pairwise& pairwise, const AllPairs& all_pairs) {
  const auto a = some_boxes<T>(5, 1, 60, 3, 60, 5, 180);
  const auto b = some_boxes<T>(270, 2, 60, 3, 60, 5, 180);
  const auto wide_a = with_gaps(a, 5, 2, T(-1)), wide_b = with_gaps(b, 5, 1, T(-1));
  std::vector<T> out(5 * 275, T(-7));
  pairwise(matrix_view<const T>(wide_a.data(), 5, 5, 7),
           matrix_view<const T>(wide_b.data(), 270, 5, 6), matrix_view<T>(out.data(), 5, 270, 275));
  CHECK(out == with_gaps(all_pairs(a, b), 270, 5, T(-7)));
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
