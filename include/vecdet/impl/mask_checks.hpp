// SPDX-License-Identifier: Apache-2.0
// Checks that the functions that make masks share.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

inline void check_mask_pixels(const char* function, mask_pixels kind) {
  check_member(kind == mask_pixels::bits || kind == mask_pixels::bytes, function, "params",
               "pixels", static_cast<int>(kind), "a mask_pixels");
}

constexpr index_t longest_mask_side = 1 << 20;

/// Checks the division of `count` objects among images, if it is given, and the pictures' sizes.
inline void check_pictures(const char* function, const vector_view<const index_t>& image_offsets,
                           const vector_view<const grid_size>& sizes, index_t images,
                           index_t count) {
  if (!image_offsets.empty())
    check_offsets(function, "image_offsets", image_offsets, count, "the number of boxes");
  if (sizes.size() != 1)
    check_size(function, "sizes.size()", sizes.size(), images, "the number of images");
  for (index_t k = 0; k < sizes.size(); ++k)
    for (const index_t side : {sizes[k].height, sizes[k].width})
      if (side < 0 || side > longest_mask_side)
        throw_invalid_argument(function, element("sizes", k), side, "sides of 0 to 2^20 pixels");
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
