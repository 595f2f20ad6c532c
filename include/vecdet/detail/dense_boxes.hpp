// SPDX-License-Identifier: Apache-2.0
// Boxes of the few candidates of a dense detector, one at a time, in float and in the order of
// operations of torchvision's coders.
#pragma once

#include <cmath>

namespace vecdet {
namespace detail {

struct dense_box {
  float x1, y1, x2, y2;
};

/// Deltas dx dy dw dh on an anchor's corners; dw and dh at most `size_limit`.
inline dense_box decode_deltas(const float* deltas, const float* anchor, const double* weights,
                               double size_limit) {
  const float w = anchor[2] - anchor[0], h = anchor[3] - anchor[1];
  const float cx = anchor[0] + 0.5f * w, cy = anchor[1] + 0.5f * h;
  float d[4];
  for (int k = 0; k < 4; ++k) d[k] = deltas[k] / static_cast<float>(weights[k]);
  const auto limit = static_cast<float>(size_limit);
  for (int k = 2; k < 4; ++k) d[k] = d[k] > limit ? limit : d[k];
  const float x = d[0] * w + cx, y = d[1] * h + cy;
  const float half_w = 0.5f * (std::exp(d[2]) * w), half_h = 0.5f * (std::exp(d[3]) * h);
  return {x - half_w, y - half_h, x + half_w, y + half_h};
}

/// Distances left, top, right, bottom from the anchor's centre, by its size.
inline dense_box decode_distances(const float* distances, const float* anchor) {
  const float w = anchor[2] - anchor[0], h = anchor[3] - anchor[1];
  const float cx = 0.5f * (anchor[0] + anchor[2]), cy = 0.5f * (anchor[1] + anchor[3]);
  return {cx - distances[0] * w, cy - distances[1] * h, cx + distances[2] * w,
          cy + distances[3] * h};
}

/// NaN stays NaN.
inline dense_box clipped(const dense_box& box, float width, float height) {
  const auto clip = [](float x, float bound) { return x < 0 ? 0 : x > bound ? bound : x; };
  return {clip(box.x1, width), clip(box.y1, height), clip(box.x2, width), clip(box.y2, height)};
}

}  // namespace detail
}  // namespace vecdet
