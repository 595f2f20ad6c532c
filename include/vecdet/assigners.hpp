// SPDX-License-Identifier: Apache-2.0
// Assigners choose the ground-truth box that each point of a detector should predict, for detectors
// that do not match anchors by IoU thresholds. They are ATSS, Zhang et al., arXiv 1912.02424,
// algorithm 1; the task-aligned assigner, Feng et al., arXiv 2108.07755, section 3.3, in YOLOv8's
// form; FCOS's assigner, Tian et al., arXiv 1904.01355, section 3, with torchvision's centre
// sampling; and SimOTA, Ge et al., "YOLOX", arXiv 2107.08430, section 2.3.
//
// ATSS. On each level, the candidates of a box are the k anchors whose centres are nearest to the
// box's centre. A candidate is positive if its centre is inside the box by more than 0.01 and its
// IoU is at least the mean plus the standard deviation (with n - 1) of the IoUs of all the box's
// candidates. An anchor that is positive for several boxes is assigned to the one with the greatest
// IoU.
//
// Task-aligned. The candidates of a box are the `top` points with the greatest metric above 0 among
// those inside the box by more than 1e-9. With `least_side`, sides below it are replaced by
// `grown_side` in this test, so that boxes between the points of the first level have points, too:
//
//   metric = score(class of the box)^alpha overlap^beta, overlap = max(0, CIoU(box, prediction))
//
// A point that is a candidate of several boxes is assigned to the box with the greatest overlap
// among all boxes that contain it, even if it is not a candidate of that box. With `final_top`,
// each box then keeps only that many of its points, those with the greatest metric, and its other
// points have no match. The target of a point is its metric times the greatest overlap of its box,
// divided by (the greatest metric of its box + 1e-9). Both maxima are over the points that are
// assigned to the box.
//
// FCOS. An anchor is assigned to the smallest box that satisfies three conditions: the box contains
// the anchor's centre; the two centres are less than `radius` anchor widths apart on both axes; and
// the distance from the anchor's centre to the box's farthest side is above 4 anchor widths (except
// on the first level) and below 8 (except on the last level).
//
// SimOTA. A point is near an image's boxes if it is strictly inside a box, or nearer to a box's
// centre than `radius` strides of its level on both axes. A box gets as many points as the sum of
// its `candidates` greatest IoUs with the predictions of all near points, rounded down, at least 1.
// They are the near points with the lowest cost: first those that are both in the box and near its
// centre (its prior), then the others, to which YOLOX adds a cost of 1e5:
//
//   cost = sum over classes c of BCE(sqrt(sigmoid(logit c) sigmoid(objectness)), c is the box's)
//          + iou_weight * -log(IoU(box, prediction) + 1e-8)
//
// A point of several boxes is assigned to the one with the lowest cost among all boxes of the image
// whose prior contains it, or among all if there are none. Its target is its IoU. -log is at most
// 87.
//
// Ties of distances, metrics, IoUs, overlaps and costs are broken by lower index. (The order of
// ties in torch's topk is unspecified.)
//
// Ignore regions. With regions in the ground truth, e.g. crowds, a point or anchor in a region of
// its image that has no match is ignored: its match is -2 instead of -1. ATSS and FCOS's assigner
// use the rule of match_anchors(): an anchor is in a region that covers more than
// `region_threshold` of its area. For the task-aligned assigner and SimOTA, a point is in a region
// that it is inside of, not on a side. Matched points keep their matches, and other results do not
// change.
//
// No matrix of points x boxes is built. The points of a level form a grid, so each box is compared
// only with the points near it or inside it; in SimOTA, a box also computes its IoU with the
// predictions of all points that are near the image's boxes. Points and anchors are stored level by
// level, row by row. All points of a column have the same x, all points of a row the same y, and
// both ascend. All images of a batch use the same points.
//
// Everything is computed in float with one rounding per operation, except ATSS's mean and standard
// deviation: they are computed in double, and their sum is rounded to float. Targets are within
// 2e-5 relative plus 1e-9 absolute, because the CIoU of boxes that hardly touch is a difference of
// larger numbers. SimOTA sums over classes in double, its IoUs are those of pairwise_iou(), and
// probabilities and their complements are computed without cancellation.
//
// NaN and infinity. A box with a NaN coordinate has no points. A NaN score or prediction never
// makes a point a candidate. In ATSS, a box matches nothing if its centre is infinite, if it has
// only one candidate, or if a candidate has a NaN IoU, e.g. 0/0 of empty boxes, which makes the
// threshold NaN. In FCOS, a box matches nothing if a coordinate or its area is infinite. An
// infinite overlap does not match either. In SimOTA, a box that is not finite matches nothing, and
// neither does a point with a NaN logit of any class, objectness or coordinate of its prediction; a
// NaN IoU does not count. Points with NaN coordinates do not form a grid.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ, points do not
// form a grid, offsets do not ascend from 0 to the number of boxes or regions, regions are not
// divided into the same images as boxes, or a class or parameter is out of range. Results may not
// share memory with other arguments.
#pragma once

#include <vecdet/grid_size.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/impl/assigner_buffers.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

struct atss_params {
  index_t candidates = 9;  ///< Per box and level; 1 or more.
  /// An unmatched anchor is ignored if an ignore region covers more than this fraction of its area;
  /// in [0, 1].
  double region_threshold = 0.5;
};

struct fcos_assigner_params {
  double radius = 1.5;  ///< In anchor widths; 0 or more, a finite float.
  /// An unmatched anchor is ignored if an ignore region covers more than this fraction of its area;
  /// in [0, 1].
  double region_threshold = 0.5;
};

struct task_aligned_params {
  index_t top = 10;    ///< Candidates per box; 1 or more.
  double alpha = 0.5;  ///< Exponent of the score; 0 or more. 1 in the paper.
  double beta = 6;     ///< Exponent of the overlap; 0 or more.
  /// The search for the points in a box replaces each of its sides below this by `grown_side`; in
  /// pixels, 0 or more, a finite float.
  double least_side = 0;
  /// The length of replaced sides, about the box's centre; in pixels, 0 or more, a finite float.
  double grown_side = 0;
  /// After points of several boxes are assigned, each box keeps this many of its points, those with
  /// the greatest metrics; 0: all, otherwise at most `top`.
  index_t final_top = 0;

  /// The assigner of YOLO26's one-to-many branch: YOLOv8's, except that sides below 8 pixels, the
  /// stride of the first level, grow to 16, the stride of the second.
  static task_aligned_params yolo26() {
    task_aligned_params params;
    params.least_side = 8;
    params.grown_side = 16;
    return params;
  }
  /// The assigner of YOLO26's one-to-one branch: each box keeps one point.
  static task_aligned_params yolo26_one_to_one() {
    task_aligned_params params = yolo26();
    params.top = 7;
    params.final_top = 1;
    return params;
  }
};

/// A detector's predictions for each point, image after image.
struct task_aligned_predictions {
  /// Probabilities; images x points rows, one column per class.
  matrix_view<const float> scores;
  lasting<boxes_view<const float>> boxes;  ///< Corners.
};

struct sim_ota_params {
  index_t candidates = 10;  ///< Greatest IoUs that are summed for each box; 1 or more.
  double radius = 2.5;      ///< Of the centre prior, in strides; 0 or more, a finite float.
  double iou_weight = 3;    ///< Of the IoU's cost; 0 or more, a finite float.
};

/// A detector's predictions for each point, image after image.
struct sim_ota_predictions {
  matrix_view<const float> logits;               ///< Images x points rows, one column per class.
  lasting<vector_view<const float>> objectness;  ///< Logits.
  lasting<boxes_view<const float>> boxes;        ///< Corners.
};

/// Scratch memory for assigners. ATSS uses 8 bytes per point, 8 per box, and 12 per candidate of
/// each box on each level. FCOS uses 8 bytes per point, 4 per point of each image, and 20 per box.
/// The task-aligned assigner uses 24 bytes per candidate (`top` per box) and 32 per box, 64 if
/// boxes are rotated. SimOTA uses 28 bytes per point of each image and 20 per candidate of each
/// box. Each uses 2 KiB more. With ignore regions, ATSS and FCOS use another 8 bytes per row and
/// column of each level. The memory grows to the needs of the largest call and is reused. Only one
/// call at a time may use it.
class assigner_workspace {
  friend detail::workspace_access;
  detail::assigner_buffers buffers_;
};

/// ATSS for `anchors`, corners, one per point. Writes the index of the assigned box among all
/// ground-truth boxes, -1, or -2 (ignored), to `matches`, images x anchors.
void assign_atss(boxes_view<const float> anchors, vector_view<const grid_size> levels,
                 const ground_truth& truth, vector_view<index_t> matches, const atss_params& params,
                 assigner_workspace& workspace, threading policy = threading::parallel);

/// FCOS's assigner for `anchors`, corners, one per point. Matches are identical to torchvision's:
/// areas are compared as 1e8 - area in float, and boxes of 1e8 pixels or more match nothing. Writes
/// the index of the assigned box among all ground-truth boxes, -1, or -2 (ignored), to `matches`,
/// images x anchors.
void assign_fcos(boxes_view<const float> anchors, vector_view<const grid_size> levels,
                 const ground_truth& truth, vector_view<index_t> matches,
                 const fcos_assigner_params& params, assigner_workspace& workspace,
                 threading policy = threading::parallel);

/// The task-aligned assigner. It needs the classes of the boxes. `points` is N x 2, x and y in the
/// same pixels as the boxes. Writes the index of the assigned box among all ground-truth boxes, -1,
/// or -2 (ignored), to `matches`, and the target, or 0 without a match, to `targets`; both are
/// images x points.
void assign_task_aligned(const task_aligned_predictions& predictions,
                         matrix_view<const float> points, vector_view<const grid_size> levels,
                         const ground_truth& truth, vector_view<index_t> matches,
                         vector_view<float> targets, const task_aligned_params& params,
                         assigner_workspace& workspace, threading policy = threading::parallel);

/// SimOTA. It needs the classes of the boxes. `points` is N x 2, x and y in the same pixels as the
/// boxes; `strides` has the stride of each level in these pixels. Writes matches and targets as
/// assign_task_aligned() does. Returns the number of assigned points of all images.
index_t assign_sim_ota(const sim_ota_predictions& predictions, matrix_view<const float> points,
                       vector_view<const grid_size> levels, vector_view<const double> strides,
                       const ground_truth& truth, vector_view<index_t> matches,
                       vector_view<float> targets, const sim_ota_params& params,
                       assigner_workspace& workspace, threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/assign_fcos.hpp>
#include <vecdet/impl/assign_sim_ota.hpp>
#include <vecdet/impl/assigners.hpp>
