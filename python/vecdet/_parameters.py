# SPDX-License-Identifier: Apache-2.0
"""Parameters: numbers, sizes and structs of them, checked before ctypes takes them.

ctypes truncates integers without a word and knows no argument's name, so every number that a user
gives passes through this module. Calls with the same parameters share one struct."""

from __future__ import annotations

import ctypes
import operator
from typing import Any, Callable, Sequence

import numpy as np

_INT64 = -2**63, 2**63 - 1
_RANGES: dict[Any, tuple[int, int]] = {
    ctypes.c_int64: _INT64, ctypes.c_int: (-2**31, 2**31 - 1), ctypes.c_uint64: (0, 2**64 - 1)}
_NO_NUMBERS = str, bytes, bytearray, memoryview, complex  # of which float() takes most
_NUMBER_KINDS = "", "b", "i", "u", "f", "V", "O"  # of arrays; "V" is bfloat16, "" no NumPy type


def _found(function: str, argument: str, value: Any) -> str:
    text = repr(value)
    return f"vecdet.{function}: {argument} is {text if len(text) < 100 else text[:97] + '...'}"


def _kind(value: Any) -> str:
    return getattr(getattr(value, "dtype", None), "kind", "")


def number(function: str, argument: str, value: Any) -> float:
    """A number, or an array or tensor with a single one, as float."""
    if type(value) is float:
        return value
    if not isinstance(value, _NO_NUMBERS) and _kind(value) in _NUMBER_KINDS:
        try:
            return float(value)
        except OverflowError as error:
            raise ValueError(_found(function, argument, value)
                             + ", expected a number that fits a double") from error
        except (TypeError, ValueError, RuntimeError):
            pass
    raise TypeError(_found(function, argument, value) + ", expected a number")


def integer(function: str, argument: str, value: Any, of: Any = ctypes.c_int64) -> int:
    """An integer, or an array or tensor with a single one, in the range of a type of ctypes."""
    if type(value) is int and 0 <= value < 2**31:  # most, in a third of the time
        return value
    try:
        if isinstance(value, np.timedelta64):  # has an index, too
            raise TypeError
        whole = operator.index(value)
    except (TypeError, RuntimeError) as error:
        is_integer = (_kind(value) in ("b", "i", "u")
                      or str(getattr(value, "dtype", "")) == "torch.bool")
        if not is_integer or np.size(value) != 1:
            raise TypeError(_found(function, argument, value) + ", expected an integer") from error
        whole = int(value.item())
    least, most = _RANGES[of]
    if not least <= whole <= most:
        raise ValueError(_found(function, argument, value)
                         + f", expected an integer from {least} to {most}")
    return whole


def flag(function: str, argument: str, value: Any) -> int:
    """A truth value, or an integer, as 0 or 1."""
    if value is True or value is False:
        return value
    return int(integer(function, argument, value) != 0)


def pair(function: str, argument: str, value: Any,
         convert: Callable[[str, str, Any], Any] = number) -> tuple[Any, Any]:
    """A size (height, width)."""
    try:
        height, width = value
    except (TypeError, ValueError) as error:
        raise ValueError(_found(function, argument, value) + ", expected (height, width)"
                         ) from error
    if type(height) is int and type(width) is int and 0 <= height < 2**31 and 0 <= width < 2**31:
        return height, width
    return convert(function, argument, height), convert(function, argument, width)


def listed(function: str, argument: str, values: Any) -> tuple[Any, ...]:
    """Any sequence as a tuple."""
    if type(values) is tuple:
        return values
    try:
        return tuple(values)
    except TypeError as error:
        raise TypeError(_found(function, argument, values) + ", expected a sequence") from error


def numbers(function: str, argument: str, values: Any, count: int) -> tuple[float, ...]:
    """As many numbers as `count`."""
    given = listed(function, argument, values)
    if len(given) != count:
        raise ValueError(_found(function, argument, values) + f", expected {count} numbers")
    return tuple(number(function, argument, value) for value in given)


def field(function: str, name: str, kind: Any, value: Any) -> Any:
    """The value of a struct's field."""
    if kind is ctypes.c_double:
        return number(function, name, value)
    if kind in _RANGES:
        return integer(function, name, value, kind)
    if issubclass(kind, ctypes.Array):
        return numbers(function, name, value, kind._length_)
    return value  # a pointer, or a struct that is filled


def filled(function: str, struct: Any, values: Sequence[Any], **renamed: str) -> Any:
    """The struct with its first fields set to the values. `renamed`: fields whose argument has
    another name."""
    return struct(*(field(function, renamed.get(name, name), kind, value)
                    for (name, kind), value in zip(struct._fields_, values)))


# ---- Parameters that many calls share

_CONSTANTS = (int, float, str, bytes, type(None), np.generic, type)


def _is_constant(value: Any) -> bool:
    """Whether equal values stay equal: not for arrays and tensors, which change in place."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, _CONSTANTS)


class _Kept(dict):
    """What `make` returns for constant arguments."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __missing__(self, key: tuple[Any, ...]) -> Any:
        made = self._make(*key)
        if all(map(_is_constant, key)):
            if len(self) >= 256:
                self.clear()
            self[key] = made
        return made


def kept(make: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps the results of a function of parameters for later calls with the same ones. Half the
    work of a short call would be to make them."""
    known = _Kept(make)

    def look_up(*values: Any) -> Any:
        try:
            return known[values]
        except TypeError:  # an array is no key; or make() raised it
            return make(*values)

    return look_up


def params_of(function: str, struct: Any, **renamed: str) -> Callable[..., Any]:
    """A function that returns the argument for a struct of parameters."""
    return kept(lambda *values: ctypes.byref(filled(function, struct, values, **renamed)))
