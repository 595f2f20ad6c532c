// SPDX-License-Identifier: Apache-2.0
// COCO's run lengths, pixel by pixel: counts, compressed strings, and polygons drawn point by
// point.
#pragma once

#include <vecdet/grid_size.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// The counts of the pixels for which has(x, y) holds.
template <class Has>
std::vector<std::uint32_t> run_lengths(const grid_size& size, const Has& has) {
  std::vector<std::uint32_t> counts{0};
  bool is_inside = false;
  for (index_t x = 0; x < size.width; ++x)
    for (index_t y = 0; y < size.height; ++y) {
      if (has(x, y) != is_inside) {
        is_inside = !is_inside;
        counts.push_back(0);
      }
      ++counts.back();
    }
  return counts;
}

/// The pixels, column by column.
template <class Counts>
std::vector<std::uint8_t> pixels_of_runs(const Counts& counts) {
  std::vector<std::uint8_t> pixels;
  std::uint8_t value = 0;
  for (const std::uint32_t count : counts) {
    pixels.insert(pixels.end(), count, value);
    value = value == 0 ? 1 : 0;
  }
  return pixels;
}

/// The compressed string. A number of n groups of 5 bits is in [-2^(5 n - 1), 2^(5 n - 1)).
template <class Counts>
std::string run_length_string(const Counts& counts) {
  std::string text;
  std::vector<std::int64_t> all(counts.begin(), counts.end());
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::int64_t number = k > 2 ? all[k] - all[k - 2] : all[k];
    std::int64_t half = 16;
    int groups = 1;
    for (; number < -half || number >= half; half *= 32) ++groups;
    std::int64_t rest = number < 0 ? number + 2 * half : number;
    for (; groups > 0; --groups, rest /= 32)
      text += static_cast<char>(48 + rest % 32 + (groups > 1 ? 32 : 0));
  }
  return text;
}

/// The points of an edge in fifths of pixels, in whole steps of its longer side.
inline std::vector<std::pair<double, double>> edge_points(double ax, double ay, double bx,
                                                          double by) {
  const double across = std::abs(bx - ax), down = std::abs(by - ay);
  const double steps = std::max(across, down);
  const bool is_flat = across >= down;
  if (is_flat ? ax > bx : ay > by) {
    std::swap(ax, bx);
    std::swap(ay, by);
  }
  std::vector<std::pair<double, double>> points;
  for (double step = 0; step <= steps && steps > 0; ++step) {
    const double moved = (is_flat ? by - ay : bx - ax) / steps * step;
    points.emplace_back(is_flat ? ax + step : std::trunc(ax + moved + 0.5),
                        is_flat ? std::trunc(ay + moved + 0.5) : ay + step);
  }
  return points;
}

/// The counts of a polygon, x y of each point.
inline std::vector<std::uint32_t> polygon_run_lengths(const std::vector<double>& xy,
                                                      const grid_size& size) {
  const auto fifths = [&](std::size_t k) { return std::trunc(5 * xy[k % xy.size()] + 0.5); };
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  std::vector<int> changes(static_cast<std::size_t>(size.height * size.width + 1));
  for (std::size_t k = 0; k < xy.size(); k += 2) {
    const auto points = edge_points(fifths(k), fifths(k + 1), fifths(k + 2), fifths(k + 3));
    for (std::size_t i = 1; i < points.size(); ++i) {
      const double left = std::min(points[i - 1].first, points[i].first);
      const double column = (left - 2) / 5;
      if (points[i - 1].first == points[i].first || column != std::floor(column) || column < 0 ||
          column >= width)
        continue;
      const double upper = std::min(points[i - 1].second, points[i].second);
      const double row = std::min(std::max(std::ceil((upper - 2) / 5), 0.0), height);
      changes[static_cast<std::size_t>(column * height + row)] ^= 1;
    }
  }
  bool is_inside = false;
  return run_lengths(size, [&](index_t x, index_t y) {
    return is_inside ^= changes[static_cast<std::size_t>(x * size.height + y)] != 0;
  });
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
