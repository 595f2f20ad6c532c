# SPDX-License-Identifier: Apache-2.0
"""Turns the outputs of a head into detections: thresholds, NMS and whole pipelines."""

from __future__ import annotations

from typing import Any, Sequence

from torch import Tensor

from .._boxes import SIZE_LIMIT, WEIGHTS
from ._library import ops as _ops
from ._names import DETECTORS, number, sizes_of, split_detections

__all__ = ["postprocess"]


def _lists(function: str, **lists: Sequence[float] | None) -> Any:
    """Lists as operators take them: without elements if they are not given."""
    for name, values in lists.items():
        if isinstance(values, (int, float)) or getattr(values, "ndim", 1) == 0:
            raise TypeError(f"vecdet.torch.{function}: {name} is {values}, expected a list or None")
        if values is not None and len(values) == 0:
            raise ValueError(f"vecdet.torch.{function}: {name} has no elements, expected one or "
                             "more, or None")
    return [() if values is None else values for values in lists.values()]


# Keywords of postprocess_params, without detector, coder, with weights, centerness, size_limit
def postprocess(
    logits: Tensor,
    deltas: Tensor,
    anchors: Tensor,
    image_sizes: Sequence[Sequence[float]],
    level_sizes: Sequence[int] = (),
    detector: str = "retinanet",
    *,
    score_threshold: float = 0.05,
    max_candidates: int = 1000,
    iou_threshold: float = 0.5,
    max_detections: int = 300,
    weights: Sequence[float] = WEIGHTS,
    centerness: Tensor | None = None,
    size_limit: float = SIZE_LIMIT,
    min_size: float = 0.0,
    classes: Sequence[int] | None = None,
    class_thresholds: Sequence[float] | None = None,
    class_groups: Sequence[int] | None = None,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Turns head outputs into detections: boxes, scores and labels of each image.

    Args:
        logits: [images, anchors, classes].
        deltas: [images, anchors, 4].
        anchors: [anchors, 4] corners, the same for all images.
        image_sizes: (height, width) of each image.
        level_sizes: the number of anchors of each level; empty: one level.
        detector: ``"retinanet"``, ``"fcos"`` or ``"ssd"``: selects scores and order of steps.
        score_threshold: in [0, 1]; scores above it count. Default 0.05.
        max_candidates: per level; SSD: per class. Default 1000.
        iou_threshold: in [0, 1]. Default 0.5.
        max_detections: per image. Default 300.
        min_size: at most 1e35. Boxes with a smaller side are removed; 0 removes none. Default 0.
        classes: the wanted classes, columns of the logits; None: all. Not for an RPN.
        class_thresholds: a threshold per column of the logits, in [0, 1], instead of
            score_threshold; None: none. SSD's background does not use its own. Not for an RPN.
        class_groups: a group per column of the logits, any integer: boxes of classes with the same
            group suppress each other; None: each class is a group of its own. Not for an RPN.
        centerness: logits [images, anchors]; only for FCOS.
    """
    classes, class_thresholds, class_groups = _lists(
        "postprocess", classes=classes, class_thresholds=class_thresholds,
        class_groups=class_groups)
    return split_detections(*_ops.postprocess(
        logits, deltas, anchors, sizes_of(image_sizes), level_sizes,
        number(DETECTORS, "detector", detector), score_threshold, max_candidates, iou_threshold,
        max_detections, weights, centerness, size_limit, min_size, classes, class_thresholds,
        class_groups))
