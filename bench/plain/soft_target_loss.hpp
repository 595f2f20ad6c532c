// SPDX-License-Identifier: Apache-2.0
// Losses of scored labels, with exponents of 2 and varifocal's alpha 0.75. Each function
// returns the sum of the loss and writes its gradient.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(double plain_quality_focal_loss(const float* logits, const std::int64_t* labels,
                                                   const float* scores, float* grad,
                                                   std::int64_t rows, std::int64_t cols);
                   double plain_varifocal_loss(const float* logits, const std::int64_t* labels,
                                               const float* scores, float* grad, std::int64_t rows,
                                               std::int64_t cols);
                   double plain_bce_loss(const float* logits, const std::int64_t* labels,
                                         const float* scores, float* grad, std::int64_t rows,
                                         std::int64_t cols);)

}  // namespace vecdet::bench
