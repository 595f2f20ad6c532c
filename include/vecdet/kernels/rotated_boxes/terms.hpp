// SPDX-License-Identifier: Apache-2.0
// The intersection of two rotated boxes as an equation on packs.
//
// In the frame of box a, a is the rectangle |x| <= X, |y| <= Y. Above each x within it, the
// intersection reaches from clamp(y of b's lower edge) to clamp(y of b's upper edge), clamped to
// [-Y, Y]. Its area is therefore the sum, over the four edges of b, of
//
//   integral of clamp(y(x), -Y, Y) dx over the part of the edge with |x| <= X,
//
// signed by the direction in x. No vertex is computed twice and nothing is divided by a small
// number that is not bounded: an edge's part outside [-Y, Y] has a weight from 0 to 1, and errors
// of steep edges are multiplied by their small extent in x. So nearly parallel edges, shared edges
// and shared corners lose no digits.
#pragma once

#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Boxes in registers: centre, half of width and height, the direction of the width, area.
template <class Real, int N>
struct rotated_pack {
  pack<Real, N> x, y, half_width, half_height, cosine, sine, area;
};

/// Centres and half of the sides of the enclosing upright boxes.
template <class Real, int N>
struct enclosing_pack {
  pack<Real, N> x, y, reach_x, reach_y;
};

/// The integral above for the edge from (x0, y0) to (x1, y1).
template <class Real, int N>
VECDET_INLINE pack<Real, N> edge_integral(const pack<Real, N>& x0, const pack<Real, N>& y0,
                                          const pack<Real, N>& x1, const pack<Real, N>& y1,
                                          const pack<Real, N>& slope, const pack<Real, N>& X,
                                          const pack<Real, N>& Y) {
  using real = pack<Real, N>;
  const real zero = Real(0), left = zero - X, floor = zero - Y;
  const real begin = min(max(x0, left), X), end = min(max(x1, left), X);
  const real least = min(y0, y1), greatest = max(y0, y1);
  const real ya = min(max(fma(begin - x0, slope, y0), least), greatest);
  const real yb = min(max(fma(end - x0, slope, y0), least), greatest);
  const real low = min(ya, yb), high = max(ya, yb);
  const real mean = (min(max(low, floor), Y) + min(max(high, floor), Y)) * real(Real(0.5));
  const real above = max(high - Y, zero), below = max(floor - low, zero);
  const real outside = above * (Y - mean) - below * (Y + mean);
  // Below every height that a box may have.
  const real least_height = sizeof(Real) == 4 ? Real(1e-37) : Real(1e-300);
  return rounded((end - begin) * (mean + outside / max(high - low, least_height)));
}

/// The area of the intersection of a and b; any number if one of them has a NaN.
template <class Real, int N>
VECDET_INLINE pack<Real, N> intersection_of(const rotated_pack<Real, N>& a,
                                            const rotated_pack<Real, N>& b) {
  using real = pack<Real, N>;
  const real zero = Real(0), dx = b.x - a.x, dy = b.y - a.y;
  const real x = fma(dx, a.cosine, dy * a.sine), y = fma(dy, a.cosine, zero - dx * a.sine);
  // The two products of a sum are rounded separately: they cancel for equal and for perpendicular
  // directions, whose other number is then exactly 1 or -1. Also without -ffp-contract=off.
  const real dot = rounded(b.cosine * a.cosine) + rounded(b.sine * a.sine);
  const real cross = rounded(b.sine * a.cosine) - rounded(b.cosine * a.sine);
  const real one = Real(1), minus_one = Real(-1);
  const real cosine = select(cross == zero, select(dot < zero, minus_one, one), dot);
  const real sine = select(dot == zero, select(cross < zero, minus_one, one), cross);
  // Half of b's width and height as vectors, and the slopes of its edges. An edge that is steeper
  // than a number can tell has no extent in x.
  const real ux = b.half_width * cosine, uy = b.half_width * sine;
  const real vx = zero - b.half_height * sine, vy = b.half_height * cosine;
  const real least = Real(1e-30);
  const real along_u = sine / select(abs(cosine) < least, least, cosine);
  const real along_v = cosine / select(abs(sine) < least, least, zero - sine);
  const real px = x - ux, py = y - uy, qx = x + ux, qy = y + uy;
  const real x0 = px - vx, y0 = py - vy, x1 = qx - vx, y1 = qy - vy;
  const real x2 = qx + vx, y2 = qy + vy, x3 = px + vx, y3 = py + vy;
  const real &X = a.half_width, &Y = a.half_height;
  const real sum =
      (edge_integral(x0, y0, x1, y1, along_u, X, Y) +
       edge_integral(x2, y2, x3, y3, along_u, X, Y)) +
      (edge_integral(x1, y1, x2, y2, along_v, X, Y) + edge_integral(x3, y3, x0, y0, along_v, X, Y));
  return min(max(zero - sum, zero), min(a.area, b.area));
}

/// The IoU of boxes with this intersection. The rule turns every NaN into 0, too.
template <class Real, int N>
VECDET_INLINE pack<Real, N> iou_of_areas(const pack<Real, N>& intersection,
                                         const pack<Real, N>& area_a, const pack<Real, N>& area_b,
                                         bool empty_is_zero) {
  using real = pack<Real, N>;
  const real iou = intersection / ((area_a + area_b) - intersection);
  if (!empty_is_zero) return iou;
  return select(iou > real(Real(0)), iou, real(Real(0)));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
