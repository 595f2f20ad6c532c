// SPDX-License-Identifier: Apache-2.0
#include "focal_loss.hpp"

#include <cmath>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

constexpr float alpha = 0.25f;

/// Returns the loss for a target t in [0, 1] and writes its derivative to `grad`.
inline float focal_loss(float x, float t, float& grad) {
  const float e = std::exp(-std::abs(x));
  const float r = 1 / (1 + e);
  const float p = x < 0 ? e * r : r;
  const float ce = std::fmax(x, 0.0f) - x * t + std::log1p(e);
  const float miss = p + t - 2 * p * t;
  const float weight = alpha * t + (1 - alpha) * (1 - t);
  grad = weight * miss * (2 * (1 - 2 * t) * p * (1 - p) * ce + miss * (p - t));
  return weight * miss * miss * ce;
}

}  // namespace

double plain_focal_loss_labels(const float* logits, const std::int64_t* labels, float* grad,
                               std::int64_t rows, std::int64_t cols) {
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* x = logits + i * cols;
    float* g = grad + i * cols;
    if (labels[i] == -2) {
      for (std::int64_t j = 0; j < cols; ++j) g[j] = 0;
      continue;
    }
    float row_sum = 0;
    for (std::int64_t j = 0; j < cols; ++j) {
      row_sum += focal_loss(x[j], j == labels[i] ? 1.0f : 0.0f, g[j]);
    }
    sum += row_sum;
  }
  return sum;
}

double plain_focal_loss_planes(const float* logits, const std::int64_t* labels, float* grad,
                               std::int64_t anchors, std::int64_t classes, std::int64_t locations) {
  double sum = 0;
  for (std::int64_t channel = 0; channel < anchors * classes; ++channel) {
    const std::int64_t* label = labels + channel / classes;
    const float* x = logits + channel * locations;
    float* g = grad + channel * locations;
    // A float is precise enough for the sum of a piece of a plane, and the loop can be vectorised.
    for (std::int64_t begin = 0; begin < locations; begin += 512) {
      const std::int64_t end = begin + 512 < locations ? begin + 512 : locations;
      float piece_sum = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t own = label[i * anchors];
        const float loss = focal_loss(x[i], own == channel % classes ? 1.0f : 0.0f, g[i]);
        g[i] = own == -2 ? 0 : g[i];
        piece_sum += own == -2 ? 0 : loss;
      }
      sum += piece_sum;
    }
  }
  return sum;
}

double plain_focal_loss_dense(const float* logits, const float* targets, float* grad,
                              std::int64_t size) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < size; begin += 4096) {
    const std::int64_t end = begin + 4096 < size ? begin + 4096 : size;
    float block_sum = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      block_sum += focal_loss(logits[i], targets[i], grad[i]);
    }
    sum += block_sum;
  }
  return sum;
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
