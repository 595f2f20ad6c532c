# SPDX-License-Identifier: Apache-2.0
"""Losses of classes, boxes, distributions and whole heads."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

from ._library import ops as _ops
from ._names import (BOX_LOSSES, EPS, OVERLAPS, REDUCTIONS, SIZE_LIMIT, PerImage, joined,
                     joined_if_any, number, torchvisions)
from ._rotated import CONVENTIONS

__all__ = [
    "bce_loss", "complete_box_iou_loss", "distance_box_iou_loss", "distribution_focal_loss",
    "generalized_box_iou_loss", "mined_cross_entropy_loss", "prob_iou_loss",
    "quality_focal_loss", "regression_loss", "retinanet_loss", "sigmoid_focal_loss",
    "sigmoid_focal_loss_levels", "smooth_l1_loss", "softmax_cross_entropy_loss",
    "varifocal_loss",
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


# Keywords of quality_focal_params, without reduction, row_weights, with row_weights
def quality_focal_loss(
    inputs: Tensor,
    labels: Tensor,
    scores: Tensor,
    beta: float = 2.0,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    row_weights: Tensor | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """Quality focal loss, https://arxiv.org/abs/2006.04388. Each row of logits has a label and a
    score, which is the target of the labelled class.

    Args:
        inputs: logits [..., classes].
        labels: integers [...]: a class, ``background`` or ``ignore``.
        scores: numbers in [0, 1], of the shape of ``labels``.
        reduction: ``"none"``, ``"mean"`` (over all elements) or ``"sum"``.
        beta: focusing exponent, 0 or more; 0, 1 and 2 are fast. Default 2.
        scale: factor on loss and gradient; trainers use 1 / max(1, sum of scores). Default 1.
        background: label of rows in which every class is negative. Default -1.
        ignore: label of rows that do not count: loss 0 and gradient 0. Default -2.
        row_weights: a further factor for each row.

    Raises:
        ValueError: an unknown reduction.
        RuntimeError: different shapes, a label out of range, a negative beta.
    """
    return _ops.quality_focal_loss(inputs, labels, scores, beta,
                                   number(REDUCTIONS, "reduction", reduction), scale, row_weights,
                                   background, ignore)


# Keywords of varifocal_params, without reduction, row_weights, with row_weights
def varifocal_loss(
    inputs: Tensor,
    labels: Tensor,
    scores: Tensor,
    alpha: float = 0.75,
    gamma: float = 2.0,
    reduction: str = "none",
    *,
    grad_through_factor: bool = True,
    scale: float = 1.0,
    row_weights: Tensor | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """Varifocal loss, https://arxiv.org/abs/2008.13367; otherwise like quality_focal_loss.

    Args:
        alpha: weight of negatives, 0 or more. Default 0.75.
        gamma: focusing exponent of negatives, 0 or more; 0, 1 and 2 are fast. Default 2.
        grad_through_factor: differentiates p^gamma with respect to the logit, as in the reference
            implementation. If False, p^gamma is a constant weight, and the gradient of a negative
            is alpha p^gamma p. Default True.
        scale: factor on loss and gradient; trainers use 1 / max(1, sum of scores). Default 1.
        background: label of rows in which every class is negative. Default -1.
        ignore: label of rows that do not count: loss 0 and gradient 0. Default -2.
    """
    return _ops.varifocal_loss(inputs, labels, scores, alpha, gamma, grad_through_factor,
                               number(REDUCTIONS, "reduction", reduction), scale, row_weights,
                               background, ignore)


# Keywords of bce_params, without reduction, row_weights, with row_weights
def bce_loss(
    inputs: Tensor,
    labels: Tensor,
    scores: Tensor,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    row_weights: Tensor | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """Binary cross entropy with logits; otherwise like quality_focal_loss."""
    return _ops.bce_loss(inputs, labels, scores, number(REDUCTIONS, "reduction", reduction), scale,
                         row_weights, background, ignore)


# Keywords of distribution_focal_loss_params, without row_weights, with row_weights
def distribution_focal_loss(
    inputs: Tensor,
    targets: Tensor,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    row_weights: Tensor | None = None,
) -> Tensor:
    """Distribution focal loss, https://arxiv.org/abs/2006.04388, of logits [..., bins] against
    ``targets`` [...] in bins: one loss per row, or a scalar; the mean is over rows."""
    return _ops.distribution_focal_loss(inputs, targets,
                                        number(REDUCTIONS, "reduction", reduction), scale,
                                        row_weights)


# Keywords of softmax_cross_entropy_params
def softmax_cross_entropy_loss(
    inputs: Tensor,
    labels: Tensor,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    ignore: int = -2,
) -> Tensor:
    """Softmax cross entropy of logits [..., classes]: one loss per row, or a scalar; the mean is
    over rows whose label is not ``ignore``."""
    return _ops.softmax_cross_entropy_loss(inputs, labels,
                                           number(REDUCTIONS, "reduction", reduction), scale,
                                           ignore)


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


# Keywords of smooth_l1_params, without beta, box_weights, with beta, labels, box_weights,
# background, ignore
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    beta: float = 1.0,
    *,
    labels: Tensor | None = None,
    scale: float = 1.0,
    box_weights: Tensor | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """Smooth L1 loss of boxes [..., 4], like torch.nn.functional.smooth_l1_loss.

    Args:
        beta: where the parabola meets the line; 0 is the absolute difference.
        labels: one integer per box; only boxes whose label is neither ``background`` nor ``ignore``
            count, and the mean is over these.
        scale: factor on losses, sum and gradient. Default 1.
        box_weights: a further factor for each box.

    Raises:
        ValueError: an unknown reduction.
        RuntimeError: different shapes, or a negative beta.
    """
    return _ops.smooth_l1_loss(input, target, beta, number(REDUCTIONS, "reduction", reduction),
                               labels, scale, box_weights, background, ignore)


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none",
                             eps: float = EPS) -> Tensor:
    """GIoU loss of predicted ``boxes1`` and ``boxes2``, [..., 4] corners each: one loss per box, or
    a scalar. Differentiable in ``boxes1``. https://arxiv.org/abs/1902.09630

    Raises:
        ValueError: an unknown reduction.
        RuntimeError: different shapes.
    """
    return _ops.iou_loss(boxes1, boxes2, OVERLAPS["giou"],
                         number(REDUCTIONS, "reduction", reduction), eps)


# Keywords of prob_iou_loss_params, without box_weights, with box_weights
def prob_iou_loss(
    boxes1: Tensor,
    boxes2: Tensor,
    angles: str,
    reduction: str = "none",
    scale: float = 1.0,
    box_weights: Tensor | None = None,
) -> Tensor:
    """1 - ProbIoU of predicted rotated ``boxes1`` and ``boxes2``, [N, 5] each, as in ultralytics:
    one loss per box, or a scalar. Differentiable in ``boxes1``. The mean over no boxes is 0. Boxes
    and ``angles`` as in rotated_box_iou. https://arxiv.org/abs/2106.06072

    Args:
        scale: factor on losses, sum and gradient. Default 1.
        box_weights: a further factor for each box.

    Raises:
        ValueError: an unknown reduction or convention.
        RuntimeError: different shapes.
    """
    return _ops.prob_iou_loss(boxes1, boxes2, number(CONVENTIONS, "angles", angles),
                              number(REDUCTIONS, "reduction", reduction), scale, box_weights)


def distance_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none",
                          eps: float = EPS) -> Tensor:
    """DIoU loss, otherwise like generalized_box_iou_loss. https://arxiv.org/abs/1911.08287"""
    return _ops.iou_loss(boxes1, boxes2, OVERLAPS["diou"],
                         number(REDUCTIONS, "reduction", reduction), eps)


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none",
                          eps: float = EPS) -> Tensor:
    """CIoU loss, otherwise like generalized_box_iou_loss. https://arxiv.org/abs/1911.08287

    Another ``eps`` than the default is added only to the denominator of alpha, as in torchvision,
    which then computes the loss."""
    if eps != EPS:
        return torchvisions("complete_box_iou_loss")(boxes1, boxes2, reduction, eps)
    return _ops.iou_loss(boxes1, boxes2, OVERLAPS["ciou"],
                         number(REDUCTIONS, "reduction", reduction), eps)


# Keywords of regression_loss_params: epsilon is eps, without coder, box_weights, with weights,
# size_limit, box_weights, background, ignore
def regression_loss(
    deltas: Tensor,
    anchors: Tensor,
    targets: Tensor,
    matches: Tensor | None = None,
    labels: Tensor | None = None,
    loss: str = "smooth_l1",
    *,
    beta: float = 1.0 / 9,
    eps: float = 1e-7,
    weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    size_limit: float = SIZE_LIMIT,
    scale: float = 1.0,
    box_weights: Tensor | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """The summed box loss of ``deltas`` relative to ``anchors`` [N, 4], in one pass: encoded
    targets or decoded boxes are never stored.

    Args:
        targets: one box per anchor, [N, 4]; or, with ``matches``, ground-truth boxes [M, 4].
        matches: the index of each anchor's ground-truth box; -1 or -2 for anchors that are left
            out.
        labels: integers [N]: only anchors whose label is neither ``background`` nor ``ignore``
            count. Without labels, ``matches`` decide; without both, all anchors count.
        loss: smooth L1 of the deltas, or an IoU loss of the decoded boxes: "smooth_l1", "giou",
            "diou" or "ciou". Default "smooth_l1".
        beta: of smooth L1; 0 or more. Default 1.0 / 9.
        eps: of the IoU losses; 0 or more. Default 1e-7.
        scale: factor on loss and gradient; trainers use 1 / max(1, foreground). Default 1.
        weights: the coder's weights of dx, dy, dw, dh.

    Raises:
        ValueError: an unknown loss.
        RuntimeError: different shapes, or a match out of range.
    """
    return _ops.regression_loss(deltas, anchors, targets, matches, labels,
                                number(BOX_LOSSES, "loss", loss), beta, eps, weights, size_limit,
                                scale, box_weights, background, ignore)


def retinanet_loss(logits: Sequence[Tensor], deltas: Sequence[Tensor], anchors: Tensor,
                   boxes: PerImage, classes: PerImage, high_threshold: float = 0.5,
                   low_threshold: float = 0.4, allow_low_quality: bool = True, *,
                   alpha: float = 0.25, gamma: float = 2, loss: str = "smooth_l1",
                   beta: float = 0.0, weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
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
