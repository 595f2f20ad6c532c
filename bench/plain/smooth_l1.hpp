// SPDX-License-Identifier: Apache-2.0
// Smooth L1. They return the sum and write the gradient to `out`, or write the loss of each
// element there, or need no `out`. Of `size` numbers, or of the boxes among `count` whose label
// is 0 or more, or whose index is one of `selected`.
#pragma once

#include "loops.hpp"

namespace vecdet {
namespace bench {

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

}  // namespace bench
}  // namespace vecdet
