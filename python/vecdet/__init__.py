# SPDX-License-Identifier: Apache-2.0
"""vecdet: kernels of object detectors for CPUs, on NumPy arrays.

    vecdet.letterbox, vecdet.postprocess_yolo, ...   from images to detections
    vecdet.nms, vecdet.merge_boxes, ...              NMS and its relatives
    vecdet.match_anchors, vecdet.sigmoid_focal_loss  targets and losses, with gradients
    vecdet.match_queries, vecdet.set_loss_and_grad   the same for DETRs
    vecdet.set_threads(1)                            the calling thread alone
    vecdet.profile                                   where the time goes
    vecdet.torch                                     torchvision's detectors on vecdet

Names and defaults are torchvision's where it has the function. Arrays are float32 or float64, or
bfloat16 with ml_dtypes; float16 is converted to float32. Anything with DLPack (from NumPy 1.22 on)
or the buffer protocol works; arrays that are not contiguous are copied. Calls release the GIL and
may come from any number of threads. Invalid arguments raise ValueError or TypeError before anything
is computed.
"""

import sys as _sys
import typing as _typing

# python -m vecdet.gate imports this package first, though the gate needs nothing of it. If that
# failed, Python's exit code 1 would mean there that a function is slower.
if _sys.argv[:1] == ["-m"]:
    # The module's name and its arguments; from Python 3.10 on.
    _command = getattr(_sys, "orig_argv", [])[-len(_sys.argv):]
    if _command[:1] in (["vecdet.gate"], ["-mvecdet.gate"]):
        from .gate import main as _gate
        _gate(_sys.argv[1:])
        _sys.exit()

try:
    import numpy as _numpy  # noqa: F401 (for its message)
except ImportError as error:
    raise ImportError(f"vecdet needs NumPy 1.19 or newer ({error}): pip install numpy, or "
                      "apt install python3-numpy on Debian and Ubuntu") from error

from . import profile
from ._boxes import (box_area, box_convert, box_iou, clip_boxes_to_image, complete_box_iou,
                     decode_boxes, decode_distances, decode_distribution_boxes,
                     decode_distributions, distance_box_iou, elementwise_iou, encode_boxes,
                     encode_distances, generalized_box_iou, remove_small_boxes)
from ._detections import (Detections, LetterboxTransform, YoloDetections, filter_topk, letterbox,
                          postprocess, postprocess_box_head, postprocess_detr, postprocess_yolo)
from ._features import (Conv3x3, deformable_attention, deformable_attention_grad,
                        grouped_conv3x3, multiscale_roi_align, pyramid_levels, roi_align,
                        roi_align_grad)
from ._library import library as _library
from ._losses import (bce_loss, bce_loss_and_grad, complete_box_iou_loss,
                      complete_box_iou_loss_and_grad, ctc_loss, ctc_loss_and_grad,
                      distance_box_iou_loss,
                      distance_box_iou_loss_and_grad, distribution_focal_loss,
                      distribution_focal_loss_and_grad, generalized_box_iou_loss,
                      generalized_box_iou_loss_and_grad, quality_focal_loss,
                      quality_focal_loss_and_grad, regression_loss, regression_loss_and_grad,
                      sigmoid_focal_loss, sigmoid_focal_loss_and_grad, smooth_l1_loss,
                      smooth_l1_loss_and_grad, softmax_cross_entropy_loss,
                      softmax_cross_entropy_loss_and_grad, varifocal_loss, varifocal_loss_and_grad)
from ._masks import Masks, masks_from_prototypes, paste_masks
from ._nms import MergedBoxes, batched_nms, merge_boxes, nms, soft_nms
from ._queries import assign_least_cost, match_queries, set_loss_and_grad
from ._sequences import CtcBeam, CtcText, ctc_beams, ctc_greedy
from ._settings import active_isa, detected_isa, set_isa, set_threads
from ._rotated import (elementwise_rotated_iou, rotated_box_area, rotated_box_convert,
                       rotated_box_iou, rotated_nms)
from ._targets import (AnchorIndex, assign_atss, assign_fcos, assign_task_aligned, count_foreground,
                       make_anchors, make_points, make_ssd_anchors, match_anchors, sample_balanced)

__version__: str = _library.vecdet_version().decode()

if not _typing.TYPE_CHECKING:
    def __getattr__(name):
        """Called for names that are not there, such as a module that is not imported yet."""
        hint = f": import vecdet.{name}" if name in ("gate", "sahi", "supervision", "torch") else ""
        raise AttributeError(f"module 'vecdet' has no attribute '{name}'{hint}")

__all__ = [
    "AnchorIndex", "Conv3x3", "CtcBeam", "CtcText", "Detections", "LetterboxTransform", "Masks",
    "MergedBoxes", "YoloDetections", "__version__", "active_isa", "assign_atss", "assign_fcos",
    "assign_least_cost", "assign_task_aligned", "batched_nms", "bce_loss", "bce_loss_and_grad",
    "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou",
    "complete_box_iou_loss", "complete_box_iou_loss_and_grad", "count_foreground", "ctc_beams",
    "ctc_greedy", "ctc_loss", "ctc_loss_and_grad", "decode_boxes", "decode_distances",
    "decode_distribution_boxes", "decode_distributions", "deformable_attention",
    "deformable_attention_grad", "detected_isa", "distance_box_iou", "distance_box_iou_loss",
    "distance_box_iou_loss_and_grad", "distribution_focal_loss", "distribution_focal_loss_and_grad",
    "elementwise_iou", "elementwise_rotated_iou", "encode_boxes", "encode_distances", "filter_topk",
    "generalized_box_iou", "generalized_box_iou_loss", "generalized_box_iou_loss_and_grad",
    "grouped_conv3x3", "letterbox", "make_anchors", "make_points", "make_ssd_anchors",
    "masks_from_prototypes", "match_anchors", "match_queries", "merge_boxes",
    "multiscale_roi_align", "nms", "paste_masks", "postprocess", "postprocess_box_head",
    "postprocess_detr", "postprocess_yolo", "profile", "pyramid_levels", "quality_focal_loss",
    "quality_focal_loss_and_grad", "regression_loss", "regression_loss_and_grad",
    "remove_small_boxes", "roi_align", "roi_align_grad", "rotated_box_area", "rotated_box_convert",
    "rotated_box_iou", "rotated_nms", "sample_balanced", "set_isa", "set_loss_and_grad",
    "set_threads", "sigmoid_focal_loss", "sigmoid_focal_loss_and_grad", "smooth_l1_loss",
    "smooth_l1_loss_and_grad", "soft_nms", "softmax_cross_entropy_loss",
    "softmax_cross_entropy_loss_and_grad", "varifocal_loss", "varifocal_loss_and_grad",
]
