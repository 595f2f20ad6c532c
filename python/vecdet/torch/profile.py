# SPDX-License-Identifier: Apache-2.0
"""vecdet's profiler.

    vecdet.torch.profile.enable()
    with vecdet.torch.profile.scope("step"):
        loss = model(images, targets)
    vecdet.torch.profile.write("report.html")

The profiler records a problem for every vecdet function and each type and shape of its arguments.
VECDET_PROFILE=report.html in the environment records from the start and writes the report at the
end. If vecdet.torch was built for the installed PyTorch, enable(torch_operators=True) also records
PyTorch's operators, and page_faults() tells what their page faults cost. Otherwise, vecdet.profile
has the same records.
"""

from __future__ import annotations

import json
from typing import Any

from .._scope import BaseScope
from ._library import ops as _ops


def enable(torch_operators: bool = False, denormals: bool = False) -> None:
    """Starts recording vecdet's functions and scopes.

    Args:
        torch_operators: also records PyTorch's operators.
        denormals: also counts denormals in the operands of PyTorch's operators. The count is not
            part of an operator's time.

    Raises:
        RuntimeError: torch_operators, unless vecdet.torch was built for the installed PyTorch;
            denormals without torch_operators.
    """
    _ops._profile_enable(torch_operators, denormals)


def disable() -> None:
    """Stops recording; the records are kept."""
    _ops._profile_disable()


def reset() -> None:
    """Discards all records."""
    _ops._profile_reset()


class scope(BaseScope):
    """Times a block, or with @scope("name") a function, as a problem with that name. Scopes nest,
    on any thread. A scope that ends before one inside it, as in interleaved coroutines, or on a
    different thread than it began on, is counted as dropped instead of recorded; other scopes keep
    their own times. Threads, and tasks of asyncio, may share a scope: each ends its own. Generators
    that share one must not interleave inside it.

    Raises:
        TypeError: @scope for a coroutine or generator function, which returns before it runs.
    """

    _begin = staticmethod(_ops._profile_begin)
    _end = staticmethod(_ops._profile_end)


def report() -> dict[str, Any]:
    """The records in the schema vecdet-profile/1, as json.load() would return them."""
    return json.loads(_ops._profile_json())


def rows() -> list[dict[str, Any]]:
    """The problems of report(), in descending order of their own time."""
    return sorted(report()["entries"], key=lambda row: -row["self_ns"])


def write(path: str) -> None:
    """Writes the report in the format that the name's ending selects: .html, .json, .csv, .txt,
    .folded or trace.json. The first call measures the machine's bounds, which takes about a second.

    Raises:
        RuntimeError: unknown ending.
    """
    _ops._profile_write(path)


def page_faults() -> str:
    """The cost of page faults in PyTorch's operators since recording began, and how to avoid
    them."""
    return _ops._profile_page_faults()


def denormals() -> str:
    """The operators with denormals in their operands since recording began with
    enable(torch_operators=True, denormals=True), and the remedy; empty without denormals."""
    return _ops._profile_denormals()
