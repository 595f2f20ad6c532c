// SPDX-License-Identifier: Apache-2.0
// NMS as a good programmer writes it for -O3 -march=native -ffast-math: sorted coordinates in
// arrays, one loop over all later boxes for each box kept, which the compiler vectorises.
#pragma once

#include <cstdint>
#include <vector>

namespace vecdet {
namespace bench {

struct plain_nms_memory {
  std::vector<std::int64_t> order, kept;
  std::vector<float> x1, y1, x2, y2, area;
  std::vector<std::uint8_t> gone;
};

/// Writes the indices kept to memory.kept, best score first, and returns their number.
std::int64_t plain_nms(const float* boxes, const float* scores, std::int64_t count,
                       float iou_threshold, plain_nms_memory& memory);

}  // namespace bench
}  // namespace vecdet
