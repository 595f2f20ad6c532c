# SPDX-License-Identifier: Apache-2.0
"""Functions with the names, arguments and results of supervision.

Predictions are [N, 5] or [N, 6]: x1 y1 x2 y2, score and, in the sixth column, a category. Ties of
scores are broken by lower index. supervision averages the scores of a group weighted by area;
merged_score does so for a group of box_non_max_merge.

>>> predictions = np.array([[0, 0, 10, 10, 0.8], [1, 0, 11, 10, 0.9], [20, 0, 30, 10, 0.7]])
>>> box_non_max_suppression(predictions).tolist()
[False, True, True]
>>> box_non_max_merge(predictions)
[[1, 0], [2]]
>>> round(merged_score(predictions, [1, 0]), 3)
0.85
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _nms
from ._arrays import choice, floats, int64, wrong_shape

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_METRICS = ("IOU", "IOS")


def _rows(function: str, predictions: Any) -> Any:
    rows = floats(f"supervision.{function}", "predictions", predictions)
    if rows.ndim != 2 or rows.shape[1] not in (5, 6):
        raise wrong_shape(f"supervision.{function}", "predictions", rows, "[N, 5] or [N, 6]")
    return rows


def _columns(function: str, predictions: Any) -> tuple[Any, Any, Any]:
    rows = _rows(function, predictions)
    categories = rows[:, 5].astype(int64) if rows.shape[1] == 6 else np.zeros(len(rows), int64)
    return rows[:, :4].copy(), rows[:, 4].copy(), categories


def box_non_max_suppression(predictions: ArrayLike, iou_threshold: float = 0.5,
                            overlap_metric: str = "IOU") -> NDArray[np.bool_]:
    """A mask of the predictions that NMS per category keeps: those without a better one that
    overlaps by more than the threshold. ``overlap_metric`` is ``"IOU"`` or ``"IOS"``."""
    function = "supervision.box_non_max_suppression"
    boxes, scores, categories = _columns("box_non_max_suppression", predictions)
    smaller_area = choice(_METRICS, function, "overlap_metric", overlap_metric) == 1
    kept = _nms.batched_nms(boxes, scores, categories, iou_threshold,
                            "ios" if smaller_area else "iou")
    mask = np.zeros(len(boxes), np.bool_)
    mask[kept] = True
    return mask


def box_non_max_merge(predictions: ArrayLike, iou_threshold: float = 0.5,
                      overlap_metric: str = "IOU") -> list[list[int]]:
    """The groups of predictions to merge, the best of each first: per category, in descending
    score. Predictions match from the threshold on."""
    function = "supervision.box_non_max_merge"
    boxes, scores, categories = _columns("box_non_max_merge", predictions)
    overlap = ("iou", "ios")[choice(_METRICS, function, "overlap_metric", overlap_metric)]
    merged = _nms.merge_boxes(boxes, scores, categories, iou_threshold, overlap, rechecks=False)
    classes = categories.tolist()
    return sorted(_nms.group_lists(merged), key=lambda group: classes[group[0]])  # stable


def merged_score(predictions: ArrayLike, group: Sequence[int]) -> float:
    """The mean of the scores of a group's members, weighted by their areas. supervision computes it
    pair by pair, with the area of the box as merged so far; for two members, it is the same."""
    own = _rows("merged_score", predictions)[list(group)].astype(np.float64)
    areas = (own[:, 2] - own[:, 0]) * (own[:, 3] - own[:, 1])
    return float((areas * own[:, 4]).sum() / areas.sum())
