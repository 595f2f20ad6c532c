// SPDX-License-Identifier: Apache-2.0
// A DETR's attention, matching and losses on PyTorch's tensors; torch.hpp includes this file.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/torch/generated/queries.hpp>

#include <ATen/core/Tensor.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace ops {

/// Multi-scale deformable attention (deformable_attention.hpp): images x queries x (heads x
/// channels), of the value's type. Differentiable once, in value, points and weights. Points and
/// weights are computed in float32, or float64 for a value of float64.
/// @param value images x locations of all levels x heads x channels of a head
/// @param level_sizes height and width of each level, alternating
/// @param points x and y, 0 to 1 from edge to edge of a level: images x queries x heads x levels x
///     points x 2, or images x queries x heads x points of all levels x 2
/// @param weights of the points' shape without its last dimension
/// @param level_points the points of each level; empty: the same number on each
at::Tensor deformable_attention(const at::Tensor& value, at::IntArrayRef level_sizes,
                                const at::Tensor& points, const at::Tensor& weights,
                                at::IntArrayRef level_points = {});

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet
