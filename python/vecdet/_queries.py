# SPDX-License-Identifier: Apache-2.0
"""A DETR's queries: matching with ground-truth boxes, and losses."""

from __future__ import annotations

import functools
from ctypes import byref, c_double
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _c
from ._arrays import (TYPES, address, choice, empty, empty_like, floats, int64, integers, result,
                      same_small_floats, wrong_shape)
from ._c import query_class_cost, set_class_loss
from ._library import check, library
from ._messages import found
from ._packed import packer
from ._parameters import integer, params_of
from ._targets import Truth, has_no_images, is_list

__all__ = ["assign_least_cost", "match_queries", "set_loss_and_grad"]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_match_queries = library.vecdet_match_queries
_set_loss_and_grad = library.vecdet_set_loss_and_grad
_pack_outputs = packer(_c.detr_outputs)
_pack_layer = packer(_c.set_loss_layer)
_match_params = params_of(_c.query_match_params)
_loss_params = params_of(_c.set_loss_params, boxes="num_boxes")


@functools.lru_cache(maxsize=64)
def _layer_names(layers: int) -> list[str]:
    """The arguments in messages."""
    return [f"{name}[{k}]" for name in ("logits", "boxes", "matches") for k in range(layers)]


class _Layers:
    """The outputs of decoder layers, all of one type."""

    def __init__(self, function: str, logits: Any, boxes: Any, images: int) -> None:
        parts = (*logits,) if is_list(logits) else (logits,)
        box_parts = (*boxes,) if is_list(boxes) else (boxes,)
        if not parts:
            raise ValueError(found(function, "logits", logits) + ", expected one array per layer")
        self.count = count = len(parts)
        if is_list(logits) and not is_list(boxes):
            raise TypeError(f"{found(function, 'boxes', boxes)}, expected a list with {count} "
                            "arrays, as in logits")
        if len(box_parts) != count:
            raise ValueError(f"vecdet.{function}: boxes has {len(box_parts)} layers, expected "
                             f"{count}, as in logits")
        self.names = names = _layer_names(count)
        self.type, arrays = same_small_floats(function, names, parts + box_parts)
        self.logits, self.boxes = arrays[:count], arrays[count:]
        self.fields = []  # of each layer's detr_outputs
        for k, own in enumerate(self.logits):
            corners, shape = arrays[count + k], own.shape
            if len(shape) != 3 or shape[0] != images:
                raise wrong_shape(function, names[k], own, f"[{images}, queries, classes], the "
                                  "images of targets")
            _, queries, classes = shape
            if corners.shape != (images, queries, 4):
                raise wrong_shape(function, names[count + k], corners, f"{[images, queries, 4]}")
            self.fields.append((address(own), address(corners), queries, classes))


# Keywords of query_match_params
def match_queries(
    logits: Any,
    boxes: Any,
    targets: Any,
    classes: Any = None,
    class_cost: str = "focal",
    *,
    alpha: float = 0.25,
    gamma: float = 2.0,
    epsilon: float = 1e-8,
    class_weight: float = 2.0,
    l1_weight: float = 5.0,
    giou_weight: float = 2.0,
    groups: int = 1,
) -> NDArray[np.int64]:
    """Bipartite matching of a DETR's queries with ground-truth boxes, for all images, decoder
    layers and query groups in one call. The weights are RT-DETR's; DETR has 1, 5, 2 and "softmax".

    Args:
        logits: [images, queries, classes], or a list with one array per decoder layer.
        boxes: [images, queries, 4], cx cy w h in [0, 1], in the form of ``logits``.
        targets: ground-truth boxes [M, 4], cx cy w h; a list with one array per image, or the array
            of a single image.
        classes: integers, one per ground-truth box; all are 0 by default.
        class_cost: the class cost of a query and a box: "focal" (the focal cost, as in Deformable
            DETR, DINO and RT-DETR) or "softmax" (minus the softmax probability, where the last
            column is "no object", as in DETR). Default "focal".
        alpha: focal: weight of positives, in [0, 1]. Default 0.25.
        gamma: focal: focusing exponent, 0 or more; 2 is fast. Default 2.
        epsilon: focal: added to probabilities before the log, in [1e-18, 1]. Default 1e-8.
        class_weight, l1_weight, giou_weight: weights of the costs. Defaults 2, 5, 2.
        groups: the number of consecutive groups of equal size into which the queries of an image
            are divided; 1 or more. Each group is matched separately, as in Group DETR. Default 1.

    Returns:
        [layers, groups, M], the boxes of all images in order: the query of each box in its image,
        or -1 if the group has fewer queries than the image has boxes.

    >>> boxes = np.array([[[0.2, 0.2, 0.1, 0.1], [0.6, 0.6, 0.2, 0.2], [0.7, 0.3, 0.2, 0.4]]])
    >>> targets = [np.array([[0.7, 0.3, 0.3, 0.4], [0.2, 0.3, 0.1, 0.1]])]
    >>> match_queries(np.zeros((1, 3, 5)), boxes, targets, [[4, 0]]).tolist()
    [[[2, 0]]]
    """
    function = "match_queries"
    truth = Truth(function, targets, classes, name="targets",
                  no_images=is_list(targets) and not targets and has_no_images(logits))
    layers = _Layers(function, logits, boxes, truth.images)
    group_count = integer(function, "groups", groups)
    if group_count != 1:
        if not 1 <= group_count < 2**31:
            raise ValueError(found(function, "groups", groups) + ", expected 1 to 2147483647")
        for k, (_, _, queries, _) in enumerate(layers.fields):
            if queries % group_count:
                raise ValueError(f"vecdet.{function}: groups is {group_count}, expected a divisor "
                                 f"of {queries}, the queries of {layers.names[k]}")
    params = _match_params(
        function, choice(query_class_cost, function, "class_cost", class_cost), alpha, gamma,
        epsilon, class_weight, l1_weight, giou_weight, groups)
    matches = result(function, "groups", groups, (layers.count, max(0, group_count), truth.count),
                     int64)
    check(_match_queries(layers.type, b"".join(starmap(_pack_outputs, layers.fields)),
                         layers.count, truth.argument, params, None, address(matches)), function)
    return matches


def assign_least_cost(costs: ArrayLike) -> NDArray[np.int64]:
    """The column of each row of ``costs`` [rows, columns] in the assignment of least total cost,
    like scipy.optimize.linear_sum_assignment; -1 for rows without a column, if there are more rows
    than columns. Costs of +infinity forbid a pair.

    >>> assign_least_cost([[4, 1, 3], [2, 0, 5], [3, 2, 2]]).tolist()
    [1, 0, 2]
    """
    function = "assign_least_cost"
    array = floats(function, "costs", costs)
    if TYPES[array.dtype] == _c.BFLOAT16:
        array = array.astype(np.float32)
    if array.ndim != 2:
        raise wrong_shape(function, "costs", array, "[rows, columns]")
    rows, cols = array.shape
    columns, total = empty(rows, np.int64), c_double()
    check(library.vecdet_assign_least_cost(TYPES[array.dtype], address(array), rows, cols, cols,
                                           None, address(columns), byref(total)), function)
    return columns


# Keywords of set_loss_params: boxes is num_boxes
def set_loss_and_grad(
    logits: Any,
    boxes: Any,
    matches: Any,
    targets: Any,
    classes: Any = None,
    class_loss: str = "varifocal",
    *,
    alpha: float = 0.75,
    gamma: float = 2.0,
    no_object_weight: float = 0.1,
    class_weight: float = 1.0,
    l1_weight: float = 5.0,
    giou_weight: float = 2.0,
    num_boxes: float = 0.0,
    scale: float = 1.0,
) -> tuple[NDArray[np.float64], Any, Any]:
    """The weighted losses of a DETR's decoder layers and denoising groups, and the gradients of
    their sum, in one call. The defaults are RT-DETR's.

    Args:
        logits, boxes, targets, classes: as in match_queries. Layers may have different numbers of
            queries.
        matches: [layers, groups, M], as match_queries returns it, or a list with [groups, M] per
            layer: the query of each ground-truth box in its image, or -1. Sums are divided by the
            number of boxes, at least 1, times that of the layer's groups. If no image has a box,
            groups count as 1.
        class_loss: the class loss of all queries: "focal" (sigmoid focal loss, as in Deformable
            DETR and DINO), "varifocal" (varifocal loss whose targets are IoUs, as in RT-DETR) or
            "cross_entropy" (softmax cross entropy whose last column is "no object", as in DETR).
            Default "varifocal".
        alpha: focal: weight of positives, at most 1; if negative, no weights. varifocal: weight of
            negatives, 0 or more. Default 0.75.
        gamma: focal and varifocal: focusing exponent, 0 or more. Default 2.
        no_object_weight: cross entropy: weight of queries without a box, 0 or more. Default 0.1.
        class_weight, l1_weight, giou_weight: weights of the losses. Defaults 1, 5, 2.
        num_boxes: if above 0, sums are divided by this number of boxes instead of the ground
            truth's. Trainers with several ranks use the mean over ranks. This number is multiplied
            by the number of groups, which follows from the matches; without ground-truth boxes, the
            number of groups counts as 1. Default 0.
        scale: factor on losses and gradients, for loss scaling. Default 1.

    Returns:
        The losses [layers, 3]: class loss, L1 and GIoU loss of each layer; the gradients with
        respect to ``logits`` and ``boxes``, in their form.

    >>> boxes, target = np.array([[[0.5, 0.5, 0.2, 0.2]]]), [np.array([[0.5, 0.5, 0.4, 0.4]])]
    >>> losses, _, grad = set_loss_and_grad(np.zeros((1, 1, 3)), boxes, [[[0]]], target)
    >>> losses[0, 1:].round(4).tolist(), grad.round(4).tolist()
    ([2.0, 1.5], [[[0.0, 0.0, -7.5, -7.5]]])
    """
    function = "set_loss_and_grad"
    truth = Truth(function, targets, classes, name="targets",
                  no_images=is_list(targets) and not targets and has_no_images(logits))
    layers = _Layers(function, logits, boxes, truth.images)
    count = layers.count
    if not is_list(matches):
        matches = integers(function, "matches", matches)
        if not matches.ndim:
            raise wrong_shape(function, "matches", matches, f"[{count}, groups, {truth.count}]")
    if len(matches) != count:
        raise ValueError(f"vecdet.{function}: matches has {len(matches)} layers, expected {count}, "
                         "as in logits")
    params = _loss_params(
        function, choice(set_class_loss, function, "class_loss", class_loss), alpha, gamma,
        no_object_weight, class_weight, l1_weight, giou_weight, num_boxes, scale)
    used, packed, logits_grads, boxes_grads = [], [], [], []
    for k, part in zip(range(count), matches):  # an array's iterator ends with an exception
        part = integers(function, layers.names[2 * count + k], part)
        if part.ndim != 2 or part.shape[1] != truth.count:
            raise wrong_shape(function, f"matches[{k}]", part,
                              f"[groups, {truth.count}], the boxes of all targets")
        logits_grad, boxes_grad = empty_like(layers.logits[k]), empty_like(layers.boxes[k])
        used.append(part)  # to which the fields point
        logits_grads.append(logits_grad)
        boxes_grads.append(boxes_grad)
        packed.append(_pack_layer(*layers.fields[k], address(part), len(part),
                                  address(logits_grad), address(boxes_grad)))
    losses = empty((count, 3))
    check(_set_loss_and_grad(layers.type, b"".join(packed), count, truth.argument, params, None,
                             address(losses)), function)
    if is_list(logits):
        return losses, logits_grads, boxes_grads
    return losses, logits_grads[0], boxes_grads[0]
