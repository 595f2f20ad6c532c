// SPDX-License-Identifier: Apache-2.0
// The GIoU and CIoU losses and their gradients as plain loops, compiled with -O3 -march=native
// -ffast-math: what a good programmer gets without vecdet. They return the sum of the loss.
#pragma once

#include <cstdint>

namespace vecdet {
namespace bench {

double plain_giou_loss(const float* predicted, const float* targets, float* grad,
                       std::int64_t count);
double plain_ciou_loss(const float* predicted, const float* targets, float* grad,
                       std::int64_t count);

}  // namespace bench
}  // namespace vecdet
