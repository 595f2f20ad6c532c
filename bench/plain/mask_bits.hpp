// SPDX-License-Identifier: Apache-2.0
// Areas, IoU, NMS and merging of masks of bits that have all pixels of their pictures, one pair
// after the other.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// `bits` are `count` pictures of `words` words each.
    void plain_mask_areas(const std::uint64_t* bits, std::int64_t count, std::int64_t words,
                          std::int64_t* areas);
    /// The IoU of all pairs: of those with i < k once, and written twice.
    void plain_bits_iou(const std::uint64_t* bits, std::int64_t count, std::int64_t words,
                        std::vector<std::int64_t>& areas, double* ious);
    /// The masks that are kept, in descending score.
    void plain_mask_nms(const std::uint64_t* bits, const float* scores, std::int64_t count,
                        std::int64_t words, double threshold, std::vector<std::int64_t>& areas,
                        std::vector<std::int64_t>& kept);
    /// For each mask, the first mask of its group by the rule of mask_merging.hpp.
    void plain_group_masks(const std::uint64_t* bits, const float* scores, std::int64_t count,
                           std::int64_t words, double threshold, std::vector<std::int64_t>& areas,
                           std::vector<std::uint64_t>& whole, std::vector<std::int64_t>& owners);)

}  // namespace vecdet::bench
