# SPDX-License-Identifier: Apache-2.0
"""From ground truth to targets: anchors, matching, assigners and samples."""

from __future__ import annotations

import functools
from ctypes import byref, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _c
from ._arrays import (address, as_array, choice, empty, float32, float32s, int64, integers, joined,
                      offsets_of, optional, wrong_shape)
from ._boxes import with_floats
from ._library import check, library

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_SHAPES = ("retinanet", "rpn", "fcos")


def grid_sizes(function: str, sizes: Any) -> NDArray[np.int64]:
    """(height, width) of each level."""
    array = np.ascontiguousarray(sizes)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"vecdet.{function}: level_sizes has {array.dtype}, expected integers")
    if array.dtype is not int64:
        array = array.astype(int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise wrong_shape(function, "level_sizes", array, "[levels, 2]: (height, width) per level")
    return array


def make_anchors(image_size: Sequence[int], level_sizes: Sequence[Sequence[int]],
                 shapes: str | Sequence[tuple[Sequence[float], Sequence[float]]] = "retinanet",
                 ) -> NDArray[np.float32]:
    """The anchors of all levels, corners in pixels, [N, 4] float32: those of torchvision's
    AnchorGenerator, bit for bit.

    Args:
        image_size: (height, width) of the input.
        level_sizes: (height, width) of the feature map of each level.
        shapes: ``"retinanet"``, ``"rpn"`` or ``"fcos"``, with five levels; or the sizes and ratios
            of each level.

    >>> make_anchors((32, 64), [(2, 4)], [([16], [1.0])])[:2].tolist()
    [[-8.0, -8.0, 8.0, 8.0], [8.0, -8.0, 24.0, 8.0]]
    """
    function = "make_anchors"
    grids = grid_sizes(function, level_sizes)
    levels = len(grids)
    kept = []  # the memory that the shapes point to
    if isinstance(shapes, str):
        choice(_SHAPES, function, "shapes", shapes)
        if levels != 5:
            raise wrong_shape(function, "level_sizes", grids, f"[5, 2], the levels of {shapes!r}")
        table = getattr(library, f"vecdet_anchor_shapes_{shapes}")()
    else:
        if len(shapes) != levels:
            raise ValueError(f"vecdet.{function}: shapes has {len(shapes)} levels, expected "
                             f"{levels}, as in level_sizes")
        table = (_c.anchor_shapes * levels)()
        for at, (sizes, ratios) in zip(table, shapes):
            own = [np.ascontiguousarray(numbers, np.float64) for numbers in (sizes, ratios)]
            kept.append(own)
            at.sizes, at.size_count = address(own[0]), own[0].size
            at.ratios, at.ratio_count = address(own[1]), own[1].size
    count = c_int64()
    check(library.vecdet_count_anchors(table, address(grids), levels, byref(count)))
    out = empty((count.value, 4), float32)
    check(library.vecdet_make_anchors(table, _c.grid_size(*image_size), address(grids), levels,
                                      address(out), count.value))
    return out


def make_ssd_anchors(image_size: Sequence[int], level_sizes: Sequence[Sequence[int]],
                     ) -> NDArray[np.float32]:
    """The default boxes of torchvision's SSD300, six levels, corners in pixels: [N, 4] float32.

    >>> sizes = [(38, 38), (19, 19), (10, 10), (5, 5), (3, 3), (1, 1)]
    >>> make_ssd_anchors((300, 300), sizes).shape
    (8732, 4)
    """
    grids = grid_sizes("make_ssd_anchors", level_sizes)
    count = c_int64()
    check(library.vecdet_count_ssd_anchors(None, address(grids), len(grids), byref(count)))
    out = empty((count.value, 4), float32)
    check(library.vecdet_make_ssd_anchors(None, _c.grid_size(*image_size), address(grids),
                                          len(grids), address(out), count.value))
    return out


def make_points(level_sizes: Sequence[Sequence[int]],
                strides: Sequence[float]) -> NDArray[np.float32]:
    """The points ((x + 0.5) stride, (y + 0.5) stride) of all levels' locations: [N, 2] float32.

    >>> make_points([(1, 2)], [8]).tolist()
    [[4.0, 4.0], [12.0, 4.0]]
    """
    grids = grid_sizes("make_points", level_sizes)
    steps = np.ascontiguousarray(strides, np.float64)
    if steps.shape != (len(grids),):
        raise wrong_shape("make_points", "strides", steps, f"[{len(grids)}], one per level")
    out = empty((sum(height * width for height, width in grids.tolist()), 2), float32)
    check(library.vecdet_make_points(address(grids), address(steps), len(grids), address(out),
                                     len(out)))
    return out


class AnchorIndex:
    """Anchors [N, 4], corners, in the form that match_anchors needs. Make it once for anchors that
    many calls share; several threads may use it."""

    def __init__(self, anchors: ArrayLike) -> None:
        self._handle: int | None = None
        array = float32s("AnchorIndex", "anchors", anchors, "[N, 4]", 4)
        handle = c_void_p()
        check(library.vecdet_anchor_index_create(address(array), len(array), byref(handle)))
        self._handle = handle.value
        self._size = len(array)
        self._free = library.vecdet_anchor_index_free

    def __len__(self) -> int:
        return self._size

    def __del__(self) -> None:
        if self._handle is not None:
            self._free(self._handle)


class Truth:
    """Ground truth as the C functions take it: arrays of one image, or lists with one per image.
    `name` is the argument that holds the boxes, in messages."""

    def __init__(self, function: str, boxes: Any, classes: Any = None, regions: Any = None,
                 name: str = "boxes") -> None:
        self._name = name
        self.is_batch = isinstance(boxes, (list, tuple)) and not _is_box_list(boxes)
        self.images = len(boxes) if self.is_batch else 1
        self.boxes, self.offsets = self._joined(function, name, boxes)
        self.classes = self.regions = region_offsets = None
        if classes is not None:
            self.classes = self._joined_classes(function, classes)
        if regions is not None:
            self.regions, region_offsets = self._joined(function, "regions", regions)
        self._region_offsets = region_offsets
        self.argument = _c.ground_truth(
            address(self.boxes), len(self.boxes), optional(self.classes), address(self.offsets),
            self.images, optional(self.regions), 0 if self.regions is None else len(self.regions),
            optional(region_offsets))

    def _check_images(self, function: str, name: str, parts: Any) -> None:
        if len(parts) != self.images:
            raise ValueError(f"vecdet.{function}: {name} has {len(parts)} images, expected "
                             f"{self.images}, as in {self._name}")

    def _joined(self, function: str, name: str, boxes: Any) -> Any:
        if not self.is_batch:
            array = _box_array(function, name, boxes)
            return array, np.array((0, len(array)), int64)
        self._check_images(function, name, boxes)
        arrays = [_box_array(function, name, part) for part in boxes]
        return joined(arrays, (0, 4), float32), offsets_of(arrays)

    def _joined_classes(self, function: str, classes: Any) -> Any:
        if not self.is_batch:
            return integers(function, "classes", classes, len(self.boxes))
        self._check_images(function, "classes", classes)
        ends = self.offsets.tolist()
        return joined([integers(function, "classes", part, end - begin)
                       for part, begin, end in zip(classes, ends, ends[1:])], 0, int64)

    def result(self, count: int, dtype: Any) -> NDArray[Any]:
        return empty((self.images, count) if self.is_batch else count, dtype)


def _box_array(function: str, name: str, boxes: Any) -> NDArray[np.float32]:
    array = float32s(function, name, with_floats(boxes, function, name), "[M, 4]", 4)
    if array.ndim != 2:
        raise wrong_shape(function, name, array, "[M, 4]")
    return array


def _is_box_list(boxes: Any) -> bool:
    """Whether a list holds the boxes of one image, as in [[0, 0, 9, 9]]."""
    for box in boxes:
        if (not isinstance(box, (list, tuple)) or len(box) != 4
                or not all(isinstance(x, (int, float)) for x in box)):
            return False
    return len(boxes) > 0


@functools.lru_cache(maxsize=256)
def _matcher_params(**fields: Any) -> Any:
    """Parameters that many calls share."""
    params = library.vecdet_matcher_params_retinanet()
    for name, value in fields.items():
        setattr(params, name, value)
    return byref(params)


def match_anchors(
    anchors: ArrayLike | AnchorIndex,
    boxes: Any,
    classes: Any = None,
    high_threshold: float = 0.5,
    low_threshold: float = 0.4,
    allow_low_quality: bool = True,
    *,
    force_best: bool = False,
    skip_untouched: bool = False,
    empty_iou_is_zero: bool = False,
    regions: Any = None,
    region_threshold: float = 0.5,
    ignore_matched: bool = False,
    background: int = -1,
    ignore: int = -2,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Matches anchors with ground-truth boxes by IoU. The indices equal those of torchvision's
    Matcher, but no matrix of IoUs is stored.

    Args:
        anchors: corners [N, 4], the same for all images, or an AnchorIndex of them.
        boxes: corners [M, 4] of one image, or a list with one array per image. Integers are
            converted.
        classes: integers, one per box; all are 0 by default.
        high_threshold: anchors with at least this IoU are matched.
        low_threshold: anchors with a lower IoU are background; those in between are ignored.
        allow_low_quality: every anchor that is the best of some box is matched.
        force_best: each box takes its best anchor, as in SSD.
        skip_untouched: a box that touches no anchor matches nothing.
        empty_iou_is_zero: the IoU of two boxes without area is 0, as in detectron2, not NaN.
        regions: boxes in which anchors are ignored, such as crowds; in the form of ``boxes``.
        region_threshold: the fraction of an anchor's area that must be inside a region.
        ignore_matched: even matched anchors in regions are ignored.
        background, ignore: the labels of anchors without a box.

    Returns:
        Three arrays with one entry per anchor, [N], or [images, N] for a list. Matches: the index
        of its box among the boxes of all images in order, -1 (background) or -2 (ignored). Labels:
        the class of that box, ``background`` or ``ignore``. IoUs: the anchor's greatest IoU with
        any box.

    >>> anchors = np.array([[0, 0, 10, 10], [50, 50, 60, 60]], np.float32)
    >>> matches, labels, ious = match_anchors(anchors, np.array([[0, 0, 10, 8]]), [7])
    >>> matches.tolist(), labels.tolist(), ious.round(3).tolist()
    ([0, -1], [7, -1], [0.800000011920929, 0.0])
    """
    index = anchors if isinstance(anchors, AnchorIndex) else AnchorIndex(anchors)
    truth = Truth("match_anchors", boxes, classes, regions)
    params = _matcher_params(
        high_threshold=high_threshold, low_threshold=low_threshold,
        allow_low_quality=allow_low_quality, skip_untouched=skip_untouched, force_best=force_best,
        empty=empty_iou_is_zero, region_threshold=region_threshold, ignore_matched=ignore_matched,
        background=background, ignore=ignore)
    count = len(index)
    matches, labels = truth.result(count, int64), truth.result(count, int64)
    ious = truth.result(count, float32)
    check(library.vecdet_match_anchors(index._handle, byref(truth.argument), params, None,
                                       address(matches), address(labels), address(ious), None,
                                       None))
    return matches, labels, ious


def assign_atss(anchors: ArrayLike, level_sizes: Sequence[Sequence[int]], boxes: Any,
                candidates: int = 9) -> NDArray[np.int64]:
    """ATSS, https://arxiv.org/abs/1912.02424. Returns the index of the box of each of ``anchors``
    [N, 4], one per point, among all ``boxes``, or -1: [N], or [images, N] for a list.

    Args:
        level_sizes: (height, width) of each level.
        boxes: corners [M, 4] of one image, or a list with one array per image.
        candidates: the number of candidates per level.
    """
    array = float32s("assign_atss", "anchors", anchors, "[N, 4]", 4)
    grids, truth = grid_sizes("assign_atss", level_sizes), Truth("assign_atss", boxes)
    matches = truth.result(len(array), np.int64)
    check(library.vecdet_assign_atss(address(array), len(array), address(grids), len(grids),
                                     byref(truth.argument), candidates, None, address(matches)))
    return matches


def assign_fcos(anchors: ArrayLike, level_sizes: Sequence[Sequence[int]], boxes: Any,
                radius: float = 1.5) -> NDArray[np.int64]:
    """FCOS's assigner, https://arxiv.org/abs/1904.01355, with torchvision's centre sampling.
    Returns the index of the box of each of ``anchors`` [N, 4], one per point, among all ``boxes``,
    or -1: [N], or [images, N] for a list.

    Args:
        level_sizes: (height, width) of each level.
        boxes: corners [M, 4] of one image, or a list with one array per image.
        radius: the maximum distance of an anchor's centre from its box's, in anchor widths.
    """
    array = float32s("assign_fcos", "anchors", anchors, "[N, 4]", 4)
    grids, truth = grid_sizes("assign_fcos", level_sizes), Truth("assign_fcos", boxes)
    matches = truth.result(len(array), np.int64)
    check(library.vecdet_assign_fcos(address(array), len(array), address(grids), len(grids),
                                     byref(truth.argument), radius, None, address(matches)))
    return matches


def assign_task_aligned(
    scores: ArrayLike,
    predicted: ArrayLike,
    points: ArrayLike,
    level_sizes: Sequence[Sequence[int]],
    boxes: Any,
    classes: Any,
    top: int = 10,
    alpha: float = 0.5,
    beta: float = 6.0,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The task-aligned assigner, https://arxiv.org/abs/2108.07755. Returns for each point the index
    of its box among all ``boxes``, or -1, and its target, which is 0 without a box.

    Args:
        scores: probabilities [N, classes], or [images, N, classes] for lists.
        predicted: corners [N, 4], or [images, N, 4] for lists.
        points: [N, 2], x and y in the boxes' pixels.
        level_sizes: (height, width) of each level.
        boxes, classes: those of one image, or lists with one array per image.
        top: the number of candidates per box.
        alpha, beta: exponents of score and overlap.
    """
    function = "assign_task_aligned"
    truth = Truth(function, boxes, classes)
    grids = grid_sizes(function, level_sizes)
    at = float32s(function, "points", points, "[N, 2]", 2)
    probabilities = float32s(function, "scores", scores)
    corners = float32s(function, "predicted", predicted, "[..., N, 4]", 4)
    matches, targets = truth.result(len(at), np.int64), truth.result(len(at), np.float32)
    if probabilities.shape[:-1] != matches.shape:
        raise wrong_shape(function, "scores", probabilities,
                          f"{list(matches.shape)} and the classes")
    if corners.shape[:-1] != matches.shape:
        raise wrong_shape(function, "predicted", corners, f"{[*matches.shape, 4]}")
    check(library.vecdet_assign_task_aligned(
        address(probabilities), address(corners), probabilities.shape[-1], address(at), len(at),
        address(grids), len(grids), byref(truth.argument), top, alpha, beta, None,
        address(matches), address(targets)))
    return matches, targets


def count_foreground(labels: ArrayLike, background: int = -1, ignore: int = -2) -> int:
    """The number of labels that are neither ``background`` nor ``ignore``; trainers scale losses by
    1 / max(1, count_foreground(labels)).

    >>> count_foreground([3, -1, -2, 0])
    2
    """
    array = integers("count_foreground", "labels", labels)
    count = c_int64()
    check(library.vecdet_count_foreground(address(array), array.size, background, ignore,
                                          byref(count)))
    return count.value


def sample_balanced(
    labels: Any,
    size: int = 256,
    positive_share: float = 0.5,
    seed: int = 0,
    *,
    background: int = -1,
    ignore: int = -2,
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Draws the anchors or proposals that a two-stage detector trains on: the indices of the
    positives and of the negatives of each image, ascending. The same seed gives the same sample.

    Args:
        labels: integers [N] of each image: classes or matches, ``background`` or ``ignore``.
        size: the sample size per image.
        positive_share: at most this fraction of ``size`` is positive.

    >>> [(positives, negatives)] = sample_balanced([[3, -1, -2, -1]], size=4)
    >>> positives.tolist(), negatives.tolist()
    ([0], [1, 3])
    """
    function = "sample_balanced"
    if isinstance(labels, np.ndarray) and labels.ndim < 2:
        raise wrong_shape(function, "labels", labels, "a list with one array per image")
    parts = [integers(function, "labels", as_array(function, "labels", part)) for part in labels]
    flat = [part.reshape(-1) for part in parts]
    all_labels, begins = joined(flat, 0, int64), offsets_of(flat)
    params = byref(_c.balanced_sample_params(size, positive_share, seed, background, ignore))
    images = len(parts)
    indices = empty(min(len(all_labels), max(0, size) * images), int64)
    offsets, positives = empty(images + 1, int64), empty(images, int64)
    check(library.vecdet_sample_balanced(
        address(all_labels), address(begins), images, params, None, address(indices),
        address(offsets), address(positives)))
    found, ends = [], offsets.tolist()
    for begin, a, b, count in zip(begins.tolist(), ends, ends[1:], positives.tolist()):
        own = indices[a:b]
        if begin:
            own -= begin
        found.append((own[:count], own[count:]))
    return found
