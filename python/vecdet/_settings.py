# SPDX-License-Identifier: Apache-2.0
"""Threads and instruction sets."""

from __future__ import annotations

from ctypes import byref, c_int

from ._arrays import choice
from ._library import check, library
from ._parameters import integer

__all__ = ["active_isa", "detected_isa", "set_isa", "set_threads"]

_ISAS = ("baseline", "avx2", "avx512")


def set_threads(threads: int) -> None:
    """Sets the number of threads of all later calls: 1 is only the calling thread, 0 (the default)
    one per processor, which is also the maximum. Results do not depend on it."""
    check(library.vecdet_set_threads(integer("set_threads", "threads", threads, c_int)),
          "set_threads")


def active_isa() -> str:
    """The instruction set that kernels run on: ``"baseline"``, ``"avx2"`` or ``"avx512"``. It is
    the best that the processor supports, or that of the environment variable VECDET_ISA."""
    found = c_int()
    check(library.vecdet_active_isa(byref(found)), "active_isa")
    return _ISAS[found.value]


def set_isa(name: str) -> None:
    """Selects the instruction set of all later calls, on every thread."""
    check(library.vecdet_set_isa(choice(_ISAS, "set_isa", "name", name)), "set_isa")


def detected_isa() -> str:
    """The best instruction set that the processor supports."""
    return _ISAS[library.vecdet_detected_isa()]
