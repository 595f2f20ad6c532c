// SPDX-License-Identifier: Apache-2.0
// IoU and its variants, for all pairs of `rows` boxes a and `cols` boxes b, or element by element.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(template <plain_iou Kind>
                   void plain_pairwise_iou(const float* a, std::int64_t rows, const float* b,
                                           std::int64_t cols, float* out);
                   template <plain_iou Kind, plain_layout L>
                   void plain_elementwise_iou(const float* a, const float* b, std::int64_t count,
                                              float* out);)

}  // namespace vecdet::bench
