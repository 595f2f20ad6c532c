# SPDX-License-Identifier: Apache-2.0
"""Quantised arrays, and arrays as matrices that may be quantised."""

from __future__ import annotations

from ctypes import c_float
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _c
from ._arrays import TYPES, address, as_array, contiguous, small_floats, uint8, wrong_type
from ._packed import packer
from ._parameters import integer, number

__all__ = ["Quantised"]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_int8 = np.dtype(np.int8)
_QUANTISED = {_int8: _c.INT8, uint8: _c.UINT8}
_pack_matrix = packer(_c.matrix)


class Quantised(NamedTuple):
    """An array of int8 or uint8 q that stands for the numbers (q - zero_point) * scale in float32,
    as in ONNX's DequantizeLinear. filter_topk(), postprocess_yolo() and postprocess_detr() take it
    instead of an array of floats. Their results are those of the dequantised numbers, bit for bit.

    >>> from vecdet import Quantised, filter_topk
    >>> values, positions = filter_topk(Quantised(np.int8([0, 8, -4]), 0.5, -2), 0.5, k=2)
    >>> values.tolist(), positions.tolist()
    ([5.0, 1.0], [1, 0])
    """

    array: ArrayLike
    scale: float
    """From 2^-126 to 2^120; rounded to float32."""
    zero_point: int
    """In the range of the array's type."""


def is_quantised(function: str, argument: str, value: Any) -> bool:
    """Whether a value is Quantised; refuses an array of int8 or uint8 without a scale."""
    if isinstance(value, Quantised):
        return True
    if not isinstance(value, (list, tuple)):
        dtype = as_array(function, argument, value).dtype  # also of tensors and buffers
        if dtype in _QUANTISED:
            raise TypeError(f"vecdet.{function}: {argument}.dtype is {dtype}, expected float32, "
                            "float64 or bfloat16, or "
                            f"vecdet.Quantised({argument}, scale, zero_point)")
    return False


class MaybeQuantised:
    """An argument: a contiguous array, with scale and zero point if it is Quantised."""

    array: NDArray[Any]

    def __init__(self, function: str, argument: str, value: Any) -> None:
        if not is_quantised(function, argument, value):
            self.array = small_floats(function, argument, value)
            self._type, self._scale, self._zero_point = TYPES[self.array.dtype], 0.0, 0
            return
        array = as_array(function, f"{argument}.array", value.array)
        if array.dtype not in _QUANTISED:
            raise wrong_type(function, f"{argument}.array", value.array, array, "int8 or uint8")
        self.array = contiguous(array)
        self._type = _QUANTISED[self.array.dtype]
        self._scale = number(function, f"{argument}.scale", value.scale)
        if not 2.0 ** -126 <= c_float(self._scale).value <= 2.0 ** 120:
            raise ValueError(f"vecdet.{function}: {argument}.scale is {self._scale:g}, expected a "
                             "positive number from 2^-126 to 2^120")
        self._zero_point = integer(function, f"{argument}.zero_point", value.zero_point)
        range_ = np.iinfo(self.array.dtype)
        if not range_.min <= self._zero_point <= range_.max:
            raise ValueError(f"vecdet.{function}: {argument}.zero_point is {self._zero_point}, "
                             f"expected {range_.min} to {range_.max}, because the numbers are "
                             f"{self.array.dtype}")

    def matrix(self, rows: int, cols: int) -> bytes:
        return _pack_matrix(self._type, address(self.array), rows, cols, cols, self._scale,
                            self._zero_point)
