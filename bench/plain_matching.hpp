// SPDX-License-Identifier: Apache-2.0
// Matching as plain loops, compiled with -O3 -march=native -ffast-math: what a good programmer gets
// without vecdet, and without the matrix of IoUs. Thresholds 0.5 and 0.4, low-quality matches.
#pragma once

#include <cstdint>
#include <vector>

namespace vecdet {
namespace bench {

/// The best IoU that each anchor and each box has.
struct plain_match_memory {
  std::vector<float> iou, x1, y1, x2, y2, area;
  std::vector<std::int32_t> best;
};

/// Matches `count` anchors with boxes; labels are the class of the match, -1 or -2.
void plain_match_anchors(const float* anchors, std::int64_t count, const float* boxes,
                         const std::int64_t* classes, std::int64_t box_count, std::int64_t* matches,
                         std::int64_t* labels, float* ious, plain_match_memory& memory);

}  // namespace bench
}  // namespace vecdet
