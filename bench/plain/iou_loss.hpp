// SPDX-License-Identifier: Apache-2.0
// The GIoU, DIoU and CIoU losses. Depending on the output, a function returns the sum, returns the
// sum and writes the gradient to `out`, or writes the loss of each box to `out`.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(template <plain_loss L, plain_output O>
                   double plain_iou_loss(const float* predicted, const float* targets, float* out,
                                         std::int64_t count);)

}  // namespace vecdet::bench
