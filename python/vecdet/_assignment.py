# SPDX-License-Identifier: Apache-2.0
"""Matching and assigners: which ground-truth box each anchor or point should predict."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

from ._names import PerImage, joined, joined_if_any

_ops = torch.ops.vecdet


def _sizes(level_sizes: Sequence[tuple[int, int]]) -> list[int]:
    return [int(side) for size in level_sizes for side in size]


def match_anchors(
    anchors: Tensor,
    boxes: PerImage,
    classes: PerImage | None = None,
    high_threshold: float = 0.5,
    low_threshold: float = 0.4,
    allow_low_quality: bool = True,
    *,
    force_best: bool = False,
    skip_untouched: bool = False,
    empty_iou_is_zero: bool = False,
    regions: PerImage | None = None,
    region_threshold: float = 0.5,
    ignore_matched: bool = False,
    background: int = -1,
    ignore: int = -2,
) -> tuple[Tensor, Tensor, Tensor]:
    """Matches anchors with ground truth by IoU, as torchvision's Matcher does, index for index, but
    without the matrix of IoUs.

    Args:
        anchors: corners [N, 4], the same for all images.
        boxes: corners [M, 4] of one image, or a list of those of each image.
        classes: integers, one per box; all are 0 by default.
        high_threshold: anchors of at least this IoU are matched.
        low_threshold: anchors of less are background, those between are ignored.
        allow_low_quality: match each anchor that is the best of some box.
        force_best: each box takes its best anchor, as in SSD.
        skip_untouched: a box that touches no anchor matches nothing.
        empty_iou_is_zero: the IoU of two boxes without area is 0, as in detectron2, not NaN.
        regions: boxes in which anchors are ignored, such as crowds; given as ``boxes``.
        region_threshold: the part of an anchor's area that has to lie in one.
        ignore_matched: anchors in regions are not matched at all.
        background, ignore: the labels of anchors without a box.

    Returns:
        For each anchor, [N], or [images, N] of a list: the index of its box among the boxes of all
        images in order, -1 (background) or -2 (ignored); its label: the class of that box,
        ``background`` or ``ignore``; and its greatest IoU with a box.
    """
    all_boxes, counts = joined("match_anchors", "boxes", boxes)
    all_classes, _ = joined_if_any("match_anchors", "classes", classes)
    all_regions, region_counts = joined_if_any("match_anchors", "regions", regions)
    return _ops.match_anchors(anchors, all_boxes, all_classes, counts, high_threshold,
                              low_threshold, allow_low_quality, force_best, skip_untouched,
                              empty_iou_is_zero, all_regions, region_counts, region_threshold,
                              ignore_matched, background, ignore)


def assign_atss(anchors: Tensor, level_sizes: Sequence[tuple[int, int]], boxes: PerImage,
                candidates: int = 9) -> Tensor:
    """ATSS, https://arxiv.org/abs/1912.02424: for each of ``anchors`` [N, 4], one per point, the
    index of its box among all ``boxes``, or -1: [N], or [images, N] of a list.

    Args:
        level_sizes: (height, width) of each level.
        candidates: of each level.
    """
    all_boxes, counts = joined("assign_atss", "boxes", boxes)
    return _ops.assign_atss(anchors, _sizes(level_sizes), all_boxes, counts, candidates)


def assign_fcos(anchors: Tensor, level_sizes: Sequence[tuple[int, int]], boxes: PerImage,
                radius: float = 1.5) -> Tensor:
    """FCOS's assigner, https://arxiv.org/abs/1904.01355, with torchvision's centre sampling: for
    each of ``anchors`` [N, 4], one per point, the index of its box among all ``boxes``, or -1: [N],
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
    level_sizes: Sequence[tuple[int, int]],
    boxes: PerImage,
    classes: PerImage,
    top: int = 10,
    alpha: float = 0.5,
    beta: float = 6.0,
) -> tuple[Tensor, Tensor]:
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
    all_classes, _ = joined_if_any("assign_task_aligned", "classes", classes)
    return _ops.assign_task_aligned(scores, predicted, points, _sizes(level_sizes), all_boxes,
                                    all_classes, counts, top, alpha, beta)
