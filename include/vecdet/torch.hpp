// SPDX-License-Identifier: Apache-2.0
// vecdet for the tensors of PyTorch's C++ library, in namespace vecdet::ops. Each function is also
// an operator, torch.ops.vecdet.<name> in Python and TorchScript, with the same arguments in the
// same order.
//
// Link vecdet::torch (CMake option VECDET_TORCH), or compile vecdet/torch/*operators.cpp and
// vecdet/torch/generated/*.cpp with your program. These files contain the function bodies, so this
// header needs only the declaration of tensors.
//
// Tensors are dense, on the CPU, and of float32, float64, bfloat16 or float16; float16 is computed
// in float32 and rounded. If floating types differ, the widest is used. Functions write only to new
// memory. A strided input is copied only if a kernel cannot read it in place: logits may have any
// row stride, but boxes must be contiguous. The profile shows such a copy as the problem
// "copy_to_contiguous". Work is spread over ATen's threads, at::get_num_threads(); results do not
// depend on their number.
//
// Losses are differentiable with respect to their first argument, retinanet_loss() and set_loss()
// with respect to their first two. If such an argument requires a gradient, the gradient is
// computed together with the loss. backward() multiplies it by the upstream gradient, in place
// unless the graph is retained. Second derivatives are an error, except for conv3x3(). If any other
// tensor requires a gradient, including weights and scales, the call fails: detach that tensor.
// RoIAlign is differentiable with respect to its features, conv3x3() and deformable_attention()
// with respect to all their tensors; backward() computes these gradients. Nothing else has a
// gradient: backward() through it is an error. Tensors with a derivative in forward mode (forward
// AD) are an error, except for conv3x3().
//
// Under autocast, floating-point arguments are cast to float32, as for torchvision's operators, and
// results are float32. bfloat16 tensors are read without conversion if that gives the same numbers:
// the logits and deltas of losses that return one number and of functions that return detections,
// and the features of RoIAlign, whose result has their type.
//
// Invalid arguments throw c10::Error (RuntimeError in Python) with the messages of vecdet's
// functions. Their headers document what each function computes and accepts.
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/box_loss.hpp>
#include <vecdet/dense_detector.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/iou_kind.hpp>
#include <vecdet/soft_nms_method.hpp>
#include <vecdet/torch/convolutions.hpp>
#include <vecdet/torch/generated/assignment.hpp>
#include <vecdet/torch/queries.hpp>
#include <vecdet/torch/two_stage.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>

namespace vecdet {
inline namespace VECDET_ABI {

/// vecdet's functions for at::Tensor. Leave an optional tensor undefined ({}) to omit it.
namespace ops {

/// Sigmoid focal loss (focal_loss.hpp) of `logits` (... x classes). Returns the loss of each
/// element, or a scalar, depending on `reduction`; the mean is over rows x classes.
/// @param targets integer labels, one per row, with the logits' shape without the last dimension;
///     or numbers in [0, 1] with the logits' shape
/// @param scale a factor on loss and gradient; trainers use 1 / max(1, foreground)
/// @param row_weights an additional factor per row
/// @param background label of rows in which every class is negative
/// @param ignore label of rows that do not count
at::Tensor sigmoid_focal_loss(const at::Tensor& logits, const at::Tensor& targets,
                              double alpha = 0.25, double gamma = 2,
                              std::int64_t reduction = at::Reduction::None, double scale = 1,
                              const at::Tensor& row_weights = {}, std::int64_t background = -1,
                              std::int64_t ignore = -2);

/// The sum of the focal losses of a head's levels (head_levels.hpp), read in place in NCHW or
/// channels last. Each level is images x (anchors x classes) x height x width. Nothing is permuted,
/// copied or concatenated if all levels have the same memory layout.
/// @param labels images x anchors of all levels, ordered by level, row, column and anchor, as in
///     torchvision's heads
/// @param image_scales an additional factor per image, e.g. 1 / max(1, its foreground)
at::Tensor sigmoid_focal_loss_levels(at::TensorList logits, const at::Tensor& labels,
                                     double alpha = 0.25, double gamma = 2, double scale = 1,
                                     const at::Tensor& image_scales = {},
                                     std::int64_t background = -1, std::int64_t ignore = -2);

/// Quality focal loss, varifocal loss and binary cross entropy (soft_target_loss.hpp) of `logits`
/// (... x classes). Each row has a label and a score, which is the target of the labelled class.
/// Returns the loss of each element, or a scalar, depending on `reduction`; the mean is over rows x
/// classes.
at::Tensor quality_focal_loss(const at::Tensor& logits, const at::Tensor& labels,
                              const at::Tensor& scores, double beta = 2,
                              std::int64_t reduction = at::Reduction::None, double scale = 1,
                              const at::Tensor& row_weights = {}, std::int64_t background = -1,
                              std::int64_t ignore = -2);
/// @param grad_through_factor differentiates p^gamma; if false, it is a constant weight
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

/// Distribution focal loss (distribution_focal_loss.hpp) of `logits` (... x bins, not float64)
/// against `targets` in bins. Returns the loss of each row, or a scalar, depending on `reduction`;
/// the mean is over rows.
at::Tensor distribution_focal_loss(const at::Tensor& logits, const at::Tensor& targets,
                                   std::int64_t reduction = at::Reduction::None, double scale = 1,
                                   const at::Tensor& row_weights = {});

/// decode_distributions() returns the expectation of each row of `logits` (... x bins), in bins.
/// decode_distribution_boxes() returns boxes (float32, ... x 4 corners). Each is decoded from four
/// rows of `logits` (... x 4 x bins): the distances left, top, right and bottom from its point in
/// `points` (... x 2), in units of its stride in `strides` (...).
at::Tensor decode_distributions(const at::Tensor& logits);
at::Tensor decode_distribution_boxes(const at::Tensor& logits, const at::Tensor& points,
                                     const at::Tensor& strides);

/// Softmax cross entropy (softmax_cross_entropy.hpp) of `logits` (... x classes, not float64)
/// against `labels`. Returns the loss of each row, or a scalar, depending on `reduction`; the mean
/// is over rows that are not ignored.
/// @param ignore label of rows that do not count
at::Tensor softmax_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels,
                                      std::int64_t reduction = at::Reduction::None,
                                      double scale = 1, std::int64_t ignore = -2);

/// SSD's softmax cross entropy of `logits`, images x anchors x classes: the sum of the losses of
/// each image's foreground and of its hardest negatives.
/// @param negatives_per_foreground the number of negatives per foreground anchor
/// @param background the class that is background
at::Tensor mined_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels,
                                    std::int64_t negatives_per_foreground = 3,
                                    std::int64_t background = 0, double scale = 1,
                                    std::int64_t ignore = -2);

/// Smooth L1 loss (smooth_l1.hpp) of `predictions` against `targets`, both N x 4. Returns N x 4
/// losses, or a scalar, depending on `reduction`.
/// @param labels one integer per box; only boxes whose label is neither `background` nor `ignore`
///     count, and the mean is over these. Undefined: all boxes count.
/// @param beta where the parabola meets the line; 0 gives |d|
/// @param box_weights an additional factor per box
at::Tensor smooth_l1_loss(const at::Tensor& predictions, const at::Tensor& targets,
                          double beta = 1.0 / 9, std::int64_t reduction = at::Reduction::None,
                          const at::Tensor& labels = {}, double scale = 1,
                          const at::Tensor& box_weights = {}, std::int64_t background = -1,
                          std::int64_t ignore = -2);

/// GIoU, DIoU or CIoU loss (iou_loss.hpp) of `predicted` boxes against `targets`, both N x 4
/// corners. Returns N losses, or a scalar, depending on `reduction`; the mean over no boxes is 0,
/// as in torchvision.
/// @param kind giou, diou or ciou
at::Tensor iou_loss(const at::Tensor& predicted, const at::Tensor& targets, iou_kind kind,
                    std::int64_t reduction = at::Reduction::None, double epsilon = 1e-7,
                    double scale = 1, const at::Tensor& box_weights = {});

/// The kinds of regression_loss(); see regression_loss.hpp.
using regression = box_loss;

/// The sum of the box regression losses of `deltas` with `anchors`, both N x 4, in one pass
/// (regression_loss.hpp).
/// @param targets one box per anchor, N x 4; or ground-truth boxes, if `matches` are given
/// @param matches int64, the index of each anchor's ground-truth box
/// @param labels one integer per anchor; only anchors whose label is neither `background` nor
///     `ignore` count. Undefined: `matches` serve as labels; without them all anchors count.
/// @param weights of dx, dy, dw, dh; empty: all 1
/// @param size_limit upper limit of dw and dh, for the IoU losses; default log(1000 / 16)
at::Tensor regression_loss(const at::Tensor& deltas, const at::Tensor& anchors,
                           const at::Tensor& targets, const at::Tensor& matches = {},
                           const at::Tensor& labels = {}, regression loss = regression::smooth_l1,
                           double beta = 1.0 / 9, double epsilon = 1e-7,
                           at::ArrayRef<double> weights = {}, double size_limit = 4.135166556742356,
                           double scale = 1, const at::Tensor& box_weights = {},
                           std::int64_t background = -1, std::int64_t ignore = -2);

/// The classification loss and the regression loss of RetinaNet (retinanet_loss.hpp), including
/// matching. The head's levels are read in place. Each loss is the mean over images of a sum
/// divided by max(1, the image's foreground).
/// @param logits levels, each images x (anchors x classes) x height x width
/// @param deltas levels of the same sizes, each images x (anchors x 4) x height x width
/// @param anchors corners, N x 4, of all levels of one image, the same for all images
/// @param boxes ground-truth corners, M x 4, image after image
/// @param classes one integer per box: columns of the logits
/// @param box_counts the number of boxes per image; empty: all boxes belong to one image
/// @param regions boxes in which anchors are ignored, e.g. crowds, image after image
/// @param region_counts the number of regions per image
std::tuple<at::Tensor, at::Tensor> retinanet_loss(
    at::TensorList logits, at::TensorList deltas, const at::Tensor& anchors,
    const at::Tensor& boxes, const at::Tensor& classes, at::IntArrayRef box_counts = {},
    double high_threshold = 0.5, double low_threshold = 0.4, bool allow_low_quality = true,
    double alpha = 0.25, double gamma = 2, regression loss = regression::smooth_l1, double beta = 0,
    at::ArrayRef<double> weights = {}, double size_limit = 4.135166556742356, double scale = 1,
    const at::Tensor& regions = {}, at::IntArrayRef region_counts = {});

/// The deltas that decode to `targets` from `anchors`, both N x 4 corners (box_coding.hpp).
/// @param weights of dx, dy, dw, dh; empty: all 1
at::Tensor encode_boxes(const at::Tensor& targets, const at::Tensor& anchors,
                        at::ArrayRef<double> weights = {});

/// Decodes `deltas` relative to `anchors` to boxes, N x 4 corners. Deltas of bfloat16 with anchors
/// of float32 give boxes of float32.
/// @param image_size height and width to clip to, in torchvision's order; empty: no clipping
/// @param size_limit upper limit of dw and dh; infinity: unbounded
at::Tensor decode_boxes(const at::Tensor& deltas, const at::Tensor& anchors,
                        at::ArrayRef<double> weights = {}, at::ArrayRef<double> image_size = {},
                        double size_limit = 4.135166556742356);

/// encode_distances() returns FCOS's distances from the anchors' centres to the sides of `targets`.
/// decode_distances() decodes `distances` to boxes.
/// @param by_size distances are divided by the anchor's width and height
at::Tensor encode_distances(const at::Tensor& targets, const at::Tensor& anchors,
                            bool by_size = true);
at::Tensor decode_distances(const at::Tensor& distances, const at::Tensor& anchors,
                            bool by_size = true, at::ArrayRef<double> image_size = {});

/// The IoU (iou.hpp) of boxes `a` (N x 4 corners) and `b` (M x 4). pairwise_iou() returns the IoU
/// of all pairs, N x M. elementwise_iou() returns the IoU of box i of `a` with box i of `b`, N.
at::Tensor pairwise_iou(const at::Tensor& a, const at::Tensor& b, iou_kind kind = iou_kind::iou);
at::Tensor elementwise_iou(const at::Tensor& a, const at::Tensor& b, iou_kind kind = iou_kind::iou);

/// Converts `boxes` (... x 4) from format `from` to format `to` (box_ops.hpp).
at::Tensor convert_boxes(const at::Tensor& boxes, box_format from, box_format to);

/// Clips `boxes` (... x 4 corners) to an image.
/// @param image_size height and width, in torchvision's order
at::Tensor clip_boxes(const at::Tensor& boxes, at::ArrayRef<double> image_size);

/// The areas, N, of `boxes` (N x 4 corners), in float32 for 16-bit types.
at::Tensor box_areas(const at::Tensor& boxes);

/// The indices (int64) of the `boxes` (N x 4 corners) with both sides at least `min_size`.
at::Tensor large_boxes(const at::Tensor& boxes, double min_size);

/// The indices (int64) of the boxes that non-maximum suppression keeps (nms.hpp), in descending
/// score. `boxes` are N x 4 corners, `scores` N. batched_nms() compares only boxes with equal
/// `classes`, N numbers of any type and value.
at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double iou_threshold);
at::Tensor batched_nms(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& classes,
                       double iou_threshold);

/// How soft_nms() reduces the scores of overlapping boxes; see soft_nms.hpp.
using soft_nms_decay = soft_nms_method;

/// Soft-NMS (soft_nms.hpp). Returns the indices of the picked boxes and their reduced scores.
/// @param classes as in batched_nms(); undefined: all boxes have the same class
std::tuple<at::Tensor, at::Tensor> soft_nms(const at::Tensor& boxes, const at::Tensor& scores,
                                            const at::Tensor& classes = {},
                                            soft_nms_decay decay = soft_nms_decay::linear,
                                            double iou_threshold = 0.3, double sigma = 0.5,
                                            double score_floor = 1e-3);

/// The best `k` of the `logits` (... x classes, float32, bfloat16 or float16) whose sigmoid is
/// above `score_threshold`, in descending order, and their indices in the flattened tensor
/// (filter_topk.hpp).
std::tuple<at::Tensor, at::Tensor> filter_topk(const at::Tensor& logits, double score_threshold,
                                               std::int64_t k);

/// The detectors of postprocess(); see postprocess.hpp. `rpn` is rejected: use rpn_postprocess().
using detector = dense_detector;

/// The detections of a batch (postprocess.hpp): boxes (float32), scores (float32), labels (int64),
/// and the offset of each image's detections (int64), one more than there are images.
/// @param logits images x anchors x classes
/// @param deltas images x anchors x 4
/// @param anchors anchors x 4 corners, the same for all images
/// @param image_sizes height and width of each image, alternating
/// @param level_sizes the number of anchors per level; empty: one level
/// @param centerness images x anchors: FCOS only
/// @param weights of dx, dy, dw, dh; empty: all 1
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> postprocess(
    const at::Tensor& logits, const at::Tensor& deltas, const at::Tensor& anchors,
    at::ArrayRef<double> image_sizes, at::IntArrayRef level_sizes = {},
    detector kind = detector::retinanet, double score_threshold = 0.05,
    std::int64_t max_candidates = 1000, double iou_threshold = 0.5,
    std::int64_t max_detections = 300, at::ArrayRef<double> weights = {},
    const at::Tensor& centerness = {}, double size_limit = 4.135166556742356, double min_size = 0);

/// Frees the memory that the operators keep for later calls: up to 512 MiB of freed gradients of
/// 1 MiB or more, which saves page faults, and the transformed weights of conv3x3(), which are four
/// times as large as the weights. Those of freed weights stay until others are transformed.
/// @return the number of bytes
std::int64_t free_cached_memory();

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet
