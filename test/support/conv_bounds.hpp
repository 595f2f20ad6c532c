// SPDX-License-Identifier: Apache-2.0
// The errors of 3x3 convolution and their documented bounds, as factors of M (conv3x3.hpp).
#pragma once

#include "conv_problem.hpp"
#include <vecdet/conv3x3_tile.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

namespace vecdet::test {

/// Of an output, or of the gradient of the input, for a sum over `channels`.
inline double conv3x3_error_bound(conv3x3_tile tile, index_t channels) {
  const auto terms = static_cast<double>(channels);
  return (tile == conv3x3_tile::f4x4 ? 440 * (terms + 18) : 33 * (terms + 9)) * 0x1p-23;
}

/// Of the gradient of the weights, for a sum over `tiles`.
inline double conv3x3_weight_grad_error_bound(conv3x3_tile tile, index_t tiles) {
  const auto terms = static_cast<double>(tiles);
  return (tile == conv3x3_tile::f4x4 ? 630 * (terms + 19) : 19 * (terms + 8)) * 0x1p-23;
}

struct conv_errors {
  double output = 0, input_grad = 0, weight_grad = 0, bias_grad = 0;
};

/// double is exact.
template <class T>
conv_errors conv3x3_bounds(const conv_shape& s, index_t tiles) {
  if (std::is_same<T, double>::value) return {1e-11, 1e-11, 1e-11, 1e-11};
  // The result that is rounded to bfloat16 has the error in float already.
  const double rounded = std::is_same<T, bfloat16>::value ? 1 + 0x1p-8 : 1;
  return {rounded * conv3x3_error_bound(s.tile, s.inputs),
          rounded * conv3x3_error_bound(s.tile, s.outputs),
          conv3x3_weight_grad_error_bound(s.tile, tiles), 0x1p-23};
}

/// The largest error of an array, beyond the rounding to T and denormals. Numbers that may overflow
/// are passed over.
template <class T>
double conv3x3_error(const std::vector<T>& actual, const std::vector<double>& exact,
                     const std::vector<double>& sizes) {
  const double rounding = std::is_same<T, bfloat16>::value ? 0x1p-8 : 0;
  const double denormal = std::is_same<T, double>::value ? 1e-290 : 1e-33;
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (!(sizes[i] < conv_problem<T>::largest)) continue;
    const double error = std::abs(static_cast<double>(actual[i]) - exact[i]) -
                         rounding * std::abs(exact[i]) - denormal;
    if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    if (error > 0) worst = std::max(worst, error / sizes[i]);
  }
  return worst;
}

template <class T>
conv_errors conv3x3_errors(const conv_results<T>& actual, const conv_results<double>& exact,
                           const conv_results<double>& sizes) {
  return {conv3x3_error(actual.output, exact.output, sizes.output),
          conv3x3_error(actual.input_grad, exact.input_grad, sizes.input_grad),
          conv3x3_error(actual.weight_grad, exact.weight_grad, sizes.weight_grad),
          conv3x3_error(actual.bias_grad, exact.bias_grad, sizes.bias_grad)};
}

}  // namespace vecdet::test
