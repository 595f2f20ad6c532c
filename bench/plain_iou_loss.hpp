// SPDX-License-Identifier: Apache-2.0
// The GIoU, DIoU and CIoU losses as plain loops, compiled with -O3 -march=native -ffast-math: what
// a good programmer gets without vecdet. They return the sum and write the gradient to `out`, or
// write the loss of each box there, or need no `out`.
#pragma once

#include "plain_variants.hpp"

#include <cstdint>

namespace vecdet {
namespace bench {

template <plain_loss L, plain_output O>
double plain_iou_loss(const float* predicted, const float* targets, float* out, std::int64_t count);

}  // namespace bench
}  // namespace vecdet
