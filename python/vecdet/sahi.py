# SPDX-License-Identifier: Apache-2.0
"""Functions with the names, arguments and results of sahi.postprocess.combine.

Predictions are [N, 6]: x1 y1 x2 y2, score, category. Boxes match if ``match_metric``, ``"IOU"`` or
``"IOS"`` (the intersection over the smaller area), is at least ``match_threshold``. It is computed
in float32, and ties of scores are broken by lower x1, y1, x2, y2 (NMS: by lower index).

>>> predictions = np.array([[0, 0, 10, 10, 0.8, 1], [2, 0, 12, 10, 0.9, 1], [2, 0, 12, 10, 0.7, 2]])
>>> batched_greedy_nmm(predictions)
{1: [0], 2: []}
>>> batched_nms(predictions)
[1, 2]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _nms
from ._arrays import choice, float32s, int64

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_METRICS = ("IOU", "IOS")


def _overlap(function: str, match_metric: str) -> str:
    return ("iou", "ios")[choice(_METRICS, f"sahi.{function}", "match_metric", match_metric)]


def _columns(function: str, predictions: Any, by_category: bool) -> tuple[Any, Any, Any]:
    """Boxes, scores and, if they are used, categories."""
    rows = float32s(f"sahi.{function}", "predictions", predictions, "[N, 6]", 6)
    return (rows[:, :4].copy(), rows[:, 4].copy(),
            np.rint(rows[:, 5]).astype(int64) if by_category else None)


def _suppressed(function: str, predictions: Any, match_metric: str, match_threshold: float,
                by_category: bool) -> list[int]:
    boxes, scores, categories = _columns(function, predictions, by_category)
    idxs = np.zeros(len(boxes), int64) if categories is None else categories
    return _nms.sahi_nms(boxes, scores, idxs, match_threshold,
                         _overlap(function, match_metric) == "ios").tolist()


def nms(predictions: ArrayLike, match_metric: str = "IOU",
        match_threshold: float = 0.5) -> list[int]:
    """The kept predictions in descending score; categories are not used."""
    return _suppressed("nms", predictions, match_metric, match_threshold, False)


def batched_nms(predictions: ArrayLike, match_metric: str = "IOU",
                match_threshold: float = 0.5) -> list[int]:
    """The kept predictions of each category, in descending score."""
    return _suppressed("batched_nms", predictions, match_metric, match_threshold, True)


def _merged(function: str, predictions: Any, match_metric: str, match_threshold: float,
            by_category: bool, transitive: bool) -> dict[int, list[int]]:
    boxes, scores, categories = _columns(function, predictions, by_category)
    merged = _nms.merge_boxes(boxes, scores, categories, match_threshold,
                              _overlap(function, match_metric), transitive=transitive)
    return {group[0]: group[1:] for group in _nms.group_lists(merged)}


def greedy_nmm(object_predictions_as_tensor: ArrayLike, match_metric: str = "IOU",
               match_threshold: float = 0.5) -> dict[int, list[int]]:
    """The predictions that are merged into each kept one; categories are not used."""
    return _merged("greedy_nmm", object_predictions_as_tensor, match_metric, match_threshold, False,
                   False)


def batched_greedy_nmm(object_predictions_as_tensor: ArrayLike, match_metric: str = "IOU",
                       match_threshold: float = 0.5) -> dict[int, list[int]]:
    """The same per category."""
    return _merged("batched_greedy_nmm", object_predictions_as_tensor, match_metric,
                   match_threshold, True, False)


def nmm(object_predictions_as_tensor: ArrayLike, match_metric: str = "IOU",
        match_threshold: float = 0.5) -> dict[int, list[int]]:
    """greedy_nmm, but a merged prediction takes its own matches, too."""
    return _merged("nmm", object_predictions_as_tensor, match_metric, match_threshold, False, True)


def batched_nmm(object_predictions_as_tensor: ArrayLike, match_metric: str = "IOU",
                match_threshold: float = 0.5) -> dict[int, list[int]]:
    """The same per category."""
    return _merged("batched_nmm", object_predictions_as_tensor, match_metric, match_threshold, True,
                   True)
