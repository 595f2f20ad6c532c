# SPDX-License-Identifier: Apache-2.0
"""torchvision's operators on vecdet's kernels: the same names, arguments, defaults and results.

Tensors are on the CPU, of float32, float64, bfloat16 or float16. Losses are differentiable in their
first argument, once; their other arguments must not require a gradient. Overlaps have no gradient.
Bad arguments raise RuntimeError, or ValueError where torchvision does, before anything is computed.
"""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ._names import (BOX_LOSSES, DECAYS, DETECTORS, OVERLAPS, REDUCTIONS, SIZE_LIMIT, number,
                     sizes_of, split_by)
from ._training import (assign_atss, assign_fcos, assign_task_aligned, bce_loss,
                        decode_distribution_boxes, decode_distributions, distribution_focal_loss,
                        match_anchors, mined_cross_entropy_loss, quality_focal_loss,
                        retinanet_loss, sigmoid_focal_loss_levels, softmax_cross_entropy_loss,
                        varifocal_loss)
from ._two_stage import (MultiScaleRoIAlign, multiscale_roi_align, postprocess_box_head, roi_align,
                         rpn_postprocess, sample_balanced)

__all__ = [
    "MultiScaleRoIAlign", "assign_atss", "assign_fcos", "assign_task_aligned", "batched_nms",
    "bce_loss", "box_iou", "complete_box_iou", "complete_box_iou_loss", "decode_boxes",
    "decode_distances", "decode_distribution_boxes", "decode_distributions", "distance_box_iou",
    "distance_box_iou_loss", "distribution_focal_loss", "encode_boxes", "encode_distances",
    "filter_topk", "generalized_box_iou", "generalized_box_iou_loss", "match_anchors",
    "mined_cross_entropy_loss", "multiscale_roi_align", "nms", "postprocess",
    "postprocess_box_head", "quality_focal_loss", "regression_loss", "retinanet_loss",
    "roi_align", "rpn_postprocess", "sample_balanced", "sigmoid_focal_loss",
    "sigmoid_focal_loss_levels", "smooth_l1_loss", "soft_nms", "softmax_cross_entropy_loss",
    "varifocal_loss",
]

_ops = torch.ops.vecdet


def sigmoid_focal_loss(
    inputs: Tensor,
    targets: Optional[Tensor] = None,
    alpha: float = 0.25,
    gamma: float = 2,
    reduction: str = "none",
    *,
    labels: Optional[Tensor] = None,
    scale: float = 1.0,
    row_weights: Optional[Tensor] = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """Sigmoid focal loss, https://arxiv.org/abs/1708.02002.

    Args:
        inputs: logits [..., classes].
        targets: numbers in [0, 1], of the shape of ``inputs``; or ``labels`` instead.
        alpha: weight of positives, 1 - alpha of negatives; negative: both weigh 1.
        gamma: focusing exponent, 0 or more.
        reduction: ``"none"``, ``"mean"`` (over all elements) or ``"sum"``.
        labels: integers of the shape of ``inputs`` without the classes: a class of each row, or
            ``background`` or ``ignore``. No one-hot tensor is made or read.
        scale: a factor on loss and gradient; trainers use 1 / max(1, foreground).
        row_weights: a further factor for each row.
        background: the label of rows in which every class is negative.
        ignore: the label of rows that do not count.

    Returns:
        The losses, of the shape of ``inputs``, or a scalar.

    Raises:
        ValueError: an unknown reduction, or not exactly one of targets and labels.
        RuntimeError: shapes that differ, a label out of range, alpha above 1, a negative gamma.
    """
    if (targets is None) == (labels is None):
        raise ValueError("sigmoid_focal_loss takes either targets or labels")
    if isinstance(targets, Tensor) and not targets.is_floating_point():
        targets = targets.to(inputs.dtype)
    return _ops.sigmoid_focal_loss(inputs, labels if targets is None else targets, alpha, gamma,
                                   number(REDUCTIONS, "reduction", reduction), scale, row_weights,
                                   background, ignore)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    beta: float = 1.0,
    *,
    labels: Optional[Tensor] = None,
    scale: float = 1.0,
    box_weights: Optional[Tensor] = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """Smooth L1 loss of boxes, as torch.nn.functional.smooth_l1_loss: [..., 4] each.

    Args:
        beta: where the parabola meets the line; 0 is the absolute difference.
        labels: an integer a box; only boxes whose label is neither ``background`` nor ``ignore``
            count, and the mean is over these.
        scale: a factor on loss and gradient.
        box_weights: a further factor for each box.

    Raises:
        ValueError: an unknown reduction.
        RuntimeError: shapes that differ, or a negative beta.
    """
    return _ops.smooth_l1_loss(input, target, beta, number(REDUCTIONS, "reduction", reduction),
                               labels, scale, box_weights, background, ignore)


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none",
                             eps: float = 1e-7) -> Tensor:
    """GIoU loss of predicted ``boxes1`` and ``boxes2``, [..., 4] corners each: a loss a box, or a
    scalar. Differentiable in ``boxes1``. https://arxiv.org/abs/1902.09630

    Raises:
        ValueError: an unknown reduction.
        RuntimeError: shapes that differ.
    """
    return _ops.giou_loss(boxes1, boxes2, number(REDUCTIONS, "reduction", reduction), eps)


def distance_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none",
                          eps: float = 1e-7) -> Tensor:
    """DIoU loss, otherwise as generalized_box_iou_loss. https://arxiv.org/abs/1911.08287"""
    return _ops.diou_loss(boxes1, boxes2, number(REDUCTIONS, "reduction", reduction), eps)


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none",
                          eps: float = 1e-7) -> Tensor:
    """CIoU loss, otherwise as generalized_box_iou_loss. https://arxiv.org/abs/1911.08287"""
    return _ops.ciou_loss(boxes1, boxes2, number(REDUCTIONS, "reduction", reduction), eps)


def regression_loss(
    deltas: Tensor,
    anchors: Tensor,
    targets: Tensor,
    matches: Optional[Tensor] = None,
    labels: Optional[Tensor] = None,
    loss: str = "smooth_l1",
    *,
    beta: float = 1.0 / 9,
    eps: float = 1e-7,
    weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    size_limit: float = SIZE_LIMIT,
    scale: float = 1.0,
    box_weights: Optional[Tensor] = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """The summed box loss of ``deltas`` on ``anchors`` [N, 4] in one pass: encoded targets, or
    decoded boxes, are never stored.

    Args:
        targets: a box an anchor, [N, 4]; or ground truth [M, 4], where ``matches`` are given.
        matches: for each anchor the index of its ground truth; others, such as -1 and -2, for
            anchors that do not count.
        labels: integers [N]: only anchors whose label is neither ``background`` nor ``ignore``
            count. Without them ``matches`` decide, and without these all count.
        loss: ``"smooth_l1"`` of deltas, or ``"giou"``, ``"diou"`` or ``"ciou"`` of boxes.
        weights: the coder's, of dx, dy, dw, dh.
        scale: a factor on loss and gradient; trainers use 1 / max(1, foreground).

    Raises:
        ValueError: an unknown loss.
        RuntimeError: shapes that differ, or a match that is no ground truth.
    """
    return _ops.regression_loss(deltas, anchors, targets, matches, labels,
                                number(BOX_LOSSES, "loss", loss), beta, eps, weights, size_limit,
                                scale, box_weights, background, ignore)


def encode_boxes(boxes: Tensor, anchors: Tensor,
                 weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0)) -> Tensor:
    """The deltas that decode to ``boxes`` from ``anchors``, [N, 4] corners each."""
    return _ops.encode_boxes(boxes, anchors, weights)


def decode_boxes(deltas: Tensor, anchors: Tensor,
                 weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
                 image_size: Sequence[float] = (),
                 size_limit: float = SIZE_LIMIT) -> Tensor:
    """The boxes, [N, 4] corners, that ``deltas`` mean on ``anchors``, clipped to an image of
    (height, width) where given. dw and dh are ``size_limit`` at most."""
    return _ops.decode_boxes(deltas, anchors, weights, image_size, size_limit)


def encode_distances(boxes: Tensor, anchors: Tensor, by_size: bool = True) -> Tensor:
    """FCOS's distances from the anchors' centres to the sides of ``boxes``, divided by the anchors'
    sizes or not."""
    return _ops.encode_distances(boxes, anchors, by_size)


def decode_distances(distances: Tensor, anchors: Tensor, by_size: bool = True,
                     image_size: Sequence[float] = ()) -> Tensor:
    """The boxes that FCOS's ``distances`` mean on ``anchors``."""
    return _ops.decode_distances(distances, anchors, by_size, image_size)


def _as_float(function: str, argument: str, boxes: Tensor) -> Tensor:
    if not isinstance(boxes, Tensor):
        raise RuntimeError(f"vecdet::{function}: {argument} is a {type(boxes).__name__}, expected a "
                           "tensor")
    return boxes if boxes.is_floating_point() else boxes.float()  # as in torchvision


def _overlaps(function: str, kind: str, boxes1: Tensor, boxes2: Tensor) -> Tensor:
    return _ops.pairwise_iou(_as_float(function, "boxes1", boxes1),
                             _as_float(function, "boxes2", boxes2), OVERLAPS[kind])


def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The IoU of each of ``boxes1`` [N, 4] with each of ``boxes2`` [M, 4], corners: [N, M]."""
    return _overlaps("box_iou", "iou", boxes1, boxes2)


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The GIoU of all pairs, as box_iou."""
    return _overlaps("generalized_box_iou", "giou", boxes1, boxes2)


def distance_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The DIoU of all pairs, as box_iou."""
    return _overlaps("distance_box_iou", "diou", boxes1, boxes2)


def complete_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The CIoU of all pairs, as box_iou."""
    return _overlaps("complete_box_iou", "ciou", boxes1, boxes2)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The indices of the ``boxes`` [N, 4] that non-maximum suppression keeps, in descending score:
    torchvision's, index for index; equal scores go by lower index."""
    return _ops.nms(boxes, scores, iou_threshold)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """The same, where only boxes of equal ``idxs`` suppress each other. Coordinates are not shifted
    by class: they may be negative, and stay exact."""
    return _ops.batched_nms(boxes, scores, idxs, iou_threshold)


def soft_nms(boxes: Tensor, scores: Tensor, idxs: Optional[Tensor] = None, method: str = "linear",
             iou_threshold: float = 0.3, sigma: float = 0.5,
             min_score: float = 1e-3) -> Tuple[Tensor, Tensor]:
    """Soft-NMS, https://arxiv.org/abs/1704.04503: the indices of the boxes picked, and the scores
    that they had left. ``method`` is ``"hard"``, ``"linear"`` or ``"gaussian"``."""
    return _ops.soft_nms(boxes, scores, idxs, number(DECAYS, "method", method), iou_threshold,
                         sigma, min_score)


def filter_topk(logits: Tensor, score_threshold: float, k: int) -> Tuple[Tensor, Tensor]:
    """The best ``k`` of the logits whose sigmoid is above the threshold, descending, and their
    positions in the flattened tensor. Equal ones go by lower position."""
    return _ops.filter_topk(logits, score_threshold, k)


def postprocess(
    logits: Tensor,
    deltas: Tensor,
    anchors: Tensor,
    image_sizes: Sequence[Tuple[float, float]],
    level_sizes: Sequence[int] = (),
    detector: str = "retinanet",
    *,
    score_threshold: float = 0.05,
    max_candidates: int = 1000,
    iou_threshold: float = 0.5,
    max_detections: int = 300,
    weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    centerness: Optional[Tensor] = None,
    size_limit: float = SIZE_LIMIT,
    min_size: float = 0.0,
) -> List[Tuple[Tensor, Tensor, Tensor]]:
    """From head outputs to detections: boxes, scores and labels of each image.

    Args:
        logits: [images, anchors, classes].
        deltas: [images, anchors, 4].
        anchors: [anchors, 4] corners, the same for all images.
        image_sizes: (height, width) of each image.
        level_sizes: the anchors of each level; empty: one level.
        detector: ``"retinanet"``, ``"fcos"`` or ``"ssd"``, whose scores and order of steps.
        max_candidates: of a level (of a class for SSD).
        max_detections: of an image.
        centerness: logits [images, anchors]: FCOS only.
    """
    boxes, scores, labels, offsets = _ops.postprocess(
        logits, deltas, anchors, sizes_of(image_sizes), level_sizes,
        number(DETECTORS, "detector", detector), score_threshold, max_candidates, iou_threshold,
        max_detections, weights, centerness, size_limit, min_size)
    return split_by(offsets, boxes, scores, labels)
