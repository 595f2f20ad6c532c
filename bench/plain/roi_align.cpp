// SPDX-License-Identifier: Apache-2.0
#include "roi_align.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// The four locations of a sample, and their weights.
struct plain_sample {
  std::int64_t at[4];
  float weight[4];
};

constexpr int per_bin = 4;  ///< two by two

/// The samples of a box, bin by bin.
void sample_box(const float* box, std::int64_t height, std::int64_t width, std::int64_t rows,
                std::int64_t columns, std::vector<plain_sample>& samples) {
  samples.clear();
  const double x0 = static_cast<double>(box[0]), y0 = static_cast<double>(box[1]);
  const double w = std::max(1.0, static_cast<double>(box[2]) - x0) / static_cast<double>(columns);
  const double h = std::max(1.0, static_cast<double>(box[3]) - y0) / static_cast<double>(rows);
  for (std::int64_t p = 0; p < rows; ++p)
    for (std::int64_t q = 0; q < columns; ++q)
      for (int i = 0; i < per_bin; ++i) {
        double y = y0 + (static_cast<double>(p) + 0.25 + 0.5 * (i / 2)) * h;
        double x = x0 + (static_cast<double>(q) + 0.25 + 0.5 * (i % 2)) * w;
        plain_sample sample{};
        if (y >= -1 && y <= static_cast<double>(height) && x >= -1 &&
            x <= static_cast<double>(width)) {
          y = std::min(std::max(y, 0.0), static_cast<double>(height - 1));
          x = std::min(std::max(x, 0.0), static_cast<double>(width - 1));
          const auto top = static_cast<std::int64_t>(y), left = static_cast<std::int64_t>(x);
          const std::int64_t bottom = std::min(top + 1, height - 1);
          const std::int64_t right = std::min(left + 1, width - 1);
          const auto ly = static_cast<float>(y - static_cast<double>(top));
          const auto lx = static_cast<float>(x - static_cast<double>(left));
          sample = {{top * width + left, top * width + right, bottom * width + left,
                     bottom * width + right},
                    {(1 - ly) * (1 - lx) / per_bin, (1 - ly) * lx / per_bin,
                     ly * (1 - lx) / per_bin, ly * lx / per_bin}};
        }
        samples.push_back(sample);
      }
}

}  // namespace

void plain_roi_align(const float* features, std::int64_t channels, std::int64_t height,
                     std::int64_t width, const float* boxes, std::int64_t count, std::int64_t rows,
                     std::int64_t columns, bool channels_last, float* bins) {
  static std::vector<plain_sample> samples;
  const std::int64_t size = rows * columns;
  for (std::int64_t k = 0; k < count; ++k) {
    sample_box(boxes + 4 * k, height, width, rows, columns, samples);
    float* const out = bins + k * channels * size;
    if (channels_last) {
      std::fill(out, out + channels * size, 0.0f);
      for (std::int64_t b = 0; b < size; ++b)
        for (int i = 0; i < per_bin; ++i) {
          const plain_sample& s = samples[static_cast<std::size_t>(b * per_bin + i)];
          for (std::int64_t c = 0; c < channels; ++c)
            out[b * channels + c] += s.weight[0] * features[s.at[0] * channels + c] +
                                     s.weight[1] * features[s.at[1] * channels + c] +
                                     s.weight[2] * features[s.at[2] * channels + c] +
                                     s.weight[3] * features[s.at[3] * channels + c];
        }
      continue;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      const float* const plane = features + c * height * width;
      for (std::int64_t b = 0; b < size; ++b) {
        float sum = 0;
        for (int i = 0; i < per_bin; ++i) {
          const plain_sample& s = samples[static_cast<std::size_t>(b * per_bin + i)];
          for (int j = 0; j < 4; ++j) sum += s.weight[j] * plane[s.at[j]];
        }
        out[c * size + b] = sum;
      }
    }
  }
}

void plain_roi_align_grad(const float* upstream, std::int64_t channels, std::int64_t height,
                          std::int64_t width, const float* boxes, std::int64_t count,
                          std::int64_t rows, std::int64_t columns, bool channels_last,
                          float* grad) {
  static std::vector<plain_sample> samples;
  const std::int64_t size = rows * columns;
  std::fill(grad, grad + channels * height * width, 0.0f);
  for (std::int64_t k = 0; k < count; ++k) {
    sample_box(boxes + 4 * k, height, width, rows, columns, samples);
    const float* const from = upstream + k * channels * size;
    if (channels_last) {
      for (std::int64_t b = 0; b < size; ++b)
        for (int i = 0; i < per_bin * 4; ++i) {
          const plain_sample& s = samples[static_cast<std::size_t>(b * per_bin + i / 4)];
          const float weight = s.weight[i % 4];
          float* const to = grad + s.at[i % 4] * channels;
          for (std::int64_t c = 0; c < channels; ++c) to[c] += weight * from[b * channels + c];
        }
      continue;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      float* const plane = grad + c * height * width;
      for (std::int64_t b = 0; b < size; ++b)
        for (int i = 0; i < per_bin; ++i) {
          const plain_sample& s = samples[static_cast<std::size_t>(b * per_bin + i)];
          for (int j = 0; j < 4; ++j) plane[s.at[j]] += s.weight[j] * from[c * size + b];
        }
    }
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
