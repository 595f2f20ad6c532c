// SPDX-License-Identifier: Apache-2.0
// ATSS, FCOS's and the task-aligned assigner, and SimOTA: loops over all boxes and points of one
// image, without matrices. They write the index of the box, or -1, to `matches`.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// ATSS with nine candidates per level.
    void plain_atss(const float* anchors, const std::int64_t* level_sizes, std::int64_t levels,
                    const float* truth, std::int64_t boxes, std::int64_t* matches);
    /// FCOS's assigner: centres within 1.5 anchor widths; farthest side at 4 to 8 widths from the
    /// point, without lower limit on the first level and without upper limit on the last; the
    /// smallest box.
    void plain_assign_fcos(const float* anchors, const std::int64_t* level_sizes,
                           std::int64_t levels, const float* truth, std::int64_t boxes,
                           std::int64_t* matches);
    /// The task-aligned assigner with the top ten, alpha 0.5 and beta 6. Also writes the targets.
    void plain_task_aligned(const float* scores, std::int64_t class_count, const float* predictions,
                            const float* points, std::int64_t count, const float* truth,
                            const std::int64_t* classes, std::int64_t boxes, std::int64_t* matches,
                            float* targets);
    /// The same for rotated boxes (centre, size, degrees counter-clockwise), with ProbIoU.
    void plain_rotated_task_aligned(const float* scores, std::int64_t class_count,
                                    const float* predictions, const float* points,
                                    std::int64_t count, const float* truth,
                                    const std::int64_t* classes, std::int64_t boxes,
                                    std::int64_t* matches, float* targets);
    /// SimOTA with the ten best IoUs, a radius of 2.5 strides and an IoU weight of 3. Also writes
    /// the targets.
    void plain_sim_ota(const float* logits, const float* objectness, std::int64_t class_count,
                       const float* predictions, const float* points, const float* strides,
                       std::int64_t count, const float* truth, const std::int64_t* classes,
                       std::int64_t boxes, std::int64_t* matches, float* targets);)

}  // namespace vecdet::bench
