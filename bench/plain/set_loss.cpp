// SPDX-License-Identifier: Apache-2.0
#include "set_loss.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// One axis of a box: the intersection and the hull, and their derivatives with respect to the low
/// and the high side.
struct axis {
  float overlap, hull, overlap_low, overlap_high, hull_low, hull_high;
};
inline axis axis_of(float centre, float size, float aim_centre, float aim_size) {
  const float low = centre - size / 2, high = centre + size / 2;
  const float aim_low = aim_centre - aim_size / 2, aim_high = aim_centre + aim_size / 2;
  return {std::min(high, aim_high) - std::max(low, aim_low),
          std::max(high, aim_high) - std::min(low, aim_low),
          low > aim_low ? -1.0f : 0.0f,
          high < aim_high ? 1.0f : 0.0f,
          low < aim_low ? -1.0f : 0.0f,
          high > aim_high ? 1.0f : 0.0f};
}

inline float sign(float d) { return d > 0 ? 1.0f : d < 0 ? -1.0f : 0.0f; }

}  // namespace

double plain_set_loss(const float* logits, const float* predicted, std::int64_t images,
                      std::int64_t queries, std::int64_t classes, const float* truth,
                      const std::int64_t* labels, std::int64_t boxes, const std::int64_t* matches,
                      float* logits_grad, float* boxes_grad) {
  const std::int64_t rows = images * queries;
  const float factor = 1 / std::max(1.0f, static_cast<float>(images * boxes));
  std::vector<float> ious(static_cast<std::size_t>(rows));
  std::vector<std::int64_t> classes_of(static_cast<std::size_t>(rows), -1);
  std::fill(boxes_grad, boxes_grad + 4 * rows, 0.0f);
  double sum = 0;
  for (std::int64_t k = 0; k < images * boxes; ++k) {
    const std::int64_t row = k / boxes * queries + matches[k];
    const float *p = predicted + 4 * row, *t = truth + 4 * k;
    float* const grad = boxes_grad + 4 * row;
    const axis x = axis_of(p[0], p[2], t[0], t[2]), y = axis_of(p[1], p[3], t[1], t[3]);
    const bool meet = x.overlap > 0 && y.overlap > 0;
    const float inter = meet ? x.overlap * y.overlap : 0;
    const float joined = p[2] * p[3] + t[2] * t[3] - inter, hull = x.hull * y.hull;
    const float iou = inter / joined;
    sum += 2 * (1 - iou + (hull - joined) / hull);
    // Derivatives with respect to the intersection, the prediction's area and the hull.
    const float by_inter = meet ? -(1 + iou) / joined + 1 / hull : 0;
    const float by_area = iou / joined - 1 / hull, by_hull = joined / (hull * hull);
    const auto add = [&](int k2, const axis& a, const axis& other, float other_size) {
      const float low = by_inter * a.overlap_low * other.overlap - by_area * other_size +
                        by_hull * a.hull_low * other.hull;
      const float high = by_inter * a.overlap_high * other.overlap + by_area * other_size +
                         by_hull * a.hull_high * other.hull;
      grad[k2] = 2 * (low + high);
      grad[k2 + 2] = high - low;
    };
    add(0, x, y, p[3]);
    add(1, y, x, p[2]);
    for (int i = 0; i < 4; ++i) {
      const float d = p[i] - t[i];
      sum += 5 * std::abs(d);
      grad[i] = factor * (grad[i] + 5 * sign(d));
    }
    ious[static_cast<std::size_t>(row)] = iou;
    classes_of[static_cast<std::size_t>(row)] = labels[k];
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const x = logits + row * classes;
    float* const grad = logits_grad + row * classes;
    float row_sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      const float e = std::exp(-std::abs(x[c])), r = 1 / (1 + e);
      const float p = x[c] < 0 ? e * r : r;
      const float weight = 0.75f * p * p;
      row_sum += weight * (std::max(x[c], 0.0f) + std::log1p(e));
      grad[c] = factor * weight * p;
    }
    const std::int64_t label = classes_of[static_cast<std::size_t>(row)];
    if (label >= 0) {
      const float t = ious[static_cast<std::size_t>(row)], z = x[label];
      const float p = 1 / (1 + std::exp(-z)), softplus = std::log1p(std::exp(z));
      row_sum += t * (softplus - t * z) - 0.75f * p * p * softplus;
      grad[label] = factor * t * (p - t);
    }
    sum += row_sum;
  }
  return sum * factor;
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
