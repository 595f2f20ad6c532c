// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution in plain scalar double: the sum over channels and taps. Weights and bias are
// float if maps are bfloat16.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/reference/feature_at.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// Calls visit(n, k, c, y, x, i, j) for every product of the convolution: output channel k at (y,
/// x) and input channel c at (y + i - 1, x + j - 1), which is inside the map.
template <class Visit>
void for_each_conv3x3_product(index_t images, index_t outputs, index_t inputs, index_t height,
                              index_t width, const Visit& visit) {
  for (index_t n = 0; n < images; ++n)
    for (index_t k = 0; k < outputs; ++k)
      for (index_t c = 0; c < inputs; ++c)
        for (index_t y = 0; y < height; ++y)
          for (index_t x = 0; x < width; ++x)
            for (index_t i = 0; i < 3; ++i)
              for (index_t j = 0; j < 3; ++j) {
                const index_t row = y + i - 1, column = x + j - 1;
                if (row >= 0 && row < height && column >= 0 && column < width)
                  visit(n, k, c, y, x, i, j);
              }
}

/// `weights` are output channels x input channels x 3 x 3. `bias` has one number per output
/// channel, or is empty.
template <class T>
void conv3x3(const feature_view<const T>& input, const feature_view<const compute_type<T>>& weights,
             const vector_view<const compute_type<T>>& bias, bool relu,
             const feature_view<double>& output) {
  for (index_t n = 0; n < output.images(); ++n)
    for (index_t k = 0; k < output.channels(); ++k)
      for (index_t y = 0; y < output.height(); ++y)
        for (index_t x = 0; x < output.width(); ++x)
          feature_at(output, n, k, y, x) = bias.empty() ? 0 : static_cast<double>(bias[k]);
  for_each_conv3x3_product(
      output.images(), output.channels(), input.channels(), output.height(), output.width(),
      [&](index_t n, index_t k, index_t c, index_t y, index_t x, index_t i, index_t j) {
        feature_at(output, n, k, y, x) +=
            static_cast<double>(feature_at(weights, k, c, i, j)) *
            static_cast<double>(feature_at(input, n, c, y + i - 1, x + j - 1));
      });
  if (!relu) return;
  for (index_t i = 0; i < output.size(); ++i)
    if (output.data()[i] < 0) output.data()[i] = 0;
}

/// The upstream gradient, or 0 where `relu_output` is not above 0. If `relu_output` has no images,
/// the whole gradient passes.
template <class T>
double conv3x3_passed(const feature_view<const T>& upstream,
                      const feature_view<const T>& relu_output, index_t n, index_t k, index_t y,
                      index_t x) {
  const bool passes = relu_output.images() == 0 || feature_at(relu_output, n, k, y, x) > 0;
  return passes ? static_cast<double>(feature_at(upstream, n, k, y, x)) : 0;
}

/// Writes the gradient with respect to the input to `grad`.
template <class T>
void conv3x3_input_grad(const feature_view<const T>& upstream,
                        const feature_view<const T>& relu_output,
                        const feature_view<const compute_type<T>>& weights,
                        const feature_view<double>& grad) {
  for (index_t i = 0; i < grad.size(); ++i) grad.data()[i] = 0;
  for_each_conv3x3_product(
      grad.images(), upstream.channels(), grad.channels(), grad.height(), grad.width(),
      [&](index_t n, index_t k, index_t c, index_t y, index_t x, index_t i, index_t j) {
        feature_at(grad, n, c, y + i - 1, x + j - 1) +=
            static_cast<double>(feature_at(weights, k, c, i, j)) *
            conv3x3_passed(upstream, relu_output, n, k, y, x);
      });
}

/// Writes the gradients with respect to weights and bias; `bias_grad` may be empty.
template <class T>
void conv3x3_weight_grad(const feature_view<const T>& input, const feature_view<const T>& upstream,
                         const feature_view<const T>& relu_output,
                         const feature_view<double>& weight_grad,
                         const vector_view<double>& bias_grad) {
  for (index_t i = 0; i < weight_grad.size(); ++i) weight_grad.data()[i] = 0;
  for_each_conv3x3_product(
      input.images(), upstream.channels(), input.channels(), input.height(), input.width(),
      [&](index_t n, index_t k, index_t c, index_t y, index_t x, index_t i, index_t j) {
        feature_at(weight_grad, k, c, i, j) +=
            static_cast<double>(feature_at(input, n, c, y + i - 1, x + j - 1)) *
            conv3x3_passed(upstream, relu_output, n, k, y, x);
      });
  for (index_t k = 0; k < bias_grad.size(); ++k) {
    bias_grad[k] = 0;
    for (index_t n = 0; n < upstream.images(); ++n)
      for (index_t y = 0; y < upstream.height(); ++y)
        for (index_t x = 0; x < upstream.width(); ++x)
          bias_grad[k] += conv3x3_passed(upstream, relu_output, n, k, y, x);
  }
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
