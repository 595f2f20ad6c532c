// SPDX-License-Identifier: Apache-2.0
// vecdet on the tensors of PyTorch's C++ library: vecdet::ops. Each function is an operator as
// well, torch.ops.vecdet.<name> in Python and TorchScript, with the same arguments in the same
// order.
//
// Link vecdet::torch (CMake option VECDET_TORCH), or compile vecdet/torch/*operators.cpp with your
// program: they hold the bodies, so that this header costs no more than a tensor's declaration.
//
// Tensors are dense ones on the CPU, of float32, float64, bfloat16 or float16, which is computed in
// float32 and rounded. Of floating types that differ the wider one counts. What a function writes
// is new memory. Strided input is copied only where a kernel cannot read it as it lies: logits may
// have any row stride, boxes lie one after the other; a copy is the problem "copy_to_contiguous" in
// the profile. Work is spread over ATen's threads, at::get_num_threads(), with the same result for
// any number of them.
//
// Losses are differentiable in their first argument, retinanet_loss() in its first two. If it
// requires a gradient, the gradient is computed together with the loss. backward() multiplies it by
// the gradient that arrives: in place, unless the graph is retained. It cannot be differentiated
// again. If any other tensor requires a gradient, weights and scales included, the call fails:
// detach that tensor. RoIAlign is differentiable in its features; backward() computes that
// gradient. Nothing else has a gradient: backward() through it is an error.
//
// Under autocast, floating arguments become float32, as those of torchvision's operators, and
// results are of float32. Where the same numbers come of bfloat16 as it is, it is read without a
// copy: the logits and deltas of losses that are one number, and of what makes detections; and the
// features of RoIAlign, whose result stays in their type.
//
// Bad arguments throw c10::Error, RuntimeError in Python, with the text of vecdet's functions; see
// their headers for what each computes and takes.
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/box_loss.hpp>
#include <vecdet/dense_detector.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/iou_kind.hpp>
#include <vecdet/soft_nms_method.hpp>

#include <cstdint>
#include <tuple>

#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>

namespace vecdet {
inline namespace VECDET_ABI {

/// vecdet's functions on at::Tensor. Where a tensor may be absent, it is undefined: {}.
namespace ops {

/// Sigmoid focal loss (focal_loss.hpp) of `logits` (... x classes) against `targets`: integers of
/// the logits' shape without the classes are labels, one a row; otherwise numbers in [0, 1] of the
/// logits' shape. The loss of each element, or a scalar, by `reduction`; the mean is over rows x
/// classes.
/// @param scale a factor on loss and gradient; trainers use 1 / max(1, foreground)
/// @param row_weights a further factor for each row
/// @param background label of rows in which every class is negative
/// @param ignore label of rows that do not count
at::Tensor sigmoid_focal_loss(const at::Tensor& logits, const at::Tensor& targets,
                              double alpha = 0.25, double gamma = 2,
                              std::int64_t reduction = at::Reduction::None, double scale = 1,
                              const at::Tensor& row_weights = {}, std::int64_t background = -1,
                              std::int64_t ignore = -2);

/// The summed focal loss of a head's levels (head_levels.hpp) as its convolutions left them, in
/// NCHW or with channels last: each images x (anchors x classes) x height x width. Nothing is
/// permuted, copied or concatenated where all levels lie in the same way.
/// @param labels images x anchors of all levels: level by level, row by row, anchor by anchor, as
///     torchvision's heads order them
/// @param image_scales a further factor for each image, such as 1 / max(1, its foreground)
at::Tensor sigmoid_focal_loss_levels(at::TensorList logits, const at::Tensor& labels,
                                     double alpha = 0.25, double gamma = 2, double scale = 1,
                                     const at::Tensor& image_scales = {},
                                     std::int64_t background = -1, std::int64_t ignore = -2);

/// Quality focal loss, varifocal loss and binary cross entropy (soft_target_loss.hpp) of `logits`
/// (... x classes), whose rows have a label each and a score, the target of the labelled class: the
/// loss of each element, or a scalar, by `reduction`; the mean is over rows x classes.
at::Tensor quality_focal_loss(const at::Tensor& logits, const at::Tensor& labels,
                              const at::Tensor& scores, double beta = 2,
                              std::int64_t reduction = at::Reduction::None, double scale = 1,
                              const at::Tensor& row_weights = {}, std::int64_t background = -1,
                              std::int64_t ignore = -2);
/// @param grad_through_factor whether p^gamma is a function of the logit in the gradient
at::Tensor varifocal_loss(const at::Tensor& logits, const at::Tensor& labels,
                          const at::Tensor& scores, double alpha = 0.75, double gamma = 2,
                          bool grad_through_factor = true,
                          std::int64_t reduction = at::Reduction::None, double scale = 1,
                          const at::Tensor& row_weights = {}, std::int64_t background = -1,
                          std::int64_t ignore = -2);
at::Tensor bce_loss(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& scores,
                    std::int64_t reduction = at::Reduction::None, double scale = 1,
                    const at::Tensor& row_weights = {}, std::int64_t background = -1,
                    std::int64_t ignore = -2);

/// Distribution focal loss (distribution_focal_loss.hpp) of `logits` (... x bins, not of float64)
/// against `targets` in bins: the loss of each row, or a scalar, by `reduction`; the mean is over
/// rows.
at::Tensor distribution_focal_loss(const at::Tensor& logits, const at::Tensor& targets,
                                   std::int64_t reduction = at::Reduction::None, double scale = 1,
                                   const at::Tensor& row_weights = {});

/// The expectation of each row of `logits` (... x bins), in bins; and the boxes (float32, ... x 4
/// corners) of four rows each (... x 4 x bins): left, top, right and bottom of `points` (... x 2),
/// in units of `strides` (...).
at::Tensor decode_distributions(const at::Tensor& logits);
at::Tensor decode_distribution_boxes(const at::Tensor& logits, const at::Tensor& points,
                                     const at::Tensor& strides);

/// Softmax cross entropy (softmax_cross_entropy.hpp) of `logits` (... x classes, not of float64)
/// against `labels`: the loss of each row, or a scalar, by `reduction`; the mean is over rows that
/// are not ignored.
/// @param ignore label of rows that do not count
at::Tensor softmax_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels,
                                      std::int64_t reduction = at::Reduction::None,
                                      double scale = 1, std::int64_t ignore = -2);

/// SSD's: the sum of the foreground's losses and those of each image's hardest negatives, so many
/// for each of its foreground, of `logits`, images x anchors x classes.
/// @param background a class
at::Tensor mined_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels,
                                    std::int64_t negatives_per_foreground = 3,
                                    std::int64_t background = 0, double scale = 1,
                                    std::int64_t ignore = -2);

/// Smooth L1 loss (smooth_l1.hpp) of `predictions` against `targets`, both N x 4: N x 4 losses, or
/// a scalar, by `reduction`.
/// @param labels one integer a box: only boxes whose label is neither `background` nor `ignore`
///     count, and the mean is over these. Undefined: all.
/// @param beta where the parabola meets the line; 0 is |d|
/// @param box_weights a further factor for each box
at::Tensor smooth_l1_loss(const at::Tensor& predictions, const at::Tensor& targets,
                          double beta = 1.0 / 9, std::int64_t reduction = at::Reduction::None,
                          const at::Tensor& labels = {}, double scale = 1,
                          const at::Tensor& box_weights = {}, std::int64_t background = -1,
                          std::int64_t ignore = -2);

/// GIoU, DIoU or CIoU loss (iou_loss.hpp) of `predicted` boxes against `targets`, both N x 4
/// corners: N losses, or a scalar, by `reduction`; the mean of none is 0, as torchvision's.
/// @param kind giou, diou or ciou
at::Tensor iou_loss(const at::Tensor& predicted, const at::Tensor& targets, iou_kind kind,
                    std::int64_t reduction = at::Reduction::None, double epsilon = 1e-7,
                    double scale = 1, const at::Tensor& box_weights = {});

/// What regression_loss() compares; see regression_loss.hpp.
using regression = box_loss;

/// The summed loss of `deltas` on `anchors`, both N x 4, in one pass (regression_loss.hpp).
/// @param targets a box an anchor, N x 4, or ground truth, where `matches` are given
/// @param matches int64, the index of each anchor's ground truth
/// @param labels one integer an anchor: only those neither `background` nor `ignore` count. Where
///     undefined, `matches` serve as labels, and all count where these are undefined too.
/// @param weights of dx, dy, dw, dh; empty: all 1
/// @param size_limit of dw and dh, for the IoU losses: log(1000 / 16)
at::Tensor regression_loss(const at::Tensor& deltas, const at::Tensor& anchors,
                           const at::Tensor& targets, const at::Tensor& matches = {},
                           const at::Tensor& labels = {}, regression loss = regression::smooth_l1,
                           double beta = 1.0 / 9, double epsilon = 1e-7,
                           at::ArrayRef<double> weights = {}, double size_limit = 4.135166556742356,
                           double scale = 1, const at::Tensor& box_weights = {},
                           std::int64_t background = -1, std::int64_t ignore = -2);

/// Both losses of RetinaNet (retinanet_loss.hpp), matching included, of a head's levels as its
/// convolutions left them: that of classes, and that of boxes. Each is the mean over images of sums
/// divided by max(1, the image's foreground).
/// @param logits levels, each images x (anchors x classes) x height x width
/// @param deltas levels of the same sizes, each images x (anchors x 4) x height x width
/// @param anchors corners, N x 4, of all levels of one image, the same for all images
/// @param boxes ground truth, corners, M x 4: the boxes of one image after those of the other
/// @param classes one integer a box, columns of the logits
/// @param box_counts how many boxes each image has; empty: one image has all
/// @param regions boxes in which anchors are ignored, as crowds are, and how many each image has
std::tuple<at::Tensor, at::Tensor> retinanet_loss(
    at::TensorList logits, at::TensorList deltas, const at::Tensor& anchors,
    const at::Tensor& boxes, const at::Tensor& classes, at::IntArrayRef box_counts = {},
    double high_threshold = 0.5, double low_threshold = 0.4, bool allow_low_quality = true,
    double alpha = 0.25, double gamma = 2, regression loss = regression::smooth_l1, double beta = 0,
    at::ArrayRef<double> weights = {}, double size_limit = 4.135166556742356, double scale = 1,
    const at::Tensor& regions = {}, at::IntArrayRef region_counts = {});

/// Matches `anchors`, N x 4 corners, with the ground truth of each image (matching.hpp). Returns,
/// each images x N, or N where there are no box_counts, the index (int64) of the box among all
/// `boxes`, -1 (background) or -2 (ignored); the class of that box, background or ignore (int64);
/// and the anchor's greatest IoU with a box (float32).
/// @param boxes corners, M x 4: the boxes of one image after those of the other
/// @param classes one integer a box; undefined: all 0
/// @param box_counts how many boxes each image has; empty: one image has all
/// @param force_best lets every box take its best anchor: SSD
/// @param skip_untouched lets a box that touches no anchor match nothing
/// @param empty_iou_is_zero as detectron2 has it; 0/0 is NaN in torchvision
/// @param regions boxes in which anchors are ignored, as crowds are, and how many each image has
std::tuple<at::Tensor, at::Tensor, at::Tensor> match_anchors(
    const at::Tensor& anchors, const at::Tensor& boxes, const at::Tensor& classes = {},
    at::IntArrayRef box_counts = {}, double high_threshold = 0.5, double low_threshold = 0.4,
    bool allow_low_quality = true, bool force_best = false, bool skip_untouched = false,
    bool empty_iou_is_zero = false, const at::Tensor& regions = {},
    at::IntArrayRef region_counts = {}, double region_threshold = 0.5, bool ignore_matched = false,
    std::int64_t background = -1, std::int64_t ignore = -2);

/// ATSS (assigners.hpp): for each of `anchors`, N x 4 corners, one a point, the index of its ground
/// truth among all `boxes`, or -1; images x N, or N where there are no box_counts.
/// @param level_sizes height and width of each level, one after the other
/// @param candidates of each level
at::Tensor assign_atss(const at::Tensor& anchors, at::IntArrayRef level_sizes,
                       const at::Tensor& boxes, at::IntArrayRef box_counts = {},
                       std::int64_t candidates = 9);

/// FCOS's assigner (assigners.hpp), likewise, with torchvision's centre sampling.
/// @param radius in widths of an anchor
at::Tensor assign_fcos(const at::Tensor& anchors, at::IntArrayRef level_sizes,
                       const at::Tensor& boxes, at::IntArrayRef box_counts = {},
                       double radius = 1.5);

/// The task-aligned assigner (assigners.hpp): for each of `points`, N x 2, the index of its ground
/// truth among all `boxes`, or -1, and its target, 0 where there is none; images x N, or N where
/// there are no box_counts.
/// @param scores probabilities, images x N x classes, or N x classes
/// @param predicted corners, images x N x 4, or N x 4
std::tuple<at::Tensor, at::Tensor> assign_task_aligned(
    const at::Tensor& scores, const at::Tensor& predicted, const at::Tensor& points,
    at::IntArrayRef level_sizes, const at::Tensor& boxes, const at::Tensor& classes,
    at::IntArrayRef box_counts = {}, std::int64_t top = 10, double alpha = 0.5, double beta = 6);

/// The deltas that decode to `targets` from `anchors`, both N x 4 corners (box_coding.hpp).
/// @param weights of dx, dy, dw, dh; empty: all 1
at::Tensor encode_boxes(const at::Tensor& targets, const at::Tensor& anchors,
                        at::ArrayRef<double> weights = {});

/// The boxes, N x 4 corners, that `deltas` mean on `anchors`. Deltas of bfloat16 on anchors of
/// float32 give boxes of float32.
/// @param image_size height and width to clip to, as torchvision orders them; empty: no clipping
/// @param size_limit dw and dh are at most this; infinity: unbounded
at::Tensor decode_boxes(const at::Tensor& deltas, const at::Tensor& anchors,
                        at::ArrayRef<double> weights = {}, at::ArrayRef<double> image_size = {},
                        double size_limit = 4.135166556742356);

/// FCOS's distances from the anchors' centres to the sides of `targets`, and the boxes that
/// `distances` mean.
/// @param by_size divided by the anchor's width and height
at::Tensor encode_distances(const at::Tensor& targets, const at::Tensor& anchors,
                            bool by_size = true);
at::Tensor decode_distances(const at::Tensor& distances, const at::Tensor& anchors,
                            bool by_size = true, at::ArrayRef<double> image_size = {});

/// The overlap (iou.hpp) of each of `a` (N x 4 corners) with each of `b` (M x 4), N x M; and of
/// box i of `a` with box i of `b`, N.
at::Tensor pairwise_iou(const at::Tensor& a, const at::Tensor& b, iou_kind kind = iou_kind::iou);
at::Tensor elementwise_iou(const at::Tensor& a, const at::Tensor& b, iou_kind kind = iou_kind::iou);

/// `boxes` (... x 4) of format `from` in format `to` (box_ops.hpp).
at::Tensor convert_boxes(const at::Tensor& boxes, box_format from, box_format to);

/// `boxes` (... x 4 corners) clipped to an image.
/// @param image_size height and width, as torchvision orders them
at::Tensor clip_boxes(const at::Tensor& boxes, at::ArrayRef<double> image_size);

/// The areas, N, of `boxes` (N x 4 corners): float32 for types of 16 bits.
at::Tensor box_areas(const at::Tensor& boxes);

/// The indices (int64) of the `boxes` (N x 4 corners) of which both sides are `min_size` or more.
at::Tensor large_boxes(const at::Tensor& boxes, double min_size);

/// The indices (int64) of the boxes that non-maximum suppression keeps, in descending score
/// (nms.hpp): `boxes` N x 4 corners, `scores` N. batched_nms() compares only boxes of equal
/// `classes`, N numbers of any type and value.
at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double iou_threshold);
at::Tensor batched_nms(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& classes,
                       double iou_threshold);

/// What soft_nms() leaves of an overlapped score; see soft_nms.hpp.
using soft_nms_decay = soft_nms_method;

/// Soft-NMS (soft_nms.hpp): the indices of the boxes picked, and the scores that they had left.
/// @param classes as those of batched_nms(); undefined: all boxes are of one
std::tuple<at::Tensor, at::Tensor> soft_nms(const at::Tensor& boxes, const at::Tensor& scores,
                                            const at::Tensor& classes = {},
                                            soft_nms_decay decay = soft_nms_decay::linear,
                                            double iou_threshold = 0.3, double sigma = 0.5,
                                            double score_floor = 1e-3);

/// The best `k` of `logits` (... x classes, float32, bfloat16 or float16) whose sigmoid is above
/// `score_threshold`, descending, and their positions in the flattened tensor (filter_topk.hpp).
std::tuple<at::Tensor, at::Tensor> filter_topk(const at::Tensor& logits, double score_threshold,
                                               std::int64_t k);

/// Whose postprocessing; see postprocess.hpp. postprocess() refuses `rpn`, which has
/// postprocess_params::rpn().
using detector = dense_detector;

/// The detections of a batch (postprocess.hpp): boxes (float32), scores (float32), labels (int64),
/// and the offsets of the images among them (int64), one more than there are images.
/// @param logits images x anchors x classes
/// @param deltas images x anchors x 4
/// @param anchors anchors x 4 corners, the same for all images
/// @param image_sizes height and width of each image, one after the other
/// @param level_sizes the anchors of each level; empty: one level
/// @param centerness images x anchors: FCOS only
/// @param weights of dx, dy, dw, dh; empty: all 1
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> postprocess(
    const at::Tensor& logits, const at::Tensor& deltas, const at::Tensor& anchors,
    at::ArrayRef<double> image_sizes, at::IntArrayRef level_sizes = {},
    detector kind = detector::retinanet, double score_threshold = 0.05,
    std::int64_t max_candidates = 1000, double iou_threshold = 0.5,
    std::int64_t max_detections = 300, at::ArrayRef<double> weights = {},
    const at::Tensor& centerness = {}, double size_limit = 4.135166556742356, double min_size = 0);

/// RoIAlign (roi_align.hpp) of `features`, images x channels x height x width, contiguous or with
/// channels last, as the result, boxes x channels x output_size, and the gradient are. Type of all
/// three is that of the features; boxes may be of any, and have no gradient. Differentiable in the
/// features.
/// @param boxes K x 5, the number of an image and corners in pixels; or corners, K x 4: the boxes
///     of one image after those of the other
/// @param output_size height and width, in bins
/// @param spatial_scale locations a pixel
/// @param sampling_ratio samples of a bin in a row; below 1: adaptive
/// @param aligned detectron2's half pixel
/// @param box_counts how many of the K x 4 boxes each image has; empty: one image has all
at::Tensor roi_align(const at::Tensor& features, const at::Tensor& boxes,
                     at::IntArrayRef output_size, double spatial_scale = 1,
                     std::int64_t sampling_ratio = -1, bool aligned = false,
                     at::IntArrayRef box_counts = {});

/// RoIAlign of a pyramid (multiscale_roi_align.hpp), each box from the level that suits its size,
/// as torchvision's MultiScaleRoIAlign. A single level may have any scale, and gives all boxes.
/// @param features levels, from the finest on
/// @param scales locations a pixel, one a level, each half of the one before
at::Tensor multiscale_roi_align(at::TensorList features, const at::Tensor& boxes,
                                at::IntArrayRef output_size, at::ArrayRef<double> scales,
                                std::int64_t sampling_ratio = 2, bool aligned = false,
                                at::IntArrayRef box_counts = {}, double canonical_size = 224,
                                std::int64_t canonical_level = 4);

/// The proposals of an RPN (postprocess.hpp) from the levels of its head as the convolutions left
/// them: boxes and scores (float32), levels (int64), and the offsets of the images among them
/// (int64), one more than there are images.
/// @param logits levels, each images x anchors x height x width
/// @param deltas levels of the same sizes, each images x (anchors x 4) x height x width
/// @param anchors corners, N x 4, of all levels of one image, the same for all images
/// @param image_sizes height and width of each image, one after the other
/// @param max_candidates of a level, before NMS; torchvision: 2000 in training, 1000 afterwards
/// @param max_proposals of an image, after NMS; likewise
/// @param score_threshold scores above it count
/// @param weights of dx, dy, dw, dh; empty: all 1
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> rpn_postprocess(
    at::TensorList logits, at::TensorList deltas, const at::Tensor& anchors,
    at::ArrayRef<double> image_sizes, std::int64_t max_candidates = 2000,
    double iou_threshold = 0.7, std::int64_t max_proposals = 2000, double score_threshold = 0,
    at::ArrayRef<double> weights = {}, double size_limit = 4.135166556742356,
    double min_size = 1e-3);

/// The detections of Faster R-CNN's box head (box_head.hpp), as those of postprocess().
/// @param logits proposals x classes, background first
/// @param deltas proposals x (classes x 4)
/// @param proposals corners, N x 4: those of one image after those of the other
/// @param proposal_counts how many proposals each image has; empty: one image has all
/// @param weights of dx, dy, dw, dh; empty: 10, 10, 5, 5
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> postprocess_box_head(
    const at::Tensor& logits, const at::Tensor& deltas, const at::Tensor& proposals,
    at::IntArrayRef proposal_counts, at::ArrayRef<double> image_sizes,
    double score_threshold = 0.05, double iou_threshold = 0.5, std::int64_t max_detections = 100,
    at::ArrayRef<double> weights = {}, double size_limit = 4.135166556742356,
    double min_size = 1e-2);

/// A balanced sample of each image (balanced_sample.hpp): indices of the labels of all images, the
/// positives of an image, ascending, before its negatives; the offsets of the images among them,
/// one more than there are images; and the number of each image's positives. All are int64.
/// @param labels integers, one an anchor or proposal, the labels of one image after those of the
///     other; all but `background` and `ignore` are positive
/// @param counts how many labels each image has; empty: one image has all
/// @param size of an image's sample: 256 for an RPN, 512 for a box head
/// @param positive_share at most; a quarter for a box head
/// @param seed another one for each step
std::tuple<at::Tensor, at::Tensor, at::Tensor> sample_balanced(
    const at::Tensor& labels, at::IntArrayRef counts = {}, std::int64_t size = 256,
    double positive_share = 0.5, std::int64_t seed = 0, std::int64_t background = -1,
    std::int64_t ignore = -2);

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet
