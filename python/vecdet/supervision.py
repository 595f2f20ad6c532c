# SPDX-License-Identifier: Apache-2.0
"""Functions with the names, arguments and results of supervision.

Predictions are [N, 5] or [N, 6]: x1 y1 x2 y2, score and, in the sixth column, a category. Overlaps
are rounded as in supervision 0.27. Scores and categories of NaN are a ValueError. Ties of
scores are broken by lower index, in merging of boxes by lower x1, y1, x2, y2. supervision averages
the scores of a group weighted by area; merged_score does so for a group of box_non_max_merge.

>>> predictions = np.array([[0, 0, 10, 10, 0.8], [1, 0, 11, 10, 0.9], [20, 0, 30, 10, 0.7]])
>>> box_non_max_suppression(predictions).tolist()
[False, True, True]
>>> box_non_max_merge(predictions)
[[1, 0], [2]]
>>> round(merged_score(predictions, [1, 0]), 3)
0.85
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence

import numpy as np

from . import _nms
from ._arrays import (category_numbers, check_scores, choice, float32, float64, floats, int64,
                      integers, wrong_shape)
from ._masks import Masks, given_masks, pixel_bytes
from ._messages import found
from ._parameters import integer, number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_METRICS = ("IOU", "IOS")


def _rows(function: str, predictions: Any) -> Any:
    rows = floats(f"supervision.{function}", "predictions", predictions)
    if rows.ndim != 2 or rows.shape[1] not in (5, 6):
        raise wrong_shape(f"supervision.{function}", "predictions", rows, "[N, 5] or [N, 6]")
    if rows.dtype is not float32 and rows.dtype is not float64:
        rows = rows.astype(float32)
    check_scores("supervision." + function, rows)
    return rows


def _columns(rows: Any) -> tuple[Any, Any, Any]:
    categories = (category_numbers(rows[:, 5]) if rows.shape[1] == 6
                  else np.zeros(len(rows), int64))
    return rows[:, :4].copy(), rows[:, 4].copy(), categories


def _by_smaller_area(function: str, overlap_metric: Any) -> bool:
    """Accepts supervision's enum OverlapMetric, too."""
    if type(overlap_metric) is not str or overlap_metric not in _METRICS:
        name = getattr(overlap_metric, "value", overlap_metric)
        if isinstance(name, str) and name.upper() in _METRICS:
            overlap_metric = name.upper()
    return choice(_METRICS, f"supervision.{function}", "overlap_metric", overlap_metric) == 1


def _threshold(function: str, iou_threshold: Any) -> float:
    threshold = number(f"supervision.{function}", "iou_threshold", iou_threshold)
    if not 0 <= threshold <= 1:
        raise ValueError(f"vecdet.supervision.{function}: iou_threshold is {threshold}, expected a "
                         "number in [0, 1]")
    return threshold


# supervision computes intersections in float32, areas in the type of the predictions, and rounds
# the overlap to float32. For float64, that is neither the kernels' float nor their double. So the
# kernels run at a threshold slightly below and slightly above: where both agree, no overlap is so
# close to the threshold that rounding decides. Otherwise supervision's arithmetic does.


def _slack(boxes: Any) -> float:
    """The greatest difference between an overlap of supervision's and the same in double."""
    sides = (boxes[:, 2:] - boxes[:, :2]).min(initial=np.inf)
    shift = np.abs(boxes - boxes.astype(float32)).max(initial=0)  # of a coordinate in float32
    if not (sides > 0 or sides == shift == 0):
        return np.inf
    return 5e-7 + (8 * shift / sides if shift else 0)


def _overlaps(box: Any, boxes: Any, smaller_area: bool) -> NDArray[np.float32]:
    """Of a box with others, as supervision computes them."""
    low = np.maximum(box[:2], boxes[:, :2]).astype(float32)
    high = np.minimum(box[2:], boxes[:, 2:]).astype(float32)
    shared = np.prod(np.maximum(high - low, 0), 1)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    whole = np.minimum(area, areas) if smaller_area else area + areas - shared
    return np.divide(shared, whole, out=np.zeros(len(boxes), float32), where=whole > 0,
                     casting="same_kind")


def _groups(boxes: Any, order: Any, categories: Any, smaller_area: bool,
            matches: Callable[[Any], Any]) -> list[list[int]]:
    """Going down the order, each box with those left of its category that match it."""
    groups = []
    while len(order):
        first, order = order[0], order[1:]
        taken = matches(_overlaps(boxes[first], boxes[order], smaller_area))
        taken &= categories[order] == categories[first]
        groups.append([int(first), *order[taken].tolist()])
        order = order[~taken]
    return groups


def box_non_max_suppression(predictions: ArrayLike, iou_threshold: float = 0.5,
                            overlap_metric: Any = "IOU") -> NDArray[np.bool_]:
    """A mask of the predictions that NMS per category keeps: those without a better one that
    overlaps by more than the threshold. ``overlap_metric`` is ``"IOU"`` or ``"IOS"``, or
    supervision's OverlapMetric."""
    function = "box_non_max_suppression"
    rows = _rows(function, predictions)
    if rows.shape[1] == 5:  # supervision adds a column of float64
        rows = rows.astype(float64, copy=False)
    threshold = _threshold(function, iou_threshold)
    smaller_area = _by_smaller_area(function, overlap_metric)
    boxes, scores, categories = _columns(rows)

    def run(at: float) -> Any:
        return _nms.nms_of_groups(f"supervision.{function}", boxes, scores, categories,
                                  _nms.strict_params(function, at, smaller_area))

    mask = np.zeros(len(boxes), np.bool_)
    if rows.dtype == float32:
        mask[run(threshold)] = True
        return mask
    slack = _slack(boxes)
    if slack < 0.1:
        kept = run(max(0.0, threshold - slack))
        if np.array_equal(kept, run(min(1.0, threshold + slack))):
            mask[kept] = True
            return mask
    order = np.argsort(-scores, kind="stable")
    groups = _groups(boxes, order, categories, smaller_area,
                     lambda overlaps: overlaps.astype(float64) > threshold)
    mask[[group[0] for group in groups]] = True
    return mask


def box_non_max_merge(predictions: ArrayLike, iou_threshold: float = 0.5,
                      overlap_metric: Any = "IOU") -> list[list[int]]:
    """The groups of predictions to merge, the best of each first: per category, in descending
    score. Predictions match from the threshold on."""
    function = "box_non_max_merge"
    rows = _rows(function, predictions)
    threshold = _threshold(function, iou_threshold)
    smaller_area = _by_smaller_area(function, overlap_metric)
    boxes, scores, categories = _columns(rows)

    def run(at: float) -> list[list[int]]:
        return _nms.group_lists(_nms.merge_boxes(boxes, scores, categories, at,
                                                 "ios" if smaller_area else "iou", recheck=False))

    groups = None
    if rows.dtype == float32:
        if threshold > 0:
            groups = run(threshold)
    else:
        slack = _slack(boxes)
        if slack < threshold and threshold + slack <= 1:
            groups = run(threshold - slack)
            if groups != run(threshold + slack):
                groups = None
    if groups is None:
        order = np.lexsort((*boxes.T[::-1], -scores))
        groups = _groups(boxes, order, categories, smaller_area,
                         lambda overlaps: overlaps >= float32.type(threshold))
    if rows.shape[1] == 5:
        return groups
    classes = rows[:, 5].tolist()
    return sorted(groups, key=lambda group: classes[group[0]])  # stable


def _resized(function: str, masks: Any, mask_dimension: Any) -> Any:
    """The pixels of pictures [N, height, width] that supervision compares: the longer side gets
    mask_dimension pixels, fewer or more than it has."""
    side = integer(function, "mask_dimension", mask_dimension)
    if not 1 <= side <= 16384:
        raise ValueError(f"vecdet.{function}: mask_dimension is {side}, expected 1 to 16384, or "
                         "None")
    pictures = pixel_bytes(function, "masks", masks)
    if pictures.ndim != 3 or not pictures.size:
        return pictures
    height, width = pictures.shape[1:]
    scale = min(side / height, side / width)
    y, x = (np.linspace(0, old - 1, int(scale * old)).astype(np.intp) for old in (height, width))
    return pictures[:, y[:, None], x]


def _masks_of(function: str, predictions: Any, masks: Any, iou_threshold: Any,
              overlap_metric: Any, mask_dimension: Any) -> tuple[Any, Any, float, bool]:
    """The predictions, one mask for each, the threshold and whether the metric is IOS."""
    rows = _rows(function, predictions)
    threshold = _threshold(function, iou_threshold)
    smaller_area = _by_smaller_area(function, overlap_metric)
    if mask_dimension is not None and not isinstance(masks, Masks):
        masks = _resized(f"supervision.{function}", masks, mask_dimension)
    own = given_masks(f"supervision.{function}", "masks", masks)
    if own[0].count != len(rows):
        raise ValueError(f"vecdet.supervision.{function}: predictions has {len(rows)} rows, "
                         f"expected {own[0].count}, the number of masks")
    return rows, own, threshold, smaller_area


def mask_non_max_suppression(predictions: ArrayLike, masks: Masks | ArrayLike,
                             iou_threshold: float = 0.5, overlap_metric: Any = "IOU",
                             mask_dimension: int | None = 640) -> NDArray[np.bool_]:
    """Whether NMS per category keeps each prediction, by the overlap of the pixels of ``masks``,
    [N, height, width] or Masks. As in supervision, pictures are first scaled, up or down, so that
    the longer side has ``mask_dimension`` pixels, at most 16384. None compares all pixels as they
    are, which is also done for Masks, because they have no picture's size."""
    function = "mask_non_max_suppression"
    rows, own, threshold, smaller_area = _masks_of(function, predictions, masks, iou_threshold,
                                                   overlap_metric, mask_dimension)
    _, scores, categories = _columns(rows)
    kept = _nms.nms_of_masks(f"supervision.{function}", own, scores, categories,
                             _nms.strict_params(function, threshold, smaller_area))
    mask = np.zeros(len(rows), np.bool_)
    mask[kept] = True
    return mask


def mask_non_max_merge(predictions: ArrayLike, masks: Masks | ArrayLike,
                       iou_threshold: float = 0.5, mask_dimension: int | None = 640,
                       overlap_metric: Any = "IOU") -> list[list[int]]:
    """The groups of predictions to merge, the best of each first: per category, in descending
    score, by the overlap of the pixels of ``masks`` as in mask_non_max_suppression. The union of a
    group takes further masks. Predictions match from the threshold on."""
    function = "mask_non_max_merge"
    rows, own, threshold, smaller_area = _masks_of(function, predictions, masks, iou_threshold,
                                                   overlap_metric, mask_dimension)
    _, scores, categories = _columns(rows)
    groups = _nms.groups_of_masks(f"supervision.{function}", own, scores, categories, threshold,
                                  int(smaller_area))
    classes = categories.tolist()
    return sorted(groups, key=lambda group: classes[group[0]])  # stable


def merged_score(predictions: ArrayLike, group: Sequence[int]) -> float:
    """The mean of the scores of a group's members, weighted by their areas. supervision computes it
    pair by pair, with the area of the box as merged so far; for two members, it is the same."""
    rows = _rows("merged_score", predictions)
    members = integers("supervision.merged_score", "group", group)
    if members.ndim != 1 or not members.size:
        raise wrong_shape("supervision.merged_score", "group", members, "[members], 1 or more")
    if members.min() < 0 or members.max() >= len(rows):
        raise ValueError(found("supervision.merged_score", "group", group)
                         + f", expected indices of {len(rows)} predictions")
    own = rows[members].astype(np.float64)
    areas = (own[:, 2] - own[:, 0]) * (own[:, 3] - own[:, 1])
    return float((areas * own[:, 4]).sum() / areas.sum())
