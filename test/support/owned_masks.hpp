// SPDX-License-Identifier: Apache-2.0
// Masks that outlive the workspace that they were made in.
#pragma once

#include <vecdet/masks_view.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <vector>

namespace vecdet::test {

struct owned_masks {
  std::vector<index_t> boxes, offsets;
  std::vector<std::uint8_t> pixels;
  mask_pixels kind;

  explicit owned_masks(const masks_view& found)
      : boxes(found.boxes.data(), found.boxes.data() + 4 * found.boxes.size()),
        offsets(found.offsets.begin(), found.offsets.end()),
        pixels(found.pixels.begin(), found.pixels.end()),
        kind(found.kind) {}
  masks_view view() const {
    return {boxes_view<const index_t>(boxes.data(), boxes.size() / 4),
            vector_view<const index_t>(offsets), vector_view<const std::uint8_t>(pixels), kind};
  }
  bool operator==(const owned_masks& other) const {
    return boxes == other.boxes && offsets == other.offsets && pixels == other.pixels;
  }
};

}  // namespace vecdet::test
