# SPDX-License-Identifier: Apache-2.0
"""Overlaps, formats, areas and coding of boxes."""

from __future__ import annotations

import math
from ctypes import byref, c_int64
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _c
from ._arrays import (TYPES, address, box_rows, choice, empty, float32, float32s, int64,
                      real_numbers, same_floats, shape_of, wrong_shape)
from ._c import box_format, iou_kind
from ._library import check, library
from ._parameters import flag, kept, listed, number, numbers, pair
from ._packed import image_sizes_of

__all__ = [
    "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou",
    "decode_boxes", "decode_distances", "decode_distribution_boxes", "decode_distributions",
    "distance_box_iou", "elementwise_iou", "encode_boxes", "encode_distances",
    "generalized_box_iou", "remove_small_boxes",
]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def _weights(coder: Any) -> tuple[float, ...]:
    return coder.weight_x, coder.weight_y, coder.weight_w, coder.weight_h


CODER = library.vecdet_coder_params_default()
WEIGHTS, SIZE_LIMIT = _weights(CODER), CODER.size_limit
BOX_HEAD_WEIGHTS = _weights(library.vecdet_coder_params_roi())

_pairwise_iou = library.vecdet_pairwise_iou
_convert_boxes = library.vecdet_convert_boxes


def _pair(function: str, boxes1: Any, boxes2: Any) -> tuple[int, Any, Any]:
    """Two arrays of boxes and their type."""
    type_, (a, b) = same_floats(function, ("boxes1", "boxes2"), (boxes1, boxes2), real_numbers)
    return type_, box_rows(function, "boxes1", a), box_rows(function, "boxes2", b)


def _overlaps(function: str, kind: int, boxes1: Any, boxes2: Any) -> NDArray[Any]:
    type_, a, b = _pair(function, boxes1, boxes2)
    rows, cols = len(a), len(b)
    out = empty((rows, cols), a.dtype)
    check(_pairwise_iou(type_, address(a), rows, address(b), cols, kind, _c.EMPTY_IOU_NAN,
                        address(out), cols), function)
    return out


def box_iou(boxes1: ArrayLike, boxes2: ArrayLike) -> NDArray[Any]:
    """The IoU of each of ``boxes1`` [N, 4] with each of ``boxes2`` [M, 4], corners: [N, M]. In
    float32, it is bit-identical to torchvision's.

    >>> box_iou([[0, 0, 10, 10]], [[0, 0, 10, 10], [0, 5, 10, 10]]).tolist()
    [[1.0, 0.5]]
    """
    return _overlaps("box_iou", _c.IOU, boxes1, boxes2)


def generalized_box_iou(boxes1: ArrayLike, boxes2: ArrayLike) -> NDArray[Any]:
    """The GIoU of all pairs, in the form of box_iou. https://arxiv.org/abs/1902.09630"""
    return _overlaps("generalized_box_iou", _c.GIOU, boxes1, boxes2)


def distance_box_iou(boxes1: ArrayLike, boxes2: ArrayLike) -> NDArray[Any]:
    """The DIoU of all pairs, in the form of box_iou. https://arxiv.org/abs/1911.08287"""
    return _overlaps("distance_box_iou", _c.DIOU, boxes1, boxes2)


def complete_box_iou(boxes1: ArrayLike, boxes2: ArrayLike) -> NDArray[Any]:
    """The CIoU of all pairs, in the form of box_iou. https://arxiv.org/abs/1911.08287"""
    return _overlaps("complete_box_iou", _c.CIOU, boxes1, boxes2)


def elementwise_iou(boxes1: ArrayLike, boxes2: ArrayLike, kind: str = "iou") -> NDArray[Any]:
    """The overlap of box i of ``boxes1`` and box i of ``boxes2``, [N, 4] each: [N]. ``kind`` is
    ``"iou"``, ``"giou"``, ``"diou"`` or ``"ciou"``.

    >>> elementwise_iou([[0, 0, 10, 10]], [[0, 5, 10, 10]]).tolist()
    [0.5]
    """
    function = "elementwise_iou"
    type_, a, b = _pair(function, boxes1, boxes2)
    if len(a) != len(b):
        raise wrong_shape(function, "boxes2", b, f"[{len(a)}, 4], the shape of boxes1")
    out = empty(len(a), a.dtype)
    check(library.vecdet_elementwise_iou(type_, address(a), address(b), len(a),
                                         choice(iou_kind, function, "kind", kind),
                                         _c.EMPTY_IOU_NAN, address(out)), function)
    return out


def _flat_boxes(function: str, argument: str, value: Any) -> tuple[int, Any]:
    """Boxes of any shape [..., 4], and their number."""
    array = real_numbers(function, argument, value)
    if array.ndim < 1 or array.shape[-1] != 4:
        if array.size:
            raise wrong_shape(function, argument, array, "[..., 4]")
        array = array.reshape(0, 4)
    return array.size // 4, array


def box_convert(boxes: ArrayLike, in_fmt: str, out_fmt: str) -> NDArray[Any]:
    """Converts ``boxes`` [..., 4] from the format ``in_fmt`` to ``out_fmt``: ``"xyxy"`` (corners),
    ``"xywh"`` (top left corner and size) or ``"cxcywh"`` (centre and size).

    >>> box_convert([[10, 20, 30, 40]], "xywh", "xyxy").tolist()
    [[10.0, 20.0, 40.0, 60.0]]
    """
    source = choice(box_format, "box_convert", "in_fmt", in_fmt)
    target = choice(box_format, "box_convert", "out_fmt", out_fmt)
    count, array = _flat_boxes("box_convert", "boxes", boxes)
    out, type_ = empty(array.shape, array.dtype), TYPES[array.dtype]
    if source and target and source != target:  # through corners, to round as in torchvision
        check(_convert_boxes(type_, address(array), count, source, _c.XYXY, address(out)),
              "box_convert")
        array, source = out, _c.XYXY
    check(_convert_boxes(type_, address(array), count, source, target, address(out)), "box_convert")
    return out


def clip_boxes_to_image(boxes: ArrayLike, size: Sequence[float]) -> NDArray[Any]:
    """``boxes`` [..., 4], corners, clipped to an image of (height, width).

    >>> clip_boxes_to_image([[-5, 0, 50, 20]], (10, 40)).tolist()
    [[0.0, 0.0, 40.0, 10.0]]
    """
    count, array = _flat_boxes("clip_boxes_to_image", "boxes", boxes)
    out = empty(array.shape, array.dtype)
    limits = _c.image_size(*pair("clip_boxes_to_image", "size", size))
    check(library.vecdet_clip_boxes(TYPES[array.dtype], address(array), count, limits,
                                    address(out)), "clip_boxes_to_image")
    return out


def box_area(boxes: ArrayLike) -> NDArray[Any]:
    """The areas [N] of ``boxes`` [N, 4], corners.

    >>> box_area([[0, 0, 4, 5]]).tolist()
    [20.0]
    """
    array = box_rows("box_area", "boxes", _flat_boxes("box_area", "boxes", boxes)[1])
    out = empty(len(array), array.dtype)
    check(library.vecdet_box_areas(TYPES[array.dtype], address(array), len(array), address(out)),
          "box_area")
    return out


def remove_small_boxes(boxes: ArrayLike, min_size: float) -> NDArray[np.int64]:
    """The indices of the ``boxes`` [N, 4], corners, whose sides are both at least ``min_size``.

    >>> remove_small_boxes([[0, 0, 4, 5], [0, 0, 1, 9]], 2).tolist()
    [0]
    """
    array = box_rows("remove_small_boxes", "boxes",
                     _flat_boxes("remove_small_boxes", "boxes", boxes)[1])
    large = empty(len(array), int64)
    count = c_int64()
    check(library.vecdet_large_boxes(TYPES[array.dtype], address(array), len(array),
                                     number("remove_small_boxes", "min_size", min_size),
                                     address(large), byref(count)), "remove_small_boxes")
    large.resize(count.value, refcheck=False)
    return large


def coder_params(function: str, weights: Sequence[float], size_limit: float = SIZE_LIMIT,
                 anchor_format: str = "xyxy") -> tuple[tuple[Any, ...], Any]:
    """A coder with weights of dx, dy, dw, dh; infinite size_limit: no clamp. Its fields, and the
    argument for its struct."""
    return _kept_coder(function, size_limit, anchor_format, *listed(function, "weights", weights,
                                                                    "4 numbers"))


@kept
def _kept_coder(function: str, size_limit: float, anchor_format: str, *weights: float) -> Any:
    most = number(function, "size_limit", size_limit)
    limit = (_c.CLAMP_NONE, 0) if most == math.inf else (_c.CLAMP_ABOVE, most)
    fields = (*numbers(function, "weights", weights, 4), *limit,
              choice(box_format, function, "anchor_format", anchor_format))
    return fields, byref(_c.coder_params(*fields))


def _coded(function: str, first: Any, first_name: str, anchors: Any) -> Any:
    type_, (a, b) = same_floats(function, (first_name, "anchors"), (first, anchors),
                                real_numbers)
    b = box_rows(function, "anchors", b)
    if a.shape != b.shape:
        raise wrong_shape(function, first_name, a, f"[{len(b)}, 4], one per anchor")
    return type_, a, b, empty(a.shape, a.dtype)


def encode_boxes(boxes: ArrayLike, anchors: ArrayLike, weights: Sequence[float] = WEIGHTS,
                 anchor_format: str = "xyxy") -> NDArray[Any]:
    """The deltas dx, dy, dw, dh that decode to ``boxes`` from ``anchors``, [N, 4] corners each.

    >>> encode_boxes([[1.0, 0, 11, 10]], [[0, 0, 10, 10]]).round(3).tolist()
    [[0.1, 0.0, 0.0, 0.0]]
    """
    type_, targets, anchors, out = _coded("encode_boxes", boxes, "boxes", anchors)
    _, params = coder_params("encode_boxes", weights, SIZE_LIMIT, anchor_format)
    check(library.vecdet_encode_boxes(type_, address(targets), address(anchors), len(targets),
                                      params, address(out)), "encode_boxes")
    return out


def decode_boxes(deltas: ArrayLike, anchors: ArrayLike,
                 weights: Sequence[float] = WEIGHTS, image_size: Any = None,
                 size_limit: float = SIZE_LIMIT, anchor_format: str = "xyxy") -> NDArray[Any]:
    """The boxes, corners, that ``deltas`` encode relative to ``anchors`` [N, 4].

    Args:
        deltas: [N, 4], or [images, N, 4].
        weights: of dx, dy, dw, dh.
        image_size: (height, width), or one per image: boxes are clipped to it.
        size_limit: the greatest dw and dh, after division by their weights; ``inf``: no limit.
        anchor_format: ``"xyxy"``, or ``"cxcywh"`` for SSD's priors.

    >>> decode_boxes([[0.1, 0, 0, 0]], [[0, 0, 10, 10]], image_size=(8, 20)).round(3).tolist()
    [[1.0, 0.0, 11.0, 8.0]]
    """
    type_, (codes, priors) = same_floats("decode_boxes", ("deltas", "anchors"), (deltas, anchors),
                                         real_numbers)
    priors = box_rows("decode_boxes", "anchors", priors)
    if codes.ndim not in (2, 3) or codes.shape[-2:] != priors.shape:
        raise wrong_shape("decode_boxes", "deltas", codes,
                          f"[{len(priors)}, 4], one per anchor, or [images, {len(priors)}, 4]")
    images = len(codes) if codes.ndim == 3 else 1
    sizes = None
    if image_size is not None:
        given = image_size if len(shape_of(image_size)) == 2 else [
            pair("decode_boxes", "image_size", image_size)] * images
        sizes = image_sizes_of("decode_boxes", given, images, "image_size")
    _, params = coder_params("decode_boxes", weights, size_limit, anchor_format)
    out = empty(codes.shape, codes.dtype)
    check(library.vecdet_decode_boxes(type_, address(codes), images, address(priors), len(priors),
                                      sizes, params, address(out)), "decode_boxes")
    return out


# Keywords of distance_params, without anchors
def encode_distances(
    boxes: ArrayLike,
    anchors: ArrayLike,
    by_size: bool = True,
) -> NDArray[Any]:
    """FCOS's distances from the anchors' centres to the sides of ``boxes``, [N, 4] each: left, top,
    right and bottom, optionally divided by the anchors' sizes.

    >>> encode_distances([[0, 0, 10, 10]], [[4, 4, 6, 6]], by_size=False).tolist()
    [[5.0, 5.0, 5.0, 5.0]]
    """
    type_, targets, anchors, out = _coded("encode_distances", boxes, "boxes", anchors)
    check(library.vecdet_encode_distances(type_, address(targets), address(anchors), len(targets),
                                          flag("encode_distances", "by_size", by_size), _c.XYXY,
                                          address(out)), "encode_distances")
    return out


# Keywords of distance_params, without anchors
def decode_distances(
    distances: ArrayLike,
    anchors: ArrayLike,
    by_size: bool = True,
    image_size: Sequence[float] | None = None,
) -> NDArray[Any]:
    """The boxes that FCOS's ``distances`` encode relative to ``anchors``, [N, 4] each, clipped to
    an image of (height, width) if given.

    >>> decode_distances([[5, 5, 5, 5]], [[4, 4, 6, 6]], by_size=False).tolist()
    [[0.0, 0.0, 10.0, 10.0]]
    """
    type_, codes, anchors, out = _coded("decode_distances", distances, "distances", anchors)
    size = None if image_size is None else byref(
        _c.image_size(*pair("decode_distances", "image_size", image_size)))
    check(library.vecdet_decode_distances(type_, address(codes), address(anchors), len(codes), size,
                                          flag("decode_distances", "by_size", by_size), _c.XYXY,
                                          address(out)), "decode_distances")
    return out


def decode_distributions(logits: ArrayLike) -> NDArray[np.float32]:
    """The expectation of each row of ``logits`` [..., bins], in bins: [...]. float32.

    >>> decode_distributions([[0, 0, 0]]).round(5).tolist()
    [1.0]
    """
    array = float32s("decode_distributions", "logits", logits)
    if array.ndim < 1:
        raise wrong_shape("decode_distributions", "logits", array, "[..., bins]")
    out = empty(array.shape[:-1], float32)
    bins = array.shape[-1]
    check(library.vecdet_decode_distributions(address(array), out.size, bins, bins, address(out)),
          "decode_distributions")
    return out


def decode_distribution_boxes(logits: ArrayLike, points: ArrayLike,
                              strides: ArrayLike) -> NDArray[np.float32]:
    """The boxes [N, 4], float32, of four distributions each, ``logits`` [N, 4, bins]: left, top,
    right and bottom of ``points`` [N, 2], in units of ``strides`` [N].

    >>> decode_distribution_boxes(np.zeros((1, 4, 3)), [[20, 20]], [8]).round(4).tolist()
    [[12.0, 12.0, 28.0, 28.0]]
    """
    function = "decode_distribution_boxes"
    array = float32s(function, "logits", logits)
    if array.ndim != 3 or array.shape[1] != 4:
        raise wrong_shape(function, "logits", array, "[N, 4, bins]")
    count, _, bins = array.shape
    at = float32s(function, "points", points)
    if at.shape != (count, 2):
        raise wrong_shape(function, "points", at, f"[{count}, 2]")
    units = float32s(function, "strides", strides, convert=real_numbers)
    if units.shape != (count,):
        raise wrong_shape(function, "strides", units, f"[{count}]")
    out = empty((count, 4), float32)
    check(library.vecdet_decode_distribution_boxes(address(array), count, bins, bins, address(at),
                                                   address(units), address(out)), function)
    return out
