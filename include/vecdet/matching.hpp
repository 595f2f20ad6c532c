// SPDX-License-Identifier: Apache-2.0
// Matching: which box of the ground truth each anchor is to find, by IoU, as torchvision's and
// detectron2's Matcher say, index for index. Ren, He, Girshick, Sun: "Faster R-CNN", arXiv
// 1506.01497, section 3.1.2; SSD, arXiv 1512.02325, section 2.2.
//
//   best IoU < low           background  -1
//   low <= best IoU < high   ignored     -2
//   high <= best IoU         the box that has it, the first of equals
//
// and then, as the parameters say, anchors that are the best of some box are matched however low
// their IoU, and anchors in regions to be ignored are ignored.
//
// There is no matrix of IoUs: memory is proportional to anchors plus boxes. A box is compared only
// with the anchors that it can touch, which an anchor_index finds; results do not depend on it, nor
// on the number of threads.
//
// Boxes are N x 4 corners of float, at most 2^31 - 1 of an image's and 2^32 - 8192 anchors. The IoU
// is the very float that torchvision's box_iou returns, one rounding an operation; thresholds are
// rounded to float before they are compared. A NaN IoU is an anchor's best, the first of them, and
// above all thresholds, as in torch; no anchor is the best of a box whose IoU with some anchor is
// NaN, unless force_best.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, results share
// memory with each other or with the ground truth, offsets do not ascend from 0 to the number of
// boxes, a threshold is NaN, the low one is above the high one, region_threshold is outside of [0,
// 1], there are more anchors or boxes than said, or the coder's parameters are none of
// encode_boxes's.
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
  double high_threshold = 0.5;
  double low_threshold = 0.4;
  /// Matches every anchor that is the best of some box, ties included, with its own best box.
  bool allow_low_quality = true;
  /// Lets a box that touches no anchor match nothing. Without it all anchors tie as its best, with
  /// an IoU of 0, and each is matched with its own best box: so torchvision and detectron2.
  bool skip_untouched = false;
  /// Lets every box take its best anchor, the first of equals; of two that want the same the later
  /// one has it: SSD.
  bool force_best = false;
  empty_iou empty = empty_iou::nan;  ///< 0/0 is NaN in torchvision, 0 in detectron2.
  /// Ignored is an anchor of whose area a region to be ignored covers more than this part; in
  /// [0, 1].
  double region_threshold = 0.5;
  /// Anchors in such regions take no part in matching, as in mmdetection. Without it they may be
  /// matched, and those that are not are ignored.
  bool ignore_matched = false;
  index_t background = -1, ignore = -2;  ///< Labels, as the focal loss has them.
  coder_params coder;                    ///< Of the deltas; anchors are corners.

  // torchvision's detectors, with the weights of their coders.
  static matcher_params retinanet() { return {}; }
  static matcher_params rpn() {
    matcher_params params;
    params.high_threshold = 0.7;
    params.low_threshold = 0.3;
    return params;
  }
  /// Of proposals with the second stage's ground truth: no low-quality matches.
  static matcher_params roi() {
    matcher_params params;
    params.low_threshold = 0.5;
    params.allow_low_quality = false;
    params.coder = coder_params::roi();
    return params;
  }
  static matcher_params ssd() {
    matcher_params params = roi();
    params.force_best = true;
    return params;
  }
};

/// What is asked for: empty views are not. Image after image, an element an anchor.
struct match_results {
  /// The index among all boxes of the ground truth, -1 (background) or -2 (ignored).
  lasting<vector_view<index_t>> matches;
  /// The class of that box, background or ignore.
  lasting<vector_view<index_t>> labels;
  /// The greatest IoU with a box; 0 where there is none, and of anchors that take no part.
  lasting<vector_view<float>> best_ious;
  /// Of matched anchors the deltas that encode_boxes gives for their boxes; the others' rows are
  /// left as they are.
  lasting<boxes_view<float>> deltas;
  /// How many anchors are matched, an element an image.
  lasting<vector_view<index_t>> foreground;
};

/// Anchors, copied into blocks by which a box finds those that it can touch: fast where anchors
/// that follow each other lie near each other, as a detector's do, and right in any order. Make it
/// once for anchors that many calls share. Const functions may run on several threads.
class anchor_index {
 public:
  anchor_index() = default;
  /// @throws std::invalid_argument when there are more than 2^32 - 8192 anchors.
  explicit anchor_index(boxes_view<const float> anchors, execution policy = execution::parallel);

  /// The number of anchors.
  index_t size() const noexcept { return buffers_.anchor_count; }

 private:
  friend detail::workspace_access;
  detail::anchor_buffers buffers_;
};

/// Memory that matching works in: some 8 bytes an anchor and 150 a box for each image that is
/// matched at the same time, and 256 a box and thread where threads share an image. It grows to
/// what the largest call needs and is reused. One call at a time.
class match_workspace {
  friend detail::workspace_access;
  detail::match_buffers buffers_;
};

/// Matches `anchors`, the same for all images, with the ground truth of each image; returns how
/// many anchors are matched.
index_t match_anchors(const anchor_index& anchors, const ground_truth& truth,
                      const match_results& results, const matcher_params& params,
                      match_workspace& workspace, execution policy = execution::parallel);

/// The same of anchors that are there for this call alone, as proposals are; an index of them lies
/// in the workspace.
index_t match_anchors(boxes_view<const float> anchors, const ground_truth& truth,
                      const match_results& results, const matcher_params& params,
                      match_workspace& workspace, execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/matching.hpp>
