// SPDX-License-Identifier: Apache-2.0
#include "rotated_boxes.hpp"

#include "rotated_terms.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

struct point {
  float x, y;
};

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

double plain_prob_iou_loss(const float* predicted, const float* targets, std::int64_t count,
                           float* grad) {
  constexpr double epsilon = 1e-7, per_degree = -0.017453292519943295;
  struct elements {
    double a, b, c, x, y, w, h;
  };
  const auto elements_of = [](const float* box) -> elements {
    const double w = box[2], h = box[3], p = w * w / 12, q = h * h / 12;
    const double x = std::cos(per_degree * box[4]), y = std::sin(per_degree * box[4]);
    return {p * x * x + q * y * y, p * y * y + q * x * x, (p - q) * x * y, x, y, w, h};
  };
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float *const box = predicted + 5 * i, *const target = targets + 5 * i;
    const elements p = elements_of(box), q = elements_of(target);
    const double a = p.a + q.a, b = p.b + q.b, c = p.c + q.c;
    const double dx = double{target[0]} - box[0], dy = double{target[1]} - box[1];
    const double det = a * b - c * c, quadruple = 4 * (det + epsilon), root = q.w * q.h / 12;
    const double m = (a * dy * dy + b * dx * dx - 2 * c * dx * dy) / quadruple;
    const double scale = p.w * p.h * root / 3 + epsilon, ratio = det / scale + epsilon;
    const double power = m + 0.5 * std::log(ratio);
    const double miss = std::exp(-std::min(std::max(power, epsilon), 100.0));
    const double loss = std::sqrt(1 - miss + epsilon);
    total += loss;
    const double factor = power >= epsilon && power <= 100 ? miss / (2 * loss) : 0;
    const double by_det = 1 / (2 * scale * ratio) - 4 * m / quadruple;
    const double by_root = -2 * det * root / (scale * scale * ratio);
    const double by_a = dy * dy / quadruple + by_det * b, by_b = dx * dx / quadruple + by_det * a;
    const double by_c = -2 * dx * dy / quadruple - 2 * by_det * c;
    const double along = by_a * p.x * p.x + by_b * p.y * p.y + by_c * p.x * p.y;
    const double across = by_a * p.y * p.y + by_b * p.x * p.x - by_c * p.x * p.y;
    const double by_angle =
        2 * p.c * (by_b - by_a) + by_c * (p.w * p.w - p.h * p.h) / 12 * (p.x * p.x - p.y * p.y);
    const double gradient[] = {-2 * (b * dx - c * dy) / quadruple,
                               -2 * (a * dy - c * dx) / quadruple,
                               p.w / 6 * along + by_root * p.h / 12,
                               p.h / 6 * across + by_root * p.w / 12, per_degree * by_angle};
    for (int k = 0; k < 5; ++k) grad[5 * i + k] = static_cast<float>(factor * gradient[k]);
  }
  return total;
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
