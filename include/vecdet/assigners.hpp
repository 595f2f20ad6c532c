// SPDX-License-Identifier: Apache-2.0
// Assigners: which box of the ground truth each point of a detector without anchor matching is to
// find. ATSS, Zhang et al., arXiv 1912.02424, algorithm 1; the task-aligned assigner, Feng et al.,
// arXiv 2108.07755, section 3.3, in YOLOv8's form; and FCOS's, Tian et al., arXiv 1904.01355,
// section 3, with the centre sampling of torchvision's.
//
// ATSS. A box's candidates are, of each level, the k anchors whose centres are nearest to its own.
// Positive are those whose IoU is at least the mean plus the standard deviation (of n - 1) of all
// candidates' IoUs and whose centre lies inside of the box by more than 0.01. An anchor that is
// positive for several boxes goes to the one of the greatest IoU.
//
// Task-aligned. Of the points inside of a box by more than 1e-9 its candidates are the `top` of the
// greatest metric above 0:
//
//   metric = score(class of the box)^alpha overlap^beta, overlap = max(0, CIoU(box, prediction))
//
// A point that is a candidate of several boxes goes to the box of the greatest overlap among all
// that it lies in, even where it is no candidate of that one. Its target is its metric times the
// greatest overlap of its box, divided by the greatest metric of its box + 1e-9, both over the
// box's points.
//
// FCOS. An anchor finds the smallest of the boxes that its centre lies in, off the box's centre by
// less than `radius` anchor widths on either axis, and whose farthest side is more than 4 anchor
// widths away, but on the first level, and less than 8, but on the last.
//
// Equal ones go by lower index everywhere: distances, metrics, IoUs, overlaps. (torch's topk says
// nothing of equals.)
//
// There is no matrix of points by boxes. The points of a level form a grid, so that a box is
// compared only with the points near to it or inside of it. Points, and anchors, are level after
// level, row by row; the x of the points of a column are equal, as are the y of a row, and both
// ascend. The same points serve all images of a batch.
//
// All is computed in float, one rounding an operation; the mean and the deviation in double, their
// sum rounded to float. Targets are within 2e-5 of their size, and 1e-9: CIoU of boxes that hardly
// touch is a difference of larger numbers.
//
// NaN matches nothing: a box with a NaN coordinate has no points, a NaN score or prediction no
// metric above 0, and of a NaN IoU among a box's candidates, as 0/0 of empty ones, ATSS's threshold
// is NaN. Nor does a box of ATSS whose centre is infinite or of which there is a single candidate,
// one of FCOS of which a coordinate or the area is infinite, nor an infinite overlap. NaN points
// form no grid.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, points form
// no grid, there are regions, offsets do not ascend from 0 to the number of boxes, a class is out
// of range, or a parameter is. Results may not share memory with other arguments.
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
  index_t candidates = 9;  ///< Of each level; 1 or more.
};

struct fcos_assigner_params {
  double radius = 1.5;  ///< In widths of an anchor; 0 or more, a finite float.
};

struct task_aligned_params {
  index_t top = 10;    ///< Candidates of a box; 1 or more.
  double alpha = 0.5;  ///< Of the score; 0 or more. 1 in the paper.
  double beta = 6;     ///< Of the overlap; 0 or more.
};

/// What a detector says of each point, image after image.
struct task_aligned_predictions {
  /// Images x points rows, a column a class: probabilities.
  matrix_view<const float> scores;
  lasting<boxes_view<const float>> boxes;  ///< Corners.
};

/// Memory that assigners work in, of the whole batch's boxes: ATSS takes 8 bytes a point and 12 for
/// each candidate that a box may have, of all levels; FCOS's 8 bytes a point and 4 for each of
/// every image; the task-aligned assigner 24 for each of the `top` candidates of a box, and 32 a
/// box. It grows to what the largest call needs and is reused. One call at a time.
class assigner_workspace {
  friend detail::workspace_access;
  detail::assigner_buffers buffers_;
};

/// ATSS of `anchors`, corners, one a point. Writes the index among all boxes of the ground truth,
/// or -1, into `matches`, images x anchors.
void assign_atss(boxes_view<const float> anchors, vector_view<const grid_size> levels,
                 const ground_truth& truth, vector_view<index_t> matches, const atss_params& params,
                 assigner_workspace& workspace, execution policy = execution::parallel);

/// FCOS's of `anchors`, corners, one a point: torchvision's matches, float for float; areas are
/// compared as 1e8 less the area, in float, and boxes of 1e8 pixels or more match nothing. Writes
/// the index among all boxes of the ground truth, or -1, into `matches`, images x anchors.
void assign_fcos(boxes_view<const float> anchors, vector_view<const grid_size> levels,
                 const ground_truth& truth, vector_view<index_t> matches,
                 const fcos_assigner_params& params, assigner_workspace& workspace,
                 execution policy = execution::parallel);

/// The task-aligned assigner, which needs the classes of the boxes. `points` is N x 2, x and y in
/// the boxes' pixels. Writes the index among all boxes of the ground truth, or -1, into `matches`,
/// images x points, and the targets, 0 where there is no match, into `targets`, likewise.
void assign_task_aligned(const task_aligned_predictions& predictions,
                         matrix_view<const float> points, vector_view<const grid_size> levels,
                         const ground_truth& truth, vector_view<index_t> matches,
                         vector_view<float> targets, const task_aligned_params& params,
                         assigner_workspace& workspace, execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/assign_fcos.hpp>
#include <vecdet/impl/assigners.hpp>
