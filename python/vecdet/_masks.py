# SPDX-License-Identifier: Apache-2.0
"""Masks of objects: rectangles of pixels."""

from __future__ import annotations

import threading
from ctypes import byref, c_void_p, memmove
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import numpy as np

from . import _c
from ._arrays import (TYPES, address, as_array, box_rows, choice, empty, float32, float32s, int64,
                      integers, optional, result, shape_of, small_floats, uint8, wrong_shape,
                      wrong_type)
from ._c import mask_pixels, mask_rule
from ._library import Handle, check, library
from ._packed import grid_sizes_of, integers_packed
from ._parameters import integer, pair, params_of

__all__ = ["Masks", "masks_from_prototypes", "paste_masks", "paste_soft_masks"]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

OVERLAPS = ("iou", "ios")  # of masks and of boxes


class Masks(NamedTuple):
    """The masks of N objects: rectangles of a picture's pixels."""

    boxes: NDArray[np.int64]
    """[N, 4]: x1, y1, x2, y2. The mask has the pixels in columns [x1, x2) and rows [y1, y2)."""
    offsets: NDArray[np.int64]
    """[N + 1]: where the pixels of each mask begin."""
    pixels: NDArray[np.uint8]
    """Of all masks, row by row. A row of bits, as in ``np.packbits(row, bitorder="little")``, is
    padded to whole bytes."""
    kind: str
    """``"bits"`` or ``"bytes"``."""

    def rectangle(self, index: int) -> NDArray[np.bool_]:
        """The pixels [y2 - y1, x2 - x1] of one mask."""
        x1, y1, x2, y2 = self.boxes[index].tolist()
        first, last = self.offsets[:-1][index], self.offsets[1:][index]
        width = x2 - x1
        own = self.pixels[first:last].reshape(y2 - y1, (width + 7) // 8 if self.kind == "bits"
                                              else width)
        if self.kind == "bits" and own.size:
            own = np.unpackbits(own, axis=1, bitorder="little")[:, :width]
        return own.astype(np.bool_)

    def full(self, height: int, width: int) -> NDArray[np.bool_]:
        """All masks in pictures of this size: [N, height, width]."""
        pictures = np.zeros((len(self.boxes), height, width), np.bool_)
        for index, (x1, y1, x2, y2) in enumerate(self.boxes.tolist()):
            pictures[index, y1:y2, x1:x2] = self.rectangle(index)[:max(height - y1, 0),
                                                                  :max(width - x1, 0)]
        return pictures


class _Workspace(threading.local):
    """A workspace of the calling thread. It owns the masks until they are copied."""

    def __init__(self) -> None:
        made = c_void_p(library.vecdet_workspace_create())
        if not made:
            raise MemoryError("vecdet: not enough memory")
        self.handle = Handle(made, library.vecdet_workspace_free)


_workspace = _Workspace()


def workspace() -> Handle:
    """The calling thread's workspace."""
    return _workspace.handle


_masks_from_prototypes = library.vecdet_masks_from_prototypes
_masks_params = params_of(_c.prototype_masks_params)
_paste_masks = library.vecdet_paste_masks
_paste_soft_masks = library.vecdet_paste_soft_masks
_paste_params = params_of(_c.paste_masks_params)


def copied(start: int | None, shape: Any, dtype: Any) -> Any:
    """The array at an address, in memory of its own."""
    own = empty(shape, dtype)
    if start and own.size:
        memmove(address(own), start, own.nbytes)
    return own


def copied_masks(found: Any) -> Masks:
    """The masks in memory of their own."""
    offsets = copied(found.offsets, found.count + 1, int64)
    return Masks(copied(found.boxes, (found.count, 4), int64), offsets,
                 copied(found.pixels, offsets.item(found.count), uint8), mask_pixels[found.kind])


def pixel_bytes(function: str, argument: str, value: Any) -> NDArray[np.uint8]:
    """Pictures of truth values or integers as bytes: not 0 where a pixel belongs to the object."""
    array = as_array(function, argument, value)
    if array.dtype == np.bool_:
        return array.view(uint8)
    if array.dtype.kind not in "iu" and array.size:
        raise wrong_type(function, argument, value, array, "truth values or integers")
    return array if array.dtype == uint8 else (array != 0).view(uint8)


def packed_bytes(function: str, argument: str, value: Any) -> NDArray[np.uint8]:
    """Bytes of 8 pixels each, given as integers of any type."""
    array = as_array(function, argument, value)
    if array.dtype == uint8:
        return array
    own = integers(function, argument, array)
    if own.size and not 0 <= int(own.min()) <= int(own.max()) < 256:
        wrong = own.min() if own.min() < 0 else own.max()
        raise ValueError(f"vecdet.{function}: {argument} has {wrong}, expected bytes of 0 to 255")
    return own.astype(uint8)


def given_masks(function: str, argument: str, masks: Any) -> tuple[Any, Any]:
    """The struct of Masks, or of pictures [N, height, width], and what keeps its memory."""
    if isinstance(masks, Masks):
        boxes = box_rows(function, argument + ".boxes",
                         integers(function, argument + ".boxes", masks.boxes))
        offsets = integers(function, argument + ".offsets", masks.offsets, len(boxes) + 1)
        kind = choice(mask_pixels, function, argument + ".kind", masks.kind)
        stored = packed_bytes if mask_pixels[kind] == "bits" else pixel_bytes
        pixels = np.ascontiguousarray(stored(function, argument + ".pixels", masks.pixels))
        if offsets.item(len(boxes)) != pixels.size:
            raise ValueError(f"vecdet.{function}: {argument}.offsets[{len(boxes)}] is "
                             f"{offsets.item(len(boxes))}, expected {pixels.size}, the number of "
                             "bytes")
    else:
        pixels = pixel_bytes(function, argument, masks)
        if pixels.ndim != 3:
            raise wrong_shape(function, argument, pixels, "[N, height, width]")
        pixels = np.ascontiguousarray(pixels)
        count, height, width = pixels.shape
        boxes = np.tile(np.array([0, 0, width, height], int64), (count, 1))
        offsets = np.arange(count + 1, dtype=int64) * (height * width)
        kind = mask_pixels.index("bytes")
    return _c.masks(len(boxes), address(boxes), address(offsets), address(pixels), kind), (
        boxes, offsets, pixels)


def pictures_of(function: str, size: Any) -> tuple[bytes, int]:
    """The size of each picture, and their number."""
    if len(shape_of(size)) == 2:
        return grid_sizes_of(function, size, "size", "image")
    return integers_packed(*pair(function, "size", size, integer)), 1


# Keywords of prototype_masks_params
def masks_from_prototypes(
    prototypes: ArrayLike,
    coefficients: ArrayLike,
    boxes: ArrayLike,
    size: Sequence[Any],
    image_offsets: ArrayLike | None = None,
    *,
    rule: str = "native",
    pixels: str = "bits",
) -> Masks:
    """The masks of objects of a YOLO model for segmentation, or of YOLACT
    (https://arxiv.org/abs/1904.02689): the pixels in an object's box where the sum of prototypes
    times the object's coefficients is above 0.

    Args:
        prototypes: [P, H, W], or [images, P, H, W]; float32 or bfloat16.
        coefficients: [N, P].
        boxes: [N, 4], x1, y1, x2, y2 in pixels of the picture.
        size: (height, width) of the picture, or one for each image; sides of 0 to 2^20.
        image_offsets: [images + 1]: where the objects of each image begin, and the last ones end.
            None: there is one image.
        rule: the order of steps: "native" (enlarged to the picture, without a letterbox's padding,
            then cropped (process_mask_native)), "upsampled" (cropped, then enlarged (process_mask
            with upsample=True): a mask may reach beyond its box) or "cropped" (cropped only
            (process_mask): masks have the size of the prototypes). Default "native".
        pixels: how the result is stored: "bits" (one bit each, the lowest of a byte first; rows are
            padded with zeros to whole bytes) or "bytes" (one byte each, 1 or 0). Default "bits".

    >>> masks_from_prototypes([[[1.0, -1.0]]], [[1.0]], [[0, 0, 4, 2]], (2, 4)).full(2, 4).tolist()
    [[[True, True, False, False], [True, True, False, False]]]
    """
    function = "masks_from_prototypes"
    maps = small_floats(function, "prototypes", prototypes)
    if maps.ndim not in (3, 4):
        raise wrong_shape(function, "prototypes", maps,
                          "[prototypes, height, width] or [images, prototypes, height, width]")
    images, count, height, width = maps.shape if maps.ndim == 4 else (1, *maps.shape)
    rows = float32s(function, "coefficients", coefficients, f"[N, {count}]", count)
    corners = box_rows(function, "boxes", float32s(function, "boxes", boxes))
    if rows.shape != (len(corners), count):
        raise wrong_shape(function, "coefficients", rows,
                          f"[{len(corners)}, {count}], one row per box")
    offsets = None
    if image_offsets is not None:
        offsets = integers(function, "image_offsets", image_offsets, images + 1)
    sizes, size_count = pictures_of(function, size)
    params = _masks_params(
        function, choice(mask_rule, function, "rule", rule),
        choice(mask_pixels, function, "pixels", pixels))
    found = _c.masks()
    check(_masks_from_prototypes(
        TYPES[maps.dtype], address(maps), images, count, height, width, address(rows), count,
        address(corners), len(corners), optional(offsets), sizes, size_count, params,
        workspace().address, byref(found)), function)
    return copied_masks(found)


def _maps_and_boxes(function: str, maps: ArrayLike, boxes: ArrayLike) -> tuple[Any, Any]:
    own = small_floats(function, "maps", maps)
    if own.ndim not in (3, 4) or own.ndim == 4 and own.shape[1] != 1:
        raise wrong_shape(function, "maps", own, "[N, height, width] or [N, 1, height, width]")
    corners = box_rows(function, "boxes", float32s(function, "boxes", boxes))
    if len(own) != len(corners):
        raise wrong_shape(function, "maps", own, f"[{len(corners)}, ...], one map per box")
    return own, corners


# Keywords of paste_masks_params
def paste_masks(
    maps: ArrayLike,
    boxes: ArrayLike,
    size: Sequence[Any],
    image_offsets: ArrayLike | None = None,
    *,
    threshold: float = 0.5,
    pixels: str = "bits",
) -> Masks:
    """The masks of Mask R-CNN (https://arxiv.org/abs/1703.06870): each object's map, enlarged to
    its box and pasted into the picture by the rule of torchvision's ``paste_masks_in_image``.

    Args:
        maps: [N, height, width], or [N, 1, height, width]: probabilities; float32 or bfloat16;
            sides of 0 to 2^20.
        boxes: [N, 4], x1, y1, x2, y2 in pixels of the picture.
        size: (height, width) of the picture, or one for each image; sides of 0 to 2^20.
        image_offsets: [images + 1]: where the objects of each image begin, and the last ones end.
            None: there is one image.
        threshold: a pixel belongs to the object if its number is above this. Default 0.5.
        pixels: how the result is stored: "bits" (one bit each, the lowest of a byte first; rows are
            padded with zeros to whole bytes) or "bytes" (one byte each, 1 or 0). Default "bits".

    >>> paste_masks([[[0.9]]], [[1, 1, 3, 3]], (5, 5)).full(5, 5)[0].sum().item()
    5
    """
    function = "paste_masks"
    own, corners = _maps_and_boxes(function, maps, boxes)
    offsets, images = None, 1
    if image_offsets is not None:
        offsets = integers(function, "image_offsets", image_offsets)
        images = offsets.size - 1
        if offsets.ndim != 1 or images < 0:
            raise wrong_shape(function, "image_offsets", offsets, "[images + 1]")
    sizes, size_count = pictures_of(function, size)
    params = _paste_params(function, threshold, choice(mask_pixels, function, "pixels", pixels))
    found = _c.masks()
    check(_paste_masks(
        TYPES[own.dtype], address(own), *own.shape[-2:], address(corners), len(corners),
        optional(offsets), images, sizes, size_count, params, workspace().address,
        byref(found)), function)
    return copied_masks(found)


def paste_soft_masks(maps: ArrayLike, boxes: ArrayLike,
                     size: Sequence[int]) -> NDArray[np.float32]:
    """The numbers of paste_masks(), without a threshold: a picture of each object,
    [N, height, width], with 0 outside its mask, as torchvision's ``paste_masks_in_image`` returns.
    Such pictures take 32 times the memory of whole pictures of bits.

    Args:
        maps: [N, height, width], or [N, 1, height, width]: probabilities; float32 or bfloat16;
            sides of 0 to 2^20.
        boxes: [N, 4], x1, y1, x2, y2 in pixels of the picture.
        size: (height, width) of the picture; sides of 0 to 2^20.

    >>> pictures = paste_soft_masks([[[0.75]]], [[1, 1, 3, 3]], (3, 5))
    >>> (1000 * pictures[0, 2]).round().tolist()
    [107.0, 429.0, 750.0, 429.0, 107.0]
    """
    function = "paste_soft_masks"
    own, corners = _maps_and_boxes(function, maps, boxes)
    height, width = pair(function, "size", size, integer)
    for side in (height, width):
        if not 0 <= side <= 1 << 20:
            raise ValueError(f"vecdet.{function}: size has a side of {side} pixels, expected sides "
                             "of 0 to 2^20 pixels")
    pictures = result(function, "size", size, (len(own), height, width), float32)
    check(_paste_soft_masks(
        TYPES[own.dtype], address(own), *own.shape[-2:], address(corners), len(corners),
        _c.grid_size(height, width), None, address(pictures)), function)
    return pictures
