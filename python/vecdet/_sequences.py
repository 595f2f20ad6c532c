# SPDX-License-Identifier: Apache-2.0
"""Decoding of CTC: from the logits of text and speech recognisers to classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _c
from ._arrays import (TYPES, address, empty, floats, integers, optional, result,
                      wrong_shape)
from ._library import check, library
from ._parameters import integer, params_of

__all__ = ["CtcBeam", "CtcText", "ctc_beams", "ctc_greedy"]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class CtcText(NamedTuple):
    """The classes that were recognised in a sample."""

    classes: NDArray[np.int64]
    steps: NDArray[np.int64]
    """The first step of each class."""
    probabilities: NDArray[np.float32]
    """Of each class in that step."""
    log_probability: float
    """Of the whole path."""


class CtcBeam(NamedTuple):
    """A text that was found in a sample."""

    classes: NDArray[np.int64]
    steps: NDArray[np.int64]
    """The step in which each class begins, in the text's most probable path within the beam."""
    log_probability: float
    """Of the text's paths within the beam."""


_ctc_greedy = library.vecdet_ctc_greedy
_ctc_beams = library.vecdet_ctc_beams
_beams_params = params_of(_c.ctc_beams_params)


def _sequences(function: str, inputs: Any, input_lengths: Any) -> tuple[Any, Any]:
    """Logits [steps, samples, classes], and the steps of each sample or None."""
    array = floats(function, "inputs", inputs)
    if array.ndim != 3:
        raise wrong_shape(function, "inputs", array, "[steps, samples, classes]")
    if input_lengths is not None:
        input_lengths = integers(function, "input_lengths", input_lengths, array.shape[1])
    return array, input_lengths


def ctc_greedy(inputs: ArrayLike, input_lengths: ArrayLike | None = None, *,
               blank: int = 0) -> list[CtcText]:
    """The best path of each sample: the most probable class of each step, without repetitions and
    blanks.

    Args:
        inputs: logits [steps, samples, classes], or log probabilities.
        input_lengths: the steps of each sample; None: all.
        blank: the class that stands for no label.

    >>> ctc_greedy([[[0.0, 5.0]], [[0.0, 5.0]], [[5.0, 0.0]], [[0.0, 5.0]]])[0].classes.tolist()
    [1, 1]
    """
    function = "ctc_greedy"
    array, input_lengths = _sequences(function, inputs, input_lengths)
    steps, samples, classes = array.shape
    found: Any = empty(steps * samples, np.int64)
    places: Any = empty(steps * samples, np.int64)
    probabilities: Any = empty(steps * samples, np.float32)
    offsets: Any = empty(samples + 1, np.int64)
    logs: Any = empty(samples, np.float64)
    check(_ctc_greedy(TYPES[array.dtype], address(array), steps, samples, classes,
                      samples * classes, classes, optional(input_lengths),
                      integer(function, "blank", blank), None, address(found), address(places),
                      address(probabilities), address(offsets), address(logs)), function)
    ends = offsets.tolist()
    return [CtcText(found[first:last], places[first:last], probabilities[first:last], log)
            for first, last, log in zip(ends, ends[1:], logs.tolist())]


# Keywords of ctc_beams_params
def ctc_beams(
    inputs: ArrayLike,
    input_lengths: ArrayLike | None = None,
    *,
    blank: int = 0,
    width: int = 10,
    texts: int = 1,
    max_classes: int = 0,
    min_probability: float = 0.0,
) -> list[list[CtcBeam]]:
    """The most probable texts of each sample by prefix beam search, without a language model:
    https://arxiv.org/abs/1408.2873.

    Args:
        inputs: logits [steps, samples, classes], or log probabilities.
        input_lengths: the steps of each sample; None: all.
        blank: the class that stands for no label. Default 0.
        width: prefixes that are kept after a step, 1 to 10,000. Default 10.
        texts: texts per sample, 1 to the width. Default 1.
        max_classes: classes that are tried in a step, apart from the blank: so many of the most
            probable ones; 0: all. Default 0.
        min_probability: classes less probable than this are not tried in a step, 0 to 1. The blank
            always is. Default 0.

    >>> [beam.classes.tolist() for beam in ctc_beams([[[0.0, 5.0]]], texts=2)[0]]
    [[1], []]
    """
    function = "ctc_beams"
    array, input_lengths = _sequences(function, inputs, input_lengths)
    steps, samples, classes = array.shape
    params = _beams_params(function, blank, width, texts, max_classes, min_probability)
    most = samples * min(max(integer(function, "texts", texts), 0), 10000)
    found = result(function, "texts", texts, most * steps, np.int64)
    places = result(function, "texts", texts, most * steps, np.int64)
    offsets: Any = empty(most + 1, np.int64)
    logs: Any = empty(most, np.float64)
    sample_offsets: Any = empty(samples + 1, np.int64)
    check(_ctc_beams(TYPES[array.dtype], address(array), steps, samples, classes,
                     samples * classes, classes, optional(input_lengths), params, None,
                     address(found), address(places), address(offsets), address(logs),
                     address(sample_offsets)), function)
    ends, of_samples = offsets.tolist(), sample_offsets.tolist()
    return [[CtcBeam(found[ends[k]:ends[k + 1]], places[ends[k]:ends[k + 1]], float(logs[k]))
             for k in range(first, last)] for first, last in zip(of_samples, of_samples[1:])]
