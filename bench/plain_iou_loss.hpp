// SPDX-License-Identifier: Apache-2.0
// The GIoU, DIoU and CIoU losses as plain loops, compiled with -O3 -march=native -ffast-math: what
// a good programmer gets without vecdet. They return the sum and write the gradient to `out`, or
// write the loss of each box there, or need no `out`.
#include "plain_variants.hpp"

#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_IOU_LOSS_HPP)
#define VECDET_BENCH_PLAIN_IOU_LOSS_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_iou_loss.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_iou_loss.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

template <plain_loss L, plain_output O>
double plain_iou_loss(const float* predicted, const float* targets, float* out, std::int64_t count);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
