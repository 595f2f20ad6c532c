// SPDX-License-Identifier: Apache-2.0
// OpenCV's rectangles and their overlap as OpenCV computes it. Rectangles are intersected by
// OpenCV's own operator, so that the results are those of the version that is installed.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/float_bits.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include <opencv2/core/types.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The corners of a rectangle in double.
template <class T>
std::array<double, 4> corners_of(const cv::Rect_<T>& r) {
  const double x = static_cast<double>(r.x), y = static_cast<double>(r.y);
  return {x, y, x + static_cast<double>(r.width), y + static_cast<double>(r.height)};
}

/// OpenCV's area and sum of areas: integers wrap around.
inline int rectangle_area(int width, int height) {
  return static_cast<int>(static_cast<unsigned>(width) * static_cast<unsigned>(height));
}
inline double rectangle_area(double width, double height) { return rounded(width * height); }
inline int sum_of_areas(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}
inline double sum_of_areas(double a, double b) { return rounded(a + b); }

inline bool has_finite_numbers(const cv::Rect&) { return true; }
inline bool has_finite_numbers(const cv::Rect2d& r) {
  return is_finite(r.x) && is_finite(r.y) && is_finite(r.width) && is_finite(r.height);
}

inline bool has_finite_numbers(const cv::RotatedRect& r) {
  return is_finite(r.center.x) && is_finite(r.center.y) && is_finite(r.size.width) &&
         is_finite(r.size.height) && is_finite(r.angle);
}

/// Whether no sum of a side and its position wraps around or loses more than 1e-10 of the side.
inline bool is_usual_side(int position, int side) {
  return side >= 0 && position <= std::numeric_limits<int>::max() - side;
}
inline bool is_usual_side(double position, double side) {
  const double end = std::abs(position) + side;
  return is_equal(side, 0) ? end <= 1e100 : side >= 1e-6 && side <= 1e100 && end <= 1e5 * side;
}

/// Whether the rectangle is not inverted, all of its numbers are finite, and their sums and
/// products are close to exact. For integers, two of its areas are at most 2^31 - 1.
template <class T>
bool is_usual(const cv::Rect_<T>& r) {
  return has_finite_numbers(r) && is_usual_side(r.x, r.width) && is_usual_side(r.y, r.height) &&
         (!std::is_integral<T>::value ||
          static_cast<double>(r.width) * static_cast<double>(r.height) < 0x1p30);
}

/// A rectangle with what its comparisons with many others need.
template <class T>
struct measured_rectangle {
  cv::Rect_<T> rectangle;
  T area;
  T right = 0, bottom = 0;  ///< used if `is_usual`
  bool is_usual;

  explicit measured_rectangle(const cv::Rect_<T>& r)
      : rectangle(r), area(rectangle_area(r.width, r.height)), is_usual(detail::is_usual(r)) {
    if (!is_usual) return;
    right = r.x + r.width;
    bottom = r.y + r.height;
  }
};

/// Whether the overlap is 0, found without a division. False for some that are.
template <class T>
bool are_apart(const measured_rectangle<T>& a, const measured_rectangle<T>& b) {
  return (a.rectangle.x >= b.right || b.rectangle.x >= a.right || a.rectangle.y >= b.bottom ||
          b.rectangle.y >= a.bottom) &&
         a.is_usual && b.is_usual && a.area > std::numeric_limits<T>::epsilon();
}

/// OpenCV's overlap, a float: 1 - float(1 - IoU in double), but 1 if the sum of both areas is at
/// most epsilon, which is 0 for integers.
template <class T>
float overlap_of(const measured_rectangle<T>& a, const measured_rectangle<T>& b) {
  const T both = sum_of_areas(a.area, b.area);
  if (both <= std::numeric_limits<T>::epsilon()) return 1;
  const cv::Rect_<T> common = a.rectangle & b.rectangle;
  const auto intersection = static_cast<double>(rectangle_area(common.width, common.height));
  const double joined = rounded(static_cast<double>(both) - intersection);
  const double distance = rounded(1 - quotient(intersection, joined));
  return rounded(1 - rounded(static_cast<float>(distance)));
}

/// A NaN overlap suppresses, as in OpenCV.
template <class T>
bool is_suppressed(const measured_rectangle<T>& box, const measured_rectangle<T>& by,
                   float threshold) {
  if (are_apart(box, by)) return false;
  const float overlap = overlap_of(box, by);
  return is_nan(overlap) || overlap > threshold;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
