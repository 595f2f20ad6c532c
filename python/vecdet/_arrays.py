# SPDX-License-Identifier: Apache-2.0
"""Arguments as arrays that the C functions can read.

An argument may be a NumPy array or anything that NumPy converts to one: a list, an object with the
buffer protocol, or an object with DLPack on the CPU, such as a torch tensor. Arrays that are not
contiguous are copied. Floating-point types are float32, float64 and, with ml_dtypes, bfloat16;
float16 is converted to float32. Arguments of different types are promoted as in NumPy. """

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, Callable, Sequence

import numpy as np

from ._c import BFLOAT16, FLOAT32, FLOAT64
from ._messages import found

if TYPE_CHECKING:
    from numpy.typing import NDArray

ndarray = np.ndarray  # names that are found without looking into the module numpy
empty = np.empty
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
int64 = np.dtype(np.int64)
uint8 = np.dtype(np.uint8)
_FLOAT16 = np.dtype(np.float16)

# The types of the C functions. bfloat16 is added with the first array of that type.
TYPES = {float32: FLOAT32, float64: FLOAT64}


def _find_address() -> Callable[[Any], int]:
    """The function that returns the address of an array's data. In CPython, the address is the
    first field after the object's head, and reading it is eight times faster than
    array.ctypes.data."""
    def slow(array: Any) -> int:
        return array.ctypes.data

    if sys.implementation.name != "cpython":
        return slow
    read, head = ctypes.c_void_p.from_address, object.__basicsize__

    def fast(array: Any) -> Any:
        return read(id(array) + head).value

    probe = np.arange(7)[3:]
    return fast if fast(probe) == slow(probe) else slow


address = _find_address()


def empty_like(array: Any) -> NDArray[Any]:
    """Half the time of numpy.empty_like."""
    return empty(array.shape, array.dtype)


def optional(array: Any) -> int:
    """The address of an array, or 0 for None."""
    return 0 if array is None else address(array)


# Makes a named tuple without its __new__, which costs as much as two views of an array.
named: Any = tuple.__new__


def shape_error(function: str, argument: str, shape: Sequence[int], expected: str) -> ValueError:
    return ValueError(f"vecdet.{function}: {argument}.shape is {list(shape)}, expected {expected}")


def wrong_shape(function: str, argument: str, array: Any, expected: str) -> ValueError:
    return shape_error(function, argument, array.shape, expected)


def as_array(function: str, argument: str, value: Any) -> NDArray[Any]:
    """Any argument as an array of its own type."""
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if hasattr(value, "__dlpack__") and hasattr(np, "from_dlpack"):  # NumPy 1.22 and newer
        if getattr(value, "is_neg", bool)():  # torch has yet to negate what is in memory
            value = value.resolve_neg()
        try:
            return np.from_dlpack(value)
        except Exception as error:
            raise TypeError(f"vecdet.{function}: {argument} is a {type(value).__name__} whose "
                            f"DLPack capsule NumPy cannot read ({error}), expected an array on the "
                            "CPU without gradient") from error
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(found(function, argument, value) + ", expected an array, or lists of the "
                         "same length and type") from error
    except MemoryError:
        raise
    except Exception as error:
        raise TypeError(found(function, argument, value) + ", expected an array") from error


def wrong_type(function: str, argument: str, value: Any, array: Any, expected: str) -> TypeError:
    """`array` is what NumPy made of the value."""
    if hasattr(value, "dtype") or isinstance(value, (list, tuple)) and array.dtype.kind != "O":
        return TypeError(f"vecdet.{function}: {argument}.dtype is {array.dtype}, expected "
                         + expected)
    return TypeError(f"{found(function, argument, value)}, expected an array of {expected}")


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of anything; () if it has none, which the check of its type will explain."""
    try:
        return np.shape(value)
    except Exception:
        return ()


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    """Unlike np.ascontiguousarray, it keeps the shape []."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def result(function: str, argument: str, value: Any, shape: Any, dtype: Any) -> NDArray[Any]:
    """Memory for a result whose size an argument decides."""
    try:
        return empty(shape, dtype)
    except (MemoryError, OverflowError, ValueError) as error:
        kind = MemoryError if isinstance(error, MemoryError) else ValueError
        raise kind(found(function, argument, value) + ", expected a size whose results fit into "
                   "memory") from error


def check_out(function: str, out: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Refuses memory for a result that a C function cannot write to."""
    if not isinstance(out, ndarray):
        raise TypeError(f"vecdet.{function}: out is a {type(out).__name__}, expected a NumPy array")
    if out.shape != shape or out.dtype != dtype or not out.flags.carray:
        flags = out.flags
        raise ValueError(
            f"vecdet.{function}: out is {'' if flags.c_contiguous else 'not contiguous, '}"
            f"{'' if flags.writeable else 'read-only, '}"
            f"{'' if flags.aligned else 'not aligned, '}of {out.dtype} and shape "
            f"{list(out.shape)}, expected a writeable contiguous array of {dtype} and shape "
            f"{list(shape)}")


def is_bfloat16(dtype: Any) -> bool:
    return dtype.name == "bfloat16" and dtype.itemsize == 2


def floats(function: str, argument: str, value: Any) -> NDArray[Any]:
    """A contiguous array of a type in TYPES."""
    if type(value) is ndarray and value.dtype in TYPES and value.flags.c_contiguous:
        return value
    return _as_floats(function, argument, value, as_array(function, argument, value))


def _as_floats(function: str, argument: str, value: Any, array: Any) -> NDArray[Any]:
    """`array` is what NumPy made of the value."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype == _FLOAT16:
        array = array.astype(np.float32)
    elif array.dtype not in TYPES:
        if is_bfloat16(array.dtype):
            TYPES[array.dtype] = BFLOAT16
        elif array.size == 0 and not isinstance(value, np.ndarray):
            array = array.astype(np.float32)
        elif isinstance(value, (list, tuple)) and array.dtype.kind in "iu":
            array = array.astype(np.float64)
        else:
            raise wrong_type(function, argument, value, array, "float32, float64 or bfloat16")
    return contiguous(array)


def real_numbers(function: str, argument: str, value: Any) -> NDArray[Any]:
    """Like floats(), but integers become float32, as in torchvision's functions of boxes; float64
    if float32 does not hold them."""
    if type(value) is ndarray and value.dtype in TYPES and value.flags.c_contiguous:
        return value
    array = as_array(function, argument, value)
    if array.dtype.kind not in "iu":
        return _as_floats(function, argument, value, array)
    most = _farthest(array)
    if abs(most) > 2**53:
        raise ValueError(f"vecdet.{function}: {argument} has the integer {most}, expected at most "
                         "2^53 in magnitude")
    return contiguous(array.astype(float32 if abs(most) <= 2**24 else float64))


def _farthest(array: NDArray[Any]) -> int:
    """The integer of the greatest magnitude."""
    return max(int(array.max()), int(array.min()), key=abs) if array.size else 0


def same_floats(function: str, names: Sequence[str], values: Sequence[Any],
                convert: Callable[..., Any] = floats) -> tuple[int, Sequence[NDArray[Any]]]:
    """Arrays of the same type from values and their names, and the type's number."""
    common: Any = getattr(values[0], "dtype", None)
    for value in values:  # most need no conversion
        if (type(value) is not ndarray or value.dtype is not common
                or not value.flags.c_contiguous):
            break
    else:
        if common in TYPES:
            return TYPES[common], values
    arrays = [convert(function, name, value) for name, value in zip(names, values)]
    common = arrays[0].dtype
    if any(array.dtype != common for array in arrays):
        common = np.result_type(*(array.dtype for array in arrays))
        arrays = [array.astype(common, copy=False) for array in arrays]
    return TYPES[common], arrays


def small_floats(function: str, argument: str, value: Any) -> NDArray[Any]:
    """A contiguous array of float32 or bfloat16; float64 is rounded to float32."""
    array = floats(function, argument, value)
    if array.dtype == float64:
        check_integers(function, argument, value)
        array = array.astype(np.float32)
    return array


def same_small_floats(function: str, names: Sequence[str],
                      values: Sequence[Any]) -> tuple[int, Sequence[NDArray[Any]]]:
    """The same, but float64 is rounded to float32."""
    type_, arrays = same_floats(function, names, values)
    if type_ == FLOAT64:
        for name, value in zip(names, values):
            check_integers(function, name, value)
        arrays = [array.astype(np.float32) for array in arrays]
        type_ = FLOAT32
    return type_, arrays


def float32s(function: str, argument: str, value: Any, shape: str = "", last: int | None = None,
             convert: Callable[..., Any] = floats,
             rows: tuple[int, ...] | None = None) -> NDArray[Any]:
    """A contiguous array of float32 whose last dimension is `last`, or with one number per row of
    inputs with the shape [*rows, classes]."""
    if type(value) is ndarray and value.dtype is float32 and value.flags.c_contiguous:
        array: Any = value
    else:
        array = convert(function, argument, value)
        if array.dtype == float64:
            check_integers(function, argument, value)
        array = array.astype(float32, copy=False)
    if last is not None and (array.ndim < 1 or array.shape[-1] != last):
        if array.size == 0:
            return array.reshape(0, last)
        raise wrong_shape(function, argument, array, shape)
    if rows is not None and array.shape != rows:
        raise wrong_shape(function, argument, array, f"{list(rows)}, one number per row of inputs")
    return array


def check_integers(function: str, argument: str, value: Any) -> None:
    """Refuses integers that float32 does not hold."""
    if type(value) is ndarray and value.dtype is float64:
        return
    given = as_array(function, argument, value)
    if given.dtype.kind in "iu" and abs(_farthest(given)) > 2**24:
        raise ValueError(f"vecdet.{function}: {argument} has the integer {_farthest(given)}, "
                         "expected at most 2^24 in magnitude, which float32 holds")


def integers(function: str, argument: str, value: Any, count: int | None = None,
             rows: tuple[int, ...] | None = None,
             convert: Callable[..., Any] | None = None) -> NDArray[Any]:
    """A contiguous array of int64, flat if it must have `count` elements, or with one label per row
    of inputs with the shape [*rows, classes]."""
    if type(value) is ndarray and value.dtype is int64 and value.flags.c_contiguous:
        array = value
    else:
        array = (convert or as_integers)(function, argument, value)
    if count is not None and array.size != count:
        raise wrong_shape(function, argument, array, f"[{count}]")
    if rows is not None and array.shape != rows:
        raise wrong_shape(function, argument, array, f"{list(rows)}, one label per row of inputs")
    return array


def as_integers(function: str, argument: str, value: Any) -> NDArray[Any]:
    array = as_array(function, argument, value)
    if array.dtype != int64:
        if array.dtype.kind not in "iu" and array.size:
            raise wrong_type(function, argument, value, array, "integers")
        if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
            raise ValueError(f"vecdet.{function}: {argument} has {array.max()}, expected numbers "
                             "below 2^63")
        array = array.astype(np.int64)
    return contiguous(array)


def whole_numbers(function: str, argument: str, array: NDArray[Any]) -> NDArray[np.int64]:
    """Floats without a fraction as int64."""
    with np.errstate(invalid="ignore"):
        whole = array.astype(int64)
    wide = array.astype(float64)
    is_changed = (whole.astype(float64) != wide) | (wide >= 2.0**63)
    if is_changed.any():
        raise ValueError(f"vecdet.{function}: {argument} has {array[is_changed].flat[0]}, expected "
                         "integers of 64 bits, or floats without a fraction")
    return whole


def box_rows(function: str, argument: str, array: NDArray[Any]) -> NDArray[Any]:
    """Checks the shape [N, 4]."""
    if array.ndim != 2 or array.shape[1] != 4:
        if array.size == 0:
            return array.reshape(0, 4)
        raise wrong_shape(function, argument, array, "[N, 4]")
    return array


def check_scores(function: str, rows: Any, argument: str = "predictions") -> None:
    """Refuses rows x1 y1 x2 y2 score [category] whose score is NaN, which no order has a place for,
    or whose category is."""
    if not len(rows):
        return
    most = rows.item(rows.argmax())  # the first NaN if any; a quarter of the time of isnan().any()
    if most == most:
        return
    for name, numbers in (("score", rows[:, 4]), ("category", rows[:, 5:])):
        if np.isnan(numbers).any():
            raise ValueError(f"vecdet.{function}: {argument} has the {name} nan, expected a "
                             "number")


def category_numbers(column: Any) -> NDArray[np.int64]:
    """A column of floats as integers, equal for equal floats. Small integers are the fastest."""
    whole = column.astype(int64)
    if whole.astype(column.dtype).tobytes() != column.tobytes():  # a third of !='s time
        whole = np.unique(column, return_inverse=True)[1].astype(int64)
    return whole


def numbers_per_box(function: str, argument: str, array: NDArray[Any], count: int) -> None:
    if array.shape != (count,):
        raise wrong_shape(function, argument, array, f"[{count}], one number per box")


def choice(names: Sequence[str], function: str, argument: str, name: str) -> int:
    """The position of a name in a list."""
    if isinstance(name, str) and name in names:
        return names.index(name)
    raise ValueError(f"{found(function, argument, name)}, expected {', '.join(map(repr, names))}")
