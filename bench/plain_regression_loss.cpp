// SPDX-License-Identifier: Apache-2.0
#include "plain_regression_loss.hpp"

#include <cmath>

namespace vecdet {
namespace bench {

double plain_regression_loss(const float* deltas, const float* anchors, const float* targets,
                             const std::int64_t* labels, float* grad, std::int64_t count,
                             float beta) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    float* out = grad + 4 * i;
    if (labels[i] < 0) {
      for (int k = 0; k < 4; ++k) out[k] = 0;
      continue;
    }
    const float* g = targets + 4 * i;
    const float* a = anchors + 4 * i;
    const float aw = a[2] - a[0], ah = a[3] - a[1];
    const float encoded[4] = {(0.5f * (g[0] + g[2]) - 0.5f * (a[0] + a[2])) / aw,
                              (0.5f * (g[1] + g[3]) - 0.5f * (a[1] + a[3])) / ah,
                              std::log((g[2] - g[0]) / aw), std::log((g[3] - g[1]) / ah)};
    for (int k = 0; k < 4; ++k) {
      const float d = deltas[4 * i + k] - encoded[k], size = std::abs(d);
      out[k] = size < beta ? d / beta : std::copysign(1.0f, d);
      sum += size < beta ? 0.5f * d * d / beta : size - 0.5f * beta;
    }
  }
  return sum;
}

}  // namespace bench
}  // namespace vecdet
