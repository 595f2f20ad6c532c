// SPDX-License-Identifier: Apache-2.0
// The losses of scored labels as plain loops, compiled with -O3 -march=native -ffast-math. Each
// returns the sum of the loss, with exponents of 2 and varifocal's alpha 0.75, and writes its
// gradient.
#pragma once

#include <cstdint>

namespace vecdet {
namespace bench {

double plain_quality_focal_loss(const float* logits, const std::int64_t* labels,
                                const float* scores, float* grad, std::int64_t rows,
                                std::int64_t cols);
double plain_varifocal_loss(const float* logits, const std::int64_t* labels, const float* scores,
                            float* grad, std::int64_t rows, std::int64_t cols);
double plain_bce_loss(const float* logits, const std::int64_t* labels, const float* scores,
                      float* grad, std::int64_t rows, std::int64_t cols);

}  // namespace bench
}  // namespace vecdet
