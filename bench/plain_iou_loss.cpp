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

double plain_ciou_loss(const float* predicted, const float* targets, float* grad,
                       std::int64_t count) {
  constexpr float eps = 1e-7f, by_pi2 = 0.10132118f;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float* p = predicted + 4 * i;
    const float* t = targets + 4 * i;
    const float w = p[2] - p[0], h = p[3] - p[1], tw = t[2] - t[0], th = t[3] - t[1];
    float ow = std::fmin(p[2], t[2]) - std::fmax(p[0], t[0]);
    float oh = std::fmin(p[3], t[3]) - std::fmax(p[1], t[1]);
    const bool meet = ow > 0 && oh > 0;
    ow = meet ? ow : 0;
    oh = meet ? oh : 0;
    const float hw = std::fmax(p[2], t[2]) - std::fmin(p[0], t[0]);
    const float hh = std::fmax(p[3], t[3]) - std::fmin(p[1], t[1]);
    const float by_u = 1 / (w * h + tw * th - ow * oh + eps), iou = ow * oh * by_u;
    const float dx = 0.5f * (p[0] + p[2] - t[0] - t[2]), dy = 0.5f * (p[1] + p[3] - t[1] - t[3]);
    const float by_c = 1 / (hw * hw + hh * hh + eps), distance = (dx * dx + dy * dy) * by_c;
    const float angle = std::atan(tw / th) - std::atan(w / h);
    const float v = 4 * by_pi2 * angle * angle, alpha = v / (1 - iou + v + eps);
    sum += 1 - iou + distance + alpha * v;
    const float area = iou * by_u, inside = -(by_u + area), outside = -2 * distance * by_c;
    const float slope = 8 * by_pi2 * alpha * angle / (w * w + h * h);
    const float area_x = (area - slope) * h, area_y = (area + slope) * w;
    grad[4 * i] = dx * by_c - (area_x + (p[0] > t[0] ? inside * oh : outside * hw));
    grad[4 * i + 1] = dy * by_c - (area_y + (p[1] > t[1] ? inside * ow : outside * hh));
    grad[4 * i + 2] = dx * by_c + (area_x + (p[2] < t[2] ? inside * oh : outside * hw));
    grad[4 * i + 3] = dy * by_c + (area_y + (p[3] < t[3] ? inside * ow : outside * hh));
  }
  return sum;
}

}  // namespace bench
}  // namespace vecdet
