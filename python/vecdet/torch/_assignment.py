# SPDX-License-Identifier: Apache-2.0
"""Matching and assigners: which ground-truth box each anchor or point should predict."""

from __future__ import annotations

from typing import Sequence

from torch import Tensor

from ._library import ops as _ops
from ._names import PerImage, joined, joined_if_any, number
from ._rotated import CONVENTIONS

__all__ = ["assign_atss", "assign_fcos", "assign_rotated_task_aligned", "assign_sim_ota",
           "assign_task_aligned", "match_anchors"]


def _sizes(level_sizes: Sequence[tuple[int, int]]) -> list[int]:
    return [int(side) for size in level_sizes for side in size]


# Keywords of matcher_params, without empty, coder, with empty_iou_is_zero, regions
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
    """Matches anchors with ground-truth boxes by IoU. The indices equal those of torchvision's
    Matcher, but no matrix of IoUs is stored.

    Args:
        anchors: corners [N, 4], the same for all images.
        boxes: corners [M, 4] of one image, or a list with one tensor per image.
        classes: integers, one per box; all are 0 by default.
        high_threshold: anchors with at least this IoU are matched. Default 0.5.
        low_threshold: anchors with a lower IoU are background; those between the thresholds are
            ignored. Default 0.4.
        allow_low_quality: every anchor with the greatest IoU of some box, ties included, is matched
            with the anchor's own best box. Default True.
        skip_untouched: a box that touches no anchor matches nothing. If False, all anchors tie as
            this box's best with an IoU of 0, and each is matched with the anchor's own best box, as
            in torchvision and detectron2. Default False.
        force_best: every box is matched with its best anchor, as in SSD; ties are broken by lower
            anchor. If two boxes have the same best anchor, the later box gets it. Default False.
        region_threshold: an anchor is ignored if an ignore region covers more than this fraction of
            its area; in [0, 1]. Default 0.5.
        ignore_matched: anchors in ignore regions are never matched, as in mmdetection. If False,
            they may be matched, and those that are not matched are ignored. Default False.
        background, ignore: labels, as in the focal loss. Defaults -1, -2.
        empty_iou_is_zero: the IoU of two boxes without area is 0, as in detectron2, not NaN.
        regions: boxes in which anchors are ignored, such as crowds; in the form of ``boxes``.

    Returns:
        Three tensors with one entry per anchor, [N], or [images, N] for a list. Matches: the index
        of its box among the boxes of all images in order, -1 (background) or -2 (ignored). Labels:
        the class of that box, ``background`` or ``ignore``. IoUs: the anchor's greatest with a box.
    """
    all_boxes, counts = joined("match_anchors", "boxes", boxes)
    all_classes, _ = joined_if_any("match_anchors", "classes", classes)
    all_regions, region_counts = joined_if_any("match_anchors", "regions", regions)
    return _ops.match_anchors(anchors, all_boxes, all_classes, counts, high_threshold,
                              low_threshold, allow_low_quality, force_best, skip_untouched,
                              empty_iou_is_zero, all_regions, region_counts, region_threshold,
                              ignore_matched, background, ignore)


# Keywords of atss_params, with regions
def assign_atss(
    anchors: Tensor,
    level_sizes: Sequence[tuple[int, int]],
    boxes: PerImage,
    candidates: int = 9,
    *,
    regions: PerImage | None = None,
    region_threshold: float = 0.5,
) -> Tensor:
    """ATSS, https://arxiv.org/abs/1912.02424. Returns the index of the box of each of ``anchors``
    [N, 4], one per point, among all ``boxes``, -1 (background) or -2 (ignored): [N], or [images, N]
    for a list.

    Args:
        level_sizes: (height, width) of each level.
        candidates: per box and level; 1 or more. Default 9.
        region_threshold: an unmatched anchor is ignored if an ignore region covers more than this
            fraction of its area; in [0, 1]. Default 0.5.
        regions: boxes in which unmatched anchors are ignored, such as crowds; in the form of
            ``boxes``.
    """
    all_boxes, counts = joined("assign_atss", "boxes", boxes)
    all_regions, region_counts = joined_if_any("assign_atss", "regions", regions)
    return _ops.assign_atss(anchors, _sizes(level_sizes), all_boxes, counts, candidates,
                            region_threshold, all_regions, region_counts)


# Keywords of fcos_assigner_params, with regions
def assign_fcos(
    anchors: Tensor,
    level_sizes: Sequence[tuple[int, int]],
    boxes: PerImage,
    radius: float = 1.5,
    *,
    regions: PerImage | None = None,
    region_threshold: float = 0.5,
) -> Tensor:
    """FCOS's assigner, https://arxiv.org/abs/1904.01355, with torchvision's centre sampling.
    Returns the index of the box of each of ``anchors`` [N, 4], one per point, among all ``boxes``,
    -1 (background) or -2 (ignored): [N], or [images, N] for a list.

    Args:
        level_sizes: (height, width) of each level.
        radius: in anchor widths; 0 or more, a finite float. Default 1.5. The greatest distance of
            an anchor's centre from its box's.
        region_threshold: an unmatched anchor is ignored if an ignore region covers more than this
            fraction of its area; in [0, 1]. Default 0.5.
        regions: boxes in which unmatched anchors are ignored, such as crowds; in the form of
            ``boxes``.
    """
    all_boxes, counts = joined("assign_fcos", "boxes", boxes)
    all_regions, region_counts = joined_if_any("assign_fcos", "regions", regions)
    return _ops.assign_fcos(anchors, _sizes(level_sizes), all_boxes, counts, radius,
                            region_threshold, all_regions, region_counts)


# Keywords of task_aligned_params, with regions
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
    *,
    least_side: float = 0.0,
    grown_side: float = 0.0,
    final_top: int = 0,
    regions: PerImage | None = None,
) -> tuple[Tensor, Tensor]:
    """The task-aligned assigner, https://arxiv.org/abs/2108.07755. Returns for each point the index
    of its box among all ``boxes``, -1 (background) or -2 (ignored), and its target, which is 0
    without a box. The defaults are YOLOv8's. YOLO26 has ``least_side=8, grown_side=16``, and in its
    one-to-one branch also ``top=7, final_top=1``.

    Args:
        scores: probabilities [N, classes], or [images, N, classes] for lists.
        predicted: corners [N, 4], or [images, N, 4] for lists.
        points: [N, 2], x and y in the boxes' pixels.
        level_sizes: (height, width) of each level.
        boxes, classes: those of one image, or lists with one tensor per image.
        top: candidates per box; 1 or more. Default 10.
        alpha: exponent of the score; 0 or more. 1 in the paper. Default 0.5.
        beta: exponent of the overlap; 0 or more. Default 6.
        least_side: the search for the points in a box replaces each of its sides below this by
            ``grown_side``; in pixels, 0 or more, a finite float. Default 0.
        grown_side: the length of replaced sides, about the box's centre; in pixels, 0 or more, a
            finite float. Default 0.
        final_top: after points of several boxes are assigned, each box keeps this many of its
            points, those with the greatest metrics; 0: all, otherwise at most ``top``. Default 0.
        regions: boxes in which unmatched points are ignored, such as crowds; in the form of
            ``boxes``.
    """
    all_boxes, counts = joined("assign_task_aligned", "boxes", boxes)
    all_classes, _ = joined_if_any("assign_task_aligned", "classes", classes)
    all_regions, region_counts = joined_if_any("assign_task_aligned", "regions", regions)
    return _ops.assign_task_aligned(scores, predicted, points, _sizes(level_sizes), all_boxes,
                                    all_classes, counts, top, alpha, beta, least_side, grown_side,
                                    final_top, all_regions, region_counts)


# Keywords of task_aligned_params, with regions
def assign_rotated_task_aligned(
    scores: Tensor,
    predicted: Tensor,
    points: Tensor,
    level_sizes: Sequence[tuple[int, int]],
    boxes: PerImage,
    classes: PerImage,
    angles: str,
    top: int = 10,
    alpha: float = 0.5,
    beta: float = 6.0,
    *,
    least_side: float = 0.0,
    grown_side: float = 0.0,
    final_top: int = 0,
    regions: PerImage | None = None,
) -> tuple[Tensor, Tensor]:
    """The task-aligned assigner for rotated boxes, as ultralytics trains oriented detectors:
    assign_task_aligned with the overlap ProbIoU.

    Args:
        scores: probabilities [N, classes], or [images, N, classes] for lists.
        predicted: [N, 5] as in rotated_box_iou, or [images, N, 5] for lists.
        points: [N, 2], x and y in the boxes' pixels.
        level_sizes: (height, width) of each level.
        boxes, classes: those of one image, [M, 5] and [M], or lists with one tensor per image.
        angles: as in rotated_box_iou.
        top: candidates per box; 1 or more. Default 10.
        alpha: exponent of the score; 0 or more. 1 in the paper. Default 0.5.
        beta: exponent of the overlap; 0 or more. Default 6.
        least_side: the search for the points in a box replaces each of its sides below this by
            ``grown_side``; in pixels, 0 or more, a finite float. Default 0.
        grown_side: the length of replaced sides, about the box's centre; in pixels, 0 or more, a
            finite float. Default 0.
        final_top: after points of several boxes are assigned, each box keeps this many of its
            points, those with the greatest metrics; 0: all, otherwise at most ``top``. Default 0.
        regions: corners [R, 4] in which unmatched points are ignored, such as crowds, or a list
            with one tensor per image.
    """
    function = "assign_rotated_task_aligned"
    all_boxes, counts = joined(function, "boxes", boxes)
    all_classes, _ = joined_if_any(function, "classes", classes)
    all_regions, region_counts = joined_if_any(function, "regions", regions)
    return _ops.assign_rotated_task_aligned(
        scores, predicted, points, _sizes(level_sizes), all_boxes, all_classes, counts,
        number(CONVENTIONS, "angles", angles), top, alpha, beta, least_side, grown_side, final_top,
        all_regions, region_counts)


# Keywords of sim_ota_params, with regions
def assign_sim_ota(
    logits: Tensor,
    objectness: Tensor,
    predicted: Tensor,
    points: Tensor,
    level_sizes: Sequence[tuple[int, int]],
    strides: Sequence[float],
    boxes: PerImage,
    classes: PerImage,
    candidates: int = 10,
    radius: float = 2.5,
    iou_weight: float = 3.0,
    *,
    regions: PerImage | None = None,
) -> tuple[Tensor, Tensor]:
    """SimOTA, the assigner of YOLOX, https://arxiv.org/abs/2107.08430. Returns for each point the
    index of its box among all ``boxes``, -1 (background) or -2 (ignored), and its target, the IoU
    of its prediction with the box, which is 0 without a box.

    Args:
        logits: of the classes, [N, classes], or [images, N, classes] for lists.
        objectness: logits [N], or [images, N] for lists.
        predicted: corners [N, 4], or [images, N, 4] for lists.
        points: [N, 2], x and y in the boxes' pixels.
        level_sizes: (height, width) of each level.
        strides: that of each level, in the boxes' pixels.
        boxes, classes: those of one image, or lists with one tensor per image.
        candidates: greatest IoUs that are summed for each box; 1 or more. Default 10.
        radius: of the centre prior, in strides; 0 or more, a finite float. Default 2.5.
        iou_weight: of the IoU's cost; 0 or more, a finite float. Default 3.
        regions: boxes in which unmatched points are ignored, such as crowds; in the form of
            ``boxes``.
    """
    all_boxes, counts = joined("assign_sim_ota", "boxes", boxes)
    all_classes, _ = joined_if_any("assign_sim_ota", "classes", classes)
    all_regions, region_counts = joined_if_any("assign_sim_ota", "regions", regions)
    return _ops.assign_sim_ota(logits, objectness, predicted, points, _sizes(level_sizes),
                               [float(stride) for stride in strides], all_boxes, all_classes,
                               counts, candidates, radius, iou_weight, all_regions, region_counts)
