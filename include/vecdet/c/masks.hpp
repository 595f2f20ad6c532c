// SPDX-License-Identifier: Apache-2.0
// What functions of masks share, of pixels and as run lengths.
#pragma once

#include <vecdet/c/support.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/masks_view.hpp>

#include <cstdint>
#include <vector>

namespace vecdet_c {

/// Whether memory can hold the offsets of so many masks.
inline bool is_count(int64_t count) { return count >= 0 && count < detail::max_elements<index_t>; }

std::vector<grid_size> pictures_of(const char* function, const vecdet_grid_size* sizes,
                                   int64_t count);

/// `what` is the argument's name.
masks_view masks_in(const char* function, const char* what, const vecdet_masks* masks);

vecdet_masks c_masks(const masks_view& masks);

}  // namespace vecdet_c
