# SPDX-License-Identifier: Apache-2.0
"""Boxes: coding, formats, areas and overlaps."""

from __future__ import annotations

import inspect
from typing import Sequence

import torch
from torch import Tensor
from torchvision.ops import boxes as _theirs

from .._boxes import SIZE_LIMIT, WEIGHTS
from ._library import ops as _ops
from ._names import CONVENTIONS, EPS, FORMATS, OVERLAPS, ROTATED_FORMATS, torchvisions
from ._shapes import expect
from ._transforms import is_transformed

__all__ = [
    "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou",
    "decode_boxes", "distance_box_iou", "generalized_box_iou", "remove_small_boxes",
]

# torchvision's formats of rotated boxes, with the numbers of a box.
_ROTATED = {"cxcywhr": 5, "xywhr": 5, "xyxyxyxy": 8}
_ANGLES = CONVENTIONS["torchvision"]


def decode_boxes(deltas: Tensor, anchors: Tensor,
                 weights: Sequence[float] = WEIGHTS,
                 image_size: Sequence[float] = (),
                 size_limit: float = SIZE_LIMIT) -> Tensor:
    """The boxes, [N, 4] corners, that ``deltas`` encode relative to ``anchors``, clipped to an
    image of (height, width) if given. dw and dh are clamped to ``size_limit``."""
    return _ops.decode_boxes(deltas, anchors, weights, image_size, size_limit)


def _as_float(function: str, argument: str, boxes: Tensor) -> Tensor:
    if not isinstance(boxes, Tensor):
        raise RuntimeError(f"vecdet::{function}: {argument} is a {type(boxes).__name__}, expected "
                           "a tensor")
    return boxes if boxes.is_floating_point() else boxes.float()  # as in torchvision


def _overlaps(function: str, kind: str, boxes1: Tensor, boxes2: Tensor) -> Tensor:
    return _ops.pairwise_iou(_as_float(function, "boxes1", boxes1),
                             _as_float(function, "boxes2", boxes2), OVERLAPS[kind])


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """The IoU of each of ``boxes1`` with each of ``boxes2``: [N, M]. Boxes are [N, 4] and [M, 4],
    or rotated, [N, 5] and [M, 5], or [N, 8] and [M, 8].

    Args:
        fmt: the format of both: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``. The last two are converted
            to corners first, so the results have the rounding errors of the corners. Rotated boxes
            have 5 numbers, ``"cxcywhr"`` or ``"xywhr"``, or 8, ``"xyxyxyxy"``, as in torchvision
            0.27, with its angles; their IoU is exact. torchvision computes other formats, if it has
            them.
    """
    if fmt in _ROTATED:
        centres = [_rotated_convert(_as_float("box_iou", name, boxes), fmt, "cxcywhr")
                   for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2))]
        return _ops.pairwise_rotated_iou(*centres, _ANGLES)
    if fmt not in FORMATS:
        return _of_unknown_format("box_iou", fmt, boxes1, boxes2)
    if fmt != "xyxy":
        boxes1 = box_convert(_as_float("box_iou", "boxes1", boxes1), fmt, "xyxy")
        boxes2 = box_convert(_as_float("box_iou", "boxes2", boxes2), fmt, "xyxy")
    return _overlaps("box_iou", "iou", boxes1, boxes2)


def _of_unknown_format(name: str, fmt: str, *boxes: Tensor) -> Tensor:
    """The result of torchvision's function, if it knows formats."""
    theirs = torchvisions(name)
    if "fmt" not in inspect.signature(theirs).parameters:
        raise ValueError(f"{name}: fmt is {fmt!r}, expected one of {', '.join(FORMATS)}")
    return theirs(*boxes, fmt=fmt)


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The GIoU of all pairs of corners, in the form of box_iou."""
    return _overlaps("generalized_box_iou", "giou", boxes1, boxes2)


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = EPS) -> Tensor:
    """The DIoU of all pairs of corners, in the form of box_iou.

    Args:
        eps: is added to the square of the hull's diagonal. torchvision computes other values than
            the default.
    """
    if eps != EPS:
        return torchvisions("distance_box_iou")(boxes1, boxes2, eps)
    return _overlaps("distance_box_iou", "diou", boxes1, boxes2)


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = EPS) -> Tensor:
    """The CIoU of all pairs of corners, in the form of box_iou.

    Args:
        eps: as in distance_box_iou; it is also added to the denominator of alpha.
    """
    if eps != EPS:
        return torchvisions("complete_box_iou")(boxes1, boxes2, eps)
    return _overlaps("complete_box_iou", "ciou", boxes1, boxes2)


def _has_kernel(boxes: Tensor) -> bool:
    """Whether vecdet supports such boxes. All others, those that need a gradient, and those that
    torch.func transforms go to torchvision's own functions."""
    return (boxes.is_floating_point() and boxes.is_cpu
            and not (boxes.requires_grad and torch.is_grad_enabled())
            and not is_transformed(boxes))


def _rotated_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """As box_convert, for rotated formats and boxes that vecdet supports."""
    if in_fmt == out_fmt:
        return boxes
    rows = boxes.reshape(-1, _ROTATED[in_fmt]) if boxes.dim() != 2 else boxes
    converted = _ops.convert_rotated_boxes(rows, ROTATED_FORMATS[in_fmt],
                                           ROTATED_FORMATS[out_fmt], _ANGLES)
    return converted.reshape(*boxes.shape[:-1], _ROTATED[out_fmt])


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Converts ``boxes`` [..., 4] from the format ``in_fmt`` to ``out_fmt``: ``"xyxy"``, ``"xywh"``
    or ``"cxcywh"``; or rotated boxes [..., 5 or 8] among ``"cxcywhr"``, ``"xywhr"`` and
    ``"xyxyxyxy"``, with torchvision's angles."""
    if (in_fmt in _ROTATED and out_fmt in _ROTATED and in_fmt != out_fmt and _has_kernel(boxes)
            and boxes.shape[-1:] == (_ROTATED[in_fmt],)):
        return _rotated_convert(boxes, in_fmt, out_fmt)
    are_known = in_fmt in FORMATS and out_fmt in FORMATS
    if in_fmt == out_fmt or not are_known or not _has_kernel(boxes):
        return _theirs.box_convert(boxes, in_fmt, out_fmt)
    if "xyxy" not in (in_fmt, out_fmt):  # through corners, to round as in torchvision
        boxes, in_fmt = _ops.convert_boxes(boxes, FORMATS[in_fmt], FORMATS["xyxy"]), "xyxy"
    return _ops.convert_boxes(boxes, FORMATS[in_fmt], FORMATS[out_fmt])


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """The areas [N] of ``boxes`` [N, 4]; float32 for bfloat16 and float16.

    Args:
        fmt: the format of the boxes: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``; or, of rotated boxes
            [N, 5 or 8], ``"cxcywhr"``, ``"xywhr"`` or ``"xyxyxyxy"``.
    """
    if fmt in _ROTATED:
        numbers = _ROTATED[fmt]
        expect(boxes.dim() == 2 and boxes.shape[1] == numbers, "box_area", "boxes.shape",
               list(boxes.shape), f"[N, {numbers}] for {fmt}")
        if fmt == "xyxyxyxy":
            boxes = box_convert(boxes, fmt, "cxcywhr")
        return box_area(boxes[..., :4], "cxcywh")
    if fmt not in FORMATS:
        return _of_unknown_format("box_area", fmt, boxes)
    if fmt != "xyxy":
        sides = boxes[..., 2:]  # of boxes at the origin, which are not rounded
        boxes = torch.cat([torch.zeros_like(sides), sides], -1)
    return _ops.box_areas(boxes) if _has_kernel(boxes) else _theirs.box_area(boxes)


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """``boxes`` [..., 4], corners, clipped to an image of (height, width)."""
    if not _has_kernel(boxes):
        return _theirs.clip_boxes_to_image(boxes, size)
    return _ops.clip_boxes(boxes, size)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The indices of the ``boxes`` [N, 4], corners, whose sides are both at least ``min_size``."""
    if not _has_kernel(boxes.detach()):
        return _theirs.remove_small_boxes(boxes, min_size)
    return _ops.large_boxes(boxes, min_size)
