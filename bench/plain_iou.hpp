// SPDX-License-Identifier: Apache-2.0
// IoU and its kin as plain loops, compiled with -O3 -march=native -ffast-math: what a good
// programmer gets without vecdet. All pairs of `rows` boxes a and `cols` boxes b, or one by one.
#include "plain_variants.hpp"

#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_IOU_HPP)
#define VECDET_BENCH_PLAIN_IOU_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_iou.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_iou.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

template <plain_iou Kind>
void plain_pairwise_iou(const float* a, std::int64_t rows, const float* b, std::int64_t cols,
                        float* out);
template <plain_iou Kind, plain_layout L>
void plain_elementwise_iou(const float* a, const float* b, std::int64_t count, float* out);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
