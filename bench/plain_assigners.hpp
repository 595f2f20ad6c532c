// SPDX-License-Identifier: Apache-2.0
// ATSS and the task-aligned assigner as plain loops over all boxes and points, without matrices,
// compiled with -O3 -march=native -ffast-math: what a good programmer gets without vecdet. One
// image; the index of the box, or -1, goes to `matches`.
#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_ASSIGNERS_HPP)
#define VECDET_BENCH_PLAIN_ASSIGNERS_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_assigners.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_assigners.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

/// Nine candidates of each level.
void plain_atss(const float* anchors, const std::int64_t* level_sizes, std::int64_t levels,
                const float* truth, std::int64_t boxes, std::int64_t* matches);

/// Top ten, alpha 0.5, beta 6. Also writes the targets.
void plain_task_aligned(const float* scores, std::int64_t class_count, const float* predictions,
                        const float* points, std::int64_t count, const float* truth,
                        const std::int64_t* classes, std::int64_t boxes, std::int64_t* matches,
                        float* targets);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
