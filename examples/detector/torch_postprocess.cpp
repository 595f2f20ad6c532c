// SPDX-License-Identifier: Apache-2.0
#include "torch_postprocess.hpp"

#include "options.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <ATen/ATen.h>

namespace detector {

const char* name_of(postprocessing_kind kind) {
  return kind == postprocessing_kind::torch ? "torch" : "vecdet";
}

namespace {

constexpr std::int64_t max_candidates = 1000, max_detections = 300;
constexpr double iou_threshold = 0.5;

/// Boxes of anchors and deltas, clipped to the image.
at::Tensor decode(const at::Tensor& deltas, const at::Tensor& anchors, double height,
                  double width) {
  const double size_limit = std::log(1000.0 / 16);
  const at::Tensor size = anchors.slice(1, 2, 4) - anchors.slice(1, 0, 2);
  const at::Tensor centre = anchors.slice(1, 0, 2) + 0.5 * size;
  const at::Tensor moved = deltas.slice(1, 0, 2) * size + centre;
  const at::Tensor half = 0.5 * (deltas.slice(1, 2, 4).clamp_max(size_limit).exp() * size);
  const at::Tensor boxes = at::cat({moved - half, moved + half}, 1);
  return at::stack({boxes.select(1, 0).clamp(0, width), boxes.select(1, 1).clamp(0, height),
                    boxes.select(1, 2).clamp(0, width), boxes.select(1, 3).clamp(0, height)},
                   1);
}

/// Greedy NMS of boxes in descending score. Returns the indices of those kept.
std::vector<std::int64_t> kept_of(const at::Tensor& sorted_boxes) {
  const auto count = static_cast<std::size_t>(sorted_boxes.size(0));
  const float* const boxes = sorted_boxes.data_ptr<float>();
  std::vector<float> areas(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float* const b = boxes + 4 * i;
    areas[i] = (b[2] - b[0]) * (b[3] - b[1]);
  }
  std::vector<char> is_suppressed(count);
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_suppressed[i] != 0) continue;
    kept.push_back(static_cast<std::int64_t>(i));
    const float* const a = boxes + 4 * i;
    for (std::size_t j = i + 1; j < count; ++j) {
      const float* const b = boxes + 4 * j;
      const float width = std::max(0.0f, std::min(a[2], b[2]) - std::max(a[0], b[0]));
      const float height = std::max(0.0f, std::min(a[3], b[3]) - std::max(a[1], b[1]));
      const float common = width * height;
      if (common > static_cast<float>(iou_threshold) * (areas[i] + areas[j] - common))
        is_suppressed[j] = 1;
    }
  }
  return kept;
}

struct image_detections {
  at::Tensor boxes, scores, labels;
};

image_detections detections_of(const at::Tensor& logits, const at::Tensor& deltas,
                               const at::Tensor& anchors, double height, double width,
                               const std::vector<std::int64_t>& level_sizes,
                               double score_threshold) {
  const std::int64_t classes = logits.size(1);
  std::vector<at::Tensor> boxes, scores, labels;
  std::int64_t first = 0;
  for (const std::int64_t size : level_sizes) {
    at::Tensor level_scores = logits.narrow(0, first, size).flatten().sigmoid();
    at::Tensor candidates = at::where(level_scores > score_threshold)[0];
    at::Tensor best;
    std::tie(level_scores, best) =
        level_scores.index({candidates}).topk(std::min(candidates.size(0), max_candidates));
    candidates = candidates.index({best});
    const at::Tensor rows = at::floor_divide(candidates, classes);
    boxes.push_back(decode(deltas.narrow(0, first, size).index({rows}),
                           anchors.narrow(0, first, size).index({rows}), height, width));
    scores.push_back(level_scores);
    labels.push_back(candidates.remainder(classes));
    first += size;
  }
  image_detections all{at::cat(boxes), at::cat(scores), at::cat(labels)};
  if (all.scores.numel() == 0) return all;
  const at::Tensor order = at::argsort(all.scores, 0, true);
  all = {all.boxes.index({order}), all.scores.index({order}), all.labels.index({order})};
  // Boxes of different classes must not overlap: each class gets a region of its own.
  const at::Tensor shift = all.labels.to(at::kFloat) * (all.boxes.max() + 1);
  std::vector<std::int64_t> kept = kept_of(all.boxes + shift.unsqueeze(1));
  kept.resize(std::min(kept.size(), static_cast<std::size_t>(max_detections)));
  const at::Tensor indices = at::tensor(kept, at::kLong);
  return {all.boxes.index({indices}), all.scores.index({indices}), all.labels.index({indices})};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> torch_postprocess(
    const at::Tensor& logits, const at::Tensor& deltas, const at::Tensor& anchors,
    const std::vector<double>& image_sizes, const std::vector<std::int64_t>& level_sizes,
    double score_threshold) {
  std::vector<at::Tensor> boxes, scores, labels;
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t i = 0; i < logits.size(0); ++i) {
    const double* const size = image_sizes.data() + 2 * i;
    const image_detections found = detections_of(logits[i], deltas[i], anchors, size[0], size[1],
                                                 level_sizes, score_threshold);
    boxes.push_back(found.boxes);
    scores.push_back(found.scores);
    labels.push_back(found.labels);
    offsets.push_back(offsets.back() + found.scores.size(0));
  }
  return {at::cat(boxes), at::cat(scores), at::cat(labels), at::tensor(offsets, at::kLong)};
}

}  // namespace detector
