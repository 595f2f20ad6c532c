// SPDX-License-Identifier: Apache-2.0
// The IoU of rotated boxes in registers by all rules: upright boxes, boxes apart, all others.
#pragma once

#include <vecdet/kernels/iou/terms.hpp>
#include <vecdet/kernels/rotated_boxes/tile.hpp>

namespace vecdet {
namespace VECDET_TARGET {

template <class Real>
using rotated_row_tile = rotated_tile<Real, row_lanes>;

/// Whether the enclosing boxes are apart; false if one of the boxes is not a number.
template <class Real, int N>
VECDET_INLINE pack_mask<Real, N> are_apart(const enclosing_pack<Real, N>& a,
                                           const enclosing_pack<Real, N>& b) {
  return (abs(b.x - a.x) > a.reach_x + b.reach_x) | (abs(b.y - a.y) > a.reach_y + b.reach_y);
}

/// The IoU of upright boxes as iou.hpp computes it.
template <class Real, int N>
VECDET_INLINE pack<Real, N> upright_iou(const box_pack<Real, N>& a, const box_pack<Real, N>& b,
                                        bool empty_is_zero) {
  return iou_of<iou_kind::iou>(a, area_of(a), b, area_of(b),
                               empty_is_zero ? empty_iou::zero : empty_iou::nan);
}

/// Writes the IoUs of 16 pairs: of each box of a, or of box `only` of it, with the box of b in the
/// same place.
template <bool All, class Real>
VECDET_INLINE void ious_of_sixteen(const rotated_row_tile<Real>& a, int only,
                                   const rotated_row_tile<Real>& b, bool empty_is_zero, Real* iou) {
  constexpr int N = 1, lanes = pack<Real, N>::lanes;
  using real = pack<Real, N>;
  const auto repeated = a.template repeated<N>(only);
  const auto enclosing = a.template repeated_enclosing<N>(only);
  const auto upright = a.template repeated_corners<N>(only);
  for (int i = 0; i < row_lanes; i += lanes) {
    const auto p = All ? a.template at<N>(i) : repeated, q = b.template at<N>(i);
    const auto is_apart =
        are_apart(All ? a.template enclosing<N>(i) : enclosing, b.template enclosing<N>(i));
    const real both = select(is_apart, real(Real(0)), intersection_of(p, q));
    const real first = All ? load_pack<N>(a.upright + i) : real(a.upright[only]);
    const auto are_upright = first + load_pack<N>(b.upright + i) == real(Real(2));
    const auto first_corners = All ? a.template corners<N>(i) : upright;
    store_pack<N>(
        iou + i,
        select(are_upright, upright_iou(first_corners, b.template corners<N>(i), empty_is_zero),
               iou_of_areas(both, p.area, q.area, empty_is_zero)));
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
