// SPDX-License-Identifier: Apache-2.0
#include "plain_box_coding.hpp"

#include <cmath>

namespace vecdet {
namespace bench {

namespace {

inline float clip(float x, float bound) { return std::fmin(std::fmax(x, 0.0f), bound); }

}  // namespace

void plain_decode_and_clip(const float* deltas, const float* anchors, float* boxes,
                           std::int64_t count, float width, float height) {
  constexpr float limit = 4.1351666f;
  for (std::int64_t i = 0; i < count; ++i) {
    const float* d = deltas + 4 * i;
    const float* a = anchors + 4 * i;
    const float aw = a[2] - a[0], ah = a[3] - a[1];
    const float x = a[0] + 0.5f * aw + aw * d[0], y = a[1] + 0.5f * ah + ah * d[1];
    const float w = 0.5f * aw * std::exp(std::fmin(d[2], limit));
    const float h = 0.5f * ah * std::exp(std::fmin(d[3], limit));
    boxes[4 * i] = clip(x - w, width);
    boxes[4 * i + 1] = clip(y - h, height);
    boxes[4 * i + 2] = clip(x + w, width);
    boxes[4 * i + 3] = clip(y + h, height);
  }
}

void plain_encode(const float* targets, const float* anchors, float* deltas, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float* g = targets + 4 * i;
    const float* a = anchors + 4 * i;
    const float aw = a[2] - a[0], ah = a[3] - a[1], gw = g[2] - g[0], gh = g[3] - g[1];
    deltas[4 * i] = (0.5f * (g[0] + g[2]) - 0.5f * (a[0] + a[2])) / aw;
    deltas[4 * i + 1] = (0.5f * (g[1] + g[3]) - 0.5f * (a[1] + a[3])) / ah;
    deltas[4 * i + 2] = std::log(gw / aw);
    deltas[4 * i + 3] = std::log(gh / ah);
  }
}

}  // namespace bench
}  // namespace vecdet
