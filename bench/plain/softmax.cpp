// SPDX-License-Identifier: Apache-2.0
#include "softmax.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// Writes exp(x - max) to `out` and returns their sum, the divisor of the softmax.
inline float exponentials(const float* x, float* out, std::int64_t size, float& greatest) {
  greatest = x[0];
  for (std::int64_t c = 1; c < size; ++c) greatest = std::max(greatest, x[c]);
  float sum = 0;
  for (std::int64_t c = 0; c < size; ++c) {
    out[c] = std::exp(x[c] - greatest);
    sum += out[c];
  }
  return sum;
}

inline float cross_entropy_row(const float* x, std::int64_t label, float* grad,
                               std::int64_t classes) {
  float greatest;
  const float sum = exponentials(x, grad, classes, greatest);
  const float loss = std::log(sum) + greatest - x[label];
  const float factor = 1 / sum;
  for (std::int64_t c = 0; c < classes; ++c) grad[c] *= factor;
  grad[label] -= 1;
  return loss;
}

inline float expectation(const float* x, std::int64_t bins) {
  float greatest = x[0];
  for (std::int64_t c = 1; c < bins; ++c) greatest = std::max(greatest, x[c]);
  float sum = 0, weighted = 0;
  for (std::int64_t c = 0; c < bins; ++c) {
    const float e = std::exp(x[c] - greatest);
    sum += e;
    weighted += static_cast<float>(c) * e;
  }
  return weighted / sum;
}

}  // namespace

double plain_distribution_focal_loss(const float* logits, const float* targets, float* grad,
                                     std::int64_t rows, std::int64_t bins) {
  double total = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* x = logits + i * bins;
    float* g = grad + i * bins;
    float greatest;
    const float sum = exponentials(x, g, bins, greatest);
    const float log_sum = std::log(sum) + greatest;
    const float y = std::min(std::max(targets[i], 0.0f), static_cast<float>(bins - 1));
    const auto lower = static_cast<std::int64_t>(y);
    const std::int64_t upper = std::min(lower + 1, bins - 1);
    const float share = y - static_cast<float>(lower);
    total += (1 - share) * (log_sum - x[lower]) + share * (log_sum - x[upper]);
    const float factor = 1 / sum;
    for (std::int64_t c = 0; c < bins; ++c) g[c] *= factor;
    g[lower] -= 1 - share;
    g[upper] -= share;
  }
  return total;
}

void plain_decode_distributions(const float* logits, float* distances, std::int64_t rows,
                                std::int64_t bins) {
  for (std::int64_t i = 0; i < rows; ++i) distances[i] = expectation(logits + i * bins, bins);
}

void plain_decode_distribution_boxes(const float* logits, const float* points, const float* strides,
                                     float* boxes, std::int64_t count, std::int64_t bins) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t k = 0; k < 4; ++k) {
      const float distance = strides[i] * expectation(logits + (4 * i + k) * bins, bins);
      const float point = points[2 * i + (k & 1)];
      boxes[4 * i + k] = k < 2 ? point - distance : point + distance;
    }
  }
}

double plain_softmax_cross_entropy(const float* logits, const std::int64_t* labels, float* grad,
                                   std::int64_t rows, std::int64_t classes) {
  double total = 0;
  for (std::int64_t i = 0; i < rows; ++i)
    total += cross_entropy_row(logits + i * classes, labels[i], grad + i * classes, classes);
  return total;
}

double plain_mined_softmax_cross_entropy(const float* logits, const std::int64_t* labels,
                                         float* grad, std::int64_t images, std::int64_t per_image,
                                         std::int64_t classes) {
  static std::vector<float> losses;
  static std::vector<std::int64_t> negatives;
  losses.resize(static_cast<std::size_t>(per_image));
  double total = 0;
  for (std::int64_t image = 0; image < images; ++image) {
    const std::int64_t first = image * per_image;
    negatives.clear();
    std::int64_t foreground = 0;
    for (std::int64_t i = 0; i < per_image; ++i) {
      const std::int64_t row = first + i;
      float* const g = grad + row * classes;
      const float loss = cross_entropy_row(logits + row * classes, labels[row], g, classes);
      losses[static_cast<std::size_t>(i)] = loss;
      if (labels[row] != 0) {
        ++foreground;
        total += loss;
      } else {
        negatives.push_back(i);
      }
    }
    const auto wanted =
        std::min(static_cast<std::int64_t>(negatives.size()), std::int64_t{3} * foreground);
    std::nth_element(negatives.begin(), negatives.begin() + wanted, negatives.end(),
                     [&](std::int64_t a, std::int64_t b) {
                       const float loss_a = losses[static_cast<std::size_t>(a)];
                       const float loss_b = losses[static_cast<std::size_t>(b)];
                       return loss_a != loss_b ? loss_a > loss_b : a < b;
                     });
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(negatives.size()); ++k) {
      const std::int64_t i = negatives[static_cast<std::size_t>(k)];
      if (k < wanted)
        total += losses[static_cast<std::size_t>(i)];
      else
        std::fill(grad + (first + i) * classes, grad + (first + i + 1) * classes, 0.0f);
    }
  }
  return total;
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
