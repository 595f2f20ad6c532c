// SPDX-License-Identifier: Apache-2.0
// The GIoU loss and its gradient as a plain loop, compiled with -O3 -march=native -ffast-math: what
// a good programmer gets without vecdet. Returns the sum of the loss.
#pragma once

#include <cstdint>

namespace vecdet {
namespace bench {

double plain_giou_loss(const float* predicted, const float* targets, float* grad,
                       std::int64_t count);

}  // namespace bench
}  // namespace vecdet
