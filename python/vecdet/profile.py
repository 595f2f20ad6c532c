# SPDX-License-Identifier: Apache-2.0
"""vecdet's profiler.

    vecdet.profile.enable()
    with vecdet.profile.scope("detect"):
        detect(image)
    vecdet.profile.write("report.html")

It records a problem for every vecdet function and each type and shape of its arguments.
VECDET_PROFILE=report.html in the environment records from the start and writes the report at the
end. vecdet.torch.profile has the same functions and the same records, unless vecdet.torch was built
for the installed PyTorch: then it has its own."""

from __future__ import annotations

import ctypes
import json
from typing import Any

from ._library import check, library
from ._messages import found
from ._scope import BaseScope


def _encoded(function: str, argument: str, text: Any) -> bytes:
    try:
        return text.encode()
    except (AttributeError, TypeError, UnicodeError) as error:
        kind = ValueError if isinstance(error, UnicodeError) else TypeError
        raise kind(found(f"profile.{function}", argument, text) + ", expected a str of valid "
                   "Unicode") from error


def enable() -> None:
    """Starts recording."""
    check(library.vecdet_profile_enable(), "profile.enable")


def disable() -> None:
    """Stops recording; the records are kept."""
    library.vecdet_profile_disable()


def reset() -> None:
    """Discards all records."""
    check(library.vecdet_profile_reset(), "profile.reset")


class scope(BaseScope):
    """Times a block, or with @scope("name") a function, as a problem with that name. Scopes nest,
    and end on the thread that they began on. Threads, and tasks of asyncio, may share a scope:
    each ends its own. Generators that share one must not interleave inside it.

    Raises:
        TypeError: @scope for a coroutine or generator function, which returns before it runs.
    """

    @staticmethod
    def _begin(name: str) -> int | None:
        record = ctypes.c_void_p()
        check(library.vecdet_profile_begin(_encoded("scope", "name", name), ctypes.byref(record)),
              "profile.scope")
        return record.value

    _end = staticmethod(library.vecdet_profile_end)


def report() -> dict[str, Any]:
    """The records in the schema vecdet-profile/1, as json.load() would return them."""
    text = library.vecdet_profile_json()
    if not text:
        raise MemoryError("vecdet.profile: not enough memory for the report")
    try:
        return json.loads(ctypes.string_at(text))
    finally:
        library.vecdet_profile_free_json(text)


def rows() -> list[dict[str, Any]]:
    """The problems of report(), in descending order of their own time."""
    return sorted(report()["entries"], key=lambda row: -row["self_ns"])


def write(path: str) -> None:
    """Writes the report in the format that the name's ending selects: .html, .json, .csv, .txt,
    .folded or trace.json. The first call measures the machine's bounds, which takes about a second.

    Raises:
        ValueError: unknown ending.
        RuntimeError: the file cannot be written.
    """
    check(library.vecdet_profile_write(_encoded("write", "path", path)), "profile.write")
