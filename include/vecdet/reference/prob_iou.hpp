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

inline covariance covariance_of(const rotated_box& box) {
  const long double p = static_cast<long double>(box.w) * box.w / 12;
  const long double q = static_cast<long double>(box.h) * box.h / 12;
  // A unit vector as exactly as the type allows.
  const long double x = box.cosine, y = box.sine, length = x * x + y * y;
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
