// SPDX-License-Identifier: Apache-2.0
// What only two-stage detectors need, on PyTorch's tensors; torch.hpp includes it.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/torch/generated/two_stage.hpp>

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace vecdet {
inline namespace VECDET_ABI {
namespace ops {

/// RoIAlign (roi_align.hpp) of `features`, images x channels x height x width, contiguous or
/// channels last. The result, boxes x channels x output_size, and the gradient have the type and
/// memory format of the features. Boxes may have any type and get no gradient. Differentiable with
/// respect to the features.
/// @param boxes K x 5, the index of an image and corners in pixels; or corners, K x 4, image after
///     image
/// @param output_size height and width, in bins
/// @param spatial_scale locations per pixel
/// @param sampling_ratio samples per bin and axis; below 1: adaptive
/// @param aligned shifts boxes by half a location, as detectron2 does
/// @param box_counts the number of the K x 4 boxes per image; empty: all belong to one image
at::Tensor roi_align(const at::Tensor& features, const at::Tensor& boxes,
                     at::IntArrayRef output_size, double spatial_scale = 1,
                     std::int64_t sampling_ratio = -1, bool aligned = false,
                     at::IntArrayRef box_counts = {});

/// RoIAlign on a pyramid (multiscale_roi_align.hpp): each box is pooled from the level that matches
/// its size, as in torchvision's MultiScaleRoIAlign. A single level may have any scale and serves
/// all boxes.
/// @param features levels, finest first
/// @param scales locations per pixel, one per level, each half of the one before
at::Tensor multiscale_roi_align(at::TensorList features, const at::Tensor& boxes,
                                at::IntArrayRef output_size, at::ArrayRef<double> scales,
                                std::int64_t sampling_ratio = 2, bool aligned = false,
                                at::IntArrayRef box_counts = {}, double canonical_size = 224,
                                std::int64_t canonical_level = 4);

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet
