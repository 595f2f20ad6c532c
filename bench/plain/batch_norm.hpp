// SPDX-License-Identifier: Apache-2.0
// Batch normalisation and SiLU of NCHW or NHWC maps in two passes, and the gradient in two passes,
// with sums in float.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    void plain_batch_norm_silu(const float* input, const float* weight, const float* bias,
                               std::int64_t images, std::int64_t channels, std::int64_t locations,
                               bool channels_last, float epsilon, float* output);
    void plain_batch_norm_silu_grad(const float* upstream, const float* input, const float* weight,
                                    const float* bias, std::int64_t images, std::int64_t channels,
                                    std::int64_t locations, bool channels_last,
                                    const double* statistics, float epsilon, float* grad);)

}  // namespace vecdet::bench
