# SPDX-License-Identifier: Apache-2.0
"""torchvision's operators on vecdet's kernels: the same names, arguments, defaults and results.

Tensors are on the CPU, of float32, float64, bfloat16 or float16. Losses are differentiable in their
first argument, once; their other arguments must not require a gradient. deformable_attention is
differentiable in value, points and weights, once; conv3x3, grouped_conv3x3 and batch_norm in input,
weight and bias, and max_pool2d, any number of times. Overlaps have no gradient. Forward-mode
derivatives and second ones raise where they are not supported. Invalid arguments raise
RuntimeError, or ValueError as in torchvision, before anything is computed.
"""

from ._assignment import assign_atss, assign_fcos, assign_task_aligned, match_anchors
from ._attention import (deformable_attention, deformable_attention_core_func_v2,
                         ms_deform_attn_core_pytorch)
from ._boxes import (box_area, box_convert, box_iou, clip_boxes_to_image, complete_box_iou,
                     decode_boxes, decode_distances, decode_distribution_boxes,
                     decode_distributions, distance_box_iou, encode_boxes, encode_distances,
                     generalized_box_iou, remove_small_boxes)
from ._convolutions import conv3x3, conv3x3_levels, grouped_conv3x3
from ._detections import batched_nms, filter_topk, nms, postprocess, soft_nms
from ._losses import (bce_loss, complete_box_iou_loss, distance_box_iou_loss,
                      distribution_focal_loss, generalized_box_iou_loss, mined_cross_entropy_loss,
                      quality_focal_loss, regression_loss, retinanet_loss, sigmoid_focal_loss,
                      sigmoid_focal_loss_levels, smooth_l1_loss, softmax_cross_entropy_loss,
                      varifocal_loss)
from ._normalization import batch_norm
from ._pooling import max_pool2d
from ._rotated import (elementwise_rotated_iou, rotated_box_area, rotated_box_convert,
                       rotated_box_iou, rotated_nms)
from ._sequences import ctc_loss
from ._set_loss import (HungarianMatcher, SetCriterion, assign_least_cost, match_queries,
                        set_loss)
from ._two_stage import (MultiScaleRoIAlign, multiscale_roi_align, postprocess_box_head, roi_align,
                         rpn_postprocess, sample_balanced)

__all__ = [
    "HungarianMatcher", "MultiScaleRoIAlign", "SetCriterion", "assign_atss", "assign_fcos",
    "assign_least_cost", "assign_task_aligned", "batch_norm", "batched_nms", "bce_loss", "box_area",
    "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou", "complete_box_iou_loss",
    "conv3x3", "conv3x3_levels", "ctc_loss", "decode_boxes", "decode_distances",
    "decode_distribution_boxes", "decode_distributions", "deformable_attention",
    "deformable_attention_core_func_v2", "distance_box_iou", "distance_box_iou_loss",
    "distribution_focal_loss", "elementwise_rotated_iou", "encode_boxes", "encode_distances",
    "filter_topk", "generalized_box_iou", "generalized_box_iou_loss", "grouped_conv3x3",
    "match_anchors", "match_queries", "max_pool2d", "mined_cross_entropy_loss",
    "ms_deform_attn_core_pytorch", "multiscale_roi_align", "nms", "postprocess",
    "postprocess_box_head", "quality_focal_loss", "regression_loss", "remove_small_boxes",
    "retinanet_loss", "roi_align", "rotated_box_area", "rotated_box_convert", "rotated_box_iou",
    "rotated_nms", "rpn_postprocess", "sample_balanced", "set_loss", "sigmoid_focal_loss",
    "sigmoid_focal_loss_levels", "smooth_l1_loss", "soft_nms", "softmax_cross_entropy_loss",
    "varifocal_loss",
]
