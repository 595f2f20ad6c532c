// SPDX-License-Identifier: Apache-2.0
// Intersection over union of boxes and its variants, for all pairs or element by element.
//
//   IoU  = |A n B| / |A u B|
//   GIoU = IoU - |C \ (A u B)| / |C|, C the smallest box around both      (arXiv 1902.09630)
//   DIoU = IoU - rho^2 / c^2, rho between the centres, c C's diagonal     (arXiv 1911.08287)
//   CIoU = DIoU - alpha v, v = 4/pi^2 (atan(wa/ha) - atan(wb/hb))^2,
//          alpha = v / (1 - IoU + v)                                      (arXiv 1911.08287)
//
// As in torchvision.ops, eps = 1e-7 is added to c^2 and to alpha's denominator and nowhere else.
// Boxes are N x 4 corners of float, bfloat16 or double; the results have the same type.
//
// IoU in float is bit-identical to torchvision's box_iou, with one rounding per operation. The
// other measures are within 1e-6 of the exact value. The IoU of two boxes without area is 0/0,
// which is NaN. empty_iou::zero turns it, and every other NaN IoU, into 0; GIoU and CIoU of two
// points stay NaN, because other terms of their formulas are 0/0 as well. Boxes with swapped
// corners enter the formula with negative areas. NaN coordinates give NaN. In float, areas overflow
// for sides of 1e19 and more and underflow to 0 below 1e-19.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ or the output
// shares memory with an input.
#pragma once

#include <vecdet/iou_kind.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

struct iou_params {
  iou_kind kind = iou_kind::iou;
  empty_iou empty = empty_iou::nan;
};

/// Writes the IoU of box i of `a` and box j of `b` to element (i, j) of `out`.
template <class Boxes>
void pairwise_iou(const Boxes& a, boxes_view<const coordinate_of<Boxes>> b,
                  matrix_view<coordinate_of<Boxes>> out, const iou_params& params = {},
                  threading policy = threading::parallel);

/// Writes the IoU of box i of `a` and box i of `b` to out[i].
template <class Boxes>
void elementwise_iou(const Boxes& a, boxes_view<const coordinate_of<Boxes>> b,
                     vector_view<coordinate_of<Boxes>> out, const iou_params& params = {},
                     threading policy = threading::parallel);

/// The same for boxes with one array per coordinate.
template <class T>
void elementwise_iou(boxes_soa_view<T> a, boxes_soa_view<const value_of<T>> b,
                     vector_view<value_of<T>> out, const iou_params& params = {},
                     threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/iou.hpp>
