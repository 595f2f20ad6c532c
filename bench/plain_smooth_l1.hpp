// SPDX-License-Identifier: Apache-2.0
// Smooth L1 as plain loops, compiled with -O3 -march=native -ffast-math: what a good programmer
// gets without vecdet. They return the sum and write the gradient to `out`, or write the loss of
// each element there, or need no `out`. Of `size` numbers, or of the boxes among `count` whose
// label is 0 or more, or whose index is one of `selected`.
#include "plain_variants.hpp"

#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_SMOOTH_L1_HPP)
#define VECDET_BENCH_PLAIN_SMOOTH_L1_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_smooth_l1.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_smooth_l1.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

template <plain_output O>
double plain_smooth_l1(const float* predictions, const float* targets, float* out,
                       std::int64_t size, float beta);
template <plain_output O>
double plain_smooth_l1_labels(const float* predictions, const float* targets,
                              const std::int64_t* labels, float* out, std::int64_t count,
                              float beta);
template <plain_output O>
double plain_smooth_l1_list(const float* predictions, const float* targets,
                            const std::int64_t* indices, std::int64_t selected, float* out,
                            std::int64_t count, float beta);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
