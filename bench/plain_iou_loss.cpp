// SPDX-License-Identifier: Apache-2.0
#include "plain_iou_loss.hpp"

#include <cmath>

namespace vecdet {
namespace bench {

double plain_giou_loss(const float* predicted, const float* targets, float* grad,
                       std::int64_t count) {
  constexpr float eps = 1e-7f;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float* p = predicted + 4 * i;
    const float* t = targets + 4 * i;
    const float w = p[2] - p[0], h = p[3] - p[1];
    float ow = std::fmin(p[2], t[2]) - std::fmax(p[0], t[0]);
    float oh = std::fmin(p[3], t[3]) - std::fmax(p[1], t[1]);
    const bool meet = ow > 0 && oh > 0;
    ow = meet ? ow : 0;
    oh = meet ? oh : 0;
    const float hw = std::fmax(p[2], t[2]) - std::fmin(p[0], t[0]);
    const float hh = std::fmax(p[3], t[3]) - std::fmin(p[1], t[1]);
    const float u = w * h + (t[2] - t[0]) * (t[3] - t[1]) - ow * oh, c = hw * hh;
    const float by_u = 1 / (u + eps), by_c = 1 / (c + eps), iou = ow * oh * by_u;
    sum += 1 - iou + (c - u) * by_c;
    const float area = iou * by_u - by_c, inside = by_c - by_u - iou * by_u;
    const float outside = (u + eps) * by_c * by_c;
    grad[4 * i] = -(area * h + (p[0] > t[0] ? inside * oh : outside * hh));
    grad[4 * i + 1] = -(area * w + (p[1] > t[1] ? inside * ow : outside * hw));
    grad[4 * i + 2] = area * h + (p[2] < t[2] ? inside * oh : outside * hh);
    grad[4 * i + 3] = area * w + (p[3] < t[3] ? inside * ow : outside * hw);
  }
  return sum;
}

}  // namespace bench
}  // namespace vecdet
