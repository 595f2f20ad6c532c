// SPDX-License-Identifier: Apache-2.0
// ProbIoU of rotated boxes, with the names of prob_iou.hpp.
#pragma once

#include <vecdet/impl/torch/rotated_boxes.hpp>
#include <vecdet/prob_iou.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {
namespace cpu {

/// The ProbIoU (prob_iou.hpp) of all pairs of boxes `a` (N x 5: centre, width, height, angle) and
/// `b` (M x 5), N x M. Computed in float32 for 16-bit types.
inline at::Tensor pairwise_prob_iou(const at::Tensor& a, const at::Tensor& b,
                                    angle_convention angles) {
  constexpr const char* function = "pairwise_prob_iou";
  return pairwise_rotated(function, a, b, [&](auto x, auto y, auto out) {
    vecdet::pairwise_prob_iou(x, y, checked_angles(function, angles), out, threads());
  });
}

/// The ProbIoU (prob_iou.hpp) of box i of `a` with box i of `b`, both N x 5: centre, width, height,
/// angle; N. Computed in float32 for 16-bit types.
inline at::Tensor elementwise_prob_iou(const at::Tensor& a, const at::Tensor& b,
                                       angle_convention angles) {
  constexpr const char* function = "elementwise_prob_iou";
  return elementwise_rotated(function, a, b, [&](auto x, auto y, auto out) {
    vecdet::elementwise_prob_iou(x, y, checked_angles(function, angles), out, threads());
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
