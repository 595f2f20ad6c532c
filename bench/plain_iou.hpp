// SPDX-License-Identifier: Apache-2.0
// IoU of all pairs as plain loops, compiled with -O3 -march=native -ffast-math: what a good
// programmer gets without vecdet. `rows` boxes a against `cols` boxes b.
#pragma once

#include <cstdint>

namespace vecdet {
namespace bench {

void plain_pairwise_iou(const float* a, std::int64_t rows, const float* b, std::int64_t cols,
                        float* out);
void plain_elementwise_iou(const float* a, const float* b, std::int64_t count, float* out);

}  // namespace bench
}  // namespace vecdet
