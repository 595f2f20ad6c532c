// SPDX-License-Identifier: Apache-2.0
// The smooth L1 regression loss of a detector as a plain loop, compiled with -O3 -march=native
// -ffast-math: what a good programmer gets without vecdet. Weights 1; labels below 0 do not count.
// Returns the sum of the loss and writes its gradient.
#pragma once

#include <cstdint>

namespace vecdet {
namespace bench {

double plain_regression_loss(const float* deltas, const float* anchors, const float* targets,
                             const std::int64_t* labels, float* grad, std::int64_t count,
                             float beta);

}  // namespace bench
}  // namespace vecdet
