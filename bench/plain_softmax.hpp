// SPDX-License-Identifier: Apache-2.0
// Losses of softmax, and the decoding of distributions, as plain loops, compiled with -O3
// -march=native -ffast-math: what a good programmer gets without vecdet. Losses return the sum and
// write the gradient.
#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_SOFTMAX_HPP)
#define VECDET_BENCH_PLAIN_SOFTMAX_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_softmax.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_softmax.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

double plain_distribution_focal_loss(const float* logits, const float* targets, float* grad,
                                     std::int64_t rows, std::int64_t bins);
/// The expectation of each row.
void plain_decode_distributions(const float* logits, float* distances, std::int64_t rows,
                                std::int64_t bins);
/// The corners of a box for every four rows.
void plain_decode_distribution_boxes(const float* logits, const float* points, const float* strides,
                                     float* boxes, std::int64_t count, std::int64_t bins);
double plain_softmax_cross_entropy(const float* logits, const std::int64_t* labels, float* grad,
                                   std::int64_t rows, std::int64_t classes);
/// Of each image the foreground, labelled other than 0, and three times as many of the largest
/// loss.
double plain_mined_softmax_cross_entropy(const float* logits, const std::int64_t* labels,
                                         float* grad, std::int64_t images, std::int64_t of_image,
                                         std::int64_t classes);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
