// SPDX-License-Identifier: Apache-2.0
// Exact boxes, in double, to compare those of kernels with, and the sizes of the terms that cancel
// in them.
#pragma once

#include <vecdet/box_coding.hpp>
#include <vecdet/reference/box_coding.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace vecdet::test {

inline std::array<double, 4> numbers(const reference::box& b) { return {b.x1, b.y1, b.x2, b.y2}; }

inline double largest_of(const reference::box& b) {
  double largest = 0;
  for (const double x : numbers(b))
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return largest;
}

inline reference::size_clamp as_reference(size_clamp clamp) {
  return clamp == size_clamp::above  ? reference::size_clamp::above
         : clamp == size_clamp::both ? reference::size_clamp::both
                                     : reference::size_clamp::none;
}

inline reference::box centred(const coder_params& p, const reference::box& anchor) {
  return p.anchors == box_format::xyxy ? anchor : reference::xyxy_from_cxcywh(anchor);
}
inline reference::coder_weights weights_of(const coder_params& p) {
  return {p.weight_x, p.weight_y, p.weight_w, p.weight_h};
}

/// The exact result of a function of two boxes, and the sizes of the terms that cancel in it.
struct expected_box {
  reference::box exact, scale;
};

inline expected_box exact_decode(const coder_params& p, const reference::box& deltas,
                                 const reference::box& given) {
  const reference::box anchor = centred(p, given);
  const reference::box b =
      reference::decode_box(deltas, anchor, weights_of(p), as_reference(p.clamp), p.size_limit);
  const reference::box a = reference::cxcywh_from_xyxy(anchor);
  // The terms of a corner: the anchor's ends, centre, shift and size.
  const double x = std::max(
      {largest_of(anchor), std::abs(a.x2 * deltas.x1 / p.weight_x), std::abs(b.x2 - b.x1)});
  const double y = std::max(
      {largest_of(anchor), std::abs(a.y2 * deltas.y1 / p.weight_y), std::abs(b.y2 - b.y1)});
  return {b, {x, y, x, y}};
}

}  // namespace vecdet::test
