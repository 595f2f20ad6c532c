// SPDX-License-Identifier: Apache-2.0
// What only two-stage detectors need, on PyTorch's tensors; torch.hpp includes it.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdint>
#include <tuple>

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

/// The proposals of an RPN (postprocess.hpp), whose head's levels are read in place. Returns boxes
/// and scores (float32), levels (int64), and the offset of each image's proposals (int64), one more
/// than there are images.
/// @param logits levels, each images x anchors x height x width
/// @param deltas levels of the same sizes, each images x (anchors x 4) x height x width
/// @param anchors corners, N x 4, of all levels of one image, the same for all images
/// @param image_sizes height and width of each image, alternating
/// @param max_candidates per level, before NMS; torchvision uses 2000 in training, 1000 in
///     evaluation
/// @param max_proposals per image, after NMS; likewise
/// @param score_threshold scores above it count
/// @param weights of dx, dy, dw, dh; empty: all 1
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> rpn_postprocess(
    at::TensorList logits, at::TensorList deltas, const at::Tensor& anchors,
    at::ArrayRef<double> image_sizes, std::int64_t max_candidates = 2000,
    double iou_threshold = 0.7, std::int64_t max_proposals = 2000, double score_threshold = 0,
    at::ArrayRef<double> weights = {}, double size_limit = 4.135166556742356,
    double min_size = 1e-3);

/// The detections of Faster R-CNN's box head (box_head.hpp), in the form of postprocess().
/// @param logits proposals x classes, background first
/// @param deltas proposals x (classes x 4)
/// @param proposals corners, N x 4, image after image
/// @param proposal_counts the number of proposals per image; empty: all belong to one image
/// @param weights of dx, dy, dw, dh; empty: 10, 10, 5, 5
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> postprocess_box_head(
    const at::Tensor& logits, const at::Tensor& deltas, const at::Tensor& proposals,
    at::IntArrayRef proposal_counts, at::ArrayRef<double> image_sizes,
    double score_threshold = 0.05, double iou_threshold = 0.5, std::int64_t max_detections = 100,
    at::ArrayRef<double> weights = {}, double size_limit = 4.135166556742356,
    double min_size = 1e-2);

/// A balanced sample of each image (balanced_sample.hpp). Returns three int64 tensors: the sampled
/// indices among the labels of all images, where each image's positives come first, ascending, then
/// its negatives; the offset of each image's sample, one more than there are images; and the number
/// of positives per image.
/// @param labels integers, one per anchor or proposal, image after image; all values except
///     `background` and `ignore` are positive
/// @param counts the number of labels per image; empty: all belong to one image
/// @param size sample size per image: 256 for an RPN, 512 for a box head
/// @param positive_share greatest share of positives; a quarter for a box head
/// @param seed use a different one for each step
std::tuple<at::Tensor, at::Tensor, at::Tensor> sample_balanced(
    const at::Tensor& labels, at::IntArrayRef counts = {}, std::int64_t size = 256,
    double positive_share = 0.5, std::int64_t seed = 0, std::int64_t background = -1,
    std::int64_t ignore = -2);

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet
