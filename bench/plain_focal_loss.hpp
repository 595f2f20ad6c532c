// SPDX-License-Identifier: Apache-2.0
// The focal loss as plain loops, compiled with -O3 -march=native -ffast-math: what a good
// programmer gets without vecdet. Each returns the sum of the loss, alpha 0.25 and gamma 2, and
// writes its gradient.
#pragma once

#include <cstdint>

namespace vecdet {
namespace bench {

double plain_focal_loss_labels(const float* logits, const std::int64_t* labels, float* grad,
                               std::int64_t rows, std::int64_t cols);
double plain_focal_loss_dense(const float* logits, const float* targets, float* grad,
                              std::int64_t size);

}  // namespace bench
}  // namespace vecdet
