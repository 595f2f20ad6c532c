// SPDX-License-Identifier: Apache-2.0
// Run lengths of masks that are stored column by column, and the IoU of run lengths, one mask or
// pair after the other.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// `pixels` are `count` pictures of `size` bytes, column by column. The counts of all masks are
    /// written one after the other.
    void plain_encode_masks(const std::uint8_t* pixels, std::int64_t count, std::int64_t size,
                            std::vector<std::uint32_t>& counts);
    /// The IoU of all pairs of `count` masks; those of mask i begin at counts[offsets[i]].
    void plain_mask_iou(const std::uint32_t* counts, const std::int64_t* offsets,
                        std::int64_t count, double* ious);)

}  // namespace vecdet::bench
