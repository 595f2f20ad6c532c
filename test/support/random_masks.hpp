// SPDX-License-Identifier: Apache-2.0
// Masks with random rectangles and pixels, as bits and as bytes.
#pragma once

#include "owned_masks.hpp"
#include "random.hpp"
#include <vecdet/grid_size.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace vecdet::test {

/// Masks of which has(i, x, y) says whether a pixel of the rectangle x1 y1 x2 y2 belongs to them.
template <class Has>
owned_masks make_masks(const std::vector<index_t>& boxes, mask_pixels kind, const Has& has) {
  const auto count = static_cast<index_t>(boxes.size() / 4);
  std::vector<index_t> offsets{0};
  std::vector<std::uint8_t> pixels;
  for (index_t i = 0; i < count; ++i) {
    const index_t* const box = boxes.data() + 4 * i;
    for (index_t y = box[1]; y < box[3]; ++y)
      for (index_t x = box[0]; x < box[2]; ++x) {
        const bool is_set = has(i, x, y);
        const index_t at = x - box[0];
        if (kind == mask_pixels::bytes) {
          pixels.push_back(is_set ? static_cast<std::uint8_t>(1 + (x * 37 + y) % 255) : 0);
        } else {
          if (at % 8 == 0) pixels.push_back(0);
          if (is_set) pixels.back() |= static_cast<std::uint8_t>(1 << at % 8);
        }
      }
    offsets.push_back(static_cast<index_t>(pixels.size()));
  }
  return owned_masks(
      masks_view{boxes_view<const index_t>(boxes.data(), count), offsets, pixels, kind});
}

/// Rectangles within `size`, some empty, some whole pictures; noise of several densities, discs,
/// single pixels, and none.
inline owned_masks random_masks(index_t count, const grid_size& size, mask_pixels kind,
                                random_generator random) {
  std::vector<index_t> boxes;
  std::vector<int> kinds;
  std::vector<double> numbers;
  const auto side = [&](index_t length) {
    index_t a = random.below(length + 1), b = random.below(length + 1);
    if (a > b) std::swap(a, b);
    return std::make_pair(a, b);
  };
  for (index_t i = 0; i < count; ++i) {
    const bool is_whole = random.chance(0.3);
    const auto x = is_whole ? std::make_pair(index_t{0}, size.width) : side(size.width);
    const auto y = is_whole ? std::make_pair(index_t{0}, size.height) : side(size.height);
    boxes.insert(boxes.end(), {x.first, y.first, x.second, y.second});
    kinds.push_back(static_cast<int>(random.below(5)));
    numbers.push_back(random.uniform());
  }
  return make_masks(boxes, kind, [&](index_t i, index_t x, index_t y) {
    const index_t* const box = boxes.data() + 4 * i;
    const auto own = static_cast<std::size_t>(i);
    const auto width = static_cast<double>(box[2] - box[0]);
    const auto height = static_cast<double>(box[3] - box[1]);
    const double u = (static_cast<double>(x - box[0]) + 0.5) / width - 0.5;
    const double v = (static_cast<double>(y - box[1]) + 0.5) / height - 0.5;
    switch (kinds[own]) {
      case 0:
        return random.chance(numbers[own]);
      case 1:
        return u * u + v * v < numbers[own] / 4;
      case 2:
        return x == box[0] + static_cast<index_t>(numbers[own] * width) &&
               y == box[1] + static_cast<index_t>(numbers[own] * height);
      case 3:
        return false;
      default:
        return true;
    }
  });
}

}  // namespace vecdet::test
