// SPDX-License-Identifier: Apache-2.0
// Max pooling of square windows with half of their side as padding, one window at a time; in NHWC,
// one position of all channels at a time. The gradient is overwritten.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(void plain_max_pool(const float* input, std::int64_t images,
                                       std::int64_t channels, std::int64_t height,
                                       std::int64_t width, bool channels_last, std::int64_t window,
                                       std::int64_t stride, float* output, std::uint8_t* positions);
                   void plain_max_pool_grad(const float* upstream, const std::uint8_t* positions,
                                            std::int64_t images, std::int64_t channels,
                                            std::int64_t height, std::int64_t width,
                                            bool channels_last, std::int64_t window,
                                            std::int64_t stride, float* grad);)

}  // namespace vecdet::bench
