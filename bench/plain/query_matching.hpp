// SPDX-License-Identifier: Apache-2.0
// The matching of queries with the focal class cost: a cost matrix for each image, and the
// Hungarian algorithm with potentials. Boxes are cx cy w h, `boxes` for each image.
#pragma once

#include "loops.hpp"

namespace vecdet {
namespace bench {

VECDET_PLAIN_LOOPS(
    /// The query of each box goes to `matches`. Class cost with weight 2, L1 with 5, GIoU with 2.
    void plain_match_queries(const float* logits, const float* predicted, std::int64_t images,
                             std::int64_t queries, std::int64_t classes, const float* truth,
                             const std::int64_t* labels, std::int64_t boxes, std::int64_t* matches);
    /// rows <= cols; returns the least total.
    double plain_assign_least_cost(const double* costs, std::int64_t rows, std::int64_t cols,
                                   std::int64_t* columns);)

}  // namespace bench
}  // namespace vecdet
