// SPDX-License-Identifier: Apache-2.0
// OpenCV's INTER_LINEAR on bytes in plain integers, and letterboxes based on it. The published
// rule: a pixel's centre (i + 1/2) scale - 1/2, computed in double and rounded to float, is between
// two pixels. They are weighted by its fraction in 2048ths, rounded half to even. At the ends,
// columns use a single pixel. Sums along a row are shifted right by 4 bits, products across rows by
// 16, and the sum of those is rounded by 2 bits.
#pragma once

#include <vecdet/letterbox.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// Resizes an image from height x width to rows x cols, both with three bytes per pixel and without
/// gaps.
inline std::vector<std::uint8_t> resize_bytes(const std::vector<std::uint8_t>& image,
                                              index_t height, index_t width, index_t rows,
                                              index_t cols) {
  struct neighbours {
    index_t first;
    int weights[2];
  };
  const auto weigh = [](index_t i, index_t from, index_t to) {
    const double scale = 1 / (static_cast<double>(to) / static_cast<double>(from));
    volatile double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto at = static_cast<float>(centre - 0.5);
    const float below = std::floor(at), part = at - below;
    return neighbours{static_cast<index_t>(below),
                      {static_cast<int>(std::nearbyint((1 - part) * 2048)),
                       static_cast<int>(std::nearbyint(part * 2048))}};
  };
  std::vector<std::uint8_t> resized(static_cast<std::size_t>(rows * cols * 3));
  for (index_t y = 0; y < rows; ++y) {
    const neighbours v = weigh(y, height, rows);
    for (index_t x = 0; x < cols; ++x) {
      neighbours h = weigh(x, width, cols);
      if (h.first < 0 || h.first >= width - 1) h = {h.first < 0 ? 0 : width - 1, {2048, 0}};
      for (index_t c = 0; c < 3; ++c) {
        int sum = 2;
        for (index_t k = 0; k < 2; ++k) {
          const index_t row = std::min(std::max(v.first + k, index_t{0}), height - 1);
          const auto pixel = [&](index_t col) {
            return int{
                image[static_cast<std::size_t>(3 * (row * width + std::min(col, width - 1)) + c)]};
          };
          const int along = pixel(h.first) * h.weights[0] + pixel(h.first + 1) * h.weights[1];
          sum += (along >> 4) * v.weights[k] >> 16;
        }
        resized[static_cast<std::size_t>(3 * (y * cols + x) + c)] =
            static_cast<std::uint8_t>(sum >> 2);
      }
    }
  }
  return resized;
}

/// The input of a network, 3 x input.height x input.width, for one image without gaps.
inline std::vector<float> letterbox(const std::vector<std::uint8_t>& image, index_t height,
                                    index_t width, grid_size input,
                                    const letterbox_params& params) {
  double scale = std::min(static_cast<double>(input.height) / static_cast<double>(height),
                          static_cast<double>(input.width) / static_cast<double>(width));
  if (!params.upscale) scale = std::min(scale, 1.0);
  const auto side = [&](index_t of) {
    return std::max(index_t{1},
                    static_cast<index_t>(std::nearbyint(static_cast<double>(of) * scale)));
  };
  const index_t rows = side(height), cols = side(width);
  const auto padding = [&](index_t all, index_t used) {
    return params.centred
               ? static_cast<index_t>(std::nearbyint(static_cast<double>(all - used) / 2 - 0.1))
               : 0;
  };
  const index_t top = padding(input.height, rows), left = padding(input.width, cols);
  const std::vector<std::uint8_t> resized = resize_bytes(image, height, width, rows, cols);
  std::vector<float> planes;
  for (std::size_t c = 0; c < 3; ++c) {
    const auto a = static_cast<float>(params.scale / params.deviation[c]);
    const auto b = static_cast<float>(-params.mean[c] / params.deviation[c]);
    const index_t channel = static_cast<index_t>(params.swap_channels ? 2 - c : c);
    for (index_t y = 0; y < input.height; ++y) {
      for (index_t x = 0; x < input.width; ++x) {
        const bool is_inside = y >= top && y < top + rows && x >= left && x < left + cols;
        const float pixel = is_inside ? static_cast<float>(resized[static_cast<std::size_t>(
                                            3 * ((y - top) * cols + x - left) + channel)])
                                      : static_cast<float>(params.fill);
        volatile float product = pixel * a;
        planes.push_back(product + b);
      }
    }
  }
  return planes;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
