// SPDX-License-Identifier: Apache-2.0
#include "plain_smooth_l1.hpp"

#include <cmath>

namespace vecdet {
namespace bench {

double plain_smooth_l1(const float* predictions, const float* targets, float* grad,
                       std::int64_t size, float beta) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const float d = predictions[i] - targets[i];
    const float size_of_d = std::abs(d);
    const bool is_small = size_of_d < beta;
    grad[i] = is_small ? d / beta : std::copysign(1.0f, d);
    sum += is_small ? 0.5f * d * d / beta : size_of_d - 0.5f * beta;
  }
  return sum;
}

}  // namespace bench
}  // namespace vecdet
