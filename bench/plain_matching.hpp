// SPDX-License-Identifier: Apache-2.0
// Matching as plain loops, compiled with -O3 -march=native -ffast-math: what a good programmer gets
// without vecdet, and without the matrix of IoUs. Thresholds 0.5 and 0.4, low-quality matches.
#include "plain_variants.hpp"

#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_MATCHING_HPP)
#define VECDET_BENCH_PLAIN_MATCHING_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_matching.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_matching.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

/// Matches `count` anchors with boxes; labels are the class of the match, -1 or -2.
void plain_match_anchors(const float* anchors, std::int64_t count, const float* boxes,
                         const std::int64_t* classes, std::int64_t box_count, std::int64_t* matches,
                         std::int64_t* labels, float* ious, plain_match_memory& memory);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
