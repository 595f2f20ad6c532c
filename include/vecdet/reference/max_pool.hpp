// SPDX-License-Identifier: Apache-2.0
// Max pooling and its gradient, one window at a time, by the rules of torch.nn.MaxPool2d.
#pragma once

#include <vecdet/feature_view.hpp>
#include <vecdet/max_pool_params.hpp>
#include <vecdet/reference/feature_at.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// The number of windows along an axis.
inline index_t max_pool_outputs(index_t inputs, index_t size, index_t stride, index_t padding,
                                index_t dilation, bool ceil_mode) {
  const index_t way = inputs + 2 * padding - dilation * (size - 1) - 1;
  if (inputs == 0 || way < 0) return 0;
  index_t outputs = (ceil_mode ? (way + stride - 1) / stride : way / stride) + 1;
  // The last window begins within the map or the padding before it.
  if (ceil_mode && (outputs - 1) * stride >= inputs + padding) --outputs;
  return outputs;
}

/// Calls visit(i, j, y, x) for the positions of a window that lie within the map, in order.
template <class T, class Visit>
void for_each_position(const feature_view<T>& map, const max_pool_params& p, index_t row,
                       index_t column, const Visit& visit) {
  for (index_t i = 0; i < p.window_height; ++i)
    for (index_t j = 0; j < p.window_width; ++j) {
      const index_t y = row * p.stride_height - p.padding_height + i * p.dilation_height;
      const index_t x = column * p.stride_width - p.padding_width + j * p.dilation_width;
      if (y >= 0 && y < map.height() && x >= 0 && x < map.width()) visit(i, j, y, x);
    }
}

/// Writes positions only if the view has images.
template <class T>
void max_pool(const feature_view<const T>& input, const feature_view<T>& output,
              const feature_view<std::uint8_t>& positions, const max_pool_params& p) {
  for (index_t n = 0; n < output.images(); ++n)
    for (index_t c = 0; c < output.channels(); ++c)
      for (index_t row = 0; row < output.height(); ++row)
        for (index_t column = 0; column < output.width(); ++column) {
          T best(-std::numeric_limits<float>::infinity());
          index_t position = -1;
          for_each_position(input, p, row, column, [&](index_t i, index_t j, index_t y, index_t x) {
            const T value = feature_at(input, n, c, y, x);
            if (position >= 0 && !(value > best) && !std::isnan(static_cast<double>(value))) return;
            best = value;
            position = i * p.window_width + j;
          });
          feature_at(output, n, c, row, column) = best;
          if (positions.images() > 0)  // 0 if no position lies within the map
            feature_at(positions, n, c, row, column) =
                static_cast<std::uint8_t>(std::max(position, index_t{0}));
        }
}

/// The gradient in double.
template <class T>
void max_pool_grad(const feature_view<const T>& upstream,
                   const feature_view<const std::uint8_t>& positions,
                   const feature_view<double>& grad, const max_pool_params& p) {
  for (index_t k = 0; k < grad.size(); ++k) grad.data()[k] = 0;
  for (index_t n = 0; n < upstream.images(); ++n)
    for (index_t c = 0; c < upstream.channels(); ++c)
      for (index_t row = 0; row < upstream.height(); ++row)
        for (index_t column = 0; column < upstream.width(); ++column)
          for_each_position(grad, p, row, column, [&](index_t i, index_t j, index_t y, index_t x) {
            if (feature_at(positions, n, c, row, column) == i * p.window_width + j)
              feature_at(grad, n, c, y, x) +=
                  static_cast<double>(feature_at(upstream, n, c, row, column));
          });
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
