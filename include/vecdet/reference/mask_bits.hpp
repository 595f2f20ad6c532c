// SPDX-License-Identifier: Apache-2.0
// Areas, boxes and overlaps of masks, pixel by pixel.
#pragma once

#include <vecdet/mask_bits.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <array>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// Calls use(x, y) for each pixel of object i.
template <class Use>
void for_each_pixel(const masks_view& masks, index_t i, const Use& use) {
  for (index_t y = masks.boxes(i, 1); y < masks.boxes(i, 3); ++y)
    for (index_t x = masks.boxes(i, 0); x < masks.boxes(i, 2); ++x)
      if (masks.has(i, x, y)) use(x, y);
}

inline index_t mask_area(const masks_view& masks, index_t i) {
  index_t area = 0;
  for_each_pixel(masks, i, [&](index_t, index_t) { ++area; });
  return area;
}

inline std::array<index_t, 4> mask_box(const masks_view& masks, index_t i) {
  std::array<index_t, 4> box{};
  bool is_first = true;
  for_each_pixel(masks, i, [&](index_t x, index_t y) {
    if (is_first) box = {x, y, x, y};
    is_first = false;
    box = {std::min(box[0], x), box[1], std::max(box[2], x + 1), y + 1};
  });
  return box;
}

/// The overlap of mask i of `a` and mask k of `b`.
inline double mask_overlap_of(const masks_view& a, index_t i, const masks_view& b, index_t k,
                              mask_overlap overlap, bool is_crowd) {
  index_t common = 0;
  for_each_pixel(a, i, [&](index_t x, index_t y) { common += b.has(k, x, y); });
  if (common == 0) return 0;
  const index_t own = mask_area(a, i), other = mask_area(b, k);
  const index_t divisor = is_crowd                                ? own
                          : overlap == mask_overlap::smaller_area ? std::min(own, other)
                                                                  : own + other - common;
  return static_cast<double>(common) / static_cast<double>(divisor);
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
