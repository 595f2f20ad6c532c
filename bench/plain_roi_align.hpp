// SPDX-License-Identifier: Apache-2.0
// RoIAlign as plain loops, compiled with -O3 -march=native -ffast-math: what a good programmer gets
// without vecdet. Positions and weights of a box's samples are computed once for all channels; one
// image, one location a pixel, not aligned, two samples a bin and axis.
#include <cstdint>

#if !defined(VECDET_PLAIN_SET)
#if !defined(VECDET_BENCH_PLAIN_ROI_ALIGN_HPP)
#define VECDET_BENCH_PLAIN_ROI_ALIGN_HPP

// Declared for both instruction sets; see plain_variants.hpp.
#define VECDET_PLAIN_SET native
#include "plain_roi_align.hpp"
#undef VECDET_PLAIN_SET
#define VECDET_PLAIN_SET avx2
#include "plain_roi_align.hpp"
#undef VECDET_PLAIN_SET

#endif
#else

namespace vecdet {
namespace bench {
namespace VECDET_PLAIN_SET {

void plain_roi_align(const float* features, std::int64_t channels, std::int64_t height,
                     std::int64_t width, const float* boxes, std::int64_t count, std::int64_t rows,
                     std::int64_t columns, bool channels_last, float* bins);

/// Overwrites the gradient.
void plain_roi_align_grad(const float* upstream, std::int64_t channels, std::int64_t height,
                          std::int64_t width, const float* boxes, std::int64_t count,
                          std::int64_t rows, std::int64_t columns, bool channels_last, float* grad);

}  // namespace VECDET_PLAIN_SET
}  // namespace bench
}  // namespace vecdet

#endif
