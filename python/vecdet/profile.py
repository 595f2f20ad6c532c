# SPDX-License-Identifier: Apache-2.0
"""vecdet's profiler.

    vecdet.profile.enable(torch_operators=True)
    with vecdet.profile.scope("step"):
        loss = model(images, targets)
    vecdet.profile.write("report.html")
    print(vecdet.profile.page_faults())

Every vecdet function is a problem by its arguments' type and shape, and so is, where asked for, each
of PyTorch's operators. VECDET_PROFILE=report.html in the environment records from the start and
writes at the end, without PyTorch's operators.
"""

import contextlib
import json
from typing import Any, Dict, List

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
    """Times a block, or with @scope("name") a function, as a problem of that name. Nests, on any
    thread."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> "scope":
        _ops._profile_begin(self._name)
        return self

    def __exit__(self, *exception: Any) -> None:
        _ops._profile_end()


def report() -> Dict[str, Any]:
    """What was recorded, of the schema vecdet-profile/1, as json.load() would give it."""
    return json.loads(_ops._profile_json())


def rows() -> List[Dict[str, Any]]:
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
