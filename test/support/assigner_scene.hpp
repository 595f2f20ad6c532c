// SPDX-License-Identifier: Apache-2.0
// Grids of points for assigners, batches, and comparisons with the references.
#pragma once

#include <vecdet/reference/assigners.hpp>
#include <vecdet/views.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include <bench/support/pyramid.hpp>
#include <doctest/doctest.h>

namespace vecdet::test {

struct strided_pyramid : bench::pyramid {
  std::vector<double> strides, point_strides;  ///< of the levels, and of the points

  void add_level(index_t height, index_t width, double stride) {
    add(height, width, stride);
    strides.push_back(stride);
    point_strides.insert(point_strides.end(), static_cast<std::size_t>(height * width), stride);
  }
};

/// For an image of 200 x 160 pixels.
inline strided_pyramid three_levels() {
  strided_pyramid p;
  p.add_level(25, 20, 8);
  p.add_level(13, 10, 16);
  p.add_level(7, 5, 32);
  return p;
}
/// One row, one column, no point, one point.
inline strided_pyramid irregular_levels() {
  strided_pyramid p;
  p.add_level(1, 30, 8);
  p.add_level(30, 1, 8);
  p.add_level(0, 3, 8);
  p.add_level(1, 1, 64);
  return p;
}

/// Offsets of images with more and more boxes.
inline std::vector<index_t> offsets_of(index_t images, index_t boxes) {
  std::vector<index_t> offsets{0};
  for (index_t k = 1; k < images; ++k) offsets.push_back(boxes * k * k / (images * images));
  offsets.push_back(boxes);
  return offsets;
}

/// Numbers in [low, high) that NumPy's and torch's scripts repeat.
inline double scattered(index_t i, double low, double high) {
  return low + (high - low) * static_cast<double>((i * 7919 + 104729) % 10007) / 10007;
}

/// How far a target may be from the exact one. Targets below `negligible` are passed over, with
/// their matches.
struct target_tolerance {
  double relative = 0, absolute = 0, negligible = 0;
};

/// Compares the points of one image, whose first box is `first`, with the reference.
inline void check_assignment(const reference::assignment& expected, index_t image, index_t first,
                             const std::vector<index_t>& matches, const std::vector<float>& targets,
                             const target_tolerance& within) {
  const std::size_t points = expected.matches.size();
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t at = static_cast<std::size_t>(image) * points + i;
    const index_t match = expected.matches[i];
    const double exact = expected.targets[i], target = static_cast<double>(targets[at]);
    if (exact < within.negligible && target < within.negligible) continue;
    if (matches[at] != (match < 0 ? -1 : first + match))
      FAIL_CHECK("point " << i << " of image " << image << " is matched with " << matches[at]
                          << ", expected " << match << " from " << first);
    if (!(std::abs(target - exact) <= within.relative * exact + within.absolute))
      FAIL_CHECK("the target of point " << i << " is " << target << ", exact " << exact);
  }
}

}  // namespace vecdet::test
