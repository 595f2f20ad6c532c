// SPDX-License-Identifier: Apache-2.0
#include "matching.hpp"

#include "terms.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// Anchors with one array per coordinate, so that loops over them are vectorised.
struct plain_anchors {
  const float* __restrict x1, * __restrict y1, * __restrict x2, * __restrict y2, * __restrict area;

  float iou(plain_box p, std::int64_t i) const {
    const float w = std::fmax(std::fmin(p.x2, x2[i]) - std::fmax(p.x1, x1[i]), 0.0f);
    const float h = std::fmax(std::fmin(p.y2, y2[i]) - std::fmax(p.y1, y1[i]), 0.0f);
    return w * h / (p.width() * p.height() + area[i] - w * h);
  }
};

/// The best IoU and its box of each anchor, and the greatest IoU of each box.
plain_anchors find_best(const float* anchors, std::int64_t count, const float* boxes,
                        std::int64_t box_count, float* ious, plain_match_memory& memory) {
  const auto size = static_cast<std::size_t>(count);
  for (std::vector<float>* of : {&memory.x1, &memory.y1, &memory.x2, &memory.y2, &memory.area})
    of->resize(size);
  memory.best.resize(size);
  for (std::int64_t i = 0; i < count; ++i) {
    const plain_box a = load(anchors, i);
    const auto at = static_cast<std::size_t>(i);
    memory.x1[at] = a.x1;
    memory.y1[at] = a.y1;
    memory.x2[at] = a.x2;
    memory.y2[at] = a.y2;
    memory.area[at] = a.width() * a.height();
  }
  const plain_anchors all{memory.x1.data(), memory.y1.data(), memory.x2.data(), memory.y2.data(),
                          memory.area.data()};
  std::int32_t* __restrict best = memory.best.data();
  std::fill(best, best + count, 0);
  std::fill(ious, ious + count, 0.0f);
  memory.top.resize(static_cast<std::size_t>(box_count));
  for (std::int64_t j = 0; j < box_count; ++j) {
    const plain_box box = load(boxes, j);
    float most = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const float iou = all.iou(box, i);
      best[i] = iou > ious[i] ? static_cast<std::int32_t>(j) : best[i];
      ious[i] = iou > ious[i] ? iou : ious[i];
      most = iou > most ? iou : most;
    }
    memory.top[static_cast<std::size_t>(j)] = most;
  }
  return all;
}

}  // namespace

void plain_match_anchors(const float* anchors, std::int64_t count, const float* boxes,
                         const std::int64_t* classes, std::int64_t box_count, std::int64_t* matches,
                         std::int64_t* labels, float* ious, plain_match_memory& memory) {
  const plain_anchors all = find_best(anchors, count, boxes, box_count, ious, memory);
  const std::vector<float>& top = memory.top;
  const std::int32_t* const best = memory.best.data();
  for (std::int64_t i = 0; i < count; ++i)
    matches[i] = box_count == 0 || ious[i] < 0.4f ? -1 : ious[i] < 0.5f ? -2 : best[i];
  for (std::int64_t j = 0; j < box_count; ++j) {
    const plain_box box = load(boxes, j);
    const float most = top[static_cast<std::size_t>(j)];
    for (std::int64_t i = 0; i < count; ++i)
      matches[i] = all.iou(box, i) == most ? best[i] : matches[i];
  }
  for (std::int64_t i = 0; i < count; ++i)
    labels[i] = matches[i] < 0 ? matches[i] : classes[matches[i]];
}

void plain_match_ssd(const float* anchors, std::int64_t count, const float* boxes,
                     const std::int64_t* classes, std::int64_t box_count, std::int64_t* matches,
                     std::int64_t* labels, float* ious, plain_match_memory& memory) {
  const plain_anchors all = find_best(anchors, count, boxes, box_count, ious, memory);
  for (std::int64_t i = 0; i < count; ++i)
    matches[i] = box_count == 0 || ious[i] < 0.5f ? -1 : memory.best[static_cast<std::size_t>(i)];
  for (std::int64_t j = 0; j < box_count; ++j) {
    const plain_box box = load(boxes, j);
    std::int64_t nearest = 0;
    float most = -1;
    for (std::int64_t i = 0; i < count; ++i) {
      const float iou = all.iou(box, i);
      nearest = iou > most ? i : nearest;
      most = iou > most ? iou : most;
    }
    matches[nearest] = j;
  }
  for (std::int64_t i = 0; i < count; ++i) labels[i] = matches[i] < 0 ? 0 : classes[matches[i]];
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
