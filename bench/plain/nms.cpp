// SPDX-License-Identifier: Apache-2.0
#include "nms.hpp"

#include "terms.hpp"

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

void plain_batched_nms(const float* boxes, const float* scores, const std::int64_t* classes,
                       std::int64_t class_count, std::int64_t count, float iou_threshold,
                       std::int64_t most, plain_batched_nms_memory& memory) {
  // The members of each class, by a counting sort.
  std::vector<std::int64_t>& ends = memory.ends;
  ends.assign(static_cast<std::size_t>(class_count) + 1, 0);
  for (std::int64_t i = 0; i < count; ++i) ++ends[static_cast<std::size_t>(classes[i]) + 1];
  for (std::size_t c = 1; c < ends.size(); ++c) ends[c] += ends[c - 1];
  memory.members.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    memory.members[static_cast<std::size_t>(ends[static_cast<std::size_t>(classes[i])]++)] = i;
  memory.all_kept.clear();
  std::int64_t first = 0;
  for (std::int64_t c = 0; c < class_count; ++c) {
    const std::int64_t last = ends[static_cast<std::size_t>(c)], size = last - first;
    const std::int64_t* const members = memory.members.data() + first;
    memory.boxes.resize(static_cast<std::size_t>(4 * size));
    memory.scores.resize(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) {
      store(load(boxes, members[i]), memory.boxes.data(), i);
      memory.scores[static_cast<std::size_t>(i)] = scores[members[i]];
    }
    const std::int64_t kept =
        plain_nms(memory.boxes.data(), memory.scores.data(), size, iou_threshold, memory.nms);
    for (std::int64_t i = 0; i < kept; ++i)
      memory.all_kept.push_back(members[memory.nms.kept[static_cast<std::size_t>(i)]]);
    first = last;
  }
  std::vector<std::int64_t>& all = memory.all_kept;
  const auto best = all.begin() + std::min(most, static_cast<std::int64_t>(all.size()));
  std::partial_sort(all.begin(), best, all.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  });
  all.erase(best, all.end());
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
