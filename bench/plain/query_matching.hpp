// SPDX-License-Identifier: Apache-2.0
// The matching of queries with the focal class cost: one cost matrix per image, and the Hungarian
// algorithm with potentials. Boxes are cx cy w h, `boxes` per image.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(
    /// Writes the query of each box to `matches`. The class cost has weight 2, L1 5 and GIoU 2.
    void plain_match_queries(const float* logits, const float* predicted, std::int64_t images,
                             std::int64_t queries, std::int64_t classes, const float* truth,
                             const std::int64_t* labels, std::int64_t boxes, std::int64_t* matches);
    /// Returns the least total. There may not be more rows than columns.
    double plain_assign_least_cost(const double* costs, std::int64_t rows, std::int64_t cols,
                                   std::int64_t* columns);)

}  // namespace vecdet::bench
