# SPDX-License-Identifier: Apache-2.0
"""Loads libvecdet and turns its status into exceptions."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ._c import FUNCTIONS, INVALID_ARGUMENT, OUT_OF_MEMORY

# Links are not resolved: in a build tree, the modules are links, and the library is next to them.
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libvecdet.so.0")


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_FILE)
    except OSError as error:
        raise ImportError(f"vecdet's library does not load: {error}. Install the wheel for this "
                          "machine, run pip install ./python in the source tree, or build the "
                          "CMake target vecdet_c") from error
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


library: Any = _load()
last_error = library.vecdet_last_error


def check(status: int) -> None:
    """Raises the exception of a call that failed."""
    if status:
        text = last_error().decode(errors="replace")
        raise {INVALID_ARGUMENT: ValueError, OUT_OF_MEMORY: MemoryError}.get(status, RuntimeError)(
            text)
