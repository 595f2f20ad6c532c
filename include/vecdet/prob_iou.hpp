// SPDX-License-Identifier: Apache-2.0
// ProbIoU of rotated boxes: of all pairs or of corresponding boxes. It is the overlap by which
// ultralytics trains oriented detectors and applies NMS (Llerena, Zeni, Kristen, Jung: "Gaussian
// bounding boxes and probabilistic intersection-over-union for object detection", arXiv
// 2106.06072).
//
// A box is a Gaussian with its centre and, in the directions of its sides, the standard deviations
// w / sqrt(12) and h / sqrt(12). With S1 and S2 the covariance matrices of two boxes, d the
// difference of their centres and eps = 1e-7 as in ultralytics' probiou and batch_probiou,
//
//   det     = det(S1 + S2)
//   B       = d^T adj(S1 + S2) d / (4 (det + eps))
//             + log(det / (4 sqrt(det S1 det S2) + eps) + eps) / 2,  clamped to [eps, 100]
//   ProbIoU = 1 - sqrt(1 - exp(-B) + eps)
//
// Boxes are rows of five numbers, float or double: centre, width, height and angle, in the
// convention of rotated_boxes.hpp. The result is between -1.2e-7, for boxes that are far apart, and
// 0.99956, for equal boxes. It is the same for a and b as for b and a. Boxes without area have
// results too: that of two points is 0.99956 at any distance, as the formula says. In pixels, eps
// matters for boxes of less than one square pixel; coordinates in [0, 1] are not suitable.
//
// Results are within 1e-5 of the exact value of the formula in float and within 1e-12 in double,
// for sides in a ratio of at most 40 : 1, wherever the boxes are; the bounds grow with the ratio.
// In double, the bound is 1e-10 if a box has less than 0.06 square pixels. ultralytics' own
// operations in float lose three digits near 1. NaN is the result if one of the numbers of a box is
// not finite, a side is negative, or an angle exceeds 1e6 degrees or radians in magnitude. Floats
// of any size are computed without overflow, and those of less than 0.06 square pixels in double;
// doubles overflow for sides of 1e38 and more.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ or the output
// shares memory with an input.
#pragma once

#include <vecdet/angle_convention.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/value_of.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Writes the ProbIoU of box i of `a` and box j of `b`, both cxcywhr, to element (i, j) of `out`.
template <class T>
void pairwise_prob_iou(matrix_view<T> a, matrix_view<const value_of<T>> b, angle_convention angles,
                       matrix_view<value_of<T>> out, threading policy = threading::parallel);

/// Writes the ProbIoU of box i of `a` and box i of `b`, both cxcywhr, to out[i].
template <class T>
void elementwise_prob_iou(matrix_view<T> a, matrix_view<const value_of<T>> b,
                          angle_convention angles, vector_view<value_of<T>> out,
                          threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/prob_iou.hpp>
