// SPDX-License-Identifier: Apache-2.0
#include "nms.hpp"

#include <algorithm>
#include <numeric>

namespace vecdet::bench::VECDET_PLAIN_SET {

std::int64_t plain_nms(const float* boxes, const float* scores, std::int64_t count,
                       float iou_threshold, plain_nms_memory& memory) {
  const auto size = static_cast<std::size_t>(count);
  memory.order.resize(size);
  memory.kept.resize(size);
  for (std::vector<float>* array : {&memory.x1, &memory.y1, &memory.x2, &memory.y2, &memory.area})
    array->resize(size);
  memory.gone.assign(size, 0);
  std::int64_t* const order = memory.order.data();
  std::iota(order, order + count, std::int64_t{0});
  std::sort(order, order + count, [&](std::int64_t a, std::int64_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  });
  float* const x1 = memory.x1.data();
  float* const y1 = memory.y1.data();
  float* const x2 = memory.x2.data();
  float* const y2 = memory.y2.data();
  float* const area = memory.area.data();
  for (std::int64_t i = 0; i < count; ++i) {
    const float* const box = boxes + 4 * order[i];
    x1[i] = box[0];
    y1[i] = box[1];
    x2[i] = box[2];
    y2[i] = box[3];
    area[i] = (box[2] - box[0]) * (box[3] - box[1]);
  }
  std::uint8_t* const gone = memory.gone.data();
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (gone[i] != 0) continue;
    memory.kept[static_cast<std::size_t>(kept++)] = order[i];
    const float left = x1[i], top = y1[i], right = x2[i], bottom = y2[i], own = area[i];
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
    for (std::int64_t j = i + 1; j < count; ++j) {
      const float w = std::max(0.0f, std::min(right, x2[j]) - std::max(left, x1[j]));
      const float h = std::max(0.0f, std::min(bottom, y2[j]) - std::max(top, y1[j]));
      const float intersection = w * h;
      const bool suppressed = intersection > iou_threshold * (own + area[j] - intersection);
      gone[j] = static_cast<std::uint8_t>(gone[j] | suppressed);
    }
  }
  return kept;
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
