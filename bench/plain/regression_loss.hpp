// SPDX-License-Identifier: Apache-2.0
// The box regression losses of a detector, with coder weights of 1. They return the sum of the
// loss, and write its gradient to `grad` on request. They take all boxes, those whose label is 0 or
// more, or those whose index is in `selected`. Targets are one box per anchor, or each anchor's
// match in `truth`.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    template <plain_loss L, plain_output O>
    double plain_regression_loss_all(const float* deltas, const float* anchors,
                                     const float* targets, float* grad, std::int64_t count,
                                     float beta);
    template <plain_loss L, plain_output O>
    double plain_regression_loss(const float* deltas, const float* anchors, const float* targets,
                                 const std::int64_t* labels, float* grad, std::int64_t count,
                                 float beta);
    template <plain_loss L, plain_output O>
    double plain_regression_loss_matches(const float* deltas, const float* anchors,
                                         const float* truth, const std::int64_t* matches,
                                         const std::int64_t* labels, float* grad,
                                         std::int64_t count, float beta);
    template <plain_loss L, plain_output O>
    double plain_regression_loss_list(const float* deltas, const float* anchors,
                                      const float* targets, const std::int64_t* indices,
                                      std::int64_t selected, float* grad, std::int64_t count,
                                      float beta);
    /// FCOS's: the GIoU losses of the matched anchors' boxes, decoded from distances by the
    /// anchor's size, and the binary cross entropies of their centre-ness, in one sum.
    double plain_fcos_regression(const plain_level* levels, std::int64_t level_count, bool planes,
                                 const float* anchors, const float* truth,
                                 const std::int64_t* matches, float* distances_grad,
                                 float* centerness_grad);)

}  // namespace vecdet::bench
