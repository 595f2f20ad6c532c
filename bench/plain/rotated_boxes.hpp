// SPDX-License-Identifier: Apache-2.0
// IoU of all pairs of `rows` rotated boxes a and `cols` rotated boxes b: N x 5, centre, width,
// height, angle in degrees, counter-clockwise as seen in an image. NMS by it. The same with
// ProbIoU.
#pragma once

#include "loops.hpp"

namespace vecdet::bench {

VECDET_PLAIN_LOOPS(void plain_pairwise_rotated_iou(const float* a, std::int64_t rows,
                                                   const float* b, std::int64_t cols, float* out);

                   /// Writes 1 for each kept box, else 0.
                   void plain_rotated_nms(const float* boxes, const float* scores,
                                          std::int64_t count, float iou_threshold,
                                          std::int64_t* is_kept);

                   void plain_pairwise_prob_iou(const float* a, std::int64_t rows, const float* b,
                                                std::int64_t cols, float* out);

                   /// Returns the sum of 1 - ProbIoU and writes its gradient, N x 5.
                   double plain_prob_iou_loss(const float* predicted, const float* targets,
                                              std::int64_t count, float* grad);

                   /// A box is suppressed by any box with a higher score.
                   void plain_prob_iou_nms(const float* boxes, const float* scores,
                                           std::int64_t count, float iou_threshold,
                                           std::int64_t* is_kept);)

}  // namespace vecdet::bench
