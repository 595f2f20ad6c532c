# SPDX-License-Identifier: Apache-2.0
"""Masks as COCO's run lengths. Results equal those of COCO's mask API if no count but the first of
a mask is 0. If another one is 0, boxes and merged masks here follow from the pixels."""

from __future__ import annotations

from ctypes import byref, c_void_p, string_at
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import numpy as np

from . import _c
from ._arrays import (address, box_rows, choice, empty, float64, int64, integers, optional,
                      shape_of, uint8, wrong_shape)
from ._c import mask_merging, mask_pixels
from ._library import check, library
from ._masks import (OVERLAPS, Masks, copied, copied_masks, given_masks, pictures_of, pixel_bytes,
                     workspace)
from ._messages import found
from ._packed import doubles, offsets_of
from ._parameters import listed

__all__ = ["RunLengths", "decode_masks", "encode_masks", "mask_areas", "mask_boxes", "mask_iou",
           "mask_polygons", "merge_masks", "run_lengths_from_boxes", "run_lengths_from_polygons",
           "run_lengths_from_strings", "run_lengths_to_strings"]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_uint32 = np.dtype(np.uint32)


class RunLengths(NamedTuple):
    """The masks of N objects in whole pictures, as COCO's run lengths. The pixels of a picture are
    counted column by column, from the top of each: how many do not belong to the object, how many
    then do, and so on."""

    sizes: NDArray[np.int64]
    """[N, 2]: (height, width) of each picture."""
    offsets: NDArray[np.int64]
    """[N + 1]: where the counts of each mask begin."""
    counts: NDArray[np.uint32]
    """Of all masks. Those of a mask add up to the pixels of its picture, less than 2^32."""

    def of(self, index: int) -> NDArray[np.uint32]:
        """The counts of one mask."""
        return self.counts[self.offsets[:-1][index]:self.offsets[1:][index]]

    def full(self) -> NDArray[np.bool_]:
        """All masks as pictures, which must have one size: [N, height, width]."""
        height, width = self.sizes[0].tolist() if len(self.sizes) else (0, 0)
        pictures = empty((len(self.sizes), height, width), uint8)
        decode_into("RunLengths.full", self, pictures)
        return pictures.view(np.bool_)


def _copied(runs: Any) -> RunLengths:
    """The run lengths in memory of their own."""
    offsets = copied(runs.offsets, runs.count + 1, int64)
    return RunLengths(copied(runs.sizes, (runs.count, 2), int64), offsets,
                      copied(runs.counts, offsets.item(runs.count), _uint32))


def joined(parts: Sequence[RunLengths]) -> RunLengths:
    """The masks of all parts."""
    sizes = [part.sizes for part in parts] or [empty((0, 2), int64)]
    counts = [part.counts for part in parts] or [empty(0, _uint32)]
    lengths = np.concatenate([np.zeros(1, int64), *(np.diff(part.offsets) for part in parts)])
    return RunLengths(np.concatenate(sizes), np.cumsum(lengths), np.concatenate(counts))


def selected(runs: RunLengths, indices: Sequence[int]) -> RunLengths:
    """Some of the masks."""
    return joined([RunLengths(runs.sizes[k:k + 1], np.array([0, len(runs.of(k))], int64),
                              runs.of(k)) for k in indices])


def _given(function: str, argument: str, runs: Any) -> tuple[Any, Any]:
    """The struct of run lengths, and what keeps its memory."""
    try:
        sizes, offsets, counts = runs
    except Exception as error:
        raise TypeError(f"{found(function, argument, runs)}, expected a RunLengths") from error
    sizes = integers(function, argument + ".sizes", sizes)
    if sizes.ndim != 2 or sizes.shape[1] != 2:
        if sizes.size:
            raise wrong_shape(function, argument + ".sizes", sizes, "[N, 2]")
        sizes = sizes.reshape(0, 2)
    count = len(sizes)
    offsets = integers(function, argument + ".offsets", offsets, count + 1)
    if not (type(counts) is np.ndarray and counts.dtype is _uint32 and counts.ndim == 1
            and counts.flags.c_contiguous and counts.flags.aligned):
        counts = as_counts(function, argument + ".counts", counts)
    if offsets.item(count) != counts.size:
        raise ValueError(f"vecdet.{function}: {argument}.offsets[{count}] is "
                         f"{offsets.item(count)}, expected {counts.size}, the number of counts")
    return _c.run_lengths(count, address(sizes), address(offsets), address(counts)), (
        sizes, offsets, counts)


def checked_runs(function: str, masks: RunLengths) -> RunLengths:
    """The run lengths of the argument `masks` of a function, checked, as int64 and uint32."""
    own, memory = _given(function, "masks", masks)
    areas = empty(own.count, int64)
    check(library.vecdet_mask_areas(byref(own), address(areas)), function)
    return RunLengths(*memory)


def as_counts(function: str, argument: str, counts: Any) -> NDArray[np.uint32]:
    """Counts of any integers as uint32."""
    own = integers(function, argument, counts)
    if own.ndim != 1:
        raise wrong_shape(function, argument, own, "[counts]")
    if own.size and not 0 <= int(own.min()) <= int(own.max()) < 2**32:
        wrong = own.min() if own.min() < 0 else own.max()
        raise ValueError(f"vecdet.{function}: {argument} has {wrong}, expected counts of 0 to "
                         "2^32 - 1")
    return own.astype(_uint32)


def _strided(pictures: NDArray[np.uint8]) -> Any:
    """The struct of pictures [N, height, width] in any memory order."""
    return byref(_c.byte_pictures(*pictures.shape, *pictures.strides))


def encode_pictures(function: str, pictures: NDArray[np.uint8]) -> RunLengths:
    """The run lengths of bytes [N, height, width] in any memory order."""
    made = _c.run_lengths()
    check(library.vecdet_encode_pictures(_strided(pictures), address(pictures),
                                         workspace().address, byref(made)), function)
    return _copied(made)


def decode_into(function: str, runs: Any, pictures: NDArray[np.uint8]) -> None:
    """Writes masks into bytes [N, height, width] in any memory order."""
    own, memory = _given(function, "runs", runs)
    check(library.vecdet_decode_pictures(byref(own), _strided(pictures), address(pictures)),
          function)


def encode_masks(masks: Masks | ArrayLike, size: Sequence[Any] | None = None) -> RunLengths:
    """The run lengths of masks.

    Args:
        masks: Masks, as ``masks_from_prototypes`` and ``paste_masks`` return them; or pictures
            [N, height, width] or [height, width] of truth values or integers, where numbers other
            than 0 are pixels of the object. Arrays in any memory order are not copied.
        size: for Masks only: (height, width) of the picture, or one for each mask.

    >>> encode_masks([[[0, 1], [1, 1]]]).counts.tolist()
    [1, 3]
    """
    return encoded("encode_masks", masks, size)


def encoded(function: str, masks: Any, size: Any) -> RunLengths:
    """The run lengths of the argument `masks` of a function."""
    if not isinstance(masks, Masks):
        if size is not None:
            raise TypeError(found(function, "size", size) + ", expected None for pictures, which "
                            "have a size")
        pictures = pixel_bytes(function, "masks", masks)
        if pictures.ndim not in (2, 3):
            raise wrong_shape(function, "masks", pictures, "[N, height, width] or [height, width]")
        return encode_pictures(function, pictures if pictures.ndim == 3 else pictures[None])
    own, memory = given_masks(function, "masks", masks)
    sizes, size_count = pictures_of(function, size)
    made = _c.run_lengths()
    check(library.vecdet_encode_masks(byref(own), sizes, size_count, workspace().address,
                                      byref(made)), function)
    return _copied(made)


def decode_masks(runs: RunLengths, pixels: str = "bits") -> Masks:
    """The masks as rectangles that are whole pictures. ``runs.full()`` returns pictures.

    Args:
        runs: the masks.
        pixels: how the result is stored: "bits" or "bytes".

    >>> decode_masks(encode_masks([[[0, 1], [1, 1]]])).pixels.tolist()
    [2, 3]
    """
    function = "decode_masks"
    own, memory = _given(function, "runs", runs)
    made = _c.masks()
    check(library.vecdet_decode_masks(byref(own), choice(mask_pixels, function, "pixels", pixels),
                                      workspace().address, byref(made)), function)
    return copied_masks(made)


def _are_pixels(masks: Any) -> bool:
    """Whether these are masks of pixels, not run lengths, which may be any tuple of three."""
    return isinstance(masks, Masks) or not (isinstance(masks, tuple) and len(masks) == 3)


def _any_masks(function: str, argument: str, masks: Any) -> tuple[Any, Any]:
    """The struct of masks of pixels or of run lengths, and what keeps its memory."""
    return (given_masks if _are_pixels(masks) else _given)(function, argument, masks)


def mask_areas(masks: RunLengths | Masks | ArrayLike) -> NDArray[np.int64]:
    """The number of pixels of each object: [N].

    Args:
        masks: RunLengths or a tuple of its three arrays, Masks, or pictures [N, height, width] of
            truth values or integers.

    >>> mask_areas(np.array([[[0, 1], [1, 1]]])).tolist()
    [3]
    """
    function = "mask_areas"
    own, memory = _any_masks(function, "masks", masks)
    call = library.vecdet_pixel_mask_areas if _are_pixels(masks) else library.vecdet_mask_areas
    areas = empty(own.count, int64)
    check(call(byref(own), address(areas)), function)
    return areas


def mask_boxes(masks: RunLengths | Masks | ArrayLike) -> NDArray[np.int64]:
    """The smallest rectangle of whole pixels that contains each object: [N, 4], x1, y1, x2, y2; 0
    if the object has no pixels.

    Args:
        masks: as in mask_areas.

    >>> mask_boxes(np.array([[[0, 1], [0, 1]]])).tolist()
    [[1, 0, 2, 2]]
    """
    function = "mask_boxes"
    own, memory = _any_masks(function, "masks", masks)
    call = library.vecdet_pixel_mask_boxes if _are_pixels(masks) else library.vecdet_mask_boxes
    boxes = empty((own.count, 4), int64)
    check(call(byref(own), address(boxes)), function)
    return boxes


def mask_iou(a: RunLengths | Masks | ArrayLike, b: RunLengths | Masks | ArrayLike | None = None,
             is_crowd: ArrayLike | None = None, overlap: str = "iou") -> NDArray[np.float64]:
    """The overlap of each mask of ``a`` and each of ``b``: [N, M], 0 without common pixels.

    Args:
        a: N masks, as in mask_areas.
        b: M masks of the same kind. Run lengths and pictures have the same size. None: those of
            ``a``; each pair of masks of pixels is then counted once.
        is_crowd: [M]: truth values or integers. The overlap with a crowd is the share of the mask
            of ``a`` that lies in it. None: there are no crowds.
        overlap: ``"iou"``, or ``"ios"``, the intersection over the smaller area.

    >>> mask_iou(np.array([[[0, 1]]]), np.array([[[1, 1]]])).tolist()
    [[0.5]]
    """
    function = "mask_iou"
    by = choice(OVERLAPS, function, "overlap", overlap)
    are_pixels = _are_pixels(a)
    if b is not None and _are_pixels(b) != are_pixels:
        raise TypeError(found(function, "b", b) + ", expected masks of the same kind as a")
    own, memory = _any_masks(function, "a", a)
    other, others = (own, memory) if b is None else _any_masks(function, "b", b)
    if are_pixels and b is not None and not isinstance(a, Masks) and not isinstance(b, Masks):
        shapes = shape_of(a)[1:], shape_of(b)[1:]
        if shapes[0] != shapes[1]:
            raise ValueError(f"vecdet.{function}: b has pictures of {shapes[1][0]} x "
                             f"{shapes[1][1]}, expected {shapes[0][0]} x {shapes[0][1]}, as in a")
    crowds = None
    if is_crowd is not None:
        crowds = pixel_bytes(function, "is_crowd", is_crowd)
        if crowds.size != other.count or crowds.ndim != 1 and crowds.size:
            raise wrong_shape(function, "is_crowd", crowds, f"[{other.count}]")
        crowds = np.ascontiguousarray(crowds)
    overlaps = empty((own.count, other.count), float64)
    call = library.vecdet_pixel_mask_iou if are_pixels else library.vecdet_mask_iou
    check(call(byref(own), byref(other), by, optional(crowds), None, address(overlaps)), function)
    return overlaps


def mask_polygons(runs: RunLengths) -> list[list[NDArray[np.float64]]]:
    """The polygons around the pixels of each mask, along the borders of pixels: [points, 2] each.

    Pixel (x, y) is the square from (x, y) to (x + 1, y + 1). Polygons around an object go
    clockwise, as seen in a picture, and those around its holes the other way: their areas, by the
    sum of x dy, are positive and negative. Pixels that touch only at a corner are apart.
    ``run_lengths_from_polygons`` draws each polygon exactly in pictures with sides of up to 2^27.

    >>> [polygon.tolist() for polygon in mask_polygons(encode_masks([[[0, 1], [1, 1]]]))[0]]
    [[[1.0, 1.0], [1.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [0.0, 1.0]]]
    """
    function = "mask_polygons"
    own, memory = _given(function, "runs", runs)
    masks, begins, start = c_void_p(), c_void_p(), c_void_p()
    check(library.vecdet_mask_polygons(byref(own), workspace().address, byref(masks),
                                       byref(begins), byref(start)), function)
    ends = copied(masks.value, own.count + 1, int64).tolist()
    offsets = copied(begins.value, ends[-1] + 1, int64).tolist()
    points = copied(start.value, (offsets[-1], 2), float64)
    polygons = [points[first:end] for first, end in zip(offsets, offsets[1:])]
    return [polygons[first:end] for first, end in zip(ends, ends[1:])]


def merge_masks(runs: RunLengths, merging: str = "any") -> RunLengths:
    """The union or intersection of masks in pictures of one size, as one mask.

    Args:
        runs: one or more masks.
        merging: which pixels the result has: "any" (those of any mask: the union) or "every" (those
            of every mask: the intersection).

    >>> merge_masks(encode_masks([[[1, 0]], [[0, 1]]])).counts.tolist()
    [0, 2]
    """
    function = "merge_masks"
    own, memory = _given(function, "runs", runs)
    made = _c.run_lengths()
    check(library.vecdet_merge_masks(byref(own), choice(mask_merging, function, "merging", merging),
                                     workspace().address, byref(made)), function)
    return _copied(made)


def run_lengths_to_strings(runs: RunLengths) -> list[bytes]:
    """COCO's compressed strings.

    >>> run_lengths_to_strings(encode_masks([[[0, 1], [1, 1]]]))
    [b'13']
    """
    function = "run_lengths_to_strings"
    own, memory = _given(function, "runs", runs)
    text, begins = c_void_p(), c_void_p()
    check(library.vecdet_run_lengths_to_strings(byref(own), workspace().address, byref(text),
                                                byref(begins)), function)
    offsets = copied(begins.value, own.count + 1, int64).tolist()
    joined = string_at(text, offsets[-1]) if offsets[-1] else b""
    return [joined[begin:end] for begin, end in zip(offsets, offsets[1:])]


def run_lengths_from_strings(strings: Sequence[bytes | str], size: Sequence[Any]) -> RunLengths:
    """The run lengths in compressed strings.

    Args:
        strings: of bytes or text.
        size: (height, width) of the picture, or one for each string.

    >>> run_lengths_from_strings([b"13"], (2, 2)).counts.tolist()
    [1, 3]
    """
    function = "run_lengths_from_strings"
    given: list[bytes] = []
    if isinstance(strings, (bytes, str)):
        raise TypeError(found(function, "strings", strings) + ", expected a list of bytes or text")
    for one in listed(function, "strings", strings):
        if isinstance(one, str):
            one = one.encode()
        if not isinstance(one, bytes):
            raise TypeError(found(function, f"strings[{len(given)}]", one)
                            + ", expected bytes or text")
        given.append(one)
    sizes, count = (b"", 0) if not given and shape_of(size) == (0,) else pictures_of(function, size)
    if count == 1:
        sizes, count = sizes * len(given), len(given)
    if count != len(given):
        raise ValueError(f"vecdet.{function}: size has {count} rows, expected {len(given)}, the "
                         "number of strings")
    offsets = np.array(offsets_of(given), int64)
    made = _c.run_lengths()
    check(library.vecdet_run_lengths_from_strings(b"".join(given), address(offsets), sizes, count,
                                                  workspace().address, byref(made)), function)
    return _copied(made)


def run_lengths_from_polygons(polygons: Sequence[Any], size: Sequence[Any]) -> RunLengths:
    """The masks of polygons, exactly as COCO's mask API draws them.

    Args:
        polygons: for each, [points, 2] or a flat list x, y, x, y, ...: three points or more, in
            pixels, at most 2^27 in magnitude.
        size: (height, width) of the picture, or one for each polygon.

    >>> run_lengths_from_polygons([[1, 1, 3, 1, 3, 3, 1, 3]], (4, 4)).counts.tolist()
    [5, 2, 2, 2, 5]
    """
    function = "run_lengths_from_polygons"
    points, offsets = [], [0]
    for k, polygon in enumerate(listed(function, "polygons", polygons)):
        own = doubles(function, f"polygons[{k}]", polygon)
        if own.size % 2 or not (own.ndim == 1 or own.ndim == 2 and own.shape[1] == 2):
            raise wrong_shape(function, f"polygons[{k}]", own,
                              "[points, 2], or a flat list of x and y")
        points.append(own.ravel())
        offsets.append(offsets[-1] + own.size // 2)
    sizes, size_count = pictures_of(function, size)
    numbers = np.concatenate(points) if points else empty(0, float64)
    begins = np.array(offsets, int64)
    made = _c.run_lengths()
    check(library.vecdet_run_lengths_from_polygons(
        address(numbers), address(begins), len(points), sizes, size_count, workspace().address,
        byref(made)), function)
    return _copied(made)


def run_lengths_from_boxes(boxes: ArrayLike, size: Sequence[Any]) -> RunLengths:
    """The masks of boxes: those of the polygons of their corners.

    Args:
        boxes: [N, 4], x1, y1, x2, y2 in pixels, at most 2^27 in magnitude.
        size: (height, width) of the picture, or one for each box.

    >>> run_lengths_from_boxes([[1, 1, 3, 3]], (4, 4)).counts.tolist()
    [5, 2, 2, 2, 5]
    """
    function = "run_lengths_from_boxes"
    corners = box_rows(function, "boxes", doubles(function, "boxes", boxes))
    sizes, size_count = pictures_of(function, size)
    made = _c.run_lengths()
    check(library.vecdet_run_lengths_from_boxes(address(corners), len(corners), sizes, size_count,
                                                workspace().address, byref(made)), function)
    return _copied(made)
