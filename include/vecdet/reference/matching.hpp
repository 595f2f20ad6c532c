// SPDX-License-Identifier: Apache-2.0
// Assigns anchors to ground truth by IoU, as torchvision's and detectron2's Matcher do. Ren, He,
// Girshick, Sun: "Faster R-CNN", arXiv 1506.01497, section 3.1.2; SSD, arXiv 1512.02325,
// section 2.2.
//
// IoUs and thresholds are compared in the kernels' compute type. torch, too, rounds a threshold to
// float before it compares it with a float tensor.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/reference/box.hpp>
#include <vecdet/reference/iou.hpp>
#include <vecdet/views.hpp>

#include <cmath>
#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// The matches of anchors without a ground-truth box.
constexpr index_t match_background = -1;  ///< Best IoU below the low threshold.
constexpr index_t match_ignore = -2;      ///< Best IoU between the thresholds.

struct matcher_params {
  double high_threshold = 0.5;  ///< Best IoU >= high: matched.
  double low_threshold = 0.4;   ///< Best IoU < low: background.
  /// Every anchor that is the best of some ground-truth box (ties included) is matched with its own
  /// best box, even if the IoU is low.
  bool allow_low_quality = true;
  /// A ground-truth box that touches no anchor matches nothing. If false, every anchor that touches
  /// no ground-truth box ties as its best and becomes positive, as in torchvision and detectron2.
  bool skip_untouched = false;
  /// Every ground-truth box is matched with its best anchor, as in SSD; ties are broken by lower
  /// anchor. If two boxes have the same best anchor, the later box gets it.
  bool force_best = false;
  empty_union empty = empty_union::nan;  ///< With zero, every IoU that is NaN is 0.
  /// An anchor is ignored if an ignore region covers more than this fraction of its area.
  double region_threshold = 0.5;
  /// Anchors in ignore regions are never matched, as in mmdetection. If false, those that stay
  /// unmatched are ignored.
  bool ignore_matched = false;
};

/// The best of a row or column of IoUs. Ties are broken by lower index, and NaN is above all
/// numbers, as in torch.max.
template <class Real>
struct best_iou {
  Real value = 0;
  index_t index = -1;

  void offer(Real iou, index_t at) {
    if (index >= 0 && (std::isnan(value) || !(iou > value || std::isnan(iou)))) return;
    value = iou;
    index = at;
  }
};

/// Whether one of the regions covers more than `threshold` of the anchor's area.
template <class Real, class U>
bool is_in_region(const box_of<Real>& anchor, boxes_view<U> regions, double threshold) {
  const Real area = rounded_product(anchor.width(), anchor.height());
  for (index_t k = 0; k < regions.size(); ++k) {
    const Real covered = intersection_area(load_box<Real>(regions, k), anchor) / area;
    if (covered > static_cast<Real>(threshold)) return true;
  }
  return false;
}

/// Per anchor, the index of its ground-truth box, match_background or match_ignore. `best_ious`, if
/// given, receives the best IoU of every anchor, 0 without ground-truth boxes. Anchors in `regions`
/// are ignored.
template <class T, class U>
void match_anchors(boxes_view<T> anchors, boxes_view<U> ground_truth, vector_view<index_t> matches,
                   const matcher_params& params = {}, vector_view<double> best_ious = {},
                   boxes_view<const value_of<U>> regions = {}) {
  using real = compute_type<value_of<T>>;
  const real high = static_cast<real>(params.high_threshold);
  const real low = static_cast<real>(params.low_threshold);
  const auto iou_at = [&](index_t anchor, index_t truth) {
    const real value =
        iou(load_box<real>(ground_truth, truth), load_box<real>(anchors, anchor), params.empty);
    return params.empty == empty_union::zero && std::isnan(value) ? real(0) : value;
  };
  std::vector<bool> in_region(static_cast<std::size_t>(anchors.size()));
  for (index_t i = 0; i < anchors.size(); ++i)
    in_region[static_cast<std::size_t>(i)] =
        is_in_region(load_box<real>(anchors, i), regions, params.region_threshold);
  const auto takes_part = [&](index_t anchor) {
    return !params.ignore_matched || !in_region[static_cast<std::size_t>(anchor)];
  };

  std::vector<index_t> own_best(static_cast<std::size_t>(anchors.size()), match_background);
  std::vector<best_iou<real>> best_of_truth(static_cast<std::size_t>(ground_truth.size()));
  for (index_t i = 0; i < anchors.size(); ++i) {
    best_iou<real> best;
    for (index_t j = 0; takes_part(i) && j < ground_truth.size(); ++j) {
      const real quality = iou_at(i, j);
      best.offer(quality, j);
      best_of_truth[static_cast<std::size_t>(j)].offer(quality, i);
    }
    own_best[static_cast<std::size_t>(i)] = best.index;
    matches[i] = best.index < 0 || best.value < low ? match_background
                 : best.value < high                ? match_ignore
                                                    : best.index;
    if (!best_ious.empty()) best_ious[i] = static_cast<double>(best.value);
  }

  for (index_t j = 0; j < ground_truth.size(); ++j) {
    const best_iou<real>& best = best_of_truth[static_cast<std::size_t>(j)];
    if (best.index < 0 || (params.skip_untouched && !(best.value > 0))) continue;
    if (params.allow_low_quality)
      for (index_t i = 0; i < anchors.size(); ++i)
        if (takes_part(i) && iou_at(i, j) == best.value)
          matches[i] = own_best[static_cast<std::size_t>(i)];
  }
  for (index_t j = 0; params.force_best && j < ground_truth.size(); ++j) {
    const best_iou<real>& best = best_of_truth[static_cast<std::size_t>(j)];
    if (best.index < 0 || (params.skip_untouched && !(best.value > 0))) continue;
    matches[best.index] = j;
  }

  for (index_t i = 0; i < anchors.size(); ++i)
    if (in_region[static_cast<std::size_t>(i)] && matches[i] < 0) matches[i] = match_ignore;
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
