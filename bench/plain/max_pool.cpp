// SPDX-License-Identifier: Apache-2.0
#include "max_pool.hpp"

#include <algorithm>
#include <limits>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// Calls visit(output, image, row, column) for each location of the output; `output` is its index.
template <class Visit>
inline void for_each_window(std::int64_t images, std::int64_t height, std::int64_t width,
                            std::int64_t window, std::int64_t stride, const Visit& visit) {
  const std::int64_t padding = window / 2;
  const std::int64_t rows = (height + 2 * padding - window) / stride + 1;
  const std::int64_t columns = (width + 2 * padding - window) / stride + 1;
  for (std::int64_t n = 0; n < images; ++n)
    for (std::int64_t y = 0; y < rows; ++y)
      for (std::int64_t x = 0; x < columns; ++x)
        visit((n * rows + y) * columns + x, n, y * stride - padding, x * stride - padding);
}

}  // namespace

void plain_max_pool(const float* input, std::int64_t images, std::int64_t channels,
                    std::int64_t height, std::int64_t width, bool channels_last,
                    std::int64_t window, std::int64_t stride, float* output,
                    std::uint8_t* positions) {
  const std::int64_t lanes = channels_last ? channels : 1;
  for_each_window(channels_last ? images : images * channels, height, width, window, stride,
                  [&](std::int64_t at, std::int64_t n, std::int64_t top, std::int64_t left) {
                    float* const best = output + at * lanes;
                    std::uint8_t* const where = positions + at * lanes;
                    std::fill(best, best + lanes, std::numeric_limits<float>::lowest());
                    for (std::int64_t i = 0; i < window; ++i)
                      for (std::int64_t j = 0; j < window; ++j) {
                        const std::int64_t y = top + i, x = left + j;
                        if (y < 0 || y >= height || x < 0 || x >= width) continue;
                        const float* const from = input + ((n * height + y) * width + x) * lanes;
                        const auto position = static_cast<std::uint8_t>(i * window + j);
                        for (std::int64_t c = 0; c < lanes; ++c) {
                          const bool wins = from[c] > best[c];
                          best[c] = wins ? from[c] : best[c];
                          where[c] = wins ? position : where[c];
                        }
                      }
                  });
}

void plain_max_pool_grad(const float* upstream, const std::uint8_t* positions, std::int64_t images,
                         std::int64_t channels, std::int64_t height, std::int64_t width,
                         bool channels_last, std::int64_t window, std::int64_t stride,
                         float* grad) {
  const std::int64_t lanes = channels_last ? channels : 1;
  std::fill(grad, grad + images * channels * height * width, 0.0f);
  for_each_window(channels_last ? images : images * channels, height, width, window, stride,
                  [&](std::int64_t at, std::int64_t n, std::int64_t top, std::int64_t left) {
                    for (std::int64_t c = 0; c < lanes; ++c) {
                      const std::int64_t position = positions[at * lanes + c];
                      const std::int64_t y = top + position / window, x = left + position % window;
                      grad[((n * height + y) * width + x) * lanes + c] += upstream[at * lanes + c];
                    }
                  });
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
