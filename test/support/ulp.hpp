// SPDX-License-Identifier: Apache-2.0
// Distance of a computed number from the exact one, in units in the last place of its type.
#pragma once

#include <vecdet/dtype.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vecdet::test {

/// Precision and exponent range of an element type.
template <class T>
struct float_format {
  static constexpr int digits = std::numeric_limits<T>::digits;
  static constexpr int min_exponent = std::numeric_limits<T>::min_exponent;
  static constexpr int max_exponent = std::numeric_limits<T>::max_exponent;
};

template <>
struct float_format<bfloat16> {
  static constexpr int digits = 8;
  static constexpr int min_exponent = std::numeric_limits<float>::min_exponent;
  static constexpr int max_exponent = std::numeric_limits<float>::max_exponent;
};

/// The spacing of the numbers of type T around `exact`: that of denormals below the normal range,
/// that of the largest numbers above it.
template <class T>
double ulp_of(double exact) {
  int exponent = float_format<T>::max_exponent;
  if (std::isfinite(exact)) std::frexp(exact, &exponent);  // |exact| is in [1/2, 1) * 2^exponent
  if (exact == 0) exponent = float_format<T>::min_exponent;
  exponent = std::max(exponent, float_format<T>::min_exponent);
  exponent = std::min(exponent, float_format<T>::max_exponent);
  return std::ldexp(1.0, exponent - float_format<T>::digits);
}

/// |actual - exact| in ulp of T: at most 0.5 if `actual` is `exact` correctly rounded. NaN has
/// distance 0 from NaN and infinite distance from everything else. So has an infinity, except that
/// an overflowed number of T counts as the power of two at which overflow begins. The sign of zeros
/// is ignored.
template <class T>
double ulp_distance(T actual_of_type, double exact) {
  double actual = static_cast<double>(actual_of_type);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (std::isnan(actual) || std::isnan(exact))
    return std::isnan(actual) && std::isnan(exact) ? 0 : infinity;
  if (actual == exact) return 0;
  if (std::isinf(exact)) return infinity;
  const double unit = ulp_of<T>(exact);
  if (std::isinf(actual)) {
    // Halved, because that power of two is beyond the range of double.
    const double half = std::copysign(std::ldexp(1.0, float_format<T>::max_exponent - 1), actual);
    return std::abs(half - exact / 2) / unit * 2;
  }
  return std::abs(actual - exact) / unit;
}

}  // namespace vecdet::test
