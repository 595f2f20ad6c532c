// SPDX-License-Identifier: Apache-2.0
// NMS as a good programmer writes it for -O3 -march=native -ffast-math: sorted coordinates in
// arrays, one loop over all later boxes for each box kept, which the compiler vectorises.
#include "plain_variants.hpp"

#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_NMS_HPP)
#define VECDET_BENCH_PLAIN_NMS_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_nms.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_nms.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

/// Writes the indices kept to memory.kept, best score first, and returns their number.
std::int64_t plain_nms(const float* boxes, const float* scores, std::int64_t count,
                       float iou_threshold, plain_nms_memory& memory);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
