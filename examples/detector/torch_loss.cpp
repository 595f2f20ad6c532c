// SPDX-License-Identifier: Apache-2.0
#include "torch_loss.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

namespace detector {
namespace {

constexpr std::int64_t background = -1, between = -2;

at::Tensor areas(const at::Tensor& boxes) {
  return (boxes.select(1, 2) - boxes.select(1, 0)) * (boxes.select(1, 3) - boxes.select(1, 1));
}

/// IoU matrix: boxes of `a` x boxes of `b`
at::Tensor box_iou(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor upper = at::max(a.unsqueeze(1).slice(2, 0, 2), b.slice(1, 0, 2));
  const at::Tensor lower = at::min(a.unsqueeze(1).slice(2, 2, 4), b.slice(1, 2, 4));
  const at::Tensor size = (lower - upper).clamp_min(0);
  const at::Tensor common = size.select(2, 0) * size.select(2, 1);
  return common / (areas(a).unsqueeze(1) + areas(b) - common);
}

/// For each anchor: its box, background, or between the thresholds.
at::Tensor match(const at::Tensor& iou, double high, double low) {
  at::Tensor best, matches;
  std::tie(best, matches) = iou.max(0);
  const at::Tensor all_matches = matches.clone();
  const at::Tensor is_low = best < low, is_between = (best >= low).logical_and(best < high);
  matches.masked_fill_(is_low, background);
  matches.masked_fill_(is_between, between);
  // Each anchor that is the best of some box keeps its own best box.
  const at::Tensor best_of_box = std::get<0>(iou.max(1));
  const at::Tensor kept = at::where(iou == best_of_box.unsqueeze(1))[1];
  matches.index_put_({kept}, all_matches.index({kept}));
  return matches;
}

at::Tensor focal_loss_sum(const at::Tensor& logits, const at::Tensor& targets) {
  constexpr double alpha = 0.25, gamma = 2;
  const at::Tensor p = logits.sigmoid();
  const at::Tensor entropy =
      at::binary_cross_entropy_with_logits(logits, targets, {}, {}, at::Reduction::None);
  const at::Tensor p_true = p * targets + (1 - p) * (1 - targets);
  const at::Tensor weight = alpha * targets + (1 - alpha) * (1 - targets);
  return (weight * (entropy * (1 - p_true).pow(gamma))).sum();
}

at::Tensor encode(const at::Tensor& boxes, const at::Tensor& anchors) {
  const auto split = [](const at::Tensor& b) {
    const at::Tensor size = b.slice(1, 2, 4) - b.slice(1, 0, 2);
    return std::make_pair(b.slice(1, 0, 2) + 0.5 * size, size);
  };
  const auto truth = split(boxes), anchor = split(anchors);
  return at::cat(
      {(truth.first - anchor.first) / anchor.second, (truth.second / anchor.second).log()}, 1);
}

}  // namespace

loss_values torch_loss(const at::Tensor& logits, const at::Tensor& deltas, const batch_truth& truth,
                       const at::Tensor& anchors) {
  const std::int64_t images = logits.size(0);
  at::Tensor classification = at::zeros({}), regression = at::zeros({});
  for (std::int64_t i = 0; i < images; ++i) {
    const auto image = static_cast<std::size_t>(i);
    const std::int64_t first = truth.offsets[image], count = truth.offsets[image + 1] - first;
    const at::Tensor boxes =
        at::from_blob(const_cast<float*>(truth.boxes.data()) + 4 * first, {count, 4});
    const at::Tensor labels =
        at::from_blob(const_cast<std::int64_t*>(truth.labels.data()) + first, {count}, at::kLong);
    const at::Tensor matches = count == 0 ? at::full({anchors.size(0)}, background, at::kLong)
                                          : match(box_iou(boxes, anchors), 0.5, 0.4);

    const at::Tensor is_foreground = matches >= 0;
    const auto foreground = std::max<std::int64_t>(1, is_foreground.sum().item<std::int64_t>());
    const at::Tensor is_valid = matches != between;
    at::Tensor targets = at::zeros_like(logits[i]);
    if (count > 0)
      targets.index_put_({is_foreground, labels.index({matches.index({is_foreground})})}, 1.0);
    classification =
        classification + focal_loss_sum(logits[i].index({is_valid}), targets.index({is_valid})) /
                             static_cast<double>(foreground);

    const at::Tensor matched = at::where(is_foreground)[0];
    const at::Tensor predicted = deltas[i].index({matched});
    const at::Tensor wanted =
        encode(boxes.index({matches.index({matched})}), anchors.index({matched}));
    regression = regression + at::l1_loss(predicted, wanted, at::Reduction::Sum) /
                                  static_cast<double>(foreground);
  }
  loss_values values;
  classification = classification / static_cast<double>(images);
  regression = regression / static_cast<double>(images);
  values.total = classification + regression;
  values.classification = classification.item<double>();
  values.regression = regression.item<double>();
  return values;
}

}  // namespace detector
