// SPDX-License-Identifier: Apache-2.0
// Postprocessing of YOLOv8's output, channels first; merging by intersection over the smaller area;
// and a letterbox to a square input, in fixed point on bytes.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// Leaves the scores of the detections in memory.found, and the indices of their boxes in
    /// memory.sources. `limits` are thresholds of each class. Boxes of classes with the same group
    /// suppress each other.
    void plain_yolo(const float* output, std::int64_t boxes, std::int64_t classes, float threshold,
                    const float* limits, const std::int32_t* groups, float iou_threshold,
                    plain_yolo_memory& memory);
    /// The same of bytes q that stand for q * scale; scores of `lowest` or more pass.
    void plain_quantised_yolo(const std::uint8_t* output, std::int64_t boxes, std::int64_t classes,
                              std::uint8_t lowest, float scale, float iou_threshold,
                              plain_yolo_memory& memory);
    /// Writes the box that each is merged into, and returns the number of groups.
    std::int64_t plain_merge(const float* boxes, const float* scores, std::int64_t count,
                             float threshold, std::int64_t* owners);
    void plain_letterbox(const std::uint8_t* image, std::int64_t height, std::int64_t width,
                         std::int64_t side, float* input);)

}  // namespace vecdet::bench
