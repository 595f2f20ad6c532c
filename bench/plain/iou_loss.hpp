// SPDX-License-Identifier: Apache-2.0
// The GIoU, DIoU and CIoU losses. They return the sum and write the gradient to `out`, or write
// the loss of each box there, or need no `out`.
#pragma once

#include "loops.hpp"

namespace vecdet {
namespace bench {

VECDET_PLAIN_LOOPS(template <plain_loss L, plain_output O>
                   double plain_iou_loss(const float* predicted, const float* targets, float* out,
                                         std::int64_t count);)

}  // namespace bench
}  // namespace vecdet
