// SPDX-License-Identifier: Apache-2.0
// Intersection over union of boxes and its variants in plain scalars.
//
//   IoU  = |A n B| / |A u B|
//   GIoU = IoU - |C \ (A u B)| / |C|, C the smallest box around both      (arXiv 1902.09630)
//   DIoU = IoU - rho^2 / c^2, rho between the centres, c C's diagonal     (arXiv 1911.08287)
//   CIoU = DIoU - alpha v, v = 4/pi^2 (atan(wa/ha) - atan(wb/hb))^2,
//          alpha = v / (1 - IoU + v)                                      (arXiv 1911.08287)
//
// As in torchvision.ops, eps = 1e-7 is added to c^2 and to alpha's denominator and nowhere else, so
// the IoU of two boxes without area is 0/0. NaN coordinates give NaN.
#pragma once

#include <vecdet/reference/box.hpp>
#include <vecdet/views.hpp>

#include <cmath>
#include <limits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

enum class iou_kind { iou, giou, diou, ciou };

/// The IoU of boxes whose union is empty.
enum class empty_union {
  nan,  ///< 0/0, as in torchvision.
  zero  ///< 0, as in detectron2.
};

/// The greater and the smaller of two numbers; NaN if one of them is NaN.
template <class Real>
Real greater_of(Real a, Real b) {
  return a > b || std::isnan(a) ? a : b;
}
template <class Real>
Real lesser_of(Real a, Real b) {
  return a < b || std::isnan(a) ? a : b;
}

/// a * b rounded to Real. Compilers cannot contract it with a later sum.
template <class Real>
Real rounded_product(Real a, Real b) {
  const volatile Real product = a * b;
  return product;
}

template <class Real>
Real intersection_area(const box_of<Real>& a, const box_of<Real>& b) {
  const Real w = lesser_of(a.x2, b.x2) - greater_of(a.x1, b.x1);
  const Real h = lesser_of(a.y2, b.y2) - greater_of(a.y1, b.y1);
  return rounded_product(greater_of(w, Real(0)), greater_of(h, Real(0)));
}

template <class Real>
Real union_area(const box_of<Real>& a, const box_of<Real>& b) {
  return rounded_product(a.width(), a.height()) + rounded_product(b.width(), b.height()) -
         intersection_area(a, b);
}

/// With Real = float, bit-identical to torchvision's box_iou: one rounding per operation.
template <class Real>
Real iou(const box_of<Real>& a, const box_of<Real>& b, empty_union rule = empty_union::nan) {
  const Real intersection = intersection_area(a, b);
  if (rule == empty_union::zero && !(intersection > 0)) return 0;
  return intersection / union_area(a, b);
}

inline box enclosing_box(const box& a, const box& b) {
  return {lesser_of(a.x1, b.x1), lesser_of(a.y1, b.y1), greater_of(a.x2, b.x2),
          greater_of(a.y2, b.y2)};
}

inline double giou(const box& a, const box& b, empty_union rule = empty_union::nan) {
  const box c = enclosing_box(a, b);
  const double hull = greater_of(c.width(), 0.0) * greater_of(c.height(), 0.0);
  return iou(a, b, rule) - (hull - union_area(a, b)) / hull;
}

inline double diou(const box& a, const box& b, empty_union rule = empty_union::nan,
                   double eps = 1e-7) {
  const box c = enclosing_box(a, b);
  const double w = greater_of(c.width(), 0.0);
  const double h = greater_of(c.height(), 0.0);
  const double dx = (a.x1 + a.x2) / 2 - (b.x1 + b.x2) / 2;
  const double dy = (a.y1 + a.y2) / 2 - (b.y1 + b.y2) / 2;
  return iou(a, b, rule) - (dx * dx + dy * dy) / (w * w + h * h + eps);
}

/// v, the squared difference of the boxes' angles atan(w/h), from 0 to 1.
inline double aspect_difference(const box& a, const box& b) {
  constexpr double pi = 3.14159265358979323846;
  const double angle = std::atan(a.width() / a.height()) - std::atan(b.width() / b.height());
  return 4 / (pi * pi) * angle * angle;
}

inline double ciou(const box& a, const box& b, empty_union rule = empty_union::nan,
                   double eps = 1e-7) {
  const double v = aspect_difference(a, b);
  const double alpha = v / (1 - iou(a, b, rule) + v + eps);
  return diou(a, b, rule, eps) - alpha * v;
}

inline double iou_of_kind(iou_kind kind, const box& a, const box& b,
                          empty_union rule = empty_union::nan) {
  switch (kind) {
    case iou_kind::iou:
      return iou(a, b, rule);
    case iou_kind::giou:
      return giou(a, b, rule);
    case iou_kind::diou:
      return diou(a, b, rule);
    case iou_kind::ciou:
      return ciou(a, b, rule);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// Writes out(i, j) for box i of `a` and box j of `b`.
template <class T, class U>
void pairwise_iou(boxes_view<T> a, boxes_view<U> b, matrix_view<double> out,
                  iou_kind kind = iou_kind::iou, empty_union rule = empty_union::nan) {
  for (index_t i = 0; i < a.size(); ++i)
    for (index_t j = 0; j < b.size(); ++j)
      out(i, j) = iou_of_kind(kind, load_box(a, i), load_box(b, j), rule);
}

/// Writes out[i] for box i of `a` and box i of `b`.
template <class T, class U>
void elementwise_iou(boxes_view<T> a, boxes_view<U> b, vector_view<double> out,
                     iou_kind kind = iou_kind::iou, empty_union rule = empty_union::nan) {
  for (index_t i = 0; i < a.size(); ++i)
    out[i] = iou_of_kind(kind, load_box(a, i), load_box(b, i), rule);
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
