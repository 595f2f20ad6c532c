# SPDX-License-Identifier: Apache-2.0
"""From ground truth to targets: anchors, matching, assigners and samples."""

from __future__ import annotations

import operator
from ctypes import byref, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _c
from ._arrays import (address, choice, empty, float32, float32s, int64, integers, ndarray,
                      real_numbers, result, shape_error, shape_of, wrong_shape)
from ._boxes import CODER  # on which matches do not depend
from ._library import Handle, check, library
from ._messages import found
from ._packed import (bytes_address, doubles_of, grid_sizes_of, integers_packed, joined,
                      level_numbers_of, offsets_of, packer)
from ._parameters import filled, flag, integer, kept, listed, pair, params_of

__all__ = [
    "AnchorIndex", "assign_atss", "assign_fcos", "assign_rotated_task_aligned", "assign_sim_ota",
    "assign_task_aligned", "count_foreground", "make_anchors", "make_points", "make_ssd_anchors",
    "match_anchors", "sample_balanced",
]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_SHAPES = ("retinanet", "rpn", "fcos")

_match_anchors = library.vecdet_match_anchors
_pack_truth = packer(_c.ground_truth)
_pack_shapes = packer(_c.anchor_shapes)


def _anchor_table(function: str, shapes: Any) -> tuple[bytes, list[bytes]]:
    """The sizes and ratios of each level as the C functions take them, and their memory."""
    table: list[bytes] = []
    memory: list[bytes] = []
    for shape in shapes:
        try:
            sizes, ratios = shape
        except Exception as error:
            raise ValueError(found(function, f"shapes[{len(table)}]", shape)
                             + ", expected sizes and ratios") from error
        own = doubles_of(function, "shapes", sizes)
        others = doubles_of(function, "shapes", ratios)
        memory += own, others
        table.append(_pack_shapes(bytes_address(own), len(own) // 8, bytes_address(others),
                                  len(others) // 8))
    return b"".join(table), memory


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
    grids, levels = grid_sizes_of(function, level_sizes)
    if isinstance(shapes, str):
        choice(_SHAPES, function, "shapes", shapes)
        if levels != 5:
            raise shape_error(function, "level_sizes", (levels, 2),
                              f"[5, 2], the levels of {shapes!r}")
        table = getattr(library, f"vecdet_anchor_shapes_{shapes}")()
    else:
        shapes = listed(function, "shapes", shapes, "a name, or sizes and ratios of each level")
        if len(shapes) != levels:
            raise ValueError(f"vecdet.{function}: shapes has {len(shapes)} levels, expected "
                             f"{levels}, as in level_sizes")
        table, _memory = _anchor_table(function, shapes)
    count = c_int64()
    check(library.vecdet_count_anchors(table, grids, levels, byref(count)), function)
    out = result(function, "level_sizes", level_sizes, (count.value, 4), float32)
    size = _c.grid_size(*pair(function, "image_size", image_size, integer))
    check(library.vecdet_make_anchors(table, size, grids, levels, address(out), count.value),
          function)
    return out


def make_ssd_anchors(image_size: Sequence[int], level_sizes: Sequence[Sequence[int]],
                     ) -> NDArray[np.float32]:
    """The default boxes of torchvision's SSD300, six levels, corners in pixels: [N, 4] float32.

    >>> sizes = [(38, 38), (19, 19), (10, 10), (5, 5), (3, 3), (1, 1)]
    >>> make_ssd_anchors((300, 300), sizes).shape
    (8732, 4)
    """
    grids, levels = grid_sizes_of("make_ssd_anchors", level_sizes)
    count = c_int64()
    check(library.vecdet_count_ssd_anchors(None, grids, levels, byref(count)), "make_ssd_anchors")
    out = result("make_ssd_anchors", "level_sizes", level_sizes, (count.value, 4), float32)
    size = _c.grid_size(*pair("make_ssd_anchors", "image_size", image_size, integer))
    check(library.vecdet_make_ssd_anchors(None, size, grids, levels, address(out), count.value),
          "make_ssd_anchors")
    return out


def make_points(level_sizes: Sequence[Sequence[int]],
                strides: Sequence[float]) -> NDArray[np.float32]:
    """The points ((x + 0.5) stride, (y + 0.5) stride) of all levels' locations: [N, 2] float32.

    >>> make_points([(1, 2)], [8]).tolist()
    [[4.0, 4.0], [12.0, 4.0]]
    """
    grids, levels = grid_sizes_of("make_points", level_sizes)
    steps = level_numbers_of("make_points", "strides", strides, levels)
    sides = memoryview(grids).cast("q").tolist()
    if sides and min(sides) < 0:
        raise ValueError(found("make_points", "level_sizes", level_sizes) + ", expected 0 or more")
    out = result("make_points", "level_sizes", level_sizes,
                 (sum(map(operator.mul, sides[::2], sides[1::2])), 2), float32)
    check(library.vecdet_make_points(grids, steps, levels, address(out), len(out)), "make_points")
    return out


class AnchorIndex:
    """Anchors [N, 4], corners, in the form that match_anchors needs. Make it once for anchors that
    many calls share; several threads may use it."""

    def __init__(self, anchors: ArrayLike) -> None:
        self._anchors = float32s("AnchorIndex", "anchors", anchors, "[N, 4]", 4,
                                 real_numbers).copy()
        self._handle = _index_of("AnchorIndex", self._anchors)

    def __len__(self) -> int:
        return len(self._anchors)

    def __reduce__(self) -> Any:
        """Copies and pickles make a new index of the same anchors."""
        return type(self), (self._anchors,)


def _index_of(function: str, anchors: Any) -> Handle:
    handle = c_void_p()
    check(library.vecdet_anchor_index_create(address(anchors), len(anchors), byref(handle)),
          function)
    return Handle(handle, library.vecdet_anchor_index_free)


class Truth:
    """Ground truth as the C functions take it: arrays of one image, or lists with one per image.
    An empty list is one image without boxes, unless the other arguments have `no_images`. `name`
    is the argument that holds the boxes, in messages; a box has `numbers` numbers."""

    __slots__ = ("is_batch", "images", "count", "argument", "_memory")

    def __init__(self, function: str, boxes: Any, classes: Any = None, regions: Any = None,
                 name: str = "boxes", no_images: bool = False, numbers: int = 4) -> None:
        self.is_batch = is_batch = is_list(boxes) and (no_images
                                                       or not _is_box_list(boxes, numbers))
        self.images = images = len(boxes) if is_batch else 1
        corners, count, counts, offsets, memory = _joined_boxes(
            function, name, boxes, is_batch, numbers)
        self.count = count  # the boxes of all images
        labels = areas = area_count = area_ends = 0
        labels_memory = area_offsets = area_memory = None
        if classes is not None:
            if is_batch:
                classes = _of_images(function, "classes", classes, images, name)
                parts = []
                for own, part in zip(counts, classes):
                    parts.append(integers(function, "classes", part, own))
                labels, labels_memory = joined(parts)
            else:
                labels_memory = integers(function, "classes", classes, count)
                labels = address(labels_memory)
        if regions is not None:
            if is_batch:
                regions = _of_images(function, "regions", regions, images, name)
            areas, area_count, _, area_offsets, area_memory = _joined_boxes(
                function, "regions", regions, is_batch, 4)
            area_ends = bytes_address(area_offsets)
        self._memory = memory, offsets, labels_memory, area_memory, area_offsets
        self.argument = _pack_truth(corners, count, labels, bytes_address(offsets), images, areas,
                                    area_count, area_ends)

    def shape(self, count: int) -> Any:
        """Of a result with one entry per anchor or point."""
        return (self.images, count) if self.is_batch else count


def has_no_images(value: Any) -> bool:
    """Whether an array with the images first, or the first array of a list, has no images."""
    return shape_of(value[0] if is_list(value) and len(value) else value)[:1] == (0,)


def is_list(value: Any) -> bool:
    return type(value) is not ndarray and isinstance(value, (list, tuple))


def _of_images(function: str, argument: str, value: Any, images: int, name: str) -> Any:
    parts = listed(function, argument, value, "one array per image, as in " + name)
    if len(parts) != images:
        raise ValueError(f"vecdet.{function}: {argument} has {len(parts)} images, expected "
                         f"{images}, as in {name}")
    return parts


def _joined_boxes(function: str, name: str, boxes: Any, is_batch: bool, numbers: int) -> Any:
    """The boxes of all images: their address, number, numbers per image, offsets, and memory."""
    if not is_batch:
        array = _box_array(function, name, boxes, numbers)
        count = len(array)
        return address(array), count, None, integers_packed(0, count), array
    arrays, ends, counts, count = [], [0], [], 0
    for part in boxes:
        array = _box_array(function, name, part, numbers)
        arrays.append(array)
        counts.append(len(array))
        count += len(array)
        ends.append(count)
    corners, memory = joined(arrays)
    return corners, count, counts, integers_packed(*ends), memory


def _box_array(function: str, name: str, boxes: Any, numbers: int) -> NDArray[np.float32]:
    array = float32s(function, name, boxes, convert=real_numbers)
    shape = array.shape
    if len(shape) != 2 or shape[1] != numbers:
        if array.size == 0 and shape[-1:] != (numbers,):
            return array.reshape(0, numbers)
        raise wrong_shape(function, name, array, f"[M, {numbers}]")
    return array


def _is_box_list(boxes: Any, numbers: int) -> bool:
    """Whether a list holds the boxes of one image, as in [[0, 0, 9, 9]] or []."""
    for box in boxes:
        if (not isinstance(box, (list, tuple)) or len(box) != numbers
                or not all(isinstance(x, (int, float, np.generic)) for x in box)):
            return False
    return True


@kept
def _matcher_params(*fields: Any) -> Any:
    """Parameters that many calls share."""
    before, empty_iou_is_zero, after = fields[:5], fields[5], fields[6:]
    empty = flag("match_anchors", "empty_iou_is_zero", empty_iou_is_zero)
    return byref(filled("match_anchors", _c.matcher_params, (*before, empty, *after, CODER)))


# Keywords of matcher_params, without empty, coder, with empty_iou_is_zero, regions
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
        Three arrays with one entry per anchor, [N], or [images, N] for a list. Matches: the index
        of its box among the boxes of all images in order, -1 (background) or -2 (ignored). Labels:
        the class of that box, ``background`` or ``ignore``. IoUs: the anchor's greatest IoU with
        any box.

    >>> anchors = np.array([[0, 0, 10, 10], [50, 50, 60, 60]], np.float32)
    >>> matches, labels, ious = match_anchors(anchors, np.array([[0, 0, 10, 8]]), [7])
    >>> matches.tolist(), labels.tolist(), ious.round(3).tolist()
    ([0, -1], [7, -1], [0.800000011920929, 0.0])
    """
    if isinstance(anchors, AnchorIndex):
        count, handle = len(anchors._anchors), anchors._handle
    else:
        array = float32s("match_anchors", "anchors", anchors, "[N, 4]", 4, real_numbers)
        count, handle = len(array), _index_of("match_anchors", array)
    truth = Truth("match_anchors", boxes, classes, regions)
    params = _matcher_params(high_threshold, low_threshold, allow_low_quality, skip_untouched,
                             force_best, empty_iou_is_zero, region_threshold, ignore_matched,
                             background, ignore)
    shape = truth.shape(count)
    matches, labels, ious = empty(shape, int64), empty(shape, int64), empty(shape, float32)
    check(_match_anchors(handle.address, truth.argument, params, None, address(matches),
                         address(labels), address(ious), None, None), "match_anchors")
    return matches, labels, ious


_atss_params = params_of(_c.atss_params)
_fcos_assigner_params = params_of(_c.fcos_assigner_params)
_task_aligned_params = params_of(_c.task_aligned_params)
_sim_ota_params = params_of(_c.sim_ota_params)


def _matches_on_grids(function: str, assign: Any, anchors: ArrayLike,
                      level_sizes: Sequence[Sequence[int]], boxes: Any, regions: Any,
                      params: bytes) -> NDArray[np.int64]:
    array = float32s(function, "anchors", anchors, "[N, 4]", 4, real_numbers)
    grids, levels = grid_sizes_of(function, level_sizes)
    truth = Truth(function, boxes, None, regions)
    matches = empty(truth.shape(len(array)), int64)
    check(assign(address(array), len(array), grids, levels, truth.argument, params, None,
                 address(matches)), function)
    return matches


# Keywords of atss_params, with regions
def assign_atss(
    anchors: ArrayLike,
    level_sizes: Sequence[Sequence[int]],
    boxes: Any,
    candidates: int = 9,
    *,
    regions: Any = None,
    region_threshold: float = 0.5,
) -> NDArray[np.int64]:
    """ATSS, https://arxiv.org/abs/1912.02424. Returns the index of the box of each of ``anchors``
    [N, 4], one per point, among all ``boxes``, -1 (background) or -2 (ignored): [N], or [images, N]
    for a list.

    Args:
        level_sizes: (height, width) of each level.
        boxes: corners [M, 4] of one image, or a list with one array per image.
        candidates: per box and level; 1 or more. Default 9.
        region_threshold: an unmatched anchor is ignored if an ignore region covers more than this
            fraction of its area; in [0, 1]. Default 0.5.
        regions: boxes in which unmatched anchors are ignored, such as crowds; in the form of
            ``boxes``.
    """
    function = "assign_atss"
    return _matches_on_grids(function, library.vecdet_assign_atss, anchors, level_sizes, boxes,
                             regions, _atss_params(function, candidates, region_threshold))


# Keywords of fcos_assigner_params, with regions
def assign_fcos(
    anchors: ArrayLike,
    level_sizes: Sequence[Sequence[int]],
    boxes: Any,
    radius: float = 1.5,
    *,
    regions: Any = None,
    region_threshold: float = 0.5,
) -> NDArray[np.int64]:
    """FCOS's assigner, https://arxiv.org/abs/1904.01355, with torchvision's centre sampling.
    Returns the index of the box of each of ``anchors`` [N, 4], one per point, among all ``boxes``,
    -1 (background) or -2 (ignored): [N], or [images, N] for a list.

    Args:
        level_sizes: (height, width) of each level.
        boxes: corners [M, 4] of one image, or a list with one array per image.
        radius: in anchor widths; 0 or more, a finite float. Default 1.5. The greatest distance of
            an anchor's centre from its box's.
        region_threshold: an unmatched anchor is ignored if an ignore region covers more than this
            fraction of its area; in [0, 1]. Default 0.5.
        regions: boxes in which unmatched anchors are ignored, such as crowds; in the form of
            ``boxes``.
    """
    function = "assign_fcos"
    return _matches_on_grids(function, library.vecdet_assign_fcos, anchors, level_sizes, boxes,
                             regions, _fcos_assigner_params(function, radius, region_threshold))


def _task_aligned(function: str, assign: Any, scores: Any, predicted: Any, points: Any,
                  level_sizes: Sequence[Sequence[int]], boxes: Any, classes: Any, regions: Any,
                  numbers: int, *options: Any) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The task-aligned assigners of boxes with this many numbers."""
    truth = Truth(function, boxes, classes, regions, numbers=numbers,
                  no_images=is_list(boxes) and not boxes and len(shape_of(scores)) == 3)
    grids, levels = grid_sizes_of(function, level_sizes)
    at = float32s(function, "points", points, "[N, 2]", 2)
    probabilities = float32s(function, "scores", scores)
    rows = float32s(function, "predicted", predicted, f"[..., N, {numbers}]", numbers)
    shape = truth.shape(len(at))
    matches, targets = empty(shape, int64), empty(shape, float32)
    if probabilities.shape[:-1] != matches.shape:
        raise wrong_shape(function, "scores", probabilities,
                          f"{list(matches.shape)} and the classes")
    if rows.shape[:-1] != matches.shape:
        raise wrong_shape(function, "predicted", rows, f"{[*matches.shape, numbers]}")
    check(assign(address(probabilities), address(rows), probabilities.shape[-1], address(at),
                 len(at), grids, levels, truth.argument, *options, None, address(matches),
                 address(targets)), function)
    return matches, targets


# Keywords of task_aligned_params, with regions
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
    *,
    least_side: float = 0.0,
    grown_side: float = 0.0,
    final_top: int = 0,
    regions: Any = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The task-aligned assigner, https://arxiv.org/abs/2108.07755. Returns for each point the index
    of its box among all ``boxes``, -1 (background) or -2 (ignored), and its target, which is 0
    without a box. The defaults are YOLOv8's. YOLO26 has ``least_side=8, grown_side=16``, and in its
    one-to-one branch also ``top=7, final_top=1``.

    Args:
        scores: probabilities [N, classes], or [images, N, classes] for lists.
        predicted: corners [N, 4], or [images, N, 4] for lists.
        points: [N, 2], x and y in the boxes' pixels.
        level_sizes: (height, width) of each level.
        boxes, classes: those of one image, or lists with one array per image.
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
    function = "assign_task_aligned"
    params = _task_aligned_params(function, top, alpha, beta, least_side, grown_side, final_top)
    return _task_aligned(function, library.vecdet_assign_task_aligned, scores, predicted, points,
                         level_sizes, boxes, classes, regions, 4, params)


# Keywords of task_aligned_params, with regions
def assign_rotated_task_aligned(
    scores: ArrayLike,
    predicted: ArrayLike,
    points: ArrayLike,
    level_sizes: Sequence[Sequence[int]],
    boxes: Any,
    classes: Any,
    angles: str,
    top: int = 10,
    alpha: float = 0.5,
    beta: float = 6.0,
    *,
    least_side: float = 0.0,
    grown_side: float = 0.0,
    final_top: int = 0,
    regions: Any = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The task-aligned assigner for rotated boxes, as ultralytics trains oriented detectors:
    assign_task_aligned with the overlap ProbIoU.

    Args:
        scores: probabilities [N, classes], or [images, N, classes] for lists.
        predicted: [N, 5] as in rotated_box_iou, or [images, N, 5] for lists.
        points: [N, 2], x and y in the boxes' pixels.
        level_sizes: (height, width) of each level.
        boxes, classes: those of one image, [M, 5] and [M], or lists with one array per image.
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
            with one array per image.

    >>> points = make_points([(4, 4)], [8])
    >>> box = np.array([[16, 16, 24, 4, 45]], np.float32)  # along the diagonal
    >>> matches, targets = assign_rotated_task_aligned(
    ...     np.full((16, 1), 0.5), np.repeat(box, 16, 0), points, [(4, 4)], box, [0], "opencv")
    >>> np.nonzero(matches == 0)[0].tolist()
    [5, 10]
    """
    function = "assign_rotated_task_aligned"
    params = _task_aligned_params(function, top, alpha, beta, least_side, grown_side, final_top)
    convention = choice(_c.angle_convention, function, "angles", angles)
    return _task_aligned(function, library.vecdet_assign_rotated_task_aligned, scores, predicted,
                         points, level_sizes, boxes, classes, regions, 5, convention, params)


# Keywords of sim_ota_params, with regions
def assign_sim_ota(
    logits: ArrayLike,
    objectness: ArrayLike,
    predicted: ArrayLike,
    points: ArrayLike,
    level_sizes: Sequence[Sequence[int]],
    strides: Sequence[float],
    boxes: Any,
    classes: Any,
    candidates: int = 10,
    radius: float = 2.5,
    iou_weight: float = 3.0,
    *,
    regions: Any = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """SimOTA, the assigner of YOLOX, https://arxiv.org/abs/2107.08430. Returns for each point the
    index of its box among all ``boxes``, -1 (background) or -2 (ignored), and its target, the IoU
    of its prediction with the box, which is 0 without a box. ``count_foreground(matches)`` is the
    number of assigned points.

    Args:
        logits: of the classes, [N, classes], or [images, N, classes] for lists.
        objectness: logits [N], or [images, N] for lists.
        predicted: corners [N, 4], or [images, N, 4] for lists.
        points: [N, 2], x and y in the boxes' pixels.
        level_sizes: (height, width) of each level.
        strides: that of each level, in the boxes' pixels.
        boxes, classes: those of one image, or lists with one array per image.
        candidates: greatest IoUs that are summed for each box; 1 or more. Default 10.
        radius: of the centre prior, in strides; 0 or more, a finite float. Default 2.5.
        iou_weight: of the IoU's cost; 0 or more, a finite float. Default 3.
        regions: boxes in which unmatched points are ignored, such as crowds; in the form of
            ``boxes``.
    """
    function = "assign_sim_ota"
    truth = Truth(function, boxes, classes, regions,
                  no_images=is_list(boxes) and not boxes and len(shape_of(logits)) == 3)
    grids, levels = grid_sizes_of(function, level_sizes)
    steps = level_numbers_of(function, "strides", strides, levels)
    at = float32s(function, "points", points, "[N, 2]", 2)
    scores = float32s(function, "logits", logits)
    objects = float32s(function, "objectness", objectness)
    corners = float32s(function, "predicted", predicted, "[..., N, 4]", 4)
    shape = truth.shape(len(at))
    matches, targets = empty(shape, int64), empty(shape, float32)
    if scores.shape[:-1] != matches.shape:
        raise wrong_shape(function, "logits", scores, f"{list(matches.shape)} and the classes")
    if objects.shape != matches.shape:
        raise wrong_shape(function, "objectness", objects, f"{list(matches.shape)}")
    if corners.shape[:-1] != matches.shape:
        raise wrong_shape(function, "predicted", corners, f"{[*matches.shape, 4]}")
    params = _sim_ota_params(function, candidates, radius, iou_weight)
    check(library.vecdet_assign_sim_ota(
        address(scores), address(objects), address(corners), scores.shape[-1], address(at),
        len(at), grids, steps, levels, truth.argument, params, None, address(matches),
        address(targets), None), function)
    return matches, targets


def count_foreground(labels: ArrayLike, background: int = -1, ignore: int = -2) -> int:
    """The number of labels that are neither ``background`` nor ``ignore``; trainers scale losses by
    1 / max(1, count_foreground(labels)).

    >>> count_foreground([3, -1, -2, 0])
    2
    """
    function = "count_foreground"
    array = integers(function, "labels", labels)
    count = c_int64()
    check(library.vecdet_count_foreground(address(array), array.size,
                                          integer(function, "background", background),
                                          integer(function, "ignore", ignore), byref(count)),
          function)
    return count.value


_sample_params = params_of(_c.balanced_sample_params)


# Keywords of balanced_sample_params
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
        size: sample size per image; 0 or more. Default 256.
        positive_share: greatest share of positives; in [0, 1]. Default 0.5.
        seed: the same seed gives the same sample. Default 0.
        background, ignore: labels, as in the focal loss. Defaults -1, -2.

    >>> [(positives, negatives)] = sample_balanced([[3, -1, -2, -1]], size=4)
    >>> positives.tolist(), negatives.tolist()
    ([0], [1, 3])
    """
    function = "sample_balanced"
    if isinstance(labels, np.ndarray) and labels.ndim < 2:
        raise wrong_shape(function, "labels", labels, "a list with one array per image")
    parts: list[Any] = []
    for part in listed(function, "labels", labels, "a list with one array per image"):
        array = integers(function, "labels", part)
        if not array.ndim:  # labels of one image, without a list around
            raise ValueError(found(function, f"labels[{len(parts)}]", part) + ", expected an "
                             "array: labels is a list with one array per image")
        parts.append(array if array.ndim == 1 else array.reshape(-1))
    begins = offsets_of(parts)
    all_labels, _memory = joined(parts)
    params = _sample_params(function, size, positive_share, seed, background, ignore)
    images = len(parts)
    indices = empty(min(begins[images], max(0, int(size)) * images), int64)
    counts = empty(2 * images + 1, int64)  # offsets, then positives
    ends = address(counts)
    check(library.vecdet_sample_balanced(
        all_labels, integers_packed(*begins), images, params, None, address(indices), ends,
        ends + 8 * (images + 1)), function)
    drawn, numbers = [], counts.tolist()
    for begin, a, b, count in zip(begins, numbers, numbers[1:], numbers[images + 1:]):
        own = indices[a:b]
        if begin:
            own -= begin
        drawn.append((own[:count], own[count:]))
    return drawn
