// SPDX-License-Identifier: Apache-2.0
// Smooth L1 as a plain loop, compiled with -O3 -march=native -ffast-math: what a good programmer
// gets without vecdet. Returns the sum of the loss and writes its gradient.
#pragma once

#include <cstdint>

namespace vecdet {
namespace bench {

double plain_smooth_l1(const float* predictions, const float* targets, float* grad,
                       std::int64_t size, float beta);

}  // namespace bench
}  // namespace vecdet
