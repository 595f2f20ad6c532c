// SPDX-License-Identifier: Apache-2.0
// The task-aligned assigner for rotated boxes, as ultralytics trains oriented detectors. It is
// assign_task_aligned() (assigners.hpp) with two differences:
//
// - A point is inside a box if its projections onto the box's two directions are on the sides, ends
//   included. `least_side` and `grown_side` refer to width and height in this test.
// - The overlap of a box and a prediction is max(0, ProbIoU), as elementwise_prob_iou() computes it
//   in float.
//
// Boxes are rows of five floats: centre, width, height and angle, in the convention of
// rotated_boxes.hpp. A ground-truth box that is not a number, as that header defines it, has no
// points, and such a prediction never makes a point a candidate.
//
// Whether a point is inside is computed in double. For a point closer to a side than 1e-14 times
// its distance from the centre, rounding decides. In degrees, multiples of 90 have exact
// directions. Targets are within 2e-5 relative plus 1e-9 absolute of the formula for these
// overlaps.
#pragma once

#include <vecdet/angle_convention.hpp>
#include <vecdet/assigners.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// A detector's predictions for each point, image after image.
struct rotated_task_aligned_predictions {
  /// Probabilities; images x points rows, one column per class.
  matrix_view<const float> scores;
  matrix_view<const float> boxes;  ///< cxcywhr, images x points rows.
};

/// The rotated ground-truth boxes of one image or a batch; see ground_truth.
struct rotated_ground_truth {
  matrix_view<const float> boxes{};  ///< cxcywhr.
  /// The classes of the boxes; empty: all 0.
  lasting<labels_view> classes{};
  /// One more than there are images; empty: one image.
  lasting<vector_view<const index_t>> image_offsets{};
  /// Ignore regions, which are upright (corners), and their offsets if there are image_offsets.
  lasting<boxes_view<const float>> regions{};
  lasting<vector_view<const index_t>> region_offsets{};
};

/// The task-aligned assigner for rotated boxes. `points` is N x 2, x and y in the same pixels as
/// the boxes. Writes matches and targets as assign_task_aligned() does. Throws
/// std::invalid_argument, and writes nothing, for the reasons that assigners.hpp lists, if boxes
/// do not have five numbers, or if angles is no angle_convention.
void assign_rotated_task_aligned(const rotated_task_aligned_predictions& predictions,
                                 matrix_view<const float> points,
                                 vector_view<const grid_size> levels,
                                 const rotated_ground_truth& truth, angle_convention angles,
                                 vector_view<index_t> matches, vector_view<float> targets,
                                 const task_aligned_params& params, assigner_workspace& workspace,
                                 threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/rotated_assigner.hpp>
