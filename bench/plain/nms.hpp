// SPDX-License-Identifier: Apache-2.0
// NMS of sorted coordinates in arrays. For each kept box, one loop, which the compiler vectorises,
// tests all later boxes.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// Writes the indices kept to memory.kept, best score first, and returns their number.
    std::int64_t plain_nms(const float* boxes, const float* scores, std::int64_t count,
                           float iou_threshold, plain_nms_memory& memory);

    /// The same within each class in [0, class_count). The `most` best of all kept indices are
    /// written to memory.all_kept, best score first.
    void plain_batched_nms(const float* boxes, const float* scores, const std::int64_t* classes,
                           std::int64_t class_count, std::int64_t count, float iou_threshold,
                           std::int64_t most, plain_batched_nms_memory& memory);)

}  // namespace vecdet::bench
