// SPDX-License-Identifier: Apache-2.0
// Rotated boxes in plain scalars: corners, and the IoU by clipping one polygon with the sides of
// the other.
#pragma once

#include <vecdet/angle_convention.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// Centre, width and height, and the unit vector along the width.
struct rotated_box {
  double x, y, w, h, cosine, sine;

  double area() const { return w * h; }
};

struct point {
  double x, y;
};

/// Row i of a view. Multiples of 90 degrees have exact directions.
template <class T>
rotated_box load_rotated_box(matrix_view<T> boxes, index_t i, angle_convention angles) {
  constexpr double pi = 3.14159265358979323846;
  const bool degrees = angles == angle_convention::torchvision ||
                       angles == angle_convention::detectron2 || angles == angle_convention::opencv;
  const bool clockwise = angles == angle_convention::opencv ||
                         angles == angle_convention::ultralytics ||
                         angles == angle_convention::mmcv;
  const double angle = static_cast<double>(boxes(i, 4));
  double cosine = std::cos(angle), sine = std::sin(angle);
  if (degrees) {
    int quarters = 0;
    const double rest = std::remquo(angle, 90.0, &quarters) * (pi / 180);
    cosine = std::cos(rest), sine = std::sin(rest);
    for (int k = quarters & 3; k > 0; --k) {
      std::swap(cosine, sine);
      cosine = -cosine;
    }
  }
  return {static_cast<double>(boxes(i, 0)),
          static_cast<double>(boxes(i, 1)),
          static_cast<double>(boxes(i, 2)),
          static_cast<double>(boxes(i, 3)),
          cosine,
          clockwise ? sine : -sine};
}

/// Top left, top right, bottom right, bottom left before turning, relative to (x, y).
inline std::vector<point> corners_of(const rotated_box& b, double x = 0, double y = 0) {
  std::vector<point> corners;
  for (const point side : {point{-0.5, -0.5}, {0.5, -0.5}, {0.5, 0.5}, {-0.5, 0.5}})
    corners.push_back({b.x - x + side.x * b.w * b.cosine - side.y * b.h * b.sine,
                       b.y - y + side.x * b.w * b.sine + side.y * b.h * b.cosine});
  return corners;
}

inline double polygon_area(const std::vector<point>& corners) {
  double twice = 0;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const point& p = corners[i];
    const point& q = corners[(i + 1) % corners.size()];
    twice += p.x * q.y - q.x * p.y;
  }
  return std::max(0.0, twice / 2);
}

/// Clips b, a side of a at a time. Relative to a's centre, so that nothing is lost far away.
inline double intersection_area(const rotated_box& a, const rotated_box& b) {
  std::vector<point> polygon = corners_of(b, a.x, a.y);
  for (int side = 0; side < 4; ++side) {
    // Inside are the points with normal * p <= reach.
    const double sign = side < 2 ? 1 : -1, reach = side % 2 == 0 ? a.w / 2 : a.h / 2;
    const point normal = side % 2 == 0 ? point{sign * a.cosine, sign * a.sine}
                                       : point{-sign * a.sine, sign * a.cosine};
    std::vector<point> rest;
    for (std::size_t i = 0; i < polygon.size(); ++i) {
      const point p = polygon[i], q = polygon[(i + 1) % polygon.size()];
      const double before = normal.x * p.x + normal.y * p.y - reach;
      const double after = normal.x * q.x + normal.y * q.y - reach;
      if (before <= 0) rest.push_back(p);
      if ((before < 0 && after > 0) || (before > 0 && after < 0)) {
        const double t = before / (before - after);
        rest.push_back({p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)});
      }
    }
    polygon = rest;
  }
  return polygon_area(polygon);
}

inline double rotated_iou(const rotated_box& a, const rotated_box& b) {
  const bool is_box = a.w >= 0 && a.h >= 0 && b.w >= 0 && b.h >= 0 &&
                      std::isfinite(a.x + a.y + a.w + a.h + a.sine) &&
                      std::isfinite(b.x + b.y + b.w + b.h + b.sine);
  if (!is_box) return std::numeric_limits<double>::quiet_NaN();
  const double both = std::min({intersection_area(a, b), a.area(), b.area()});
  return both / (a.area() + b.area() - both);
}

/// Greedy NMS of boxes with scores that are no NaN: the kept indices, the best score first.
template <class T>
std::vector<index_t> rotated_nms(matrix_view<T> boxes,
                                 vector_view<const std::remove_const_t<T>> scores,
                                 angle_convention angles, double threshold) {
  std::vector<index_t> order, kept;
  for (index_t i = 0; i < boxes.rows(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](index_t a, index_t b) { return scores[a] > scores[b]; });
  for (const index_t i : order) {
    const rotated_box candidate = load_rotated_box(boxes, i, angles);
    const bool keeps = std::none_of(kept.begin(), kept.end(), [&](index_t k) {
      return rotated_iou(load_rotated_box(boxes, k, angles), candidate) > threshold;
    });
    if (keeps) kept.push_back(i);
  }
  return kept;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
