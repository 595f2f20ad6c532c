# SPDX-License-Identifier: Apache-2.0
"""Small arguments as bytes: structs of addresses, tables of sizes and offsets.

struct packs a few numbers in a quarter of the time that a ctypes structure or an array takes, and
ctypes passes bytes as a pointer to them."""

from __future__ import annotations

import ctypes
import itertools
import sys
from struct import Struct, pack
from typing import Any, Callable, Sequence

import numpy as np

from ._arrays import address, as_array, float64, integers, wrong_shape
from ._messages import found
from ._parameters import number

_CODES: dict[Any, str] = {ctypes.c_void_p: "P", ctypes.c_int64: "q", ctypes.c_int: "i",
                          ctypes.c_double: "d"}


def _format(structure: Any) -> str:
    return "".join(_CODES.get(kind) or _format(kind) for _, kind in structure._fields_) + "0q"


def packer(structure: Any) -> Callable[..., bytes]:
    """The function that packs the fields of a structure of _c, in one row with the fields of the
    structures in it. A pointer is an address, or 0."""
    layout = Struct(_format(structure))
    assert layout.size == ctypes.sizeof(structure)
    return layout.pack


def _find_bytes_address() -> Callable[[bytes], int]:
    """The function that returns the address of bytes. In CPython, they are at the object's end."""
    def slow(packed: bytes) -> Any:
        return ctypes.cast(ctypes.c_char_p(packed), ctypes.c_void_p).value

    head = bytes.__basicsize__ - 1  # without the zero that ends them

    def fast(packed: bytes) -> int:
        return id(packed) + head

    is_fast = sys.implementation.name == "cpython" and fast(b"probe") == slow(b"probe")
    return fast if is_fast else slow


bytes_address = _find_bytes_address()


def integers_packed(*numbers: int) -> bytes:
    """An array of int64."""
    return pack("q" * len(numbers), *numbers)


def offsets_of(parts: Sequence[Any]) -> list[int]:
    """Where the rows of each part begin in the joined parts, and where the last ends."""
    if len(parts) == 1:
        return [0, len(parts[0])]
    return [0, *itertools.accumulate(map(len, parts))]


def joined(parts: Sequence[Any]) -> tuple[int, Any]:
    """The address of the parts, contiguous arrays of one type, one after the other; and the object
    that holds them."""
    if len(parts) == 1:
        return address(parts[0]), parts[0]
    memory = b"".join(parts)  # a tenth of the time of np.concatenate
    return bytes_address(memory), memory


def packed_rows(rows: Any, columns: int, code: str) -> bytes | None:
    """Lists of numbers as rows of float64 ("d") or int64 ("q"). None if they are anything else,
    which NumPy may convert or refuse."""
    numbers: list[Any] = []
    if isinstance(rows, (list, tuple)):
        for row in rows:
            if not isinstance(row, (list, tuple)) or len(row) != columns:
                return None
            numbers += row
        try:
            return pack(code * len(numbers), *numbers)
        except Exception:  # of struct, or of an object's own method
            pass
    return None


def doubles(function: str, argument: str, values: Any) -> Any:
    """Numbers as a contiguous array of float64."""
    array = as_array(function, argument, values)
    if array.dtype.kind in "SUcmM" or array.dtype.names:
        raise TypeError(f"vecdet.{function}: {argument}.dtype is {array.dtype}, expected numbers")
    if array.dtype.kind == "O":  # of which NumPy converts None and texts, too
        converted = [number(function, argument, value) for value in array.ravel().tolist()]
        array = np.array(converted, float64).reshape(array.shape)
    try:
        return np.asarray(array, float64, "C")
    except Exception as error:
        raise TypeError(found(function, argument, values) + ", expected numbers") from error


def doubles_of(function: str, argument: str, values: Any) -> bytes:
    """A list of numbers as float64."""
    packed = packed_rows((values,), len(values), "d") if isinstance(values, (list, tuple)) else None
    if packed is None:
        array = doubles(function, argument, values)
        if array.ndim != 1:
            raise wrong_shape(function, argument, array, "[numbers]")
        packed = array.tobytes()
    return packed


def integers_of(function: str, argument: str, values: Any) -> tuple[bytes, int]:
    """A list of integers as int64, and their number."""
    packed = packed_rows((values,), len(values), "q") if isinstance(values, (list, tuple)) else None
    if packed is None:
        array = integers(function, argument, values)
        if array.ndim != 1:
            raise wrong_shape(function, argument, array, "[numbers]")
        packed = array.tobytes()
    return packed, len(packed) // 8


def level_numbers_of(function: str, argument: str, values: Any, levels: int) -> bytes:
    """A number per level as float64."""
    packed = packed_rows((values,), levels, "d")
    if packed is None:
        array = doubles(function, argument, values)
        if array.shape != (levels,):
            raise wrong_shape(function, argument, array, f"[{levels}], one per level")
        packed = array.tobytes()
    return packed


def image_sizes_of(function: str, sizes: Any, images: int,
                   argument: str = "image_sizes") -> bytes:
    """[images, 2] of float64: (height, width) of each image."""
    packed = packed_rows(sizes, 2, "d")
    if packed is not None and len(packed) == 16 * images:
        return packed
    array = doubles(function, argument, sizes)
    if array.size == 0:
        array = array.reshape(0, 2)
    if array.ndim != 2 or array.shape[1] != 2 or len(array) != images:
        raise wrong_shape(function, argument, array,
                          f"[{images}, 2]: (height, width) of each image")
    return array.tobytes()


def grid_sizes_of(function: str, sizes: Any, argument: str = "level_sizes",
                  of: str = "level") -> tuple[bytes, int]:
    """[levels, 2] of int64: (height, width) of each level; and the number of levels."""
    packed = packed_rows(sizes, 2, "q")
    if packed:
        return packed, len(packed) // 16
    array = integers(function, argument, sizes)
    if array.ndim != 2 or array.shape[1] != 2:
        raise wrong_shape(function, argument, array, f"[{of}s, 2]: (height, width) per {of}")
    return array.tobytes(), len(array)
