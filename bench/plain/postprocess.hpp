// SPDX-License-Identifier: Apache-2.0
// From a head's outputs to detections: select the best k candidates of each level, decode and clip
// them, apply plain_nms class by class, and keep the best of the image.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// Writes the logits above the threshold to `best`; the k greatest of them come first, in
    /// order.
    void plain_topk(const plain_level& level, bool planes, float threshold, std::int64_t k,
                    std::vector<plain_candidate>& best);
    /// Leaves the detections in memory.best_boxes and best_scores.
    void plain_postprocess(const plain_level* levels, std::int64_t level_count,
                           const float* anchors, const plain_postprocess_params& params,
                           plain_postprocess_memory& memory);)

}  // namespace vecdet::bench
