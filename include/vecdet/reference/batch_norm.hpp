// SPDX-License-Identifier: Apache-2.0
// Batch normalisation (arXiv 1502.03167, algorithm 1 and section 3) with an activation, one channel
// at a time, in double.
#pragma once

#include <vecdet/batch_norm_params.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/reference/feature_at.hpp>

#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// f(z), and f'(z) with the sigmoid of z.
inline double activated(double z, batch_norm_activation f) {
  if (f == batch_norm_activation::relu) return z < 0 ? 0 : z;
  return f == batch_norm_activation::silu ? z / (1 + std::exp(-z)) : z;
}
inline double activation_slope(double z, batch_norm_activation f) {
  if (f == batch_norm_activation::relu) return z > 0 ? 1 : 0;
  if (f == batch_norm_activation::none) return 1;
  const double s = 1 / (1 + std::exp(-z));
  return s * (1 + z * (1 - s));
}

/// Calls visit(n, y, x) for all numbers of a channel.
template <class T, class Visit>
void for_each_location(const feature_view<T>& map, const Visit& visit) {
  for (index_t n = 0; n < map.images(); ++n)
    for (index_t y = 0; y < map.height(); ++y)
      for (index_t x = 0; x < map.width(); ++x) visit(n, y, x);
}

/// The means, then the variances.
template <class T>
void batch_statistics(const feature_view<const T>& input, double* statistics) {
  const index_t channels = input.channels();
  const auto count = static_cast<double>(input.images() * input.height() * input.width());
  for (index_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0, rest = 0;
    const auto at = [&](index_t n, index_t y, index_t x) {
      return static_cast<double>(feature_at(input, n, c, y, x));
    };
    for_each_location(input, [&](index_t n, index_t y, index_t x) { mean += at(n, y, x) / count; });
    for_each_location(
        input, [&](index_t n, index_t y, index_t x) { rest += (at(n, y, x) - mean) / count; });
    mean += rest;
    for_each_location(input, [&](index_t n, index_t y, index_t x) {
      variance += (at(n, y, x) - mean) * (at(n, y, x) - mean) / count;
    });
    statistics[c] = mean;
    statistics[channels + c] = variance;
  }
}

/// @param weight, bias null: all 1, all 0
template <class T, class Real>
void batch_norm(const feature_view<const T>& input, const Real* weight, const Real* bias,
                const double* statistics, const feature_view<double>& output,
                const batch_norm_params& p) {
  for (index_t c = 0; c < input.channels(); ++c) {
    const double inverse = 1 / std::sqrt(statistics[input.channels() + c] + p.epsilon);
    for_each_location(input, [&](index_t n, index_t y, index_t x) {
      const double normal =
          (static_cast<double>(feature_at(input, n, c, y, x)) - statistics[c]) * inverse;
      const double z = normal * (weight == nullptr ? 1.0 : static_cast<double>(weight[c])) +
                       (bias == nullptr ? 0.0 : static_cast<double>(bias[c]));
      feature_at(output, n, c, y, x) = activated(z, p.activation);
    });
  }
}

/// @param weight_grad, bias_grad one number per channel
template <class T, class Real>
void batch_norm_grad(const feature_view<const T>& upstream, const feature_view<const T>& input,
                     const Real* weight, const Real* bias, const double* statistics,
                     const feature_view<double>& grad, double* weight_grad, double* bias_grad,
                     const batch_norm_params& p) {
  const auto count = static_cast<double>(input.images() * input.height() * input.width());
  for (index_t c = 0; c < input.channels(); ++c) {
    const double inverse = 1 / std::sqrt(statistics[input.channels() + c] + p.epsilon);
    const double gamma = weight == nullptr ? 1.0 : static_cast<double>(weight[c]);
    const double beta = bias == nullptr ? 0.0 : static_cast<double>(bias[c]);
    const auto normal = [&](index_t n, index_t y, index_t x) {
      return (static_cast<double>(feature_at(input, n, c, y, x)) - statistics[c]) * inverse;
    };
    const auto arriving = [&](index_t n, index_t y, index_t x) {
      return static_cast<double>(feature_at(upstream, n, c, y, x)) *
             activation_slope(normal(n, y, x) * gamma + beta, p.activation);
    };
    weight_grad[c] = bias_grad[c] = 0;
    for_each_location(input, [&](index_t n, index_t y, index_t x) {
      weight_grad[c] += arriving(n, y, x) * normal(n, y, x);
      bias_grad[c] += arriving(n, y, x);
    });
    for_each_location(input, [&](index_t n, index_t y, index_t x) {
      feature_at(grad, n, c, y, x) =
          gamma * inverse *
          (arriving(n, y, x) - bias_grad[c] / count - normal(n, y, x) * weight_grad[c] / count);
    });
  }
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
