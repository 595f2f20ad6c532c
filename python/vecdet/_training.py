# SPDX-License-Identifier: Apache-2.0
"""The part of vecdet.ops that has no counterpart in torchvision.ops: matching, assigners, losses of
scores and distributions, and losses of a head's levels as its convolutions left them."""

from typing import List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from ._names import BOX_LOSSES, REDUCTIONS, SIZE_LIMIT, joined, number

_ops = torch.ops.vecdet

# One image's, or a list with those of each image.
_PerImage = Union[Tensor, Sequence[Tensor]]


def _joined_if_any(function: str, argument: str,
                   per_image: Optional[_PerImage]) -> Tuple[Optional[Tensor], List[int]]:
    return (None, []) if per_image is None else joined(function, argument, per_image)


def _sizes(level_sizes: Sequence[Tuple[int, int]]) -> List[int]:
    return [int(side) for size in level_sizes for side in size]


def match_anchors(
    anchors: Tensor,
    boxes: _PerImage,
    classes: Optional[_PerImage] = None,
    high_threshold: float = 0.5,
    low_threshold: float = 0.4,
    allow_low_quality: bool = True,
    *,
    force_best: bool = False,
    skip_untouched: bool = False,
    empty_iou_is_zero: bool = False,
    regions: Optional[_PerImage] = None,
    region_threshold: float = 0.5,
    ignore_matched: bool = False,
    background: int = -1,
    ignore: int = -2,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Matches anchors with ground truth by IoU, as torchvision's Matcher does, index for index, but
    without the matrix of IoUs.

    Args:
        anchors: corners [N, 4], the same for all images.
        boxes: corners [M, 4] of one image, or a list of those of each image.
        classes: integers, one a box; without them all are 0.
        high_threshold: anchors of at least this IoU are matched.
        low_threshold: anchors of less are background, those between are ignored.
        allow_low_quality: match each anchor that is the best of some box.
        force_best: each box takes its best anchor, as in SSD.
        skip_untouched: a box that touches no anchor matches nothing.
        empty_iou_is_zero: the IoU of two boxes without area is 0, as in detectron2, not NaN.
        regions: boxes in which anchors are ignored, as crowds are; likewise.
        region_threshold: the part of an anchor's area that has to lie in one.
        ignore_matched: anchors in regions are not matched at all.
        background, ignore: the labels of anchors without a box.

    Returns:
        For each anchor, [N], or [images, N] of a list: the index of its box among all boxes, those
        of one image after those of the other, -1 (background) or -2 (ignored); its label: the class
        of that box, ``background`` or ``ignore``; and its greatest IoU with a box.
    """
    all_boxes, counts = joined("match_anchors", "boxes", boxes)
    all_classes, _ = _joined_if_any("match_anchors", "classes", classes)
    all_regions, region_counts = _joined_if_any("match_anchors", "regions", regions)
    return _ops.match_anchors(anchors, all_boxes, all_classes, counts, high_threshold,
                              low_threshold, allow_low_quality, force_best, skip_untouched,
                              empty_iou_is_zero, all_regions, region_counts, region_threshold,
                              ignore_matched, background, ignore)


def assign_atss(anchors: Tensor, level_sizes: Sequence[Tuple[int, int]], boxes: _PerImage,
                candidates: int = 9) -> Tensor:
    """ATSS, https://arxiv.org/abs/1912.02424: for each of ``anchors`` [N, 4], one a point, the
    index of its box among all ``boxes``, or -1: [N], or [images, N] of a list.

    Args:
        level_sizes: (height, width) of each level.
        candidates: of each level.
    """
    all_boxes, counts = joined("assign_atss", "boxes", boxes)
    return _ops.assign_atss(anchors, _sizes(level_sizes), all_boxes, counts, candidates)


def assign_fcos(anchors: Tensor, level_sizes: Sequence[Tuple[int, int]], boxes: _PerImage,
                radius: float = 1.5) -> Tensor:
    """FCOS's assigner, https://arxiv.org/abs/1904.01355, with torchvision's centre sampling: for
    each of ``anchors`` [N, 4], one a point, the index of its box among all ``boxes``, or -1: [N],
    or [images, N] of a list.

    Args:
        level_sizes: (height, width) of each level.
        radius: how far off a box's centre an anchor's may be, in widths of the anchor.
    """
    all_boxes, counts = joined("assign_fcos", "boxes", boxes)
    return _ops.assign_fcos(anchors, _sizes(level_sizes), all_boxes, counts, radius)


def assign_task_aligned(
    scores: Tensor,
    predicted: Tensor,
    points: Tensor,
    level_sizes: Sequence[Tuple[int, int]],
    boxes: _PerImage,
    classes: _PerImage,
    top: int = 10,
    alpha: float = 0.5,
    beta: float = 6.0,
) -> Tuple[Tensor, Tensor]:
    """The task-aligned assigner, https://arxiv.org/abs/2108.07755: for each point the index of its
    box among all ``boxes``, or -1, and its target, 0 where there is none.

    Args:
        scores: probabilities [N, classes], or [images, N, classes] of lists.
        predicted: corners [N, 4], or [images, N, 4].
        points: [N, 2], x and y in the boxes' pixels.
        level_sizes: (height, width) of each level.
        boxes, classes: one image's, or a list with those of each image.
        top: candidates of a box.
        alpha, beta: exponents of score and overlap.
    """
    all_boxes, counts = joined("assign_task_aligned", "boxes", boxes)
    all_classes, _ = _joined_if_any("assign_task_aligned", "classes", classes)
    return _ops.assign_task_aligned(scores, predicted, points, _sizes(level_sizes), all_boxes,
                                    all_classes, counts, top, alpha, beta)


def quality_focal_loss(
    inputs: Tensor,
    labels: Tensor,
    scores: Tensor,
    beta: float = 2.0,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    row_weights: Optional[Tensor] = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """Quality focal loss, https://arxiv.org/abs/2006.04388, of logits whose rows have a label and a
    score each, the target of the labelled class.

    Args:
        inputs: logits [..., classes].
        labels: integers [...]: a class, ``background`` or ``ignore``.
        scores: numbers in [0, 1], of the shape of ``labels``.
        reduction: ``"none"``, ``"mean"`` (over all elements) or ``"sum"``.
        scale: a factor on loss and gradient.
        row_weights: a further factor for each row.

    Raises:
        ValueError: an unknown reduction.
        RuntimeError: shapes that differ, a label out of range, a negative beta.
    """
    return _ops.quality_focal_loss(inputs, labels, scores, beta,
                                   number(REDUCTIONS, "reduction", reduction), scale, row_weights,
                                   background, ignore)


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
    row_weights: Optional[Tensor] = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """Varifocal loss, https://arxiv.org/abs/2008.13367; otherwise as quality_focal_loss.

    Args:
        grad_through_factor: whether the focusing factor is a function of the logit in the gradient,
            or a constant weight.
    """
    return _ops.varifocal_loss(inputs, labels, scores, alpha, gamma, grad_through_factor,
                               number(REDUCTIONS, "reduction", reduction), scale, row_weights,
                               background, ignore)


def bce_loss(
    inputs: Tensor,
    labels: Tensor,
    scores: Tensor,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    row_weights: Optional[Tensor] = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """Binary cross entropy with logits; otherwise as quality_focal_loss."""
    return _ops.bce_loss(inputs, labels, scores, number(REDUCTIONS, "reduction", reduction), scale,
                         row_weights, background, ignore)


def distribution_focal_loss(inputs: Tensor, targets: Tensor, reduction: str = "none", *,
                            scale: float = 1.0, row_weights: Optional[Tensor] = None) -> Tensor:
    """Distribution focal loss, https://arxiv.org/abs/2006.04388, of logits [..., bins] against
    ``targets`` [...] in bins: a loss a row, or a scalar; the mean is over rows."""
    return _ops.distribution_focal_loss(inputs, targets,
                                        number(REDUCTIONS, "reduction", reduction), scale,
                                        row_weights)


def decode_distributions(logits: Tensor) -> Tensor:
    """The expectation of each row of ``logits`` [..., bins], in bins: [...]."""
    return _ops.decode_distributions(logits)


def decode_distribution_boxes(logits: Tensor, points: Tensor, strides: Tensor) -> Tensor:
    """The boxes [..., 4], float32, of four distributions each, ``logits`` [..., 4, bins]: left,
    top, right and bottom of ``points`` [..., 2], in units of ``strides`` [...]."""
    return _ops.decode_distribution_boxes(logits, points, strides)


def softmax_cross_entropy_loss(inputs: Tensor, labels: Tensor, reduction: str = "none", *,
                               scale: float = 1.0, ignore: int = -2) -> Tensor:
    """Softmax cross entropy of logits [..., classes]: a loss a row, or a scalar; the mean is over
    rows whose label is not ``ignore``."""
    return _ops.softmax_cross_entropy_loss(inputs, labels,
                                           number(REDUCTIONS, "reduction", reduction), scale,
                                           ignore)


def mined_cross_entropy_loss(inputs: Tensor, labels: Tensor, negatives_per_foreground: int = 3, *,
                             background: int = 0, scale: float = 1.0, ignore: int = -2) -> Tensor:
    """SSD's classification loss, https://arxiv.org/abs/1512.02325: the sum over the foreground and
    the hardest negatives of each image.

    Args:
        inputs: logits [images, anchors, classes].
        labels: classes [images, anchors], of which one is ``background``.
        negatives_per_foreground: how many for each of an image's foreground.
    """
    return _ops.mined_cross_entropy_loss(inputs, labels, negatives_per_foreground, background,
                                         scale, ignore)


def sigmoid_focal_loss_levels(
    levels: Sequence[Tensor],
    labels: Tensor,
    alpha: float = 0.25,
    gamma: float = 2,
    *,
    scale: float = 1.0,
    image_scales: Optional[Tensor] = None,
    background: int = -1,
    ignore: int = -2,
) -> Tensor:
    """The summed focal loss of a head's levels as its convolutions left them: without permuting,
    copying or concatenating them, where all lie in the same way.

    Args:
        levels: [images, anchors x classes, height, width] each, contiguous or channels last.
        labels: integers [images, anchors of all levels], level by level, row by row, anchor by
            anchor, as torchvision's heads order them.
        image_scales: a further factor for each image.
    """
    return _ops.sigmoid_focal_loss_levels(list(levels), labels, alpha, gamma, scale, image_scales,
                                          background, ignore)


def retinanet_loss(
    logits: Sequence[Tensor],
    deltas: Sequence[Tensor],
    anchors: Tensor,
    boxes: _PerImage,
    classes: _PerImage,
    high_threshold: float = 0.5,
    low_threshold: float = 0.4,
    allow_low_quality: bool = True,
    *,
    alpha: float = 0.25,
    gamma: float = 2,
    loss: str = "smooth_l1",
    beta: float = 0.0,
    weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    size_limit: float = SIZE_LIMIT,
    scale: float = 1.0,
    regions: Optional[_PerImage] = None,
) -> Tuple[Tensor, Tensor]:
    """Both losses of RetinaNet, of classes and of boxes, with matching, in one call.

    Args:
        logits: levels as convolutions left them, [images, anchors x classes, height, width] each.
        deltas: levels of the same sizes, [images, anchors x 4, height, width] each.
        anchors: corners [N, 4] of all levels, the same for all images.
        boxes, classes: ground truth, one image's, or a list with that of each image.
        loss: ``"smooth_l1"`` (with ``beta`` 0: L1, as torchvision's), ``"giou"``, ``"diou"`` or
            ``"ciou"``.
        weights: the coder's, of dx, dy, dw, dh.
        regions: boxes in which anchors are ignored, as crowds are.

    Returns:
        The mean over images of each image's sums divided by max(1, its foreground).
    """
    all_boxes, counts = joined("retinanet_loss", "boxes", boxes)
    all_classes, _ = _joined_if_any("retinanet_loss", "classes", classes)
    all_regions, region_counts = _joined_if_any("retinanet_loss", "regions", regions)
    return _ops.retinanet_loss(list(logits), list(deltas), anchors, all_boxes, all_classes,
                               counts, high_threshold, low_threshold, allow_low_quality, alpha,
                               gamma, number(BOX_LOSSES, "loss", loss), beta, weights, size_limit,
                               scale, all_regions, region_counts)
