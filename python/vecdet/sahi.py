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

SAHI matches predictions by their boxes, also those that have masks. merge_predictions then merges
the boxes and the masks of each group, as SAHI's GREEDYNMM and NMM do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import numpy as np

from . import _nms
from ._arrays import (category_numbers, check_scores, choice, float32s, float64, floats, int64,
                      wrong_shape)
from ._masks import Masks
from ._messages import found
from ._packed import offsets_of
from ._parameters import flag, number
from ._run_lengths import RunLengths, checked_runs, encoded, joined, merge_masks, selected

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

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


class MergedPredictions(NamedTuple):
    """The result of merge_predictions: one prediction for each group."""

    predictions: NDArray[np.float64]
    """[M, 6]: x1 y1 x2 y2, score, category."""
    masks: RunLengths | None
    """The union of the masks of each group's merged members; None without masks."""
    members: list[list[int]]
    """Which predictions are merged, the kept one of each group first."""


def _box_overlap(a: Sequence[float], b: Sequence[float], smaller_area: bool) -> float:
    """As SAHI computes it in float64; 0 instead of NaN."""
    common = (max(min(a[2], b[2]) - max(a[0], b[0]), 0.0)
              * max(min(a[3], b[3]) - max(a[1], b[1]), 0.0))
    area, other = (a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1])
    whole = min(area, other) if smaller_area else area + other - common
    return common / whole if common > 0 and whole > 0 else 0.0


def merge_predictions(
    predictions: ArrayLike,
    masks: RunLengths | Masks | ArrayLike | None = None,
    postprocess_type: str = "GREEDYNMM",
    match_metric: str = "IOU",
    match_threshold: float = 0.5,
    class_agnostic: bool = True,
    size: Sequence[Any] | None = None,
) -> MergedPredictions:
    """Non-maximum merging with masks, as SAHI's GreedyNMMPostprocess and NMMPostprocess do it.

    Boxes alone decide what matches. The members of a group are taken in order. One is merged if its
    box overlaps that of the group, as merged so far, by more than the threshold: the group's box
    becomes the smallest around both, its score the greater, its category that of the greater score
    (of the member, if they are equal), and its mask the union of both. Other members are dropped.
    SAHI computes unions of polygons, which pass through the middles of pixels if they come from a
    mask. Here, they are unions of pixels.

    Args:
        predictions: [N, 6]: x1 y1 x2 y2, score, category.
        masks: N masks in whole pictures of one size: RunLengths, Masks, or pictures
            [N, height, width]. To move masks of a slice to their place, add its offset to
            ``boxes`` of Masks. None: predictions have no masks.
        postprocess_type: ``"GREEDYNMM"`` or ``"NMM"``, in which a taken prediction takes its own
            matches, too.
        match_metric: ``"IOU"`` or ``"IOS"``.
        match_threshold: in [0, 1].
        class_agnostic: whether predictions of different categories match.
        size: for Masks only: (height, width) of the picture.

    >>> pictures = np.zeros((2, 10, 12), bool)
    >>> pictures[0, :, :10] = pictures[1, :, 2:] = True
    >>> merged = merge_predictions([[0, 0, 10, 10, 0.8, 1], [2, 0, 12, 10, 0.9, 1]], pictures)
    >>> merged.predictions.tolist(), merged.members, int(merged.masks.full().sum())
    ([[0.0, 0.0, 12.0, 10.0, 0.9, 1.0]], [[1, 0]], 120)
    """
    function = "merge_predictions"
    rows, threshold, overlap = _checked(function, "predictions", predictions, match_metric,
                                        match_threshold)
    transitive = choice(("GREEDYNMM", "NMM"), f"sahi.{function}", "postprocess_type",
                        postprocess_type) == 1
    by_category = not flag(f"sahi.{function}", "class_agnostic", class_agnostic)
    if size is not None and not isinstance(masks, Masks):
        raise TypeError(found(f"sahi.{function}", "size", size)
                        + ", expected None, unless masks are Masks")
    runs = None
    if masks is not None:
        runs = (checked_runs(f"sahi.{function}", masks) if isinstance(masks, RunLengths)
                else encoded(f"sahi.{function}", masks, size))
        if len(runs.sizes) != len(rows):
            raise ValueError(f"vecdet.sahi.{function}: predictions has {len(rows)} rows, expected "
                             f"{len(runs.sizes)}, the number of masks")
        differ = (runs.sizes != runs.sizes[:1]).any(1)
        if differ.any():
            k = int(differ.argmax())
            (height, width), (wrong_height, wrong_width) = runs.sizes[[0, k]].tolist()
            raise ValueError(f"vecdet.sahi.{function}: masks.sizes[{k}] is {wrong_height} x "
                             f"{wrong_width}, expected {height} x {width}, the size of all "
                             "pictures")
    members, begins = _grouped(rows, threshold, overlap, by_category, transitive)
    given = floats(f"sahi.{function}", "predictions", predictions).astype(float64).tolist()
    listed, ends = members.tolist(), [int(end) for end in begins]
    merged_rows, merged = [], []
    for first, end in zip(ends, ends[1:]):
        own, taken = given[listed[first]], [listed[first]]
        for member in listed[first + 1:end]:
            other = given[member]
            if not _box_overlap(own, other, overlap == "ios") > threshold:
                continue
            own = [min(own[0], other[0]), min(own[1], other[1]), max(own[2], other[2]),
                   max(own[3], other[3]), max(own[4], other[4]),
                   own[5] if own[4] > other[4] else other[5]]
            taken.append(member)
        merged_rows.append(own)
        merged.append(taken)
    if runs is not None:
        unions = [selected(runs, taken) for taken in merged]
        runs = joined([merge_masks(union) if len(union.sizes) > 1 else union for union in unions])
    return MergedPredictions(np.array(merged_rows, float64).reshape(-1, 6), runs, merged)
