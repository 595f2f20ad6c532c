// SPDX-License-Identifier: Apache-2.0
#include "rotated_boxes.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

struct point {
  float x, y;
};

struct turned_box {
  float x, y, w, h, cosine, sine, reach;
};

inline turned_box turned(const float* box) {
  const float angle = -box[4] * 0.017453292519943295f;
  return {box[0],
          box[1],
          box[2],
          box[3],
          std::cos(angle),
          std::sin(angle),
          0.5f * std::sqrt(box[2] * box[2] + box[3] * box[3])};
}

/// The corners of q, clipped by one side of p after the other, relative to p's centre.
float intersection(const turned_box& p, const turned_box& q) {
  point polygon[9], rest[9];
  int count = 0;
  for (const point side : {point{-0.5f, -0.5f}, {0.5f, -0.5f}, {0.5f, 0.5f}, {-0.5f, 0.5f}})
    polygon[count++] = {q.x - p.x + side.x * q.w * q.cosine - side.y * q.h * q.sine,
                        q.y - p.y + side.x * q.w * q.sine + side.y * q.h * q.cosine};
  for (int side = 0; side < 4 && count > 0; ++side) {
    const float sign = side < 2 ? 1.0f : -1.0f, reach = 0.5f * (side % 2 == 0 ? p.w : p.h);
    const float nx = sign * (side % 2 == 0 ? p.cosine : -p.sine);
    const float ny = sign * (side % 2 == 0 ? p.sine : p.cosine);
    int kept = 0;
    point from = polygon[count - 1];
    float before = nx * from.x + ny * from.y - reach;
    for (int i = 0; i < count; ++i) {
      const point to = polygon[i];
      const float after = nx * to.x + ny * to.y - reach;
      if ((before < 0) != (after < 0)) {
        const float t = before / (before - after);
        rest[kept++] = {from.x + t * (to.x - from.x), from.y + t * (to.y - from.y)};
      }
      if (after < 0) rest[kept++] = to;
      from = to, before = after;
    }
    count = kept;
    for (int i = 0; i < count; ++i) polygon[i] = rest[i];
  }
  float twice = 0;
  for (int i = 0; i < count; ++i) {
    const point& from = polygon[i];
    const point& to = polygon[i + 1 < count ? i + 1 : 0];
    twice += from.x * to.y - to.x * from.y;
  }
  return 0.5f * twice;
}

inline float iou_of(const turned_box& p, const turned_box& q) {
  const float dx = q.x - p.x, dy = q.y - p.y, reach = p.reach + q.reach;
  if (dx * dx + dy * dy >= reach * reach) return 0;
  const float both = intersection(p, q);
  return both / (p.w * p.h + q.w * q.h - both);
}

/// The Gaussian of a box: centre, elements of the covariance matrix, root of its determinant.
struct gaussian {
  float x, y, a, b, c, root;
};

inline gaussian gaussian_of(const float* box) {
  const turned_box t = turned(box);
  const float p = t.w * t.w / 12, q = t.h * t.h / 12, c = t.cosine, s = t.sine;
  return {t.x, t.y, p * c * c + q * s * s, p * s * s + q * c * c, (p - q) * c * s, t.w * t.h / 12};
}

inline float prob_iou_of(const gaussian& p, const gaussian& q) {
  constexpr float epsilon = 1e-7f;
  const float a = p.a + q.a, b = p.b + q.b, c = p.c + q.c, dx = q.x - p.x, dy = q.y - p.y;
  const float det = a * b - c * c;
  const float m = (a * dy * dy + b * dx * dx - 2 * c * dx * dy) / (4 * (det + epsilon));
  const float power = m + 0.5f * std::log(det / (4 * p.root * q.root + epsilon) + epsilon);
  const float bounded = std::min(std::max(power, epsilon), 100.0f);
  return 1 - std::sqrt(1 - std::exp(-bounded) + epsilon);
}

}  // namespace

void plain_pairwise_rotated_iou(const float* a, std::int64_t rows, const float* b,
                                std::int64_t cols, float* out) {
  std::vector<turned_box> others;
  for (std::int64_t j = 0; j < cols; ++j) others.push_back(turned(b + 5 * j));
  for (std::int64_t i = 0; i < rows; ++i) {
    const turned_box p = turned(a + 5 * i);
    for (std::int64_t j = 0; j < cols; ++j) {
      const turned_box& q = others[static_cast<std::size_t>(j)];
      out[i * cols + j] = iou_of(p, q);
    }
  }
}

void plain_rotated_nms(const float* boxes, const float* scores, std::int64_t count,
                       float iou_threshold, std::int64_t* is_kept) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
  std::vector<turned_box> kept;
  for (const std::int64_t i : order) {
    const turned_box box = turned(boxes + 5 * i);
    const bool keeps = std::none_of(kept.begin(), kept.end(), [&](const turned_box& better) {
      return iou_of(better, box) > iou_threshold;
    });
    if (keeps) kept.push_back(box);
    is_kept[i] = keeps;
  }
}

void plain_pairwise_prob_iou(const float* a, std::int64_t rows, const float* b, std::int64_t cols,
                             float* out) {
  std::vector<gaussian> others;
  for (std::int64_t j = 0; j < cols; ++j) others.push_back(gaussian_of(b + 5 * j));
  for (std::int64_t i = 0; i < rows; ++i) {
    const gaussian p = gaussian_of(a + 5 * i);
    for (std::int64_t j = 0; j < cols; ++j)
      out[i * cols + j] = prob_iou_of(p, others[static_cast<std::size_t>(j)]);
  }
}

void plain_prob_iou_nms(const float* boxes, const float* scores, std::int64_t count,
                        float iou_threshold, std::int64_t* is_kept) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
  std::vector<gaussian> better;
  for (const std::int64_t i : order) {
    const gaussian box = gaussian_of(boxes + 5 * i);
    is_kept[i] = std::none_of(better.begin(), better.end(), [&](const gaussian& other) {
      return prob_iou_of(other, box) >= iou_threshold;
    });
    better.push_back(box);
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
