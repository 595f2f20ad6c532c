// SPDX-License-Identifier: Apache-2.0
// Grouped 3x3 convolution in plain scalar double: the sum over the channels of a group and taps.
#pragma once

#include <vecdet/feature_view.hpp>
#include <vecdet/grouped_conv3x3_params.hpp>
#include <vecdet/reference/feature_at.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// Calls visit(n, k, c, y, x, g I + c, row, column, i, j) for every product: output channel k at
/// (y, x), and channel c of its group g, which has I input channels, at (row, column) of the input.
template <class Input, class Weight, class Output, class Visit>
void for_each_grouped_product(const feature_view<Input>& input, const feature_view<Weight>& weights,
                              const feature_view<Output>& output,
                              const grouped_conv3x3_params& params, const Visit& visit) {
  const index_t group_outputs = weights.images() / params.groups;
  for (index_t n = 0; n < output.images(); ++n)
    for (index_t k = 0; k < output.channels(); ++k)
      for (index_t y = 0; y < output.height(); ++y)
        for (index_t x = 0; x < output.width(); ++x)
          for (index_t c = 0; c < weights.channels(); ++c)
            for (index_t i = 0; i < 3; ++i)
              for (index_t j = 0; j < 3; ++j) {
                const index_t row = y * params.stride + i - 1, column = x * params.stride + j - 1;
                if (row >= 0 && row < input.height() && column >= 0 && column < input.width())
                  visit(n, k, c, y, x, k / group_outputs * weights.channels() + c, row, column, i,
                        j);
              }
}

/// `bias` has one number per output channel, or is empty.
inline void grouped_conv3x3(const feature_view<const float>& input,
                            const feature_view<const float>& weights,
                            const vector_view<const float>& bias,
                            const grouped_conv3x3_params& params,
                            const feature_view<double>& output) {
  for (index_t n = 0; n < output.images(); ++n)
    for (index_t k = 0; k < output.channels(); ++k)
      for (index_t y = 0; y < output.height(); ++y)
        for (index_t x = 0; x < output.width(); ++x)
          feature_at(output, n, k, y, x) = bias.empty() ? 0 : static_cast<double>(bias[k]);
  for_each_grouped_product(input, weights, output, params,
                           [&](index_t n, index_t k, index_t c, index_t y, index_t x,
                               index_t channel, index_t row, index_t column, index_t i, index_t j) {
                             feature_at(output, n, k, y, x) +=
                                 static_cast<double>(feature_at(weights, k, c, i, j)) *
                                 static_cast<double>(feature_at(input, n, channel, row, column));
                           });
}

inline void grouped_conv3x3_input_grad(const feature_view<const float>& upstream,
                                       const feature_view<const float>& weights,
                                       const grouped_conv3x3_params& params,
                                       const feature_view<double>& grad) {
  for (index_t i = 0; i < grad.size(); ++i) grad.data()[i] = 0;
  for_each_grouped_product(grad, weights, upstream, params,
                           [&](index_t n, index_t k, index_t c, index_t y, index_t x,
                               index_t channel, index_t row, index_t column, index_t i, index_t j) {
                             feature_at(grad, n, channel, row, column) +=
                                 static_cast<double>(feature_at(weights, k, c, i, j)) *
                                 static_cast<double>(feature_at(upstream, n, k, y, x));
                           });
}

/// `bias_grad` may be empty.
inline void grouped_conv3x3_weight_grad(const feature_view<const float>& input,
                                        const feature_view<const float>& upstream,
                                        const grouped_conv3x3_params& params,
                                        const feature_view<double>& weight_grad,
                                        const vector_view<double>& bias_grad) {
  for (index_t i = 0; i < weight_grad.size(); ++i) weight_grad.data()[i] = 0;
  for_each_grouped_product(input, weight_grad, upstream, params,
                           [&](index_t n, index_t k, index_t c, index_t y, index_t x,
                               index_t channel, index_t row, index_t column, index_t i, index_t j) {
                             feature_at(weight_grad, k, c, i, j) +=
                                 static_cast<double>(feature_at(input, n, channel, row, column)) *
                                 static_cast<double>(feature_at(upstream, n, k, y, x));
                           });
  for (index_t k = 0; k < bias_grad.size(); ++k) {
    bias_grad[k] = 0;
    for (index_t n = 0; n < upstream.images(); ++n)
      for (index_t y = 0; y < upstream.height(); ++y)
        for (index_t x = 0; x < upstream.width(); ++x)
          bias_grad[k] += static_cast<double>(feature_at(upstream, n, k, y, x));
  }
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
