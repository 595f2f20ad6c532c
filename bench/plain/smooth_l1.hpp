// SPDX-License-Identifier: Apache-2.0
// Smooth L1 of `size` numbers, or of those of `count` boxes whose label is 0 or more, or whose
// index is in `selected`. Depending on the output, a function returns the sum, returns the sum and
// writes the gradient to `out`, or writes the loss of each element to `out`.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(template <plain_output O>
                   double plain_smooth_l1(const float* predictions, const float* targets,
                                          float* out, std::int64_t size, float beta);
                   template <plain_output O>
                   double plain_smooth_l1_labels(const float* predictions, const float* targets,
                                                 const std::int64_t* labels, float* out,
                                                 std::int64_t count, float beta);
                   template <plain_output O>
                   double plain_smooth_l1_list(const float* predictions, const float* targets,
                                               const std::int64_t* indices, std::int64_t selected,
                                               float* out, std::int64_t count, float beta);)

}  // namespace vecdet::bench
