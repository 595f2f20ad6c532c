// SPDX-License-Identifier: Apache-2.0
// A DETR's attention, matching and losses on PyTorch's tensors, which torch.hpp includes.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/query_class_cost.hpp>
#include <vecdet/set_class_loss.hpp>

#include <cstdint>

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

/// The query of each ground-truth box (query_matching.hpp), int64, layers x groups x boxes; -1 for
/// a box without a query.
/// @param logits decoder layers, each images x queries x classes
/// @param boxes layers, each images x queries x 4: cx cy w h in [0, 1]
/// @param targets ground-truth boxes, M x 4, cx cy w h, image after image
/// @param classes integers, one per ground-truth box; undefined: all 0
/// @param box_counts the number of ground-truth boxes per image; empty: a single image
at::Tensor match_queries(at::TensorList logits, at::TensorList boxes, const at::Tensor& targets,
                         const at::Tensor& classes = {}, at::IntArrayRef box_counts = {},
                         query_class_cost class_cost = query_class_cost::focal, double alpha = 0.25,
                         double gamma = 2, double epsilon = 1e-8, double class_weight = 2,
                         double l1_weight = 5, double giou_weight = 2, std::int64_t groups = 1);

/// The column of each row of `costs` in the assignment of least total cost (assign_least_cost),
/// int64; -1 for a row without a column.
at::Tensor assign_least_cost(const at::Tensor& costs);

/// The weighted losses of decoder layers (set_loss.hpp), float32, layers x 3: classification, L1
/// and GIoU. Differentiable once, in logits and boxes.
/// @param matches one tensor per layer: groups x boxes, as a layer of match_queries()
/// @param num_boxes the number of boxes by which sums are divided; 0: that of `targets`
at::Tensor set_loss(at::TensorList logits, at::TensorList boxes, at::TensorList matches,
                    const at::Tensor& targets, const at::Tensor& classes = {},
                    at::IntArrayRef box_counts = {},
                    set_class_loss class_loss = set_class_loss::varifocal, double alpha = 0.75,
                    double gamma = 2, double no_object_weight = 0.1, double class_weight = 1,
                    double l1_weight = 5, double giou_weight = 2, double num_boxes = 0,
                    double scale = 1);

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet
