// SPDX-License-Identifier: Apache-2.0
// One box, and functions to read and write it.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// Corners (x1, y1) and (x2, y2), in any order. In some functions, four deltas or four numbers of
/// another box format.
template <class Real>
struct box_of {
  Real x1, y1, x2, y2;

  Real width() const { return x2 - x1; }
  Real height() const { return y2 - y1; }
};

using box = box_of<double>;

/// Box i of a view, widened to Real.
template <class Real = double, class T>
box_of<Real> load_box(boxes_view<T> boxes, index_t i) {
  return {static_cast<Real>(boxes(i, 0)), static_cast<Real>(boxes(i, 1)),
          static_cast<Real>(boxes(i, 2)), static_cast<Real>(boxes(i, 3))};
}

inline void store_box(boxes_view<double> boxes, index_t i, const box& value) {
  boxes(i, 0) = value.x1;
  boxes(i, 1) = value.y1;
  boxes(i, 2) = value.x2;
  boxes(i, 3) = value.y2;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
