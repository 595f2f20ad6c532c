# SPDX-License-Identifier: Apache-2.0
"""Functions with the names, arguments and results of pycocotools.mask.

A mask is a dictionary of ``size``, [height, width], and ``counts``, COCO's compressed string, bytes
or text. Masks are arrays [height, width, N] or [height, width] in any memory order; encoding in
Fortran's order needs no copy. All numbers but 0 are pixels of the object.

Results equal those of pycocotools if no count but the first of a mask is 0. If another one is 0,
boxes and merged masks here follow from the pixels. Unlike in pycocotools, a ValueError says which
counts do not add up to the size, which strings are cut off, and which polygons have fewer than 3
points, or coordinates that are not finite or above 2^27 in magnitude. Masks that are merged or
compared must have the same size.

>>> mask = encode(np.asfortranarray([[0, 1], [1, 1]], np.uint8))
>>> mask
{'size': [2, 2], 'counts': b'13'}
>>> decode(mask).tolist()
[[0, 1], [1, 1]]
>>> area([mask]).tolist(), toBbox([mask]).tolist()
([3], [[0.0, 0.0, 2.0, 2.0]])
>>> iou([mask], [frPyObjects([0, 0, 2, 1], 2, 2)], [False]).tolist()
[[0.25]]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _run_lengths
from ._arrays import box_rows, empty, float64, uint8, wrong_shape
from ._messages import found
from ._packed import doubles
from ._parameters import integer
from ._run_lengths import RunLengths

__all__ = ["area", "decode", "encode", "frPyObjects", "iou", "merge", "toBbox"]


def _is_mask(value: Any) -> bool:
    return isinstance(value, dict) and "counts" in value and "size" in value


def _size(function: str, argument: str, mask: Any) -> tuple[int, int]:
    """The size of the picture of what must be a mask."""
    if not _is_mask(mask):
        raise TypeError(found(f"pycocotools.{function}", argument, mask)
                        + ", expected a dictionary of size and counts")
    try:
        height, width = mask["size"]
    except Exception as error:
        raise ValueError(found(f"pycocotools.{function}", argument + "['size']",
                               mask.get("size")) + ", expected [height, width]") from error
    return (integer(f"pycocotools.{function}", argument + "['size'][0]", height),
            integer(f"pycocotools.{function}", argument + "['size'][1]", width))


def _runs(function: str, argument: str, masks: Any) -> RunLengths:
    """The run lengths of a list of dictionaries."""
    strings: list[Any] = []
    sizes: list[Any] = []
    for k, mask in enumerate(masks):
        sizes.append(_size(function, f"{argument}[{k}]", mask))
        strings.append(mask["counts"])
        if not isinstance(strings[-1], (bytes, str)):
            raise TypeError(found(f"pycocotools.{function}", f"{argument}[{k}]['counts']",
                                  strings[-1])
                            + ", expected bytes or text: compress other counts by frPyObjects")
    return _run_lengths.run_lengths_from_strings(strings, sizes)


def _masks(runs: RunLengths) -> list[dict[str, Any]]:
    strings = _run_lengths.run_lengths_to_strings(runs)
    return [{"size": size, "counts": text} for size, text in zip(runs.sizes.tolist(), strings)]


def encode(bimask: Any) -> Any:
    """The mask of an array [height, width], or a list of those of [height, width, N]."""
    pixels = _run_lengths.pixel_bytes("pycocotools.encode", "bimask", bimask)
    if pixels.ndim not in (2, 3):
        raise wrong_shape("pycocotools.encode", "bimask", pixels,
                          "[height, width] or [height, width, N]")
    pictures = pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels[None]
    masks = _masks(_run_lengths.encode_pictures("pycocotools.encode", pictures))
    return masks if pixels.ndim == 3 else masks[0]


def decode(rleObjs: Any) -> Any:
    """A mask as [height, width], or a list of masks as [height, width, N], of uint8 in Fortran's
    order."""
    if not isinstance(rleObjs, (list, tuple)):
        return decode([rleObjs])[:, :, 0]
    if not rleObjs:
        raise ValueError("vecdet.pycocotools.decode: rleObjs is [], expected one or more masks")
    runs = _runs("decode", "rleObjs", rleObjs)
    height, width = runs.sizes[0].tolist()
    pixels = empty((len(rleObjs), width, height), uint8)
    _run_lengths.decode_into("pycocotools.decode", runs, pixels.transpose(0, 2, 1))
    return pixels.transpose(2, 1, 0)


def area(rleObjs: Any) -> Any:
    """The number of pixels: of a mask, or of a list of masks as [N] of uint32."""
    if not isinstance(rleObjs, (list, tuple)):
        return area([rleObjs])[0]
    return _run_lengths.mask_areas(_runs("area", "rleObjs", rleObjs)).astype(np.uint32)


def toBbox(rleObjs: Any) -> Any:
    """The bounding box x, y, width, height, all 0 without pixels: [4] of a mask, or [N, 4] of a
    list."""
    if not isinstance(rleObjs, (list, tuple)):
        return toBbox([rleObjs])[0]
    boxes = _run_lengths.mask_boxes(_runs("toBbox", "rleObjs", rleObjs)).astype(float64)
    boxes[:, 2:] -= boxes[:, :2]
    return boxes


def _is_empty(function: str, argument: str, values: Any) -> bool:
    try:
        return not len(values)
    except Exception as error:
        raise TypeError(found(f"pycocotools.{function}", argument, values)
                        + ", expected a list") from error


def merge(rleObjs: Any, intersect: Any = False) -> dict[str, Any]:
    """The union of masks, or their intersection, as one mask."""
    if _is_empty("merge", "rleObjs", rleObjs):
        return {"size": [0, 0], "counts": b""}
    runs = _runs("merge", "rleObjs", rleObjs)
    return _masks(_run_lengths.merge_masks(runs, "every" if intersect else "any"))[0]


def _boxes_or_runs(argument: str, values: Any) -> Any:
    """An array of boxes, or the run lengths of masks."""
    if isinstance(values, (list, tuple)) and all(isinstance(value, dict) for value in values):
        return _runs("iou", argument, values)
    return box_rows("pycocotools.iou", argument, doubles("pycocotools.iou", argument, values))


def iou(dt: Any, gt: Any, pyiscrowd: Any) -> Any:
    """The IoU [N, M] of masks or of boxes x, y, width, height. The overlap with a crowd is divided
    by the area of ``dt``. Fractions of ``pyiscrowd`` are dropped. The result is [] if ``dt`` or
    ``gt`` is empty, else an array in C's order; that of pycocotools is in Fortran's."""
    if _is_empty("iou", "dt", dt) or _is_empty("iou", "gt", gt):
        return []
    rows, columns = _boxes_or_runs("dt", dt), _boxes_or_runs("gt", gt)
    if type(rows) is not type(columns):
        raise TypeError("vecdet.pycocotools.iou: dt and gt are boxes and masks, expected two lists "
                        "of the same kind")
    try:
        crowds = np.array(pyiscrowd, uint8)
    except Exception as error:
        raise TypeError(found("pycocotools.iou", "pyiscrowd", pyiscrowd)
                        + ", expected truth values or numbers of 0 to 255") from error
    if crowds.shape != (len(gt),):
        raise wrong_shape("pycocotools.iou", "pyiscrowd", crowds, f"[{len(gt)}], one per gt")
    if isinstance(rows, RunLengths):
        return _run_lengths.mask_iou(rows, columns, crowds)
    a, b = rows[:, None], columns[None]
    ends = np.fmin(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:])
    sides = ends - np.fmax(a[..., :2], b[..., :2])
    common = np.where((sides <= 0).any(-1), 0.0, sides[..., 0] * sides[..., 1])
    own = a[..., 2] * a[..., 3]
    whole = np.where(crowds != 0, own, own + b[..., 2] * b[..., 3] - common)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((sides <= 0).any(-1), 0.0, common / whole)


def frPyObjects(pyobj: Any, h: Any, w: Any) -> Any:
    """Masks of what COCO's annotations have, in pictures of ``h`` x ``w``: of boxes x, y, width,
    height; of polygons, flat lists x, y, x, y, ... or arrays [points, 2]; or of dictionaries whose
    counts are lists. One of these gives a mask; a list of them, or an array [N, 4] of boxes, gives
    a list of masks. A polygon with an odd number of values is a ValueError: pycocotools leaves out
    the last one. Counts that are floats are a TypeError: pycocotools drops their fractions."""
    function = "pycocotools.frPyObjects"
    if _is_mask(pyobj):
        return _compressed([pyobj])[0]
    if not isinstance(pyobj, np.ndarray):
        if not isinstance(pyobj, (list, tuple)) or not len(pyobj):
            raise TypeError(found(function, "pyobj", pyobj)
                            + ", expected boxes, polygons, or dictionaries of size and counts")
        if any(map(_is_mask, pyobj)):
            return _compressed(pyobj)
        if np.ndim(pyobj[0]) == 0:
            return frPyObjects([pyobj], h, w)[0]
        if np.ndim(pyobj[0]) > 1 or len(pyobj[0]) != 4:
            return _masks(_run_lengths.run_lengths_from_polygons(pyobj, (h, w)))
    boxes = box_rows(function, "pyobj", doubles(function, "pyobj", pyobj))
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    return _masks(_run_lengths.run_lengths_from_boxes(corners, (h, w)))


def _compressed(masks: Any) -> list[dict[str, Any]]:
    """Masks whose counts are lists."""
    sizes = [_size("frPyObjects", f"pyobj[{k}]", mask) for k, mask in enumerate(masks)]
    counts = [_run_lengths.as_counts("pycocotools.frPyObjects", f"pyobj[{k}]['counts']",
                                     mask["counts"]) for k, mask in enumerate(masks)]
    offsets = np.cumsum([0, *map(len, counts)], dtype=np.int64)
    return _masks(RunLengths(np.array(sizes, np.int64), offsets, np.concatenate(counts)))
