// SPDX-License-Identifier: Apache-2.0
// Deformable attention for one image. The loop over the channels is innermost, as in CUDA kernels
// of this function.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

/// The locations of a level, and its points.
struct plain_attention_level {
  std::int64_t height, width, points;
};

VECDET_PLAIN_LOOPS(
    void plain_deformable_attention(const float* value, const float* points, const float* weights,
                                    const plain_attention_level* levels, std::int64_t level_count,
                                    std::int64_t queries, std::int64_t heads, std::int64_t channels,
                                    float* out);
    /// Overwrites the gradients.
    void plain_deformable_attention_grad(
        const float* upstream, const float* value, const float* points, const float* weights,
        const plain_attention_level* levels, std::int64_t level_count, std::int64_t locations,
        std::int64_t queries, std::int64_t heads, std::int64_t channels, float* value_grad,
        float* point_grad, float* weight_grad);)

}  // namespace vecdet::bench
