// SPDX-License-Identifier: Apache-2.0
#include "postprocess_yolo.hpp"

#include "nms.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace vecdet::bench::VECDET_PLAIN_SET {

namespace {

/// Starts with `threshold`; scores above it pass.
template <class T>
void find_best_classes(const T* scores, std::int64_t boxes, std::int64_t classes, T threshold,
                       std::vector<T>& all_best, std::vector<std::int32_t>& all_labels) {
  all_best.assign(static_cast<std::size_t>(boxes), threshold);
  all_labels.assign(static_cast<std::size_t>(boxes), -1);
  T* const best = all_best.data();
  std::int32_t* const labels = all_labels.data();
  for (std::int64_t c = 0; c < classes; ++c) {
    const T* const plane = scores + c * boxes;
    for (std::int64_t b = 0; b < boxes; ++b) {
      const bool is_better = plane[b] > best[b];
      best[b] = is_better ? plane[b] : best[b];
      labels[b] = is_better ? static_cast<std::int32_t>(c) : labels[b];
    }
  }
}

/// NMS of the boxes that have a label, class by class. `best` are their scores; a number is scale
/// times what is stored.
template <class T>
void suppress_boxes(const T* output, const T* best, std::int64_t boxes, std::int64_t classes,
                    float scale, const float* limits, const std::int32_t* groups,
                    float iou_threshold, plain_yolo_memory& memory) {
  const std::int32_t* const labels = memory.labels.data();
  const auto number = [&](std::int64_t i) { return scale * static_cast<float>(output[i]); };
  memory.kept.clear();
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(classes); ++c) {
    memory.class_boxes.clear();
    memory.class_scores.clear();
    memory.class_sources.clear();
    for (std::int64_t b = 0; b < boxes; ++b) {
      const std::int32_t label = labels[b];
      if (label < 0 || (groups == nullptr ? label : groups[label]) != c) continue;
      const float score = scale * static_cast<float>(best[b]);
      if (limits != nullptr && !(score > limits[label])) continue;
      const float x = number(b), y = number(boxes + b);
      const float w = number(2 * boxes + b) / 2, h = number(3 * boxes + b) / 2;
      memory.class_boxes.insert(memory.class_boxes.end(), {x - w, y - h, x + w, y + h});
      memory.class_scores.push_back(score);
      memory.class_sources.push_back(b);
    }
    const auto count = static_cast<std::int64_t>(memory.class_scores.size());
    const std::int64_t kept = plain_nms(memory.class_boxes.data(), memory.class_scores.data(),
                                        count, iou_threshold, memory.nms);
    for (std::int64_t i = 0; i < kept; ++i) {
      const auto k = static_cast<std::size_t>(memory.nms.kept[static_cast<std::size_t>(i)]);
      memory.kept.emplace_back(-memory.class_scores[k], memory.class_sources[k]);
    }
  }
  std::sort(memory.kept.begin(), memory.kept.end());
  memory.kept.resize(std::min(memory.kept.size(), std::size_t{300}));
  memory.found.clear();
  memory.sources.clear();
  for (const auto& [score, source] : memory.kept) {
    memory.found.push_back(-score);
    memory.sources.push_back(source);
  }
}

}  // namespace

void plain_yolo(const float* output, std::int64_t boxes, std::int64_t classes, float threshold,
                const float* limits, const std::int32_t* groups, float iou_threshold,
                plain_yolo_memory& memory) {
  find_best_classes(output + 4 * boxes, boxes, classes, threshold, memory.best, memory.labels);
  suppress_boxes(output, memory.best.data(), boxes, classes, 1, limits, groups, iou_threshold,
                 memory);
}

void plain_quantised_yolo(const std::uint8_t* output, std::int64_t boxes, std::int64_t classes,
                          std::uint8_t lowest, float scale, float iou_threshold,
                          plain_yolo_memory& memory) {
  find_best_classes(output + 4 * boxes, boxes, classes, static_cast<std::uint8_t>(lowest - 1),
                    memory.best_bytes, memory.labels);
  suppress_boxes(output, memory.best_bytes.data(), boxes, classes, scale, nullptr, nullptr,
                 iou_threshold, memory);
}

std::int64_t plain_merge(const float* boxes, const float* scores, std::int64_t count,
                         float threshold, std::int64_t* owners) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  });
  std::fill(owners, owners + count, std::int64_t{-1});
  std::int64_t groups = 0;
  for (const std::int64_t i : order) {
    if (owners[i] >= 0) continue;
    ++groups;
    owners[i] = i;
    const float* const a = boxes + 4 * i;
    const float own = (a[2] - a[0]) * (a[3] - a[1]);
    for (std::int64_t j = 0; j < count; ++j) {
      const float* const b = boxes + 4 * j;
      const float w = std::max(0.0f, std::min(a[2], b[2]) - std::max(a[0], b[0]));
      const float h = std::max(0.0f, std::min(a[3], b[3]) - std::max(a[1], b[1]));
      const float area = (b[2] - b[0]) * (b[3] - b[1]);
      owners[j] = owners[j] < 0 && w * h >= threshold * std::min(own, area) ? i : owners[j];
    }
  }
  return groups;
}

void plain_letterbox(const std::uint8_t* image, std::int64_t height, std::int64_t width,
                     std::int64_t side, float* input) {
  const double scale = static_cast<double>(side) / static_cast<double>(std::max(height, width));
  const auto rows = static_cast<std::int64_t>(std::lrint(static_cast<double>(height) * scale));
  const auto cols = static_cast<std::int64_t>(std::lrint(static_cast<double>(width) * scale));
  const std::int64_t top = (side - rows) / 2, left = (side - cols) / 2, plane = side * side;
  std::fill(input, input + 3 * plane, 114 / 255.0f);
  const auto place = [](std::int64_t i, std::int64_t from, std::int64_t to, std::int64_t& first,
                        std::int64_t& second, int& weight) {
    const double ratio = static_cast<double>(from) / static_cast<double>(to);
    const auto x = static_cast<float>((static_cast<double>(i) + 0.5) * ratio - 0.5);
    const auto at = static_cast<std::int64_t>(std::floor(x));
    weight = static_cast<int>(std::lrint((x - static_cast<float>(at)) * 2048));
    first = std::max(at, std::int64_t{0});
    second = std::min(at + 1, from - 1);
  };
  for (std::int64_t y = 0; y < rows; ++y) {
    std::int64_t upper, lower;
    int v;
    place(y, height, rows, upper, lower, v);
    for (std::int64_t x = 0; x < cols; ++x) {
      std::int64_t first, second;
      int h;
      place(x, width, cols, first, second, h);
      for (std::int64_t c = 0; c < 3; ++c) {
        const auto along = [&](std::int64_t row) {
          const std::uint8_t* const pixels = image + 3 * row * width + c;
          return (pixels[3 * first] * (2048 - h) + pixels[3 * second] * h) >> 4;
        };
        const int pixel = ((along(upper) * (2048 - v) >> 16) + (along(lower) * v >> 16) + 2) >> 2;
        input[(2 - c) * plane + (top + y) * side + left + x] = static_cast<float>(pixel) / 255;
      }
    }
  }
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
