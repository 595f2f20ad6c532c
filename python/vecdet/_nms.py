# SPDX-License-Identifier: Apache-2.0
"""NMS, soft-NMS and merging."""

from __future__ import annotations

from ctypes import byref, c_int64
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import numpy as np

from . import _c
from ._arrays import (address, as_array, as_integers, box_rows, choice, empty, float32, float64,
                      int64, integers, is_bfloat16, named, numbers_per_box, optional, same_floats,
                      whole_numbers)
from ._library import check, library
from ._masks import OVERLAPS, Masks, given_masks
from ._parameters import CLASS_LISTS, class_lists, kept, number, params_of, set_given

__all__ = ["MergedBoxes", "batched_nms", "group_masks", "mask_nms", "merge_boxes", "nms",
           "soft_nms"]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_nms = library.vecdet_nms
_batched_nms = library.vecdet_batched_nms


@kept
def nms_params(function: str, iou_threshold: float, overlap: str = "iou", *lists: Any) -> Any:
    """torchvision's or SAHI's, with options per class."""
    threshold = number(function, "iou_threshold", iou_threshold)
    if choice(OVERLAPS, function, "overlap", overlap):
        params = library.vecdet_nms_params_sahi(threshold, True)
    else:
        params = library.vecdet_nms_params_default()
        params.iou_threshold = threshold
    set_given(function, params, zip(CLASS_LISTS, lists))
    return byref(params)


@kept
def prob_iou_params(function: str, iou_threshold: float, *lists: Any) -> Any:
    """ultralytics' for rotated boxes, with options per class."""
    params = library.vecdet_nms_params_ultralytics_obb(number(function, "iou_threshold",
                                                              iou_threshold))
    set_given(function, params, zip(CLASS_LISTS, lists))
    return byref(params)


@kept
def sahi_params(function: str, match_threshold: float, smaller_area: bool) -> Any:
    """SAHI's: boxes are dropped from the threshold on."""
    return byref(library.vecdet_nms_params_sahi(number(function, "match_threshold",
                                                       match_threshold), smaller_area))


@kept
def strict_params(function: str, iou_threshold: float, smaller_area: bool) -> Any:
    """As torchvision's, also by the smaller area: supervision's NMS."""
    params = library.vecdet_nms_params_default()
    params.iou_threshold = number(function, "iou_threshold", iou_threshold)
    if smaller_area:
        params.overlap = _c.NMS_SMALLER_AREA
    return byref(params)


_soft_nms_params = params_of(_c.soft_nms_params, score_floor="min_score")
_merge_params = params_of(_c.merge_params)


def _boxes_and_scores(function: str, boxes: Any, scores: Any) -> Any:
    type_, (boxes, scores) = same_floats(function, ("boxes", "scores"), (boxes, scores))
    boxes = box_rows(function, "boxes", boxes)
    numbers_per_box(function, "scores", scores, len(boxes))
    return type_, boxes, scores


def classes_of(function: str, argument: str, idxs: Any) -> Any:
    """Integers, also from whole floats."""
    array = as_array(function, argument, idxs)
    if array.dtype.kind == "f" or is_bfloat16(array.dtype):
        idxs = whole_numbers(function, argument, array)
    return as_integers(function, argument, idxs)


def nms(boxes: ArrayLike, scores: ArrayLike, iou_threshold: float,
        overlap: str = "iou") -> NDArray[np.int64]:
    """Non-maximum suppression: the indices of the kept boxes, in descending score.

    Args:
        boxes: corners x1 y1 x2 y2, [N, 4].
        scores: [N]. Ties are broken by lower index.
        iou_threshold: in [0, 1]. A box is dropped if a better one overlaps it by more.
        overlap: ``"iou"``, as in torchvision; or ``"ios"``, the intersection over the smaller area,
            which suppresses from the threshold on, as in SAHI.

    Raises:
        ValueError: a wrong shape, or a threshold outside [0, 1].
        TypeError: integers, such as scores of uint8.

    >>> boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 20, 30, 30]], np.float32)
    >>> nms(boxes, np.array([0.8, 0.9, 0.7], np.float32), 0.5).tolist()
    [1, 2]
    """
    return nms_of_all("nms", boxes, scores, nms_params("nms", iou_threshold, overlap))


def nms_of_all(function: str, boxes: Any, scores: Any, params: Any) -> NDArray[np.int64]:
    """nms with any parameters."""
    type_, corners, numbers = _boxes_and_scores(function, boxes, scores)
    total = len(numbers)
    chosen = empty(total, int64)
    count = c_int64()
    check(_nms(type_, address(corners), address(numbers), total, params, None, address(chosen),
               byref(count)), function)
    chosen.resize(count.value, refcheck=False)
    return chosen


# Keywords of nms_params, without iou_threshold, suppress_equal, float_threshold, plus_one,
# drop_nan_scores, drop_degenerate, score_threshold, format, overlap, order, max_per_class,
# max_per_image, max_total
def batched_nms(
    boxes: ArrayLike,
    scores: ArrayLike,
    idxs: ArrayLike,
    iou_threshold: float,
    overlap: str = "iou",
    *,
    classes: Sequence[int] | None = None,
    class_thresholds: Sequence[float] | None = None,
    class_groups: Sequence[int] | None = None,
) -> NDArray[np.int64]:
    """Like nms, but only boxes with equal ``idxs`` suppress each other. Coordinates are not shifted
    by class, so they may be negative and stay exact.

    Args:
        boxes, scores, iou_threshold, overlap: as in nms.
        idxs: the class of each box, [N]: integers of any value, or floats without a fraction, as a
            column of predictions has them.
        classes: only boxes of these classes take part; None: all.
        class_thresholds: a score threshold per class: only boxes with scores above it take part;
            None: none.
        class_groups: a group per class, any integer: boxes of classes with the same group suppress
            each other; None: each class is a group of its own.

    >>> boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10]], np.float32)
    >>> batched_nms(boxes, np.array([0.8, 0.9], np.float32), [0, 1], 0.5).tolist()
    [1, 0]
    """
    function = "batched_nms"
    return nms_of_groups(function, boxes, scores, idxs, nms_params(
        function, iou_threshold, overlap,
        *class_lists(function, classes, class_thresholds, class_groups)))


def nms_of_groups(function: str, boxes: Any, scores: Any, idxs: Any,
                  params: Any) -> NDArray[np.int64]:
    """batched_nms with any parameters."""
    type_, corners, numbers = _boxes_and_scores(function, boxes, scores)
    total = len(numbers)
    classes = integers(function, "idxs", idxs, total, convert=classes_of)
    chosen = empty(total, int64)
    count = c_int64()
    check(_batched_nms(type_, address(corners), address(numbers), address(classes), None, total,
                       params, None, address(chosen), byref(count)), function)
    chosen.resize(count.value, refcheck=False)
    return chosen


# Keywords of nms_params, without iou_threshold, suppress_equal, float_threshold, plus_one,
# drop_nan_scores, drop_degenerate, score_threshold, format, overlap, order, max_per_class,
# max_per_image, max_total
def mask_nms(
    masks: Masks | ArrayLike,
    scores: ArrayLike,
    iou_threshold: float,
    idxs: ArrayLike | None = None,
    overlap: str = "iou",
    *,
    classes: Sequence[int] | None = None,
    class_thresholds: Sequence[float] | None = None,
    class_groups: Sequence[int] | None = None,
) -> NDArray[np.int64]:
    """Non-maximum suppression of masks by the overlap of their pixels: the indices of the kept
    masks, in descending score.

    Args:
        masks: N Masks, or pictures [N, height, width] of truth values or integers.
        scores: [N]. Ties are broken by lower index; masks with NaN scores come first.
        iou_threshold: in [0, 1]. A mask is dropped if a better one that is kept overlaps it by
            more.
        idxs: [N]; only masks with equal ones suppress each other, as in batched_nms.
        overlap: ``"iou"``, or ``"ios"``, the intersection over the smaller area, which suppresses
            from the threshold on.
        classes: only masks of these classes take part; None: all.
        class_thresholds: a score threshold per class: only masks with scores above it take part;
            None: none.
        class_groups: a group per class, any integer: masks of classes with the same group suppress
            each other; None: each class is a group of its own.

    >>> mask_nms(np.array([[[1, 1, 0]], [[1, 1, 1]], [[0, 0, 1]]]), [0.8, 0.9, 0.7], 0.5).tolist()
    [1, 2]
    """
    function = "mask_nms"
    return nms_of_masks(function, given_masks(function, "masks", masks), scores, idxs, nms_params(
        function, iou_threshold, overlap,
        *class_lists(function, classes, class_thresholds, class_groups)))


def _scores_and_classes(function: str, scores: Any, idxs: Any, total: int) -> Any:
    """The type of the scores of masks, the scores, and the classes or None."""
    type_, (numbers,) = same_floats(function, ("scores",), (scores,))
    numbers_per_box(function, "scores", numbers, total)
    classes = None if idxs is None else integers(function, "idxs", idxs, total, convert=classes_of)
    return type_, numbers, classes


def nms_of_masks(function: str, masks: tuple[Any, Any], scores: Any, idxs: Any,
                 params: Any) -> NDArray[np.int64]:
    """mask_nms with any parameters, of the result of given_masks."""
    own, memory = masks
    total = own.count
    type_, numbers, classes = _scores_and_classes(function, scores, idxs, total)
    chosen = empty(total, int64)
    count = c_int64()
    check(library.vecdet_mask_nms(byref(own), type_, address(numbers), optional(classes), None,
                                  params, None, address(chosen), byref(count)), function)
    chosen.resize(count.value, refcheck=False)
    return chosen


def group_masks(masks: Masks | ArrayLike, scores: ArrayLike, idxs: ArrayLike | None = None,
                match_threshold: float = 0.5, overlap: str = "iou") -> list[list[int]]:
    """Non-maximum merging of masks, as for the detections of a sliced image: the groups of masks
    that become one, in descending score, the best of each first. A mask takes the masks with lower
    scores whose overlap with it, and then with the union of what it has taken, is at least the
    threshold. Masks with NaN scores are left out.

    Args:
        masks: N Masks, or pictures [N, height, width] of truth values or integers.
        scores: [N]. Ties are broken by lower index.
        idxs: [N]; only masks with equal ones are merged, as in batched_nms.
        match_threshold: in [0, 1]. Default 0.5.
        overlap: ``"iou"``, or ``"ios"``, the intersection over the smaller area.

    >>> group_masks(np.array([[[1, 1, 0]], [[1, 1, 1]], [[0, 0, 1]]]), [0.8, 0.9, 0.7])
    [[1, 0], [2]]
    """
    function = "group_masks"
    return groups_of_masks(function, given_masks(function, "masks", masks), scores, idxs,
                           number(function, "match_threshold", match_threshold),
                           choice(OVERLAPS, function, "overlap", overlap))


def groups_of_masks(function: str, masks: tuple[Any, Any], scores: Any, idxs: Any,
                    threshold: float, overlap: int) -> list[list[int]]:
    """group_masks of the result of given_masks."""
    own, memory = masks
    total = own.count
    type_, numbers, classes = _scores_and_classes(function, scores, idxs, total)
    found = empty(2 * total + 1, int64)
    members = address(found)
    count = c_int64()
    check(library.vecdet_group_masks(byref(own), type_, address(numbers), optional(classes), None,
                                     overlap, threshold, None, members, members + 8 * total,
                                     byref(count)), function)
    ends = found[total:total + count.value + 1].tolist()
    listed = found[:ends[-1]].tolist()
    return [listed[a:b] for a, b in zip(ends, ends[1:])]


# Keywords of soft_nms_params: score_floor is min_score, without plus_one
def soft_nms(
    boxes: ArrayLike,
    scores: ArrayLike,
    idxs: ArrayLike | None = None,
    method: str = "linear",
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 1e-3,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Soft-NMS, https://arxiv.org/abs/1704.04503: the indices of the picked boxes in descending
    score, and their reduced scores.

    Args:
        boxes, scores, idxs: as in batched_nms.
        method: how an overlap reduces a score: "hard", "linear" or "gaussian". Default "linear".
        iou_threshold: of the hard and the linear method; compared in the IoU's type. Default 0.3.
        sigma: of the gaussian method, above 0. Default 0.5.
        min_score: after a pick, boxes of its group with lower scores are dropped. Default 1e-3.

    >>> boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 10]], np.float32)
    >>> kept, scores = soft_nms(boxes, np.array([0.5, 1.0], np.float32), min_score=0.1)
    >>> kept.tolist(), scores.tolist()
    ([1], [1.0])
    """
    type_, corners, numbers = _boxes_and_scores("soft_nms", boxes, scores)
    total = len(numbers)
    classes = None if idxs is None else integers(
        "soft_nms", "idxs", idxs, total, convert=classes_of)
    params = _soft_nms_params("soft_nms", choice(_c.soft_nms_method, "soft_nms", "method", method),
                              iou_threshold, sigma, min_score, 0)
    chosen = empty(total, int64)
    reduced = empty(total, float64 if type_ == _c.FLOAT64 else float32)
    count = c_int64()
    check(library.vecdet_soft_nms(
        type_, address(corners), address(numbers), optional(classes), None, total, params,
        None, address(chosen), address(reduced), byref(count)), "soft_nms")
    chosen.resize(count.value, refcheck=False)
    reduced.resize(count.value, refcheck=False)
    return chosen, reduced


class MergedBoxes(NamedTuple):
    """Groups of merged boxes in descending score."""

    boxes: NDArray[Any]
    """The rectangles around the members, [groups, 4]."""
    scores: NDArray[Any]
    """The best score of each group, [groups]."""
    members: NDArray[np.int64]
    """The indices of the members of all groups, the best of each group first."""
    offsets: NDArray[np.int64]
    """The members of group k are ``members[offsets[k]:offsets[k + 1]]``; [groups + 1]."""

    def groups(self) -> list[NDArray[np.int64]]:
        """The members of each group."""
        ends = self.offsets.tolist()
        return [self.members[a:b] for a, b in zip(ends[:-1], ends[1:])]


def group_lists(merged: MergedBoxes) -> list[list[int]]:
    """The members of each group as lists, which take less time than arrays."""
    ends, members = merged.offsets.tolist(), merged.members.tolist()
    return [members[a:b] for a, b in zip(ends, ends[1:])]


# Keywords of merge_params, without overlap
def merge_boxes(
    boxes: ArrayLike,
    scores: ArrayLike,
    idxs: ArrayLike | None = None,
    match_threshold: float = 0.5,
    overlap: str = "ios",
    *,
    transitive: bool = False,
    recheck: bool = True,
) -> MergedBoxes:
    """Non-maximum merging: boxes that NMS would suppress are merged into the box that would
    suppress them, as for the detections of a sliced image.

    Args:
        boxes: corners [N, 4].
        scores: [N].
        idxs: classes [N], as in batched_nms; boxes of different classes are not merged.
        match_threshold: in (0, 1]. Default 0.5. Boxes match from this overlap on.
        transitive: a taken box takes its own matches, too. Default False. SAHI's NMM does so, its
            GREEDYNMM does not.
        recheck: a member extends its group's box only if the two still overlap by more than the
            threshold, computed in double with the box as extended so far. Default True. SAHI does
            so; in supervision, all members extend it.
        overlap: ``"ios"``, the intersection over the smaller area, or ``"iou"``.

    >>> boxes = np.array([[0, 0, 10, 10], [2, 0, 12, 10], [20, 20, 30, 30]], np.float32)
    >>> merged = merge_boxes(boxes, np.array([0.8, 0.9, 0.7], np.float32))
    >>> merged.boxes.tolist()
    [[0.0, 0.0, 12.0, 10.0], [20.0, 20.0, 30.0, 30.0]]
    >>> [group.tolist() for group in merged.groups()]
    [[1, 0], [2]]
    """
    function = "merge_boxes"
    type_, corners, confidences = _boxes_and_scores(function, boxes, scores)
    total = len(confidences)
    classes = None if idxs is None else integers(
        function, "idxs", idxs, total, convert=classes_of)
    by = (_c.NMS_POSITIVE_AREA,
          _c.NMS_SMALLER_AREA)[choice(OVERLAPS, function, "overlap", overlap)]
    params = _merge_params(function, by, match_threshold, transitive, recheck)
    # Two arrays of results, because allocations and addresses cost most of a small call.
    floats = empty(5 * total, float64 if type_ == _c.FLOAT64 else float32)
    numbers = empty(2 * total + 1, int64)
    rectangles, members = address(floats), address(numbers)
    count = c_int64()
    check(library.vecdet_merge_boxes(
        type_, address(corners), address(confidences), optional(classes), None, total, params, None,
        rectangles, rectangles + 4 * total * floats.itemsize, members, members + 8 * total,
        byref(count)), function)
    groups = count.value
    ends = numbers[total:total + groups + 1]
    return named(MergedBoxes, (
        floats[:4 * groups].reshape(groups, 4), floats[4 * total:4 * total + groups],
        numbers[:ends.item(groups)], ends))
