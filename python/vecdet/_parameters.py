# SPDX-License-Identifier: Apache-2.0
"""Parameters: numbers, sizes and structs of them, checked before ctypes takes them.

ctypes truncates integers without a word and knows no argument's name, so every number that a user
gives passes through this module. Calls with the same parameters share one struct."""

from __future__ import annotations

import ctypes
import functools
import operator
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from ._c import integer_list, number_list
from ._messages import found

_INT64 = -2**63, 2**63 - 1
_RANGES: dict[Any, tuple[int, int]] = {
    ctypes.c_int64: _INT64, ctypes.c_int: (-2**31, 2**31 - 1), ctypes.c_uint64: (0, 2**64 - 1)}
_NO_NUMBERS = str, bytes, bytearray, memoryview, complex  # of which float() takes most
_NUMBER_KINDS = "", "b", "i", "u", "f", "V", "O"  # of arrays; "V" is bfloat16, "" no NumPy type


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
            raise ValueError(found(function, argument, value)
                             + ", expected a number that fits a double") from error
        except Exception:  # of the object's own method, too
            pass
    raise TypeError(found(function, argument, value) + ", expected a number")


def integer(function: str, argument: str, value: Any, of: Any = ctypes.c_int64) -> int:
    """An integer, or an array or tensor with a single one, in the range of a type of ctypes."""
    if type(value) is int and 0 <= value < 2**31:  # most, in a third of the time
        return value
    try:
        if isinstance(value, np.timedelta64):  # has an index, too
            raise TypeError
        whole = operator.index(value)
    except Exception as error:
        is_integer = (_kind(value) in ("b", "i", "u")
                      or str(getattr(value, "dtype", "")) == "torch.bool")
        if not is_integer or np.size(value) != 1:
            raise TypeError(found(function, argument, value) + ", expected an integer") from error
        whole = int(value.item())
    least, most = _RANGES[of]
    if not least <= whole <= most:
        raise ValueError(found(function, argument, value)
                         + f", expected an integer from {least} to {most}")
    return whole


def flag(function: str, argument: str, value: Any) -> int:
    """A truth value, or an integer, as 0 or 1."""
    if value is True or value is False:
        return value
    try:
        return int(integer(function, argument, value) != 0)
    except TypeError as error:
        raise TypeError(found(function, argument, value) + ", expected True or False") from error


def pair(function: str, argument: str, value: Any,
         convert: Callable[[str, str, Any], Any] = number) -> tuple[Any, Any]:
    """A size (height, width)."""
    try:
        height, width = value
    except Exception as error:
        raise ValueError(found(function, argument, value) + ", expected (height, width)"
                         ) from error
    if type(height) is int and type(width) is int and 0 <= height < 2**31 and 0 <= width < 2**31:
        return height, width
    try:
        return convert(function, argument, height), convert(function, argument, width)
    except TypeError as error:
        expected = "integers" if convert is integer else "numbers"
        raise TypeError(found(function, argument, value) + f", expected (height, width), {expected}"
                        ) from error


def listed(function: str, argument: str, values: Any,
           expected: str = "a sequence") -> tuple[Any, ...]:
    """Any sequence as a tuple."""
    if type(values) is tuple:
        return values
    try:
        return tuple(values)
    except Exception as error:
        raise TypeError(f"{found(function, argument, values)}, expected {expected}") from error


def numbers(function: str, argument: str, values: Any, count: int) -> tuple[float, ...]:
    """As many numbers as `count`."""
    given = listed(function, argument, values)
    if len(given) != count:
        raise ValueError(found(function, argument, values) + f", expected {count} numbers")
    return tuple(number(function, argument, value) for value in given)


def one_or_more(function: str, argument: str, values: Any,
                convert: Callable[[str, str, Any], Any] = integer) -> tuple[Any, ...] | None:
    """A list of numbers, or None."""
    if values is None:
        return None
    given = listed(function, argument, values,
                   f"a list of {'integers' if convert is integer else 'numbers'}, or None")
    if not given:
        raise ValueError(found(function, argument, values)
                         + ", expected one or more elements, or None")
    return tuple(convert(function, argument, value) for value in given)


CLASS_LISTS = "classes", "class_thresholds", "class_groups"


def class_lists(function: str, classes: Any, class_thresholds: Any,
                class_groups: Any = None) -> tuple[Any, Any, Any]:
    """The options per class as tuples, or None if they are not given."""
    if classes is class_thresholds is class_groups is None:
        return None, None, None
    return (one_or_more(function, "classes", classes),
            one_or_more(function, "class_thresholds", class_thresholds, number),
            one_or_more(function, "class_groups", class_groups))


def _list_of(function: str, argument: str, kind: Any, values: Any) -> Any:
    """The struct of C, which keeps its memory."""
    convert: Any
    of: Any
    convert, of = (integer, ctypes.c_int64) if kind is integer_list else (number, ctypes.c_double)
    given = one_or_more(function, argument, values, convert)
    if given is None:
        return kind()
    memory = (of * len(given))(*given)
    made = kind(ctypes.addressof(memory), len(given))
    made.memory = memory
    return made


def field(function: str, name: str, kind: Any, value: Any) -> Any:
    """The value of a struct's field."""
    if kind is ctypes.c_double:
        return number(function, name, value)
    if kind in _RANGES:
        return integer(function, name, value, kind)
    if kind is integer_list or kind is number_list:
        return _list_of(function, name, kind, value)
    if issubclass(kind, ctypes.Array):
        return numbers(function, name, value, kind._length_)
    return value  # a pointer, or a struct that is filled


def filled(function: str, struct: Any, values: Sequence[Any], **renamed: str) -> Any:
    """The struct with its first fields set to the values. `renamed`: fields whose argument has
    another name."""
    fields = [field(function, renamed.get(name, name), kind, value)
              for (name, kind), value in zip(struct._fields_, values)]
    made = struct(*fields)
    made.memory = fields  # of lists
    return made


def set_given(function: str, params: Any, options: Iterable[tuple[str, Any]]) -> None:
    """Sets the fields of a struct whose values are not None."""
    kinds = dict(params._fields_)
    memory = []
    for name, value in options:
        if value is not None:
            memory.append(field(function, name, kinds[name], value))
            setattr(params, name, memory[-1])
    params.memory = memory


# ---- Parameters that many calls share

_CONSTANTS = (int, float, str, bytes, type(None), np.generic, type)


def _is_constant(value: Any) -> bool:
    """Whether equal values stay equal: not for arrays and tensors, which change in place."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, _CONSTANTS)


def kept(make: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps the results of a function of parameters for later calls with the same ones. Half the
    work of a short call would be to make them. Parameters of different types are different, also
    2 and 2.0, so that what a call accepts does not depend on earlier ones. That does not hold for
    numbers in tuples: pass them one by one."""
    @functools.lru_cache(maxsize=256, typed=True)
    def known(*values: Any) -> Any:
        if not all(map(_is_constant, values)):
            raise TypeError  # an array, for example, can change in place
        return make(*values)

    def look_up(*values: Any) -> Any:
        try:
            return known(*values)
        except Exception:  # an array is no key; or make() raised it, and does so again
            pass
        return make(*values)

    return look_up


def params_of(struct: Any, **renamed: str) -> Callable[..., Any]:
    """A function that returns the argument for a struct of parameters. Its own arguments are the
    user's function and the fields."""
    return kept(lambda function, *values: ctypes.byref(filled(function, struct, values, **renamed)))
