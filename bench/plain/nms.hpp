// SPDX-License-Identifier: Apache-2.0
// NMS of sorted coordinates in arrays. For each kept box, one loop, which the compiler vectorises,
// tests all later boxes.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// Writes the indices kept to memory.kept, best score first, and returns their number.
    std::int64_t plain_nms(const float* boxes, const float* scores, std::int64_t count,
                           float iou_threshold, plain_nms_memory& memory);)

}  // namespace vecdet::bench
