# SPDX-License-Identifier: Apache-2.0
"""Functions with the names, arguments and results of sahi.postprocess.combine.

Predictions are [N, 6]: x1 y1 x2 y2, score, category. Boxes match if ``match_metric``, ``"IOU"`` or
``"IOS"`` (the intersection over the smaller area), is at least ``match_threshold``. At 0,
all boxes match. It is computed in float32, and ties of scores are broken by lower x1, y1, x2, y2,
as in SAHI 0.12. Scores and categories of NaN are a ValueError.

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
from ._arrays import category_numbers, check_scores, choice, float32s, int64, wrong_shape
from ._packed import offsets_of
from ._parameters import number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_METRICS = ("IOU", "IOS")


def _overlap(function: str, match_metric: str) -> str:
    return ("iou", "ios")[choice(_METRICS, f"sahi.{function}", "match_metric", match_metric)]


def _checked(function: str, argument: str, predictions: Any, match_metric: str,
             match_threshold: float) -> tuple[Any, float, str]:
    """The predictions, the threshold and the metric."""
    rows = float32s(f"sahi.{function}", argument, predictions, "[N, 6]", 6)
    if rows.ndim != 2:
        raise wrong_shape(f"sahi.{function}", argument, rows, "[N, 6]")
    check_scores("sahi." + function, rows, argument)
    threshold = number(f"sahi.{function}", "match_threshold", match_threshold)
    overlap = _overlap(function, match_metric)
    if not 0 <= threshold <= 1:
        raise ValueError(f"vecdet.sahi.{function}: match_threshold is {threshold}, expected a "
                         "number in [0, 1]")
    return rows, threshold, overlap


def _grouped(rows: Any, threshold: float, overlap: str, by_category: bool,
             transitive: bool) -> tuple[Any, Any]:
    """The members of all groups that are merged, the best of each first; and where each group
    begins."""
    if threshold == 0:
        groups = _all_matched(rows, by_category, transitive)
        return np.array([k for group in groups for k in group], int64), offsets_of(groups)
    merged = _nms.merge_boxes(rows[:, :4].copy(), rows[:, 4].copy(),
                              category_numbers(rows[:, 5]) if by_category else None, threshold,
                              overlap, transitive=transitive)
    return merged.members, merged.offsets


def _all_matched(rows: Any, by_category: bool, transitive: bool) -> list[list[int]]:
    """The groups at a threshold of 0, where all predictions match, also those apart. In NMM, a
    prediction takes none of its own score, except those with the same box."""
    order = np.lexsort((*rows[:, :4].T[::-1], -rows[:, 4]))
    categories = category_numbers(rows[:, 5]) if by_category else np.zeros(len(rows), int64)
    groups = []
    for category in np.unique(categories):
        own = order[categories[order] == category]
        best = rows[own[0]]
        taken = np.ones(len(own), np.bool_)
        if transitive:
            taken = (rows[own, 4] < best[4]) | (rows[own, :4] == best[:4]).all(1)
            groups += [[int(other)] for other in own[~taken]]
        taken[0] = False
        members = own[taken].tolist()
        groups.append([int(own[0]), *(sorted(members) if transitive else members)])
    scores = rows[:, 4].tolist()
    return sorted(groups, key=lambda group: -scores[group[0]])


def _has_ties(scores: Any) -> bool:
    if len(scores) < 32:
        return len(set(scores.tolist())) < len(scores)
    ordered = np.sort(scores)
    return np.count_nonzero(ordered[1:] == ordered[:-1]) > 0


def _suppressed(function: str, predictions: Any, match_metric: str, match_threshold: float,
                by_category: bool) -> list[int]:
    """NMS keeps the best of each group of greedy merging, which orders ties as SAHI does. Without
    ties, the kernel of NMS has the same result in half the time."""
    rows, threshold, overlap = _checked(function, "predictions", predictions, match_metric,
                                        match_threshold)
    scores = rows[:, 4].copy()
    if threshold > 0 and not _has_ties(scores):
        name, boxes = "sahi." + function, rows[:, :4].copy()
        params = _nms.sahi_params(name, threshold, overlap == "ios")
        if by_category:
            return _nms.nms_of_groups(name, boxes, scores, category_numbers(rows[:, 5]),
                                      params).tolist()
        return _nms.nms_of_all(name, boxes, scores, params).tolist()
    members, begins = _grouped(rows, threshold, overlap, by_category, False)
    kept = members[begins[:-1]]
    if by_category:
        scores = scores[kept]
        equal = scores[1:] == scores[:-1]
        if np.count_nonzero(equal):  # the lower category comes first
            tied = np.nonzero(np.r_[equal, False] | np.r_[False, equal])[0]
            kept[tied] = kept[tied][np.lexsort((rows[kept[tied], 5], -scores[tied]))]
    return kept.tolist()


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
    members, begins = _grouped(
        *_checked(function, "object_predictions_as_tensor", predictions, match_metric,
                  match_threshold), by_category, transitive)
    ends = begins if type(begins) is list else begins.tolist()
    listed = members.tolist()
    return {listed[a]: listed[a + 1:b] for a, b in zip(ends, ends[1:])}


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
