// SPDX-License-Identifier: Apache-2.0
// The losses of scored labels as plain loops, compiled with -O3 -march=native -ffast-math. Each
// returns the sum of the loss, with exponents of 2 and varifocal's alpha 0.75, and writes its
// gradient.
#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_SOFT_TARGET_LOSS_HPP)
#define VECDET_BENCH_PLAIN_SOFT_TARGET_LOSS_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_soft_target_loss.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_soft_target_loss.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

double plain_quality_focal_loss(const float* logits, const std::int64_t* labels,
                                const float* scores, float* grad, std::int64_t rows,
                                std::int64_t cols);
double plain_varifocal_loss(const float* logits, const std::int64_t* labels, const float* scores,
                            float* grad, std::int64_t rows, std::int64_t cols);
double plain_bce_loss(const float* logits, const std::int64_t* labels, const float* scores,
                      float* grad, std::int64_t rows, std::int64_t cols);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
