// SPDX-License-Identifier: Apache-2.0
// What holds for the masks of any call.
#pragma once

#include "fuzz_input.hpp"
#include <vecdet/masks_view.hpp>

namespace vecdet::fuzz {

inline void check_rectangles(const masks_view& masks, index_t count) {
  if (masks.size() != count || masks.offsets.size() != count + 1 || masks.offsets[0] != 0)
    fail("the masks have other sizes");
  for (index_t i = 0; i < count; ++i) {
    const index_t height = masks.boxes(i, 3) - masks.boxes(i, 1);
    if (height < 0 || masks.boxes(i, 2) < masks.boxes(i, 0) || masks.boxes(i, 0) < 0 ||
        masks.boxes(i, 1) < 0 ||
        masks.offsets[i + 1] - masks.offsets[i] != height * masks.row_bytes(i))
      fail("a mask has a wrong rectangle");
  }
  if (masks.offsets[count] != masks.pixels.size()) fail("the pixels have another size");
}

}  // namespace vecdet::fuzz
