// SPDX-License-Identifier: Apache-2.0
// The focal loss as plain loops, compiled with -O3 -march=native -ffast-math: what a good
// programmer gets without vecdet. Each returns the sum of the loss, alpha 0.25 and gamma 2, and
// writes its gradient.
#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_FOCAL_LOSS_HPP)
#define VECDET_BENCH_PLAIN_FOCAL_LOSS_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_focal_loss.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_focal_loss.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

double plain_focal_loss_labels(const float* logits, const std::int64_t* labels, float* grad,
                               std::int64_t rows, std::int64_t cols);
/// A level in NCHW: of each location and anchor a label.
double plain_focal_loss_planes(const float* logits, const std::int64_t* labels, float* grad,
                               std::int64_t anchors, std::int64_t classes, std::int64_t locations);
double plain_focal_loss_dense(const float* logits, const float* targets, float* grad,
                              std::int64_t size);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
