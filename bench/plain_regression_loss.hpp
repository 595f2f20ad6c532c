// SPDX-License-Identifier: Apache-2.0
// The box regression losses of a detector as plain loops, compiled with -O3 -march=native
// -ffast-math: what a good programmer gets without vecdet. Weights 1; beta is smooth L1's. They
// return the sum of the loss, and write its gradient to `grad` if that is asked for. Of all boxes,
// those whose label is 0 or more, or those whose index is one of `selected`; the targets are a box
// an anchor, or each anchor's match of `truth`.
#include "plain_variants.hpp"

#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_REGRESSION_LOSS_HPP)
#define VECDET_BENCH_PLAIN_REGRESSION_LOSS_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_regression_loss.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_regression_loss.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

template <plain_loss L, plain_output O>
double plain_regression_loss_all(const float* deltas, const float* anchors, const float* targets,
                                 float* grad, std::int64_t count, float beta);
template <plain_loss L, plain_output O>
double plain_regression_loss(const float* deltas, const float* anchors, const float* targets,
                             const std::int64_t* labels, float* grad, std::int64_t count,
                             float beta);
template <plain_loss L, plain_output O>
double plain_regression_loss_matches(const float* deltas, const float* anchors, const float* truth,
                                     const std::int64_t* matches, const std::int64_t* labels,
                                     float* grad, std::int64_t count, float beta);
template <plain_loss L, plain_output O>
double plain_regression_loss_list(const float* deltas, const float* anchors, const float* targets,
                                  const std::int64_t* indices, std::int64_t selected, float* grad,
                                  std::int64_t count, float beta);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
