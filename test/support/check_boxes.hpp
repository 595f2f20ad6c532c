// SPDX-License-Identifier: Apache-2.0
// Comparison of kernels' boxes with exact ones.
#pragma once

#include "box_tensor.hpp"
#include "exact_boxes.hpp"
#include "ulp.hpp"

#include <cmath>
#include <cstddef>
#include <functional>
#include <string>

#include <doctest/doctest.h>

namespace vecdet::test {

/// Compares each box that a function computes from one box of `a` and one of `b` with exact(a, b).
/// Errors up to `ulp` ulp of the terms that cancel are allowed.
template <class T>
void check_boxes(
    const marked<T>& actual, boxes_view<const T> a, boxes_view<const T> b, double ulp,
    const char* what,
    const std::function<expected_box(const reference::box&, const reference::box&)>& exact) {
  for (index_t i = 0; i < a.size(); ++i) {
    const reference::box first = reference::load_box(a, i), second = reference::load_box(b, i);
    const expected_box e = exact(first, second);
    for (int k = 0; k < 4; ++k) {
      const double value = numbers(e.exact)[static_cast<std::size_t>(k)];
      const double scale = numbers(e.scale)[static_cast<std::size_t>(k)];
      const T mine = actual[4 * i + k];
      if (is_close(mine, value, ulp, scale)) continue;
      // Float may overflow where the reference, in double, does not, and where a term overflows.
      if (sizeof(T) <= 4 && std::abs(value) > 3.4e38 && !std::isnan(static_cast<double>(mine)))
        continue;
      if (std::abs(value) < 1e-37 && std::abs(static_cast<double>(mine)) < 1e-37) continue;
      FAIL_CHECK(std::string(what)
                 << " " << k << " of (" << first.x1 << " " << first.y1 << " " << first.x2 << " "
                 << first.y2 << ") with (" << second.x1 << " " << second.y1 << " " << second.x2
                 << " " << second.y2 << ") is " << static_cast<double>(mine) << ", exact " << value
                 << ": " << ulp_distance(mine, value) << " ulp");
      return;
    }
  }
}

}  // namespace vecdet::test
