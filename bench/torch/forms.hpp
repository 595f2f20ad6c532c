// SPDX-License-Identifier: Apache-2.0
// The computations of torchvision's detectors, composed of PyTorch's operators as in torchvision,
// for C++: peers of vecdet::ops.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace vecdet::bench::forms {

/// torchvision.ops.sigmoid_focal_loss, summed, with a one-hot target for each logit.
at::Tensor sigmoid_focal_loss(const at::Tensor& logits, const at::Tensor& targets);

/// The one-hot targets of labels, rows x classes; -1 is background.
at::Tensor one_hot(const at::Tensor& labels, std::int64_t classes);

/// generalized_box_iou_loss and complete_box_iou_loss, summed.
at::Tensor giou_loss(const at::Tensor& predicted, const at::Tensor& targets);
at::Tensor ciou_loss(const at::Tensor& predicted, const at::Tensor& targets);

/// box_iou, N x M.
at::Tensor pairwise_iou(const at::Tensor& a, const at::Tensor& b);

/// BoxCoder's encode_single, and decode_single with clip_boxes_to_image.
at::Tensor encode_boxes(const at::Tensor& targets, const at::Tensor& anchors);
at::Tensor decode_boxes(const at::Tensor& deltas, const at::Tensor& anchors, double height,
                        double width);

/// Greedy NMS from the whole matrix of overlaps.
at::Tensor nms(const at::Tensor& boxes, const at::Tensor& scores, double iou_threshold);

/// Matcher(0.5, 0.4, allow_low_quality_matches=True) on box_iou of boxes and anchors.
at::Tensor match_anchors(const at::Tensor& anchors, const at::Tensor& boxes);

/// RetinaNet's training loss of one image from its head's levels: permuted, concatenated, matched,
/// and the sum of both losses.
at::Tensor retinanet_loss(const std::vector<at::Tensor>& logits,
                          const std::vector<at::Tensor>& deltas, const at::Tensor& anchors,
                          const at::Tensor& boxes, const at::Tensor& classes);

/// SSD's classification loss: cross entropy of the foreground and three times as many negatives.
at::Tensor mined_cross_entropy_loss(const at::Tensor& logits, const at::Tensor& labels);

/// roi_align of one image (1 x channels x height x width) and boxes inside it, 7 x 7 bins of 2 x 2
/// samples: grid_sampler and the mean of four.
at::Tensor roi_align(const at::Tensor& features, const at::Tensor& boxes, double scale);

}  // namespace vecdet::bench::forms
