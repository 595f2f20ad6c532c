// SPDX-License-Identifier: Apache-2.0
// RoIAlign of one image with one location per pixel, not aligned, with two samples per bin and
// axis. Positions and weights of a box's samples are computed once for all channels.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(void plain_roi_align(const float* features, std::int64_t channels,
                                        std::int64_t height, std::int64_t width, const float* boxes,
                                        std::int64_t count, std::int64_t rows, std::int64_t columns,
                                        bool channels_last, float* bins);
                   /// Overwrites the gradient.
                   void plain_roi_align_grad(const float* upstream, std::int64_t channels,
                                             std::int64_t height, std::int64_t width,
                                             const float* boxes, std::int64_t count,
                                             std::int64_t rows, std::int64_t columns,
                                             bool channels_last, float* grad);)

}  // namespace vecdet::bench
