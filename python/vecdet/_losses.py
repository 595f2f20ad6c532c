# SPDX-License-Identifier: Apache-2.0
"""Losses and their gradients. A loss X returns the loss of each element (reduction "none"), or a
number ("mean" or "sum"); X_and_grad returns the number and its gradient, computed in one pass. Most
of the latter are in _gradients.py, which is generated."""

from __future__ import annotations

import math
from ctypes import byref, c_double
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _c
from ._arrays import (TYPES, address, box_rows, choice, empty, float32s, floats, integers,
                      optional, same_floats, wrong_shape)
from ._boxes import SIZE_LIMIT, WEIGHTS, coder_params
from ._library import check, library
from ._messages import found
from ._packed import packer
from ._parameters import filled, flag, integer, kept, number, params_of
from ._rotated import rotated_pair

__all__ = [
    "bce_loss", "complete_box_iou_loss", "ctc_loss", "distance_box_iou_loss",
    "distribution_focal_loss", "generalized_box_iou_loss", "prob_iou_loss", "quality_focal_loss",
    "regression_loss", "sigmoid_focal_loss", "smooth_l1_loss", "softmax_cross_entropy_loss",
    "softmax_cross_entropy_loss_and_grad", "varifocal_loss", "varifocal_loss_and_grad",
]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_REDUCTIONS = ("none", "mean", "sum")
_SUMS = ("mean", "sum")  # with a gradient
_MOST = float(np.finfo(np.float32).max)


def _reduced(function: str, reduction: str, with_grad: bool = False) -> int:
    if type(reduction) is str and reduction == "sum":
        return _c.SUM
    choice(_SUMS if with_grad else _REDUCTIONS, function, "reduction", reduction)
    return _c.MEAN if reduction == "mean" else _c.SUM


def _divided(function: str, scale: Any, count: int) -> float:
    """The scale of a mean."""
    factor = number(function, "scale", scale)
    if not abs(factor) <= _MOST:
        raise ValueError(found(function, "scale", scale) + ", expected a finite float")
    return factor / count


def _logits(function: str, inputs: Any, convert: Any = floats) -> tuple[Any, tuple[int, ...], int]:
    """Logits [..., classes]: the array, the shape of its rows, and the classes."""
    array = convert(function, "inputs", inputs)
    shape = array.shape
    if not shape:
        raise wrong_shape(function, "inputs", array, "[..., classes]")
    return array, shape[:-1], shape[-1]


def _forms(name: str) -> tuple[Any, Any, Any]:
    """The loss of each element, the sum or mean, and the latter with its gradient."""
    return (getattr(library, f"vecdet_{name}_unreduced", None), getattr(library, f"vecdet_{name}"),
            getattr(library, f"vecdet_{name}_and_grad"))


_SIGMOID_FOCAL = _forms("sigmoid_focal_loss")
_QUALITY_FOCAL = _forms("quality_focal_loss")
_VARIFOCAL = _forms("varifocal_loss")
_BCE = _forms("bce_loss")
_SOFTMAX = _forms("softmax_cross_entropy_loss")
_CTC = _forms("ctc_loss")
_DISTRIBUTION_FOCAL = _forms("distribution_focal_loss")
_SMOOTH_L1 = _forms("smooth_l1_loss")
_IOU = _forms("iou_loss")
_PROB_IOU = _forms("prob_iou_loss")
_REGRESSION = _forms("regression_loss")


def _run(function: str, forms: tuple[Any, Any, Any], arguments: tuple[Any, ...], inputs: Any,
         reduction: str | None, element_shape: Any = None) -> Any:
    """Calls the form of a loss that the reduction asks for; None: with the gradient."""
    unreduced, reduced, with_grad = forms
    if reduction == "none":
        losses = empty(inputs.shape if element_shape is None else element_shape, inputs.dtype)
        check(unreduced(*arguments + (address(losses),)), function)
        return losses
    loss = c_double()
    if reduction is not None:
        check(reduced(*arguments + (byref(loss),)), function)
        return loss.value
    grad = empty(inputs.shape, inputs.dtype)
    check(with_grad(*arguments + (byref(loss), address(grad))), function)
    return loss.value, grad


def _or_nan(result: Any, is_empty: bool) -> Any:
    """The result of _run, with NaN instead of the mean if it is over nothing."""
    if not is_empty:
        return result
    return (math.nan, result[1]) if isinstance(result, tuple) else math.nan


# ---- Focal loss

_pack_targets = packer(_c.focal_targets)
_focal_params = params_of(_c.focal_loss_params)


def _focal(function: str, inputs: Any, targets: Any, alpha: float, gamma: float, reduction: str,
           labels: Any, scores: Any, scale: float, row_weights: Any, background: int, ignore: int,
           with_grad: bool) -> Any:
    mean = _reduced(function, reduction, with_grad)
    if (targets is None) == (labels is None):
        raise ValueError(f"vecdet.{function}: targets is {'None' if targets is None else 'given'}, "
                         f"as labels is, expected either targets or labels")
    if targets is not None:
        try:
            _, (inputs, targets) = same_floats(function, ("inputs", "targets"), (inputs, targets))
        except TypeError as error:
            if "targets" not in str(error):
                raise
            raise TypeError(f"{error}; pass class labels as labels=") from error
        if targets.shape != inputs.shape:
            raise wrong_shape(function, "targets", targets, f"{list(inputs.shape)}, the shape of "
                              "inputs; pass class labels as labels=")
    array, rows, classes = _logits(function, inputs)
    if labels is not None:
        labels = integers(function, "labels", labels, rows=rows)
    elif scores is not None:
        raise ValueError(f"vecdet.{function}: scores is given, expected None without labels")
    if scores is not None:
        scores = float32s(function, "scores", scores, rows=rows)
    if row_weights is None:
        params = _focal_params(function, alpha, gamma, scale, mean, background, ignore)
    else:
        row_weights = float32s(function, "row_weights", row_weights, rows=rows)
        params = byref(filled(function, _c.focal_loss_params, (
            alpha, gamma, scale, mean, background, ignore, address(row_weights))))
    return _run(function, _SIGMOID_FOCAL, (
        TYPES[array.dtype], address(array), math.prod(rows), classes, classes,
        _pack_targets(optional(labels), optional(scores), optional(targets)), params),
        array, None if with_grad else reduction)


# Keywords of focal_loss_params, without reduction, with labels, scores
def sigmoid_focal_loss(
    inputs: ArrayLike,
    targets: ArrayLike | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "none",
    *,
    labels: ArrayLike | None = None,
    scores: ArrayLike | None = None,
    scale: float = 1.0,
    row_weights: ArrayLike | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Any:
    """Sigmoid focal loss, https://arxiv.org/abs/1708.02002.

    Args:
        inputs: logits [..., classes].
        targets: numbers in [0, 1], of the shape of ``inputs``; or ``labels`` instead.
        alpha: weight of positives; negatives have weight 1-alpha. If negative, both have weight 1.
            Default 0.25.
        gamma: focusing exponent, 0 or more. Default 2.
        scale: factor on loss and gradient; trainers use 1 / max(1, foreground). Default 1.
        background: label of rows in which every class is negative. Default -1.
        ignore: label of rows that do not count: loss 0 and gradient 0. Default -2.
        row_weights: an additional factor per row; None: all 1.
        reduction: ``"none"``, ``"mean"`` (over all elements) or ``"sum"``.
        labels: integers of the shape of ``inputs`` without the classes: for each row, a class,
            ``background`` or ``ignore``. No one-hot array is created or read.
        scores: with labels, the targets of the labelled classes; 1 by default.

    >>> round(sigmoid_focal_loss([[0.0, 0.0]], labels=[0], reduction="sum"), 4)
    0.1733
    """
    return _focal("sigmoid_focal_loss", inputs, targets, alpha, gamma, reduction, labels, scores,
                  scale, row_weights, background, ignore, False)


# ---- Losses of scored labels


@kept
def _soft_params(function: str, params: Any, *values: Any) -> Any:
    """Parameters that many calls share."""
    return byref(filled(function, params, values))


def _soft(function: str, forms: tuple[Any, Any, Any], params: type, options: tuple[Any, ...],
          inputs: Any, labels: Any, scores: Any, reduction: str, scale: float, row_weights: Any,
          background: int, ignore: int, with_grad: bool) -> Any:
    mean = _reduced(function, reduction, with_grad)
    array, rows, classes = _logits(function, inputs)
    labels = integers(function, "labels", labels, rows=rows)
    scores = float32s(function, "scores", scores, rows=rows)
    if row_weights is None:
        chosen = _soft_params(function, params, *options, scale, mean, background, ignore)
    else:
        row_weights = float32s(function, "row_weights", row_weights, rows=rows)
        chosen = byref(filled(function, params, (
            *options, scale, mean, background, ignore, address(row_weights))))
    return _run(function, forms, (
        TYPES[array.dtype], address(array), labels.size, classes, classes, address(labels),
        address(scores), chosen), array, None if with_grad else reduction)


# Keywords of quality_focal_params, without reduction
def quality_focal_loss(
    inputs: ArrayLike,
    labels: ArrayLike,
    scores: ArrayLike,
    beta: float = 2.0,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    row_weights: ArrayLike | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Any:
    """Quality focal loss, https://arxiv.org/abs/2006.04388. Each row of logits has a label and a
    score, which is the target of the labelled class.

    Args:
        inputs: logits [..., classes].
        labels: integers [...]: a class, ``background`` or ``ignore``.
        scores: numbers in [0, 1], of the shape of ``labels``.
        reduction: ``"none"``, ``"mean"`` (over all elements) or ``"sum"``.
        beta: focusing exponent, 0 or more; 0, 1 and 2 are fast. Default 2.
        scale: factor on loss and gradient; trainers use 1 / max(1, sum of scores). Default 1.
        background: label of rows in which every class is negative. Default -1.
        ignore: label of rows that do not count: loss 0 and gradient 0. Default -2.
        row_weights: an additional factor per row; None: all 1.

    >>> round(quality_focal_loss([[0.0, 0.0]], [0], [0.5], reduction="sum"), 4)
    0.1733
    """
    return _soft("quality_focal_loss", _QUALITY_FOCAL, _c.quality_focal_params, (beta,),
                 inputs, labels, scores, reduction, scale, row_weights, background, ignore, False)


# Keywords of varifocal_params, without reduction, grad_through_factor
def varifocal_loss(
    inputs: ArrayLike,
    labels: ArrayLike,
    scores: ArrayLike,
    alpha: float = 0.75,
    gamma: float = 2.0,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    row_weights: ArrayLike | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Any:
    """Varifocal loss, https://arxiv.org/abs/2008.13367; otherwise like quality_focal_loss."""
    return _soft("varifocal_loss", _VARIFOCAL, _c.varifocal_params, (alpha, gamma, True),
                 inputs, labels, scores, reduction, scale, row_weights, background, ignore, False)


# Keywords of varifocal_params, without reduction
def varifocal_loss_and_grad(
    inputs: ArrayLike,
    labels: ArrayLike,
    scores: ArrayLike,
    alpha: float = 0.75,
    gamma: float = 2.0,
    reduction: str = "sum",
    *,
    grad_through_factor: bool = True,
    scale: float = 1.0,
    row_weights: ArrayLike | None = None,
    background: int = -1,
    ignore: int = -2,
) -> tuple[float, NDArray[Any]]:
    """The sum or mean of varifocal_loss, and its gradient with respect to ``inputs``.

    Args:
        alpha: weight of negatives, 0 or more. Default 0.75.
        gamma: focusing exponent of negatives, 0 or more; 0, 1 and 2 are fast. Default 2.
        grad_through_factor: differentiates p^gamma with respect to the logit, as in the reference
            implementation. If False, p^gamma is a constant weight, and the gradient of a negative
            is alpha p^gamma p. Default True.
        scale: factor on loss and gradient; trainers use 1 / max(1, sum of scores). Default 1.
        background: label of rows in which every class is negative. Default -1.
        ignore: label of rows that do not count: loss 0 and gradient 0. Default -2.
        row_weights: an additional factor per row; None: all 1.
    """
    return _soft("varifocal_loss_and_grad", _VARIFOCAL, _c.varifocal_params,
                 (alpha, gamma, grad_through_factor), inputs, labels, scores, reduction, scale,
                 row_weights, background, ignore, True)


# Keywords of bce_params, without reduction
def bce_loss(
    inputs: ArrayLike,
    labels: ArrayLike,
    scores: ArrayLike,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    row_weights: ArrayLike | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Any:
    """Binary cross entropy with logits; otherwise like quality_focal_loss."""
    return _soft("bce_loss", _BCE, _c.bce_params, (), inputs, labels, scores, reduction,
                 scale, row_weights, background, ignore, False)


# ---- Softmax and distributions, in float32


_softmax_params = params_of(_c.softmax_cross_entropy_params)


def _counted(labels: Any, ignore: int) -> int:
    return int(np.count_nonzero(labels != ignore))


# Keywords of softmax_cross_entropy_params
def softmax_cross_entropy_loss(
    inputs: ArrayLike,
    labels: ArrayLike,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    ignore: int = -2,
) -> Any:
    """Softmax cross entropy of logits [..., classes], in float32: one loss per row, or a number;
    the mean is over rows whose label is not ``ignore``.

    >>> softmax_cross_entropy_loss([[0.0, 0.0]], [1]).round(4).tolist()
    [0.6930999755859375]
    """
    function = "softmax_cross_entropy_loss"
    _reduced(function, reduction)
    array, rows, classes = _logits(function, inputs, float32s)
    numbers = integers(function, "labels", labels, rows=rows)
    is_empty = False
    if reduction == "mean":
        counted = _counted(numbers, integer(function, "ignore", ignore))
        scale, is_empty = _divided(function, scale, max(1, counted)), not counted
    params = _softmax_params(function, scale, ignore)
    loss = _run(function, _SOFTMAX, (address(array), numbers.size, classes, classes,
                                     address(numbers), params), array, reduction, rows)
    return _or_nan(loss, is_empty)


# Keywords of softmax_cross_entropy_params, with negatives_per_foreground, background
def softmax_cross_entropy_loss_and_grad(
    inputs: ArrayLike,
    labels: ArrayLike,
    *,
    negatives_per_foreground: int | None = None,
    background: int = 0,
    scale: float = 1.0,
    ignore: int = -2,
) -> tuple[float, NDArray[np.float32]]:
    """The sum of softmax_cross_entropy_loss, and its gradient with respect to ``inputs``.

    Args:
        inputs: logits [..., classes]; with mining, [images, anchors, classes].
        negatives_per_foreground: SSD's mining, https://arxiv.org/abs/1512.02325: only the
            foreground counts and, in each image, this many of the hardest negatives per foreground
            anchor.
        background: the class of negatives.
        scale: factor on losses, sum and gradient. Default 1.
        ignore: label of rows that do not count; -100 in torch. If ``ignore`` is a class, the rows
            of that class do not count. If it is the background, there are no negatives to mine.
            Default -2.
    """
    function = "softmax_cross_entropy_loss_and_grad"
    array, rows, classes = _logits(function, inputs, float32s)
    numbers = integers(function, "labels", labels, rows=rows)
    mining = None
    if negatives_per_foreground is not None:
        if array.ndim != 3:
            raise wrong_shape(function, "inputs", array, "[images, anchors, classes]")
        mining = byref(filled(function, _c.hard_negative_mining, (
            len(array), negatives_per_foreground, background)))
    params = _softmax_params(function, scale, ignore)
    return _run(function, _SOFTMAX, (address(array), numbers.size, classes, classes,
                                     address(numbers), mining, params, None), array, None)


def _distribution(function: str, inputs: Any, targets: Any, reduction: str, scale: float,
                  row_weights: Any, with_grad: bool) -> Any:
    _reduced(function, reduction, with_grad)
    array, rows, bins = _logits(function, inputs, float32s)
    places = float32s(function, "targets", targets, rows=rows)
    if row_weights is not None:
        row_weights = float32s(function, "row_weights", row_weights, rows=rows)
    is_empty = False
    if reduction == "mean":
        scale, is_empty = _divided(function, scale, max(1, places.size)), not places.size
    loss = _run(function, _DISTRIBUTION_FOCAL, (
        address(array), places.size, bins, bins, address(places), optional(row_weights),
        number(function, "scale", scale)), array, None if with_grad else reduction, rows)
    return _or_nan(loss, is_empty)


# Keywords of distribution_focal_loss_params
def distribution_focal_loss(
    inputs: ArrayLike,
    targets: ArrayLike,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    row_weights: ArrayLike | None = None,
) -> Any:
    """Distribution focal loss, https://arxiv.org/abs/2006.04388, of logits [..., bins] against
    ``targets`` [...] in bins, in float32: one loss per row, or a number; the mean is over rows.

    >>> round(distribution_focal_loss([[0.0, 0.0]], [0.5], reduction="sum"), 4)
    0.6931
    """
    return _distribution("distribution_focal_loss", inputs, targets, reduction, scale, row_weights,
                         False)


# ---- Box losses


def _boxes(function: str, names: tuple[str, str], inputs: Any, targets: Any) -> Any:
    """Boxes [..., 4] of the same shape and type: their type, number and arrays."""
    type_, (a, b) = same_floats(function, names, (inputs, targets))
    shape = a.shape
    if shape[-1:] != (4,):
        raise wrong_shape(function, names[0], a, "[..., 4]")
    if b.shape != shape:
        raise wrong_shape(function, names[1], b, "[..., 4]" if b.shape[-1:] != (4,) else
                          f"{list(shape)}, the shape of {names[0]}")
    return type_, a.size // 4, a, b


def _check_per_box(function: str, argument: str, array: Any, rows: tuple[int, ...]) -> None:
    """Refuses arrays without one number per box, in the boxes' shape or flat."""
    if array.shape != rows and array.shape != (math.prod(rows),):
        raise wrong_shape(function, argument, array, f"{list(rows)}, one number per box")


def _selected(function: str, labels: Any, background: int, ignore: int) -> Any:
    return byref(filled(function, _c.box_selection, (address(labels), background, ignore, None, 0)))


def _smooth_l1(function: str, inputs: Any, target: Any, reduction: str, beta: float, labels: Any,
               scale: float, box_weights: Any, background: int, ignore: int,
               with_grad: bool) -> Any:
    _reduced(function, reduction, with_grad)
    type_, count, predictions, targets = _boxes(function, ("input", "target"), inputs, target)
    selection = None
    if labels is not None:
        labels = integers(function, "labels", labels)
        _check_per_box(function, "labels", labels, predictions.shape[:-1])
        selection = _selected(function, labels, background, ignore)
    if box_weights is not None:
        box_weights = float32s(function, "box_weights", box_weights)
        _check_per_box(function, "box_weights", box_weights, predictions.shape[:-1])
    is_empty = False
    if reduction == "mean":
        counted = count if labels is None else int(np.count_nonzero(
            (labels != integer(function, "background", background))
            & (labels != integer(function, "ignore", ignore))))
        is_empty = counted == 0
        scale = _divided(function, scale, 4 * max(1, counted))
    result = _run(function, _SMOOTH_L1, (
        type_, address(predictions), address(targets), count, selection,
        number(function, "beta", beta), number(function, "scale", scale), optional(box_weights)),
        predictions, None if with_grad else reduction)
    return _or_nan(result, is_empty)


# Keywords of smooth_l1_params, without beta, with beta, labels, background, ignore
def smooth_l1_loss(
    input: ArrayLike,
    target: ArrayLike,
    reduction: str = "mean",
    beta: float = 1.0,
    *,
    labels: ArrayLike | None = None,
    scale: float = 1.0,
    box_weights: ArrayLike | None = None,
    background: int = -1,
    ignore: int = -2,
) -> Any:
    """Smooth L1 loss of boxes [..., 4], like torch.nn.functional.smooth_l1_loss.

    Args:
        beta: where the parabola meets the line; 0 is the absolute difference.
        labels: one integer per box; only boxes whose label is neither ``background`` nor ``ignore``
            count, and the mean is over these.
        scale: factor on losses, sum and gradient. Default 1.
        box_weights: an additional factor per box; None: all 1.

    >>> smooth_l1_loss([[0, 0, 10.0, 10]], [[0, 0, 12.0, 10]], reduction="sum")
    1.5
    """
    return _smooth_l1("smooth_l1_loss", input, target, reduction, beta, labels, scale, box_weights,
                      background, ignore, False)


def _iou_loss(function: str, kind: int, boxes1: Any, boxes2: Any, reduction: str, eps: float,
              with_grad: bool) -> Any:
    _reduced(function, reduction, with_grad)
    type_, count, a, b = _boxes(function, ("boxes1", "boxes2"), boxes1, boxes2)
    scale = 1 / max(1, count) if reduction == "mean" else 1.0
    return _run(function, _IOU, (type_, address(a), address(b), count, kind,
                                 number(function, "eps", eps), scale, None), a,
                None if with_grad else reduction, a.shape[:-1])


# Keywords of iou_loss_params: epsilon is eps, without scale, box_weights
def generalized_box_iou_loss(
    boxes1: ArrayLike,
    boxes2: ArrayLike,
    reduction: str = "none",
    eps: float = 1e-7,
) -> Any:
    """GIoU loss of predicted ``boxes1`` and ``boxes2``, [..., 4] corners each: one loss per box, or
    a number. The mean of no boxes is 0, as in torchvision. https://arxiv.org/abs/1902.09630

    >>> round(generalized_box_iou_loss([[0, 0, 10.0, 10]], [[0, 0, 10.0, 5]], "sum"), 4)
    0.5
    """
    return _iou_loss("generalized_box_iou_loss", _c.GIOU, boxes1, boxes2, reduction, eps, False)


# Keywords of iou_loss_params: epsilon is eps, without scale, box_weights
def distance_box_iou_loss(
    boxes1: ArrayLike,
    boxes2: ArrayLike,
    reduction: str = "none",
    eps: float = 1e-7,
) -> Any:
    """DIoU loss, otherwise like generalized_box_iou_loss. https://arxiv.org/abs/1911.08287"""
    return _iou_loss("distance_box_iou_loss", _c.DIOU, boxes1, boxes2, reduction, eps, False)


# Keywords of iou_loss_params: epsilon is eps, without scale, box_weights
def complete_box_iou_loss(
    boxes1: ArrayLike,
    boxes2: ArrayLike,
    reduction: str = "none",
    eps: float = 1e-7,
) -> Any:
    """CIoU loss, otherwise like generalized_box_iou_loss. https://arxiv.org/abs/1911.08287"""
    return _iou_loss("complete_box_iou_loss", _c.CIOU, boxes1, boxes2, reduction, eps, False)


def _prob_iou_loss(function: str, boxes1: Any, boxes2: Any, angles: str, reduction: str,
                   scale: float, box_weights: Any, with_grad: bool) -> Any:
    mean = _reduced(function, reduction, with_grad)
    convention = choice(_c.angle_convention, function, "angles", angles)
    type_, a, b = rotated_pair(function, boxes1, boxes2)
    count = len(a)
    if len(b) != count:
        raise wrong_shape(function, "boxes2", b, f"[{count}, 5], the shape of boxes1")
    if box_weights is not None:
        box_weights = float32s(function, "box_weights", box_weights)
        _check_per_box(function, "box_weights", box_weights, (count,))
    factor = (_divided(function, scale, max(1, count)) if mean == _c.MEAN
              else number(function, "scale", scale))
    return _run(function, _PROB_IOU, (type_, address(a), address(b), count, convention, factor,
                                      optional(box_weights)), a,
                None if with_grad else reduction, (count,))


# Keywords of prob_iou_loss_params
def prob_iou_loss(
    boxes1: ArrayLike,
    boxes2: ArrayLike,
    angles: str,
    reduction: str = "none",
    *,
    scale: float = 1.0,
    box_weights: ArrayLike | None = None,
) -> Any:
    """1 - ProbIoU of predicted rotated ``boxes1`` and ``boxes2``, [N, 5] each, as in ultralytics:
    one loss per box, or a number. The mean of no boxes is 0. Boxes and ``angles`` as in
    rotated_box_iou. https://arxiv.org/abs/2106.06072

    Args:
        scale: factor on losses, sum and gradient. Default 1.
        box_weights: an additional factor per box; None: all 1.

    >>> round(prob_iou_loss([[5, 5, 8, 4, 0]], [[9, 5, 8, 4, 0]], "ultralytics", "sum"), 4)
    0.5592
    """
    return _prob_iou_loss("prob_iou_loss", boxes1, boxes2, angles, reduction, scale, box_weights,
                          False)


_regression_params = params_of(_c.regression_loss_params, epsilon="eps")


def _regression(function: str, deltas: Any, anchors: Any, targets: Any, matches: Any, labels: Any,
                loss: str, beta: float, eps: float, weights: Sequence[float], size_limit: float,
                scale: float, box_weights: Any, background: int, ignore: int,
                with_grad: bool) -> Any:
    kind = choice(_c.box_loss, function, "loss", loss)
    type_, (codes, priors, truth) = same_floats(function, ("deltas", "anchors", "targets"),
                                                (deltas, anchors, targets))
    codes = box_rows(function, "deltas", codes)
    priors, truth = box_rows(function, "anchors", priors), box_rows(function, "targets", truth)
    count, selection = len(codes), None
    if matches is not None:
        matches = integers(function, "matches", matches, count)
    elif len(truth) != count:
        raise wrong_shape(function, "targets", truth, f"[{count}, 4], one per delta, or any number "
                          "of boxes with matches=")
    if labels is not None:
        labels = integers(function, "labels", labels, count)
        selection = _selected(function, labels, background, ignore)
    elif matches is not None:
        selection = _selected(function, matches, -1, -2)
    params = _regression_params(function, kind, beta, eps, scale,
                                coder_params(function, weights, size_limit)[0])
    if box_weights is not None:
        box_weights = float32s(function, "box_weights", box_weights)
        _check_per_box(function, "box_weights", box_weights, (count,))
    return _run(function, _REGRESSION, (
        type_, address(codes), count, address(priors), len(priors), address(truth), len(truth),
        optional(matches), selection, params, optional(box_weights)), codes,
        None if with_grad else "sum")


# Keywords of regression_loss_params: epsilon is eps, without coder,
# with weights, size_limit, background, ignore
def regression_loss(
    deltas: ArrayLike,
    anchors: ArrayLike,
    targets: ArrayLike,
    matches: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    loss: str = "smooth_l1",
    *,
    beta: float = 1.0 / 9,
    eps: float = 1e-7,
    weights: Sequence[float] = WEIGHTS,
    size_limit: float = SIZE_LIMIT,
    scale: float = 1.0,
    box_weights: ArrayLike | None = None,
    background: int = -1,
    ignore: int = -2,
) -> float:
    """The summed box loss of ``deltas`` [N, 4] relative to ``anchors``, in one pass: encoded
    targets or decoded boxes are never stored.

    Args:
        anchors: corners, one per delta, or those of one image, whose number divides N.
        targets: one box per delta, [N, 4]; or, with ``matches``, ground-truth boxes [M, 4].
        matches: the index of each delta's ground-truth box; -1 or -2 for those that are left out.
        labels: integers [N]: only deltas whose label is neither ``background`` nor ``ignore``
            count. Without labels, ``matches`` decide; without both, all count.
        loss: smooth L1 of the deltas, or an IoU loss of the decoded boxes: "smooth_l1", "giou",
            "diou" or "ciou". Default "smooth_l1".
        beta: of smooth L1; 0 or more. Default 1.0 / 9.
        eps: of the IoU losses; 0 or more. Default 1e-7.
        scale: factor on loss and gradient; trainers use 1 / max(1, foreground). Default 1.
        box_weights: an additional factor per anchor; None: all 1.
        weights: the coder's weights of dx, dy, dw, dh.

    >>> boxes = np.array([[0, 0, 10, 10]], np.float32)
    >>> round(regression_loss([[0.1, 0, 0, 0]], boxes, boxes), 6)
    0.045
    """
    return _regression("regression_loss", deltas, anchors, targets, matches, labels, loss, beta,
                       eps, weights, size_limit, scale, box_weights, background, ignore, False)


# ---- CTC


_pack_ctc_targets = packer(_c.ctc_targets)


def _ctc(function: str, inputs: Any, targets: Any, input_lengths: Any, target_lengths: Any,
         reduction: str, blank: int, scale: float, zero_infinity: bool, sample_weights: Any,
         with_grad: bool) -> Any:
    mean = _reduced(function, reduction, with_grad)
    array = floats(function, "inputs", inputs)
    if array.ndim != 3:
        raise wrong_shape(function, "inputs", array, "[steps, samples, classes]")
    steps, samples, classes = array.shape
    numbers = integers(function, "targets", targets)
    if numbers.ndim == 2 and len(numbers) == samples:
        stride = numbers.shape[1]
        if target_lengths is None:
            target_lengths = np.full(samples, stride)
    elif numbers.ndim == 1:
        stride = 0
        if target_lengths is None:
            raise ValueError(f"vecdet.{function}: target_lengths is None, expected the lengths of "
                             "the targets, which follow each other")
    else:
        raise wrong_shape(function, "targets", numbers, f"[{samples}, labels], or [all labels]")
    lengths = integers(function, "target_lengths", target_lengths, samples)
    if input_lengths is not None:
        input_lengths = integers(function, "input_lengths", input_lengths, samples)
    if sample_weights is not None:
        sample_weights = float32s(function, "sample_weights", sample_weights)
        if sample_weights.shape != (samples,):
            raise wrong_shape(function, "sample_weights", sample_weights, f"[{samples}]")
    is_empty = False
    if mean:
        is_empty, scale = not samples, _divided(function, scale, max(1, samples))
        divided = (1 / np.maximum(lengths, 1)).astype(np.float32)
        sample_weights = divided if sample_weights is None else sample_weights * divided
    params = byref(filled(function, _c.ctc_params, (
        blank, scale, flag(function, "zero_infinity", zero_infinity), optional(sample_weights))))
    arguments = (TYPES[array.dtype], address(array), steps, samples, classes, samples * classes,
                 classes,
                 _pack_ctc_targets(address(numbers), numbers.size, address(lengths), stride),
                 optional(input_lengths), params, None)
    if reduction == "none" and not with_grad:
        losses = empty(samples, np.float64 if array.dtype == np.float64 else np.float32)
        check(_CTC[0](*arguments, address(losses)), function)
        return losses
    result = _run(function, _CTC, arguments, array, None if with_grad else reduction)
    return _or_nan(result, is_empty)


# Keywords of ctc_params
def ctc_loss(
    inputs: ArrayLike,
    targets: ArrayLike,
    input_lengths: ArrayLike | None = None,
    target_lengths: ArrayLike | None = None,
    reduction: str = "none",
    *,
    blank: int = 0,
    scale: float = 1.0,
    zero_infinity: bool = False,
    sample_weights: ArrayLike | None = None,
) -> Any:
    """Connectionist temporal classification, the loss of text and speech recognisers: one loss per
    sample, or a number.

    Args:
        inputs: logits [steps, samples, classes], or log probabilities.
        targets: classes other than ``blank``, [samples, labels], or [all labels] of targets that
            follow each other.
        input_lengths: the steps of each sample; None: all.
        target_lengths: the labels of each sample; None: all of [samples, labels].
        reduction: ``"none"``, ``"sum"``, or ``"mean"`` as in torch: each loss is divided by its
            target's length, at least 1, and the sum by the number of samples. The divisors are
            float32, also for float64 inputs.
        blank: the class that stands for no label. Default 0.
        scale: factor on losses, sum and gradient. Default 1.
        zero_infinity: whether infinite losses become 0. Default False.
        sample_weights: an additional factor per sample; None: all 1.

    >>> ctc_loss([[[0.0, 0.0]], [[0.0, 0.0]]], [[1]]).round(4).tolist()
    [0.2877]
    """
    return _ctc("ctc_loss", inputs, targets, input_lengths, target_lengths, reduction, blank, scale,
                zero_infinity, sample_weights, False)
