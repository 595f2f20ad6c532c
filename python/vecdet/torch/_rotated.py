# SPDX-License-Identifier: Apache-2.0
"""Rotated boxes: overlaps, formats and areas. torchvision's functions of boxes have their fmt."""

from __future__ import annotations

from torch import Tensor

from .. import _c
from ._library import ops as _ops
from ._names import number, numbers

__all__ = [
    "elementwise_prob_iou", "elementwise_rotated_iou", "pairwise_prob_iou", "prob_iou_nms",
    "rotated_box_area", "rotated_box_convert", "rotated_box_iou", "rotated_nms",
]

CONVENTIONS = numbers(_c.angle_convention)
FORMATS = numbers(_c.rotated_format)


def rotated_box_iou(boxes1: Tensor, boxes2: Tensor, angles: str) -> Tensor:
    """The exact IoU of each of ``boxes1`` [N, 5] with each of ``boxes2`` [M, 5]: [N, M]. A box is
    centre, width, height and angle.

    Args:
        angles: the framework whose angles they are: ``"torchvision"`` or ``"detectron2"`` (degrees,
            counter-clockwise as seen in an image), ``"opencv"`` (degrees, clockwise),
            ``"ultralytics"`` or ``"mmcv"`` (radians, clockwise), ``"mmcv_counter_clockwise"``
            (radians).
    """
    return _ops.pairwise_rotated_iou(boxes1, boxes2, number(CONVENTIONS, "angles", angles))


def elementwise_rotated_iou(boxes1: Tensor, boxes2: Tensor, angles: str) -> Tensor:
    """The exact IoU of box i of ``boxes1`` and box i of ``boxes2``, [N, 5] each: [N]. Boxes and
    ``angles`` as in rotated_box_iou."""
    return _ops.elementwise_rotated_iou(boxes1, boxes2, number(CONVENTIONS, "angles", angles))


def pairwise_prob_iou(boxes1: Tensor, boxes2: Tensor, angles: str) -> Tensor:
    """The ProbIoU (arXiv 2106.06072) of each of ``boxes1`` [N, 5] with each of ``boxes2`` [M, 5]:
    [N, M], as ultralytics' batch_probiou. Boxes and ``angles`` as in rotated_box_iou."""
    return _ops.pairwise_prob_iou(boxes1, boxes2, number(CONVENTIONS, "angles", angles))


def elementwise_prob_iou(boxes1: Tensor, boxes2: Tensor, angles: str) -> Tensor:
    """The ProbIoU of box i of ``boxes1`` and box i of ``boxes2``, [N, 5] each: [N], as ultralytics'
    probiou. It has no gradient. Boxes and ``angles`` as in rotated_box_iou."""
    return _ops.elementwise_prob_iou(boxes1, boxes2, number(CONVENTIONS, "angles", angles))


def rotated_box_convert(boxes: Tensor, in_fmt: str, out_fmt: str, angles: str) -> Tensor:
    """Converts rotated ``boxes`` [N, 5, 8 or 4] from the format ``in_fmt`` to ``out_fmt``:
    ``"cxcywhr"`` (centre, width, height, angle), ``"xywhr"`` (begins with the first corner for
    ``angles="torchvision"``, with the centre for ``"ultralytics"``), ``"xyxyxyxy"`` (corners: top
    left, top right, bottom right, bottom left before turning) or ``"xyxy"`` (the enclosing upright
    box). ``angles`` as in rotated_box_iou."""
    return _ops.convert_rotated_boxes(boxes, number(FORMATS, "in_fmt", in_fmt),
                                      number(FORMATS, "out_fmt", out_fmt),
                                      number(CONVENTIONS, "angles", angles))


def rotated_nms(boxes: Tensor, scores: Tensor, iou_threshold: float, angles: str,
                idxs: Tensor | None = None) -> Tensor:
    """The indices of the rotated ``boxes`` [N, 5] that non-maximum suppression by the exact IoU
    keeps, in descending score. Boxes and ``angles`` as in rotated_box_iou. If ``idxs`` are given,
    only boxes with equal ones, numbers of any type, suppress each other."""
    return _ops.rotated_nms(boxes, scores, number(CONVENTIONS, "angles", angles), iou_threshold,
                            idxs)


def prob_iou_nms(boxes: Tensor, scores: Tensor, iou_threshold: float, angles: str,
                 idxs: Tensor | None = None) -> Tensor:
    """The indices of the rotated ``boxes`` [N, 5] that non-maximum suppression by ProbIoU keeps, in
    descending score, as in ultralytics: a box is dropped if its ProbIoU with any better one,
    dropped or not, is at least ``iou_threshold``. Otherwise as rotated_nms."""
    return _ops.prob_iou_nms(boxes, scores, number(CONVENTIONS, "angles", angles), iou_threshold,
                             idxs)


def rotated_box_area(boxes: Tensor) -> Tensor:
    """Width times height [N] of rotated ``boxes`` [N, 5]; float32 for bfloat16 and float16."""
    return _ops.rotated_box_areas(boxes)
