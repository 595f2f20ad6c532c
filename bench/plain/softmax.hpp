// SPDX-License-Identifier: Apache-2.0
// Softmax losses, which return the sum and write the gradient; and decoding of distributions.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    double plain_distribution_focal_loss(const float* logits, const float* targets, float* grad,
                                         std::int64_t rows, std::int64_t bins);
    /// The expectation of each row.
    void plain_decode_distributions(const float* logits, float* distances, std::int64_t rows,
                                    std::int64_t bins);
    /// The corners of one box per four rows.
    void plain_decode_distribution_boxes(const float* logits, const float* points,
                                         const float* strides, float* boxes, std::int64_t count,
                                         std::int64_t bins);
    double plain_softmax_cross_entropy(const float* logits, const std::int64_t* labels, float* grad,
                                       std::int64_t rows, std::int64_t classes);
    /// Counts, in each image, the foreground (labels other than 0) and three times as many rows
    /// with the largest losses.
    double plain_mined_softmax_cross_entropy(const float* logits, const std::int64_t* labels,
                                             float* grad, std::int64_t images,
                                             std::int64_t per_image, std::int64_t classes);)

}  // namespace vecdet::bench
