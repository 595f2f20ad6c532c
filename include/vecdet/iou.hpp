// SPDX-License-Identifier: Apache-2.0
// Intersection over union of boxes and its kin, of all pairs or one by one.
//
//   IoU  = |A n B| / |A u B|
//   GIoU = IoU - |C \ (A u B)| / |C|, C the smallest box around both      (arXiv 1902.09630)
//   DIoU = IoU - rho^2 / c^2, rho between the centres, c C's diagonal     (arXiv 1911.08287)
//   CIoU = DIoU - alpha v, v = 4/pi^2 (atan(wa/ha) - atan(wb/hb))^2,
//          alpha = v / (1 - IoU + v)                                      (arXiv 1911.08287)
//
// as torchvision.ops computes them: eps = 1e-7 is added to c^2 and to alpha's denominator, nothing
// elsewhere. Boxes are N x 4 corners of float, bfloat16 or double; so are the results.
//
// IoU in float is the very float that torchvision's box_iou returns: one rounding an operation. The
// others are within 1e-6 of the exact value. Boxes without area: two of them have IoU 0/0, which is
// NaN, or 0 if that is asked for, as is then every IoU that is NaN (not GIoU and CIoU of two
// points, whose other terms are 0/0 as well); swapped corners count as negative areas do in the
// formula; NaN coordinates give NaN. In float, areas overflow from sides of 1e19 on, and vanish
// below 1e-19.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, or the output
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

/// The IoU of box i of `a` and box j of `b` into element (i, j) of `out`.
template <class Boxes>
void pairwise_iou(const Boxes& a, boxes_view<const coordinate_of<Boxes>> b,
                  matrix_view<coordinate_of<Boxes>> out, const iou_params& params = {},
                  execution policy = execution::parallel);

/// The IoU of box i of `a` and box i of `b` into out[i].
template <class Boxes>
void elementwise_iou(const Boxes& a, boxes_view<const coordinate_of<Boxes>> b,
                     vector_view<coordinate_of<Boxes>> out, const iou_params& params = {},
                     execution policy = execution::parallel);

/// The same of boxes whose coordinates lie in four arrays.
template <class T>
void elementwise_iou(boxes_soa_view<T> a, boxes_soa_view<const value_of<T>> b,
                     vector_view<value_of<T>> out, const iou_params& params = {},
                     execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/iou.hpp>
