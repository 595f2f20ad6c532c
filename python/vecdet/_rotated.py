# SPDX-License-Identifier: Apache-2.0
"""Rotated boxes: overlaps, formats and areas."""

from __future__ import annotations

from ctypes import byref, c_int64
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _c
from ._arrays import (TYPES, address, choice, empty, int64, integers, numbers_per_box, optional,
                      real_numbers, same_floats, wrong_shape)
from ._c import angle_convention, rotated_format
from ._library import check, library
from ._nms import classes_of, nms_params, prob_iou_params
from ._parameters import class_lists

__all__ = [
    "elementwise_prob_iou", "elementwise_rotated_iou", "pairwise_prob_iou", "prob_iou_nms",
    "rotated_box_area", "rotated_box_convert", "rotated_box_iou", "rotated_nms",
]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

NUMBERS = {"cxcywhr": 5, "xywhr": 5, "xyxyxyxy": 8, "xyxy": 4}


def _rows(function: str, argument: str, array: NDArray[Any], count: int) -> NDArray[Any]:
    """Checks the type and the shape [N, count]."""
    if TYPES[array.dtype] == _c.BFLOAT16:
        raise TypeError(f"vecdet.{function}: {argument}.dtype is {array.dtype}, expected float32 "
                        "or float64: angles of bfloat16 are half a degree wrong")
    if array.ndim != 2 or array.shape[1] != count:
        if array.size == 0:
            return array.reshape(0, count)
        raise wrong_shape(function, argument, array, f"[N, {count}]")
    return array


def rotated_pair(function: str, boxes1: Any, boxes2: Any) -> tuple[int, Any, Any]:
    """Rotated boxes [N, 5] and [M, 5]: their type and arrays."""
    type_, (a, b) = same_floats(function, ("boxes1", "boxes2"), (boxes1, boxes2), real_numbers)
    return type_, _rows(function, "boxes1", a, 5), _rows(function, "boxes2", b, 5)


def _pairwise(function: str, call: Any, boxes1: Any, boxes2: Any, angles: str,
              *options: int) -> NDArray[Any]:
    """The overlaps [N, M] of all pairs of rotated boxes."""
    convention = choice(angle_convention, function, "angles", angles)
    type_, a, b = rotated_pair(function, boxes1, boxes2)
    out = empty((len(a), len(b)), a.dtype)
    check(call(type_, address(a), len(a), address(b), len(b), convention, *options, address(out),
               len(b)), function)
    return out


def _elementwise(function: str, call: Any, boxes1: Any, boxes2: Any, angles: str,
                 *options: int) -> NDArray[Any]:
    """The overlaps [N] of corresponding rotated boxes."""
    convention = choice(angle_convention, function, "angles", angles)
    type_, a, b = rotated_pair(function, boxes1, boxes2)
    if len(a) != len(b):
        raise wrong_shape(function, "boxes2", b, f"[{len(a)}, 5], the shape of boxes1")
    out = empty(len(a), a.dtype)
    check(call(type_, address(a), address(b), len(a), convention, *options, address(out)), function)
    return out


def rotated_box_iou(boxes1: ArrayLike, boxes2: ArrayLike, angles: str) -> NDArray[Any]:
    """The exact IoU of each of ``boxes1`` [N, 5] with each of ``boxes2`` [M, 5]: [N, M]. A box is
    centre, width, height and angle. ``angles`` names the framework whose angles they are:
    ``"torchvision"`` or ``"detectron2"`` (degrees, counter-clockwise as seen in an image),
    ``"opencv"`` (degrees, clockwise), ``"ultralytics"`` or ``"mmcv"`` (radians, clockwise),
    ``"mmcv_counter_clockwise"`` (radians).

    >>> rotated_box_iou([[5, 5, 8, 4, 0]], [[5, 5, 4, 8, 90], [5, 5, 4, 2, 0]], "opencv").tolist()
    [[1.0, 0.25]]
    """
    return _pairwise("rotated_box_iou", library.vecdet_pairwise_rotated_iou, boxes1, boxes2, angles,
                     _c.EMPTY_IOU_NAN)


def elementwise_rotated_iou(boxes1: ArrayLike, boxes2: ArrayLike, angles: str) -> NDArray[Any]:
    """The exact IoU of box i of ``boxes1`` and box i of ``boxes2``, [N, 5] each: [N]. Boxes and
    ``angles`` as in rotated_box_iou.

    >>> elementwise_rotated_iou([[5, 5, 8, 4, 0]], [[5, 5, 4, 8, 90]], "opencv").tolist()
    [1.0]
    """
    return _elementwise("elementwise_rotated_iou", library.vecdet_elementwise_rotated_iou, boxes1,
                        boxes2, angles, _c.EMPTY_IOU_NAN)


def pairwise_prob_iou(boxes1: ArrayLike, boxes2: ArrayLike, angles: str) -> NDArray[Any]:
    """The ProbIoU (arXiv 2106.06072) of each of ``boxes1`` [N, 5] with each of ``boxes2`` [M, 5]:
    [N, M], as ultralytics' batch_probiou. Boxes and ``angles`` as in rotated_box_iou.

    >>> pairwise_prob_iou([[5, 5, 8, 4, 0]], [[5, 5, 4, 8, 90], [9, 5, 8, 4, 0]],
    ...                   "opencv").astype(float).round(4).tolist()
    [[0.9996, 0.4408]]
    """
    return _pairwise("pairwise_prob_iou", library.vecdet_pairwise_prob_iou, boxes1, boxes2, angles)


def elementwise_prob_iou(boxes1: ArrayLike, boxes2: ArrayLike, angles: str) -> NDArray[Any]:
    """The ProbIoU of box i of ``boxes1`` and box i of ``boxes2``, [N, 5] each: [N], as ultralytics'
    probiou. Boxes and ``angles`` as in rotated_box_iou.

    >>> round(float(elementwise_prob_iou([[5, 5, 8, 4, 0]], [[9, 5, 8, 4, 0]], "opencv")[0]), 4)
    0.4408
    """
    return _elementwise("elementwise_prob_iou", library.vecdet_elementwise_prob_iou, boxes1, boxes2,
                        angles)


def rotated_box_convert(boxes: ArrayLike, in_fmt: str, out_fmt: str, angles: str) -> NDArray[Any]:
    """Converts rotated ``boxes`` [N, 5, 8 or 4] from the format ``in_fmt`` to ``out_fmt``:
    ``"cxcywhr"`` (centre, width, height, angle), ``"xywhr"`` (begins with the first corner for
    ``angles="torchvision"``, with the centre for ``"ultralytics"``), ``"xyxyxyxy"`` (corners: top
    left, top right, bottom right, bottom left before turning) or ``"xyxy"`` (the enclosing upright
    box). ``angles`` as in rotated_box_iou.

    >>> rotated_box_convert([[5, 5, 8, 4, 90]], "cxcywhr", "xyxy", "opencv").tolist()
    [[3.0, 1.0, 7.0, 9.0]]
    """
    function = "rotated_box_convert"
    convention = choice(angle_convention, function, "angles", angles)
    source = choice(rotated_format, function, "in_fmt", in_fmt)
    target = choice(rotated_format, function, "out_fmt", out_fmt)
    array = _rows(function, "boxes", real_numbers(function, "boxes", boxes), NUMBERS[in_fmt])
    out = empty((len(array), NUMBERS[out_fmt]), array.dtype)
    check(library.vecdet_convert_rotated_boxes(TYPES[array.dtype], address(array), len(array),
                                               source, target, convention, address(out)), function)
    return out


def _nms(function: str, call: Any, boxes: Any, scores: Any, angles: str, idxs: Any,
         params: Any) -> NDArray[np.int64]:
    convention = choice(angle_convention, function, "angles", angles)
    type_, (rows, numbers) = same_floats(function, ("boxes", "scores"), (boxes, scores))
    rows = _rows(function, "boxes", rows, 5)
    numbers_per_box(function, "scores", numbers, len(rows))
    total = len(rows)
    own = None if idxs is None else integers(function, "idxs", idxs, total, convert=classes_of)
    chosen = empty(total, int64)
    count = c_int64()
    check(call(type_, address(rows), address(numbers), optional(own), None, total, convention,
               params, None, address(chosen), byref(count)), function)
    chosen.resize(count.value, refcheck=False)
    return chosen


# Keywords of nms_params, without iou_threshold, suppress_equal, float_threshold, plus_one,
# drop_nan_scores, drop_degenerate, score_threshold, format, overlap, order, max_per_class,
# max_per_image, max_total
def rotated_nms(
    boxes: ArrayLike,
    scores: ArrayLike,
    iou_threshold: float,
    angles: str,
    idxs: ArrayLike | None = None,
    *,
    classes: Sequence[int] | None = None,
    class_thresholds: Sequence[float] | None = None,
    class_groups: Sequence[int] | None = None,
) -> NDArray[np.int64]:
    """Non-maximum suppression of rotated boxes by their exact IoU: the indices of the kept boxes,
    in descending score.

    Args:
        boxes: [N, 5] as in rotated_box_iou.
        scores: [N]. Ties are broken by lower index.
        iou_threshold: in [0, 1]. A box is dropped if a better one overlaps it by more.
        angles: as in rotated_box_iou.
        idxs: [N]; only boxes with equal ones suppress each other, as in batched_nms.
        classes: only boxes of these classes take part; None: all.
        class_thresholds: a score threshold per class: only boxes with scores above it take part;
            None: none.
        class_groups: a group per class, any integer: boxes of classes with the same group suppress
            each other; None: each class is a group of its own.

    >>> boxes = np.array([[5, 5, 8, 4, 0], [5, 5, 4, 8, 90], [5, 5, 8, 4, 90]], np.float32)
    >>> rotated_nms(boxes, np.array([0.8, 0.9, 0.7], np.float32), 0.5, "opencv").tolist()
    [1, 2]
    """
    function = "rotated_nms"
    params = nms_params(function, iou_threshold, "iou",
                        *class_lists(function, classes, class_thresholds, class_groups))
    return _nms(function, library.vecdet_rotated_nms, boxes, scores, angles, idxs, params)


# Keywords of nms_params, without iou_threshold, suppress_equal, float_threshold, plus_one,
# drop_nan_scores, drop_degenerate, score_threshold, format, overlap, order, max_per_class,
# max_per_image, max_total
def prob_iou_nms(
    boxes: ArrayLike,
    scores: ArrayLike,
    iou_threshold: float,
    angles: str,
    idxs: ArrayLike | None = None,
    *,
    classes: Sequence[int] | None = None,
    class_thresholds: Sequence[float] | None = None,
    class_groups: Sequence[int] | None = None,
) -> NDArray[np.int64]:
    """Non-maximum suppression of rotated boxes by their ProbIoU as in ultralytics: the indices of
    the kept boxes, in descending score. Unlike in rotated_nms, a box that is dropped itself drops
    others, too.

    Args:
        boxes: [N, 5] as in rotated_box_iou.
        scores: [N]. Ties are broken by lower index.
        iou_threshold: in [0, 1]. A box is dropped if its ProbIoU with any better one is at least
            this.
        angles: as in rotated_box_iou.
        idxs: [N]; only boxes with equal ones suppress each other, as in batched_nms.
        classes: only boxes of these classes take part; None: all.
        class_thresholds: a score threshold per class: only boxes with scores above it take part;
            None: none.
        class_groups: a group per class, any integer: boxes of classes with the same group suppress
            each other; None: each class is a group of its own.

    >>> boxes = np.array([[0, 0, 20, 10, 0], [7, 0, 20, 10, 0], [14, 0, 20, 10, 0]], np.float32)
    >>> prob_iou_nms(boxes, np.array([0.9, 0.8, 0.7], np.float32), 0.4, "ultralytics").tolist()
    [0]
    """
    function = "prob_iou_nms"
    params = prob_iou_params(function, iou_threshold,
                             *class_lists(function, classes, class_thresholds, class_groups))
    return _nms(function, library.vecdet_prob_iou_nms, boxes, scores, angles, idxs, params)


def rotated_box_area(boxes: ArrayLike) -> NDArray[Any]:
    """Width times height [N] of rotated ``boxes`` [N, 5].

    >>> rotated_box_area([[5, 5, 8, 4, 30]]).tolist()
    [32.0]
    """
    array = _rows("rotated_box_area", "boxes", real_numbers("rotated_box_area", "boxes", boxes), 5)
    out = empty(len(array), array.dtype)
    check(library.vecdet_rotated_box_areas(TYPES[array.dtype], address(array), len(array),
                                           address(out)), "rotated_box_area")
    return out
