// SPDX-License-Identifier: Apache-2.0
// Masks from prototypes and pasted masks, one object after the other: logits or probabilities
// within the box, enlarged to the picture one row after the other, and compared with 0 or the
// threshold. Pixels are bits, as in vecdet's masks.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

/// Memory of plain_masks_from_prototypes between calls.
struct plain_masks_memory {
  std::vector<float> logits, weights, between;
  std::vector<std::int64_t> columns;
};

VECDET_PLAIN_LOOPS(
    /// `side` is that of the picture, which prototypes of height x width cover. `boxes` are the
    /// masks' rectangles.
    void plain_masks_from_prototypes(const float* prototypes, std::int64_t channels,
                                     std::int64_t height, std::int64_t width,
                                     const float* coefficients, const std::int64_t* boxes,
                                     std::int64_t count, std::int64_t side,
                                     plain_masks_memory& memory, std::uint8_t* pixels);
    /// `maps` are side x side. Masks that lie partly outside are cut off.
    void plain_paste_masks(const float* maps, std::int64_t side, const float* boxes,
                           std::int64_t count, std::int64_t height, std::int64_t width,
                           float threshold, plain_masks_memory& memory, std::uint8_t* pixels);)

}  // namespace vecdet::bench
