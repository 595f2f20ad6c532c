# SPDX-License-Identifier: Apache-2.0
"""Losses of classes, boxes, distributions and whole heads."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

from .._boxes import SIZE_LIMIT, WEIGHTS
from ._library import ops as _ops
from ._names import (BOX_LOSSES, EPS, OVERLAPS, REDUCTIONS, PerImage, joined, joined_if_any, number,
                     torchvisions)

__all__ = [
    "complete_box_iou_loss", "mined_cross_entropy_loss", "retinanet_loss", "sigmoid_focal_loss",
    "sigmoid_focal_loss_levels",
]

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _check_labels(function: str, inputs: Tensor, labels: Tensor) -> None:
    """Checks labels here: in the operator, they share an argument with dense targets."""
    if labels.dtype not in _INTEGERS:
        raise RuntimeError(f"vecdet::{function}: labels.dtype is {labels.dtype}, expected integers")
    if labels.shape != inputs.shape[:-1]:
        raise RuntimeError(f"vecdet::{function}: labels.shape is {list(labels.shape)}, expected "
                           f"{list(inputs.shape[:-1])}, the shape of inputs without the classes")


# Keywords of focal_loss_params, without reduction, row_weights, with labels, row_weights
def sigmoid_focal_loss(
    inputs: Tensor,
    targets: Tensor | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "none",
    *,
    labels: Tensor | None = None,
    scale: float = 1.0,
    row_weights: Tensor | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """Sigmoid focal loss, https://arxiv.org/abs/1708.02002.

    Args:
        inputs: logits [..., classes].
        targets: numbers in [0, 1], of the shape of ``inputs``; or ``labels`` instead.
        alpha: weight of positives; negatives have weight 1-alpha. If negative, both have weight 1.
            Default 0.25.
        gamma: focusing exponent, 0 or more. Default 2.
        scale: factor on loss and gradient; trainers use 1 / max(1, foreground). Default 1.
        background: label of rows in which every class is negative. Default -1.
        ignore: label of rows that do not count: loss 0 and gradient 0. Default -2.
        reduction: ``"none"``, ``"mean"`` (over all elements) or ``"sum"``.
        labels: integers of the shape of ``inputs`` without the classes: for each row, a class,
            ``background`` or ``ignore``. No one-hot tensor is created or read.
        row_weights: a further factor for each row.

    Returns:
        The losses, of the shape of ``inputs``, or a scalar.

    Raises:
        ValueError: an unknown reduction, or not exactly one of targets and labels.
        RuntimeError: different shapes, a label out of range, alpha above 1, a negative gamma.
    """
    if targets is None:
        if labels is None:
            raise ValueError("sigmoid_focal_loss takes either targets or labels")
        _check_labels("sigmoid_focal_loss", inputs, labels)
    elif labels is not None:
        raise ValueError("sigmoid_focal_loss takes either targets or labels")
    elif isinstance(targets, Tensor) and not targets.is_floating_point():
        if targets.shape != inputs.shape:
            raise RuntimeError("vecdet::sigmoid_focal_loss: targets.shape is "
                               f"{list(targets.shape)}, expected the shape of inputs, "
                               f"{list(inputs.shape)}; pass class labels as labels=")
        targets = targets.to(inputs.dtype)
    return _ops.sigmoid_focal_loss(inputs, labels if targets is None else targets, alpha, gamma,
                                   number(REDUCTIONS, "reduction", reduction), scale, row_weights,
                                   background, ignore)


# Keywords of focal_loss_params, without reduction, row_weights, with image_scales
def sigmoid_focal_loss_levels(
    levels: Sequence[Tensor],
    labels: Tensor,
    alpha: float = 0.25,
    gamma: float = 2.0,
    *,
    scale: float = 1.0,
    image_scales: Tensor | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """The summed focal loss of a head's levels in its convolutions' layout. If all have the same
    layout, they are not permuted, copied or concatenated.

    Args:
        levels: [images, anchors x classes, height, width] each, contiguous or channels last.
        labels: integers [images, anchors of all levels], by level, row, column and anchor, in the
            order of torchvision's heads.
        image_scales: a further factor for each image.
        alpha: weight of positives; negatives have weight 1-alpha. If negative, both have weight 1.
            Default 0.25.
        gamma: focusing exponent, 0 or more. Default 2.
        scale: factor on loss and gradient; trainers use 1 / max(1, foreground). Default 1.
        background: label of rows in which every class is negative. Default -1.
        ignore: label of rows that do not count: loss 0 and gradient 0. Default -2.
    """
    return _ops.sigmoid_focal_loss_levels(list(levels), labels, alpha, gamma, scale, image_scales,
                                          background, ignore)


# Keywords of softmax_cross_entropy_params, with background
def mined_cross_entropy_loss(
    inputs: Tensor,
    labels: Tensor,
    negatives_per_foreground: int = 3,
    *,
    background: int = 0,
    scale: float = 1.0,
    ignore: int = -2,
) -> Tensor:
    """SSD's classification loss, https://arxiv.org/abs/1512.02325, summed over the foreground and
    the hardest negatives of each image.

    Args:
        inputs: logits [images, anchors, classes].
        labels: classes [images, anchors], one of which is ``background``.
        negatives_per_foreground: the number of negatives per foreground anchor of an image.
        scale: factor on losses, sum and gradient. Default 1.
        ignore: label of rows that do not count; -100 in torch. If ``ignore`` is a class, the rows
            of that class do not count. If it is the background, there are no negatives to mine.
            Default -2.
    """
    return _ops.mined_cross_entropy_loss(inputs, labels, negatives_per_foreground, background,
                                         scale, ignore)


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none",
                          eps: float = EPS) -> Tensor:
    """CIoU loss, otherwise like generalized_box_iou_loss. https://arxiv.org/abs/1911.08287

    Another ``eps`` than the default is added only to the denominator of alpha, as in torchvision,
    which then computes the loss."""
    if eps != EPS:
        return torchvisions("complete_box_iou_loss")(boxes1, boxes2, reduction, eps)
    return _ops.iou_loss(boxes1, boxes2, OVERLAPS["ciou"],
                         number(REDUCTIONS, "reduction", reduction), eps)


def retinanet_loss(logits: Sequence[Tensor], deltas: Sequence[Tensor], anchors: Tensor,
                   boxes: PerImage, classes: PerImage, high_threshold: float = 0.5,
                   low_threshold: float = 0.4, allow_low_quality: bool = True, *,
                   alpha: float = 0.25, gamma: float = 2, loss: str = "smooth_l1",
                   beta: float = 0.0, weights: Sequence[float] = WEIGHTS,
                   size_limit: float = SIZE_LIMIT, scale: float = 1.0,
                   regions: PerImage | None = None) -> tuple[Tensor, Tensor]:
    """Both losses of RetinaNet, for classes and boxes, including matching, in one call.

    Args:
        logits: levels in the convolutions' layout, [images, anchors x classes, height, width] each.
        deltas: levels of the same sizes, [images, anchors x 4, height, width] each.
        anchors: corners [N, 4] of all levels, the same for all images.
        boxes, classes: ground truth of one image, or lists with one tensor per image.
        loss: ``"smooth_l1"`` (with ``beta`` 0: L1, as in torchvision), ``"giou"``, ``"diou"`` or
            ``"ciou"``.
        weights: the coder's weights of dx, dy, dw, dh.
        regions: boxes in which anchors are ignored, such as crowds.

    Returns:
        The mean over images of each image's sums, divided by max(1, its number of foreground
        anchors).
    """
    all_boxes, counts = joined("retinanet_loss", "boxes", boxes)
    all_classes, _ = joined_if_any("retinanet_loss", "classes", classes)
    all_regions, region_counts = joined_if_any("retinanet_loss", "regions", regions)
    return _ops.retinanet_loss(list(logits), list(deltas), anchors, all_boxes, all_classes,
                               counts, high_threshold, low_threshold, allow_low_quality, alpha,
                               gamma, number(BOX_LOSSES, "loss", loss), beta, weights, size_limit,
                               scale, all_regions, region_counts)
