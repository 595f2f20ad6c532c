// SPDX-License-Identifier: Apache-2.0
// Matching by IoU: chooses the ground-truth box that each anchor should predict. Results are
// identical to those of torchvision's and detectron2's Matcher. Ren, He, Girshick, Sun: "Faster
// R-CNN", arXiv 1506.01497, section 3.1.2; SSD, arXiv 1512.02325, section 2.2.
//
//   best IoU < low           background  -1
//   low <= best IoU < high   ignored     -2
//   high <= best IoU         the index of the box with the best IoU; ties: the lower index
//
// Two steps follow, depending on the parameters: the best anchors of each box are matched even if
// their IoU is low, and anchors in ignore regions are ignored.
//
// No matrix of IoUs is built: memory is proportional to anchors plus boxes. Each box is compared
// only with the anchors that it can touch, which an anchor_index finds. Results depend neither on
// the index nor on the number of threads.
//
// Boxes are N x 4 corners of float. An image has at most 2^31 - 1 boxes; there are at most
// 2^32 - 8192 anchors. The IoU is bit-identical to torchvision's box_iou, with one rounding per
// operation. Thresholds are rounded to float before they are compared. If an anchor has NaN IoUs,
// the first of these is its best and above all thresholds, as in torch. A box with a NaN IoU has no
// best anchor, unless force_best is set.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ, results share
// memory with each other or with the ground truth, offsets do not ascend from 0 to the number of
// boxes, a threshold is NaN, the low threshold is above the high one, region_threshold is outside
// [0, 1], there are too many anchors or boxes, or encode_boxes() would reject the coder's
// parameters.
#pragma once

#include <vecdet/box_coding.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/impl/matching_buffers.hpp>
#include <vecdet/iou_kind.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct matcher_params {
  double high_threshold = 0.5;  ///< Anchors with at least this IoU are matched.
  /// Anchors with a lower IoU are background; those between the thresholds are ignored.
  double low_threshold = 0.4;
  /// Every anchor with the greatest IoU of some box, ties included, is matched with the anchor's
  /// own best box.
  bool allow_low_quality = true;
  /// A box that touches no anchor matches nothing. If false, all anchors tie as this box's best
  /// with an IoU of 0, and each is matched with the anchor's own best box, as in torchvision and
  /// detectron2.
  bool skip_untouched = false;
  /// Every box is matched with its best anchor, as in SSD; ties are broken by lower anchor. If two
  /// boxes have the same best anchor, the later box gets it.
  bool force_best = false;
  empty_iou empty = empty_iou::nan;  ///< 0/0 is NaN in torchvision, 0 in detectron2.
  /// An anchor is ignored if an ignore region covers more than this fraction of its area; in
  /// [0, 1].
  double region_threshold = 0.5;
  /// Anchors in ignore regions are never matched, as in mmdetection. If false, they may be matched,
  /// and those that are not matched are ignored.
  bool ignore_matched = false;
  index_t background = -1, ignore = -2;  ///< Labels, as in the focal loss.
  coder_params coder;                    ///< For the deltas; anchors are corners.

  // Presets for torchvision's detectors, with the weights of their coders.
  /// RetinaNet's matcher.
  static matcher_params retinanet() { return {}; }
  /// The RPN's matcher: thresholds 0.7 and 0.3.
  static matcher_params rpn() {
    matcher_params params;
    params.high_threshold = 0.7;
    params.low_threshold = 0.3;
    return params;
  }
  /// Matches proposals with ground truth for the box head: no low-quality matches.
  static matcher_params roi() {
    matcher_params params;
    params.low_threshold = 0.5;
    params.allow_low_quality = false;
    params.coder = coder_params::roi();
    return params;
  }
  /// SSD's matcher: every box takes its best anchor.
  static matcher_params ssd() {
    matcher_params params = roi();
    params.force_best = true;
    return params;
  }
};

/// Outputs to compute; leave a view empty to skip it. Elements are stored image after image, one
/// per anchor.
struct match_results {
  /// The index among all ground-truth boxes, -1 (background) or -2 (ignored).
  lasting<vector_view<index_t>> matches{};
  /// The class of the matched box, background or ignore.
  lasting<vector_view<index_t>> labels{};
  /// The greatest IoU with a box; 0 if there are no boxes or the anchor is excluded from matching.
  lasting<vector_view<float>> best_ious{};
  /// The deltas of matched anchors, as computed by encode_boxes(). Rows of other anchors are left
  /// unchanged.
  lasting<boxes_view<float>> deltas{};
  /// The number of matched anchors, one per image.
  lasting<vector_view<index_t>> foreground{};
};

/// A copy of the anchors in blocks, which lets matching skip anchors that a box cannot touch.
/// Results are correct for any order of anchors. Matching is fast if consecutive anchors are close
/// to each other, as in detectors. Build the index once for anchors that many calls share. Const
/// functions may run on several threads.
class anchor_index {
 public:
  anchor_index() = default;
  /// @throws std::invalid_argument if there are more than 2^32 - 8192 anchors.
  explicit anchor_index(boxes_view<const float> anchors, threading policy = threading::parallel);

  /// The number of anchors.
  index_t size() const noexcept { return buffers_.anchor_count; }

 private:
  friend detail::workspace_access;
  detail::anchor_buffers buffers_;
};

/// Scratch memory for matching: about 8 bytes per anchor, 150 per box and 26 KiB for each image
/// that is matched at the same time, and 256 bytes per box and thread if threads share an image.
/// Without an anchor_index, also 27 bytes per anchor, or 90 KiB if that is more. It grows to the
/// needs of the largest call and is reused. Only one call at a time may use it.
class match_workspace {
  friend detail::workspace_access;
  detail::match_buffers buffers_;
};

/// Matches `anchors`, the same for all images, with the ground truth of each image. Returns the
/// number of matched anchors.
index_t match_anchors(const anchor_index& anchors, const ground_truth& truth,
                      const match_results& results, const matcher_params& params,
                      match_workspace& workspace, threading policy = threading::parallel);

/// The same for anchors that are used only once, such as proposals. Their index is built in the
/// workspace.
index_t match_anchors(boxes_view<const float> anchors, const ground_truth& truth,
                      const match_results& results, const matcher_params& params,
                      match_workspace& workspace, threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/matching.hpp>
