// SPDX-License-Identifier: Apache-2.0
// Matching without the matrix of IoUs: thresholds 0.5 and 0.4, low-quality matches.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// Matches `count` anchors with boxes; labels are the class of the match, -1 or -2.
    void plain_match_anchors(const float* anchors, std::int64_t count, const float* boxes,
                             const std::int64_t* classes, std::int64_t box_count,
                             std::int64_t* matches, std::int64_t* labels, float* ious,
                             plain_match_memory& memory);
    /// SSD's: threshold 0.5, and each box's best anchor is forced to it. Background is labelled 0.
    void plain_match_ssd(const float* anchors, std::int64_t count, const float* boxes,
                         const std::int64_t* classes, std::int64_t box_count, std::int64_t* matches,
                         std::int64_t* labels, float* ious, plain_match_memory& memory);)

}  // namespace vecdet::bench
