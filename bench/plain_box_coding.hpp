// SPDX-License-Identifier: Apache-2.0
// Box coding as plain loops, compiled with -O3 -march=native -ffast-math: what a good programmer
// gets without vecdet. Weights 1; `count` boxes.
#pragma once

#include <cstdint>

namespace vecdet {
namespace bench {

void plain_decode_and_clip(const float* deltas, const float* anchors, float* boxes,
                           std::int64_t count, float width, float height);
void plain_encode(const float* targets, const float* anchors, float* deltas, std::int64_t count);

}  // namespace bench
}  // namespace vecdet
