// SPDX-License-Identifier: Apache-2.0
#include "soft_target_loss.hpp"

#include <cmath>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

struct terms {
  float p, cross_entropy;
};
inline terms terms_of(float x, float t) {
  const float e = std::exp(-std::abs(x));
  const float r = 1 / (1 + e);
  return {x < 0 ? e * r : r, std::fmax(x, 0.0f) - x * t + std::log1p(e)};
}

inline float quality(float x, float t, bool, float& grad) {
  const terms of = terms_of(x, t);
  const float d = of.p - t;
  grad = d * (d * d + 2 * of.p * (1 - of.p) * of.cross_entropy);
  return d * d * of.cross_entropy;
}
inline float varifocal(float x, float t, bool labelled, float& grad) {
  const terms of = terms_of(x, t);
  const float factor = 0.75f * of.p * of.p;
  const float weight = labelled ? t : factor;
  grad = weight * (of.p - t + (labelled ? 0 : 2 * (1 - of.p) * of.cross_entropy));
  return weight * of.cross_entropy;
}
inline float cross_entropy(float x, float t, bool, float& grad) {
  const terms of = terms_of(x, t);
  grad = of.p - t;
  return of.cross_entropy;
}

template <class Loss>
inline double sum_over_rows(const float* logits, const std::int64_t* labels, const float* scores,
                            float* grad, std::int64_t rows, std::int64_t cols, const Loss& loss) {
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* x = logits + i * cols;
    float* g = grad + i * cols;
    if (labels[i] == -2) {
      for (std::int64_t j = 0; j < cols; ++j) g[j] = 0;
      continue;
    }
    const std::int64_t label = labels[i];
    const float score = scores[i];
    float row_sum = 0;
    for (std::int64_t j = 0; j < cols; ++j)
      row_sum += loss(x[j], j == label ? score : 0.0f, j == label, g[j]);
    sum += row_sum;
  }
  return sum;
}

}  // namespace

double plain_quality_focal_loss(const float* logits, const std::int64_t* labels,
                                const float* scores, float* grad, std::int64_t rows,
                                std::int64_t cols) {
  return sum_over_rows(logits, labels, scores, grad, rows, cols, quality);
}
double plain_varifocal_loss(const float* logits, const std::int64_t* labels, const float* scores,
                            float* grad, std::int64_t rows, std::int64_t cols) {
  return sum_over_rows(logits, labels, scores, grad, rows, cols, varifocal);
}
double plain_bce_loss(const float* logits, const std::int64_t* labels, const float* scores,
                      float* grad, std::int64_t rows, std::int64_t cols) {
  return sum_over_rows(logits, labels, scores, grad, rows, cols, cross_entropy);
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
