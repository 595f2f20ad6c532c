# SPDX-License-Identifier: Apache-2.0
"""vecdet's profiler.

    vecdet.profile.enable(torch_operators=True)
    with vecdet.profile.scope("step"):
        loss = model(images, targets)
    vecdet.profile.write("report.html")
    print(vecdet.profile.page_faults())

Every vecdet function is a problem, told apart by its arguments' type and shape; so is each of
PyTorch's operators if asked for. VECDET_PROFILE=report.html in the environment records from the
start and writes at the end, without PyTorch's operators.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import torch

from . import _library  # noqa: F401 (loads the operators)

_ops = torch.ops.vecdet


def enable(torch_operators: bool = False) -> None:
    """Records from now on: vecdet's functions, scopes, and PyTorch's operators if asked for."""
    _ops._profile_enable(torch_operators)


def disable() -> None:
    """Records no more; what was recorded is kept."""
    _ops._profile_disable()


def reset() -> None:
    """Forgets what was recorded."""
    _ops._profile_reset()


class scope(contextlib.ContextDecorator):
    """Times a block, or with @scope("name") a function, as a problem of that name. Scopes nest, on
    any thread. A scope that ends before one inside it, as in interleaved coroutines, or on another
    thread than it began on, is not recorded but counted as dropped; the others keep their own
    times."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[int] = []

    def _recreate_cm(self) -> scope:
        return scope(self._name)  # each call of a decorated function has its own

    def __enter__(self) -> scope:
        self._open.append(_ops._profile_begin(self._name))
        return self

    def __exit__(self, *exception: Any) -> None:
        _ops._profile_end(self._open.pop())


def report() -> dict[str, Any]:
    """What was recorded, of the schema vecdet-profile/1, as json.load() would give it."""
    return json.loads(_ops._profile_json())


def rows() -> list[dict[str, Any]]:
    """The problems of report(), the one of most time of its own first."""
    return sorted(report()["entries"], key=lambda row: -row["self_ns"])


def write(path: str) -> None:
    """Writes the report as the name says: .html, .json, .csv, .txt, .folded or a trace.json. The
    machine's bounds are measured the first time, which takes about a second.

    Raises:
        RuntimeError: for another name.
    """
    _ops._profile_write(path)


def page_faults() -> str:
    """What fresh pages cost in PyTorch's operators since they are recorded, and what saves them."""
    return _ops._profile_page_faults()
