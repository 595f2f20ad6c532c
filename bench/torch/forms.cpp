// SPDX-License-Identifier: Apache-2.0
#include "forms.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>

#include <ATen/ATen.h>

namespace vecdet::bench::forms {
namespace {

using at::Tensor;

Tensor area(const Tensor& boxes) {
  return (boxes.select(-1, 2) - boxes.select(-1, 0)) * (boxes.select(-1, 3) - boxes.select(-1, 1));
}

struct overlap {
  Tensor iou, joint;
};

/// The overlaps of corresponding boxes.
overlap overlap_of(const Tensor& a, const Tensor& b, double epsilon) {
  const Tensor low = at::maximum(a.slice(-1, 0, 2), b.slice(-1, 0, 2));
  const Tensor high = at::minimum(a.slice(-1, 2, 4), b.slice(-1, 2, 4));
  const Tensor shared = (high - low).clamp_min(0).prod(-1);
  const Tensor joint = area(a) + area(b) - shared;
  return {shared / (joint + epsilon), joint};
}

/// Width and height of the smallest box around both.
Tensor hull_of(const Tensor& a, const Tensor& b) {
  return at::maximum(a.slice(-1, 2, 4), b.slice(-1, 2, 4)) -
         at::minimum(a.slice(-1, 0, 2), b.slice(-1, 0, 2));
}

/// Levels as images x anchors x columns.
Tensor joined(const std::vector<Tensor>& levels, std::int64_t columns) {
  std::vector<Tensor> rows;
  for (const Tensor& level : levels) {
    rows.push_back(level.view({level.size(0), -1, columns, level.size(2), level.size(3)})
                       .permute({0, 3, 4, 1, 2})
                       .reshape({level.size(0), -1, columns}));
  }
  return at::cat(rows, 1);
}

}  // namespace

Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& targets) {
  const Tensor p = logits.sigmoid();
  const Tensor cross_entropy =
      at::binary_cross_entropy_with_logits(logits, targets, {}, {}, at::Reduction::None);
  const Tensor p_t = p * targets + (1 - p) * (1 - targets);
  const Tensor alpha_t = 0.25 * targets + 0.75 * (1 - targets);
  return (alpha_t * cross_entropy * (1 - p_t).pow(2)).sum();
}

Tensor one_hot(const Tensor& labels, std::int64_t classes) {
  const Tensor targets = at::zeros({labels.size(0), classes});
  const Tensor rows = (labels >= 0).nonzero().squeeze(1);
  targets.index_put_({rows, labels.index_select(0, rows)}, at::ones({}));
  return targets;
}

Tensor giou_loss(const Tensor& predicted, const Tensor& targets) {
  const overlap both = overlap_of(predicted, targets, 1e-7);
  const Tensor hull = hull_of(predicted, targets).prod(-1);
  return (1 - (both.iou - (hull - both.joint) / (hull + 1e-7))).sum();
}

Tensor ciou_loss(const Tensor& predicted, const Tensor& targets) {
  const overlap both = overlap_of(predicted, targets, 1e-7);
  const auto centre = [](const Tensor& box) {
    return (box.slice(-1, 0, 2) + box.slice(-1, 2, 4)) / 2;
  };
  const auto angle = [](const Tensor& box) {
    return at::atan((box.select(-1, 2) - box.select(-1, 0)) /
                    (box.select(-1, 3) - box.select(-1, 1)));
  };
  const Tensor distance = (centre(predicted) - centre(targets)).square().sum(-1);
  const Tensor diagonal = hull_of(predicted, targets).square().sum(-1) + 1e-7;
  const double pi = std::acos(-1.0);
  const Tensor v = (angle(targets) - angle(predicted)).square() * (4 / (pi * pi));
  const Tensor alpha = (v / (1 - both.iou + v + 1e-7)).detach();
  return (1 - both.iou + distance / diagonal + alpha * v).sum();
}

Tensor pairwise_iou(const Tensor& a, const Tensor& b) {
  const Tensor low = at::maximum(a.unsqueeze(1).slice(-1, 0, 2), b.slice(-1, 0, 2));
  const Tensor high = at::minimum(a.unsqueeze(1).slice(-1, 2, 4), b.slice(-1, 2, 4));
  const Tensor side = (high - low).clamp_min(0);
  const Tensor shared = side.select(-1, 0) * side.select(-1, 1);
  return shared / (area(a).unsqueeze(1) + area(b) - shared);
}

Tensor encode_boxes(const Tensor& targets, const Tensor& anchors) {
  const auto size = [](const Tensor& box) { return box.slice(1, 2, 4) - box.slice(1, 0, 2); };
  const auto centre = [&](const Tensor& box) { return box.slice(1, 0, 2) + 0.5 * size(box); };
  return at::cat(
      {(centre(targets) - centre(anchors)) / size(anchors), (size(targets) / size(anchors)).log()},
      1);
}

Tensor decode_boxes(const Tensor& deltas, const Tensor& anchors, double height, double width) {
  const Tensor size = anchors.slice(1, 2, 4) - anchors.slice(1, 0, 2);
  const Tensor centre = anchors.slice(1, 0, 2) + 0.5 * size;
  const Tensor decoded = deltas.slice(1, 0, 2) * size + centre;
  const Tensor half = deltas.slice(1, 2, 4).clamp_max(std::log(1000.0 / 16)).exp() * size * 0.5;
  const Tensor boxes = at::cat({decoded - half, decoded + half}, 1);
  const Tensor x = boxes.slice(1, 0, 4, 2).clamp(0, width);
  const Tensor y = boxes.slice(1, 1, 4, 2).clamp(0, height);
  return at::stack({x, y}, 2).reshape({-1, 4});
}

Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold) {
  const Tensor order = scores.argsort(0, true);
  const Tensor sorted = boxes.index_select(0, order);
  const Tensor suppresses = pairwise_iou(sorted, sorted).gt(iou_threshold);
  const bool* const data = suppresses.data_ptr<bool>();
  const std::int64_t count = boxes.size(0);
  std::vector<char> gone(static_cast<std::size_t>(count));
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < count; ++i) {
    if (gone[static_cast<std::size_t>(i)] != 0) continue;
    kept.push_back(i);
    for (std::int64_t j = i + 1; j < count; ++j)
      gone[static_cast<std::size_t>(j)] |= static_cast<char>(data[i * count + j]);
  }
  return order.index_select(0, at::tensor(kept, at::kLong));
}

Tensor match_anchors(const Tensor& anchors, const Tensor& boxes) {
  const Tensor overlaps = pairwise_iou(boxes, anchors);
  const auto [best, box] = overlaps.max(0);
  Tensor matches = box.clone();
  matches.index_put_({best < 0.4}, at::full({}, -1, at::kLong));
  matches.index_put_({(best >= 0.4).logical_and(best < 0.5)}, at::full({}, -2, at::kLong));
  const Tensor highest = std::get<0>(overlaps.max(1, true));
  const Tensor updated = (overlaps == highest).nonzero().select(1, 1);
  return matches.index_put_({updated}, box.index_select(0, updated));
}

Tensor retinanet_loss(const std::vector<Tensor>& logits, const std::vector<Tensor>& deltas,
                      const Tensor& anchors, const Tensor& boxes, const Tensor& classes) {
  const std::int64_t columns = logits[0].size(1) / (deltas[0].size(1) / 4);
  const Tensor class_logits = joined(logits, columns)[0], box_deltas = joined(deltas, 4)[0];
  const Tensor matches = match_anchors(anchors, boxes);
  const Tensor foreground = (matches >= 0).nonzero().squeeze(1);
  const Tensor matched = matches.index_select(0, foreground);
  const Tensor targets = at::zeros_like(class_logits);
  targets.index_put_({foreground, classes.index_select(0, matched)}, at::ones({}));
  const Tensor counted = (matches != -2).nonzero().squeeze(1);
  const Tensor wanted =
      encode_boxes(boxes.index_select(0, matched), anchors.index_select(0, foreground));
  const Tensor l1 = at::l1_loss(box_deltas.index_select(0, foreground), wanted, at::Reduction::Sum);
  const Tensor focal =
      sigmoid_focal_loss(class_logits.index_select(0, counted), targets.index_select(0, counted));
  return (focal + l1) / static_cast<double>(std::max<std::int64_t>(1, foreground.size(0)));
}

Tensor mined_cross_entropy_loss(const Tensor& logits, const Tensor& labels) {
  const Tensor losses = at::cross_entropy_loss(logits.view({-1, logits.size(2)}), labels.view({-1}),
                                               {}, at::Reduction::None)
                            .view(labels.sizes());
  const Tensor is_foreground = labels > 0;
  const Tensor wanted = is_foreground.sum(1, true) * 3;
  const Tensor negative_loss =
      losses.detach().masked_fill(is_foreground, -std::numeric_limits<double>::infinity());
  const Tensor rank = negative_loss.argsort(1, true).argsort(1, false);
  return losses.masked_select(is_foreground).sum() + losses.masked_select(rank < wanted).sum();
}

Tensor roi_align(const Tensor& features, const Tensor& boxes, double scale) {
  const auto height = features.size(2), width = features.size(3);
  const Tensor step = (at::arange(14) + 0.5) / 14;
  // The samples of all boxes in one column, in grid_sampler's form: -1 to 1 over the locations.
  const auto samples = [&](std::int64_t axis, std::int64_t size) {
    const Tensor low = boxes.select(1, axis) * scale;
    const Tensor length = (boxes.select(1, axis + 2) * scale - low).clamp_min(1);
    return (low.unsqueeze(1) + length.unsqueeze(1) * step) * (2.0 / static_cast<double>(size - 1)) -
           1;
  };
  const std::int64_t count = boxes.size(0);
  const Tensor x = samples(0, width).unsqueeze(1).expand({count, 14, 14});
  const Tensor y = samples(1, height).unsqueeze(2).expand({count, 14, 14});
  const Tensor grid = at::stack({x, y}, 3).view({1, 14 * count, 14, 2});
  const Tensor values = at::grid_sampler(features, grid, /*interpolation_mode=*/0,
                                         /*padding_mode=*/1, /*align_corners=*/true);
  return at::avg_pool2d(values, 2).view({features.size(1), count, 7, 7}).transpose(0, 1);
}

}  // namespace vecdet::bench::forms
