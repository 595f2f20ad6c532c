// SPDX-License-Identifier: Apache-2.0
// ProbIoU of rotated boxes (arXiv 2106.06072) in plain scalars, from the elements of the covariance
// matrices as ultralytics computes it, in long double because differences of products cancel; NMS
// in ultralytics' rule.
#pragma once

#include <vecdet/reference/rotated_boxes.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// The elements of a covariance matrix: a c, c b.
struct covariance {
  long double a, b, c;

  long double det() const { return a * b - c * c; }
};

inline covariance covariance_of(const rotated_box& rotated) {
  const long double p = static_cast<long double>(rotated.w) * rotated.w / 12;
  const long double q = static_cast<long double>(rotated.h) * rotated.h / 12;
  // A unit vector as exactly as the type allows.
  const long double x = rotated.cosine, y = rotated.sine, length = x * x + y * y;
  return {(p * x * x + q * y * y) / length, (p * y * y + q * x * x) / length,
          (p - q) * x * y / length};
}

inline double prob_iou(const rotated_box& one, const rotated_box& other) {
  const bool is_box = one.w >= 0 && one.h >= 0 && other.w >= 0 && other.h >= 0 &&
                      std::isfinite(one.x + one.y + one.w + one.h + one.sine) &&
                      std::isfinite(other.x + other.y + other.w + other.h + other.sine);
  if (!is_box) return std::numeric_limits<double>::quiet_NaN();
  const long double eps = 1e-7L;
  const covariance s = covariance_of(one), t = covariance_of(other);
  const covariance sum{s.a + t.a, s.b + t.b, s.c + t.c};
  const long double dx = static_cast<long double>(one.x) - other.x;
  const long double dy = static_cast<long double>(one.y) - other.y;
  const long double det = sum.det();
  const long double m =
      (sum.a * dy * dy + sum.b * dx * dx - 2 * sum.c * dx * dy) / (4 * (det + eps));
  const long double roots = static_cast<long double>(one.area()) * other.area() / 144;
  const long double power = m + std::log(det / (4 * roots + eps) + eps) / 2;
  const long double bounded = std::min(std::max(power, eps), 100.0L);
  return static_cast<double>(1 - std::sqrt(eps - std::expm1(-bounded)));
}

struct prob_iou_loss {
  double loss = 0;
  double grad[5] = {};  ///< of the first box: x, y, w, h, and the angle in radians, clockwise
};

/// 1 - prob_iou(predicted, target), with its gradient by the chain rule through the elements of the
/// covariance matrices. Both must be boxes.
inline prob_iou_loss prob_iou_loss_of(const rotated_box& predicted, const rotated_box& target) {
  using real = long double;
  const real eps = 1e-7L;
  const covariance s = covariance_of(predicted), t = covariance_of(target);
  const covariance sum{s.a + t.a, s.b + t.b, s.c + t.c};
  const real w = predicted.w, h = predicted.h;
  const real dx = static_cast<real>(target.x) - predicted.x;
  const real dy = static_cast<real>(target.y) - predicted.y;
  const real det = sum.det(), distance = sum.a * dy * dy + sum.b * dx * dx - 2 * sum.c * dx * dy;
  const real quadruple = 4 * (det + eps), m = distance / quadruple;
  const real g1 = w * h / 12, g2 = static_cast<real>(target.w) * target.h / 12;
  const real scale = 4 * g1 * g2 + eps, ratio = det / scale + eps;
  const real power = m + std::log(ratio) / 2;
  const real bounded = std::min(std::max(power, eps), 100.0L);
  const real loss = std::sqrt(eps - std::expm1(-bounded));
  prob_iou_loss result;
  result.loss = static_cast<double>(loss);
  if (!(power >= eps && power <= 100)) return result;
  const real factor = std::exp(-power) / (2 * loss);
  // By the elements of the sum, by the determinant and by g1.
  const real by_det = -4 * m / quadruple + 1 / (2 * scale * ratio);
  const real by_g1 = -det * 4 * g2 / (2 * scale * scale * ratio);
  const real by_a = dy * dy / quadruple + by_det * sum.b;
  const real by_b = dx * dx / quadruple + by_det * sum.a;
  const real by_c = -2 * dx * dy / quadruple - 2 * by_det * sum.c;
  const real length = std::hypot(static_cast<real>(predicted.cosine), predicted.sine);
  const real x = predicted.cosine / length, y = predicted.sine / length;
  const real by_number[5] = {
      -(2 * sum.b * dx - 2 * sum.c * dy) / quadruple,
      -(2 * sum.a * dy - 2 * sum.c * dx) / quadruple,
      w / 6 * (by_a * x * x + by_b * y * y + by_c * x * y) + by_g1 * h / 12,
      h / 6 * (by_a * y * y + by_b * x * x - by_c * x * y) + by_g1 * w / 12,
      2 * s.c * (by_b - by_a) + by_c * (w * w - h * h) / 12 * (x * x - y * y)};
  for (int k = 0; k < 5; ++k) result.grad[k] = static_cast<double>(factor * by_number[k]);
  return result;
}

/// The indices of the boxes without a ProbIoU of at least `threshold` with any box of a higher
/// score, the best score first. Scores are no NaN.
template <class T>
std::vector<index_t> prob_iou_nms(matrix_view<T> boxes,
                                  vector_view<const std::remove_const_t<T>> scores,
                                  angle_convention angles, double threshold) {
  std::vector<index_t> order, kept;
  for (index_t i = 0; i < boxes.rows(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](index_t a, index_t b) { return scores[a] > scores[b]; });
  for (auto i = order.begin(); i != order.end(); ++i) {
    const rotated_box candidate = load_rotated_box(boxes, *i, angles);
    if (std::none_of(order.begin(), i, [&](index_t k) {
          return prob_iou(load_rotated_box(boxes, k, angles), candidate) >= threshold;
        }))
      kept.push_back(*i);
  }
  return kept;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
