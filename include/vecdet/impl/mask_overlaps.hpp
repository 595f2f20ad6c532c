// SPDX-License-Identifier: Apache-2.0
// Overlaps of masks from their numbers of pixels.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/float_bits.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/views.hpp>

#include <algorithm>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The share of `area` pixels that `common` of them are; 0 without any.
inline double mask_share(index_t common, index_t area) {
  return common == 0 ? 0 : quotient(static_cast<double>(common), static_cast<double>(area));
}

/// The overlap of masks with `a` and `b` pixels.
inline double mask_ratio(index_t common, index_t a, index_t b, mask_overlap overlap) {
  return mask_share(common, overlap == mask_overlap::iou ? a + b - common : std::min(a, b));
}

inline void check_mask_overlap(const char* function, mask_overlap overlap) {
  check(overlap == mask_overlap::iou || overlap == mask_overlap::smaller_area, function, "overlap",
        static_cast<int>(overlap), "a mask_overlap");
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
