# SPDX-License-Identifier: Apache-2.0
"""Loads libvecdet and turns its status into exceptions."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from typing import Any

from ._c import FUNCTIONS, INVALID_ARGUMENT, OUT_OF_MEMORY
from ._messages import of_library

# Links are not resolved: in a build tree, the modules are links, and the library is next to them.
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libvecdet.so.0")


# ctypes converts an int to a pointer in half the time that an integer type takes, and 64-bit Linux
# passes both in the same place. It would also take None and text for a pointer, and integers of any
# size, so callers pass ints that the package computed, and integer() of a user's.
_PASSED_AS: dict[Any, Any] = (
    {ctypes.c_int: ctypes.c_void_p, ctypes.c_int64: ctypes.c_void_p}
    if sys.platform == "linux" and ctypes.sizeof(ctypes.c_void_p) == 8 else {})


def _reason(error: OSError) -> str:
    """Why the library does not load."""
    machines = {62: "x86_64", 183: "aarch64"}  # e_machine of ELF files
    try:
        with open(_FILE, "rb") as file:
            head = file.read(20)
    except FileNotFoundError:
        return f"there is no {_FILE}"
    built_for = machines.get(int.from_bytes(head[18:20], "little"))
    if head[:4] == b"\x7fELF" and built_for not in (None, platform.machine()):
        return f"it was built for {built_for}, and this machine is {platform.machine()}"
    if sys.platform == "linux" and platform.libc_ver()[0] != "glibc":
        return f"wheels need glibc, and this Python has another C library, such as musl ({error})"
    return str(error)


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_FILE)
    except OSError as error:
        raise ImportError(f"vecdet's library does not load: {_reason(error)}. Install the wheel "
                          "for this machine, run pip install ./python in the source tree, or build "
                          "the CMake target vecdet_c") from error
    functions: Any = FUNCTIONS
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = [_PASSED_AS.get(kind, kind) for kind in arguments]
    return library


class Handle:
    """An object of the library, freed with this one. It has no copies: what holds it makes a new
    object for a copy."""

    __slots__ = ("address", "_free")

    def __init__(self, handle: ctypes.c_void_p, free: Any) -> None:
        self.address, self._free = handle.value, free

    def __reduce__(self) -> Any:
        raise TypeError("vecdet: an object of the library cannot be copied or pickled")

    def __del__(self) -> None:
        self._free(self.address)


library: Any = _load()
last_error = library.vecdet_last_error


def check(status: int, function: str) -> None:
    """Raises the exception of a call that failed."""
    if status:
        text = of_library(function, last_error().decode(errors="replace"))
        raise {INVALID_ARGUMENT: ValueError, OUT_OF_MEMORY: MemoryError}.get(status, RuntimeError)(
            text)
