// SPDX-License-Identifier: Apache-2.0
#include "plain_iou.hpp"

#include <cmath>

namespace vecdet {
namespace bench {

void plain_pairwise_iou(const float* a, std::int64_t rows, const float* b, std::int64_t cols,
                        float* out) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* p = a + 4 * i;
    const float area = (p[2] - p[0]) * (p[3] - p[1]);
    for (std::int64_t j = 0; j < cols; ++j) {
      const float* q = b + 4 * j;
      const float w = std::fmax(std::fmin(p[2], q[2]) - std::fmax(p[0], q[0]), 0.0f);
      const float h = std::fmax(std::fmin(p[3], q[3]) - std::fmax(p[1], q[1]), 0.0f);
      out[i * cols + j] = w * h / (area + (q[2] - q[0]) * (q[3] - q[1]) - w * h);
    }
  }
}

void plain_elementwise_iou(const float* a, const float* b, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float* p = a + 4 * i;
    const float* q = b + 4 * i;
    const float w = std::fmax(std::fmin(p[2], q[2]) - std::fmax(p[0], q[0]), 0.0f);
    const float h = std::fmax(std::fmin(p[3], q[3]) - std::fmax(p[1], q[1]), 0.0f);
    const float areas = (p[2] - p[0]) * (p[3] - p[1]) + (q[2] - q[0]) * (q[3] - q[1]);
    out[i] = w * h / (areas - w * h);
  }
}

}  // namespace bench
}  // namespace vecdet
