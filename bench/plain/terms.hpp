// SPDX-License-Identifier: Apache-2.0
// The equations of box regression for one box, in float. The plain loops of this folder inline them
// and are compiled with -O3 -march=native -ffast-math.
#pragma once

#include "loops.hpp"

#include <cmath>
#include <cstdint>

namespace vecdet::bench::VECDET_PLAIN_SET {

/// Corners, or four other numbers.
struct plain_box {
  float x1, y1, x2, y2;

  float width() const { return x2 - x1; }
  float height() const { return y2 - y1; }
};

template <plain_layout L = plain_layout::rows>
inline plain_box load(const float* boxes, std::int64_t i, std::int64_t count = 0) {
  if (L == plain_layout::planes)
    return {boxes[i], boxes[count + i], boxes[2 * count + i], boxes[3 * count + i]};
  return {boxes[4 * i], boxes[4 * i + 1], boxes[4 * i + 2], boxes[4 * i + 3]};
}
template <plain_layout L = plain_layout::rows>
inline void store(plain_box b, float* boxes, std::int64_t i, std::int64_t count = 0) {
  constexpr bool planes = L == plain_layout::planes;
  boxes[planes ? i : 4 * i] = b.x1;
  boxes[planes ? count + i : 4 * i + 1] = b.y1;
  boxes[planes ? 2 * count + i : 4 * i + 2] = b.x2;
  boxes[planes ? 3 * count + i : 4 * i + 3] = b.y2;
}

/// Converts corners to centre and size, and back.
inline plain_box centre_form(plain_box b) {
  return {0.5f * (b.x1 + b.x2), 0.5f * (b.y1 + b.y2), b.width(), b.height()};
}
inline plain_box corners(plain_box c) {
  return {c.x1 - 0.5f * c.x2, c.y1 - 0.5f * c.y2, c.x1 + 0.5f * c.x2, c.y1 + 0.5f * c.y2};
}

/// Encodes a target as deltas from an anchor, and decodes deltas; boxes are centres and sizes.
inline plain_box encoded(plain_box g, plain_box a) {
  return {(g.x1 - a.x1) / a.x2, (g.y1 - a.y1) / a.y2, std::log(g.x2 / a.x2), std::log(g.y2 / a.y2)};
}
inline plain_box decoded(plain_box d, plain_box a) {
  return {a.x1 + a.x2 * d.x1, a.y1 + a.y2 * d.y1, a.x2 * std::exp(d.x2), a.y2 * std::exp(d.y2)};
}
/// Clamps dw and dh to at most log(1000 / 16).
inline plain_box clamped(plain_box d) {
  constexpr float limit = 4.1351666f;
  return {d.x1, d.y1, std::fmin(d.x2, limit), std::fmin(d.y2, limit)};
}

inline plain_box decoded_corners(plain_box d, plain_box a) {
  return corners(decoded(clamped(d), centre_form(a)));
}
/// Distances to the sides, in pixels or in the anchor's size.
template <bool BySize>
inline plain_box decoded_distances(plain_box d, plain_box a) {
  const plain_box c = centre_form(a);
  const float w = BySize ? c.x2 : 1, h = BySize ? c.y2 : 1;
  return {c.x1 - w * d.x1, c.y1 - h * d.y1, c.x1 + w * d.x2, c.y1 + h * d.y2};
}

inline float clip(float x, float bound) { return std::fmin(std::fmax(x, 0.0f), bound); }
inline plain_box clipped(plain_box b, float width, float height) {
  return {clip(b.x1, width), clip(b.y1, height), clip(b.x2, width), clip(b.y2, height)};
}
inline bool is_large(plain_box b, float min_size) {
  return b.width() >= min_size && b.height() >= min_size;
}

/// Returns the smooth L1 loss of a difference and writes the loss or the gradient, depending on
/// `O`, to `out`.
template <plain_output O>
inline float smooth_l1(float d, float beta, float* out) {
  const float size = std::abs(d);
  const bool is_small = size < beta;
  const float loss = is_small ? 0.5f * d * d / beta : size - 0.5f * beta;
  if (O == plain_output::loss) *out = loss;
  if (O == plain_output::grad) *out = is_small ? d / beta : std::copysign(1.0f, d);
  return loss;
}

/// Returns the GIoU, DIoU or CIoU loss of a predicted box and writes its gradient to `grad`.
template <plain_loss L>
inline float iou_loss(plain_box p, plain_box t, plain_box& grad) {
  constexpr float eps = 1e-7f, by_pi2 = 0.10132118f;
  const float w = p.width(), h = p.height(), tw = t.width(), th = t.height();
  float ow = std::fmin(p.x2, t.x2) - std::fmax(p.x1, t.x1);
  float oh = std::fmin(p.y2, t.y2) - std::fmax(p.y1, t.y1);
  const bool meet = ow > 0 && oh > 0;
  ow = meet ? ow : 0;
  oh = meet ? oh : 0;
  const float hw = std::fmax(p.x2, t.x2) - std::fmin(p.x1, t.x1);
  const float hh = std::fmax(p.y2, t.y2) - std::fmin(p.y1, t.y1);
  const float u = w * h + tw * th - ow * oh + eps, by_u = 1 / u, iou = ow * oh * by_u;
  // Derivatives with respect to w and h, to the sides of overlap and hull, and to the centre.
  float loss = 1 - iou, by_w = iou * by_u * h, by_h = iou * by_u * w, inside = -(1 + iou) * by_u;
  float outside_x, outside_y, by_x = 0, by_y = 0;
  if (L == plain_loss::giou) {
    const float by_c = 1 / (hw * hh + eps), outside = u * by_c * by_c;
    loss += 1 - u * by_c;
    by_w -= by_c * h;
    by_h -= by_c * w;
    inside += by_c;
    outside_x = outside * hh;
    outside_y = outside * hw;
  } else {
    const float dx = 0.5f * (p.x1 + p.x2 - t.x1 - t.x2), dy = 0.5f * (p.y1 + p.y2 - t.y1 - t.y2);
    const float by_c = 1 / (hw * hw + hh * hh + eps), distance = (dx * dx + dy * dy) * by_c;
    loss += distance;
    by_x = dx * by_c;
    by_y = dy * by_c;
    outside_x = -2 * distance * by_c * hw;
    outside_y = -2 * distance * by_c * hh;
  }
  if (L == plain_loss::ciou) {
    const float angle = std::atan(tw / th) - std::atan(w / h);
    const float v = 4 * by_pi2 * angle * angle, alpha = v / (1 - iou + v + eps);
    const float slope = 8 * by_pi2 * alpha * angle / (w * w + h * h);
    loss += alpha * v;
    by_w -= slope * h;
    by_h += slope * w;
  }
  grad.x1 = by_x - by_w - (p.x1 > t.x1 ? inside * oh : outside_x);
  grad.y1 = by_y - by_h - (p.y1 > t.y1 ? inside * ow : outside_y);
  grad.x2 = by_x + by_w + (p.x2 < t.x2 ? inside * oh : outside_x);
  grad.y2 = by_y + by_h + (p.y2 < t.y2 ? inside * ow : outside_y);
  return loss;
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
