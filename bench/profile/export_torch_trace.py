# SPDX-License-Identifier: Apache-2.0
"""Writes what torch.profiler recorded as a trace with shapes, strides, arguments and modules.

    with torch.profiler.profile(record_shapes=True, with_stack=True) as recorded:
        for _ in range(3):
            train_step()
            recorded.step()
    export_torch_trace(recorded, "trace.json.gz")

PyTorch with Kineto does this itself: recorded.export_chrome_trace("trace.json.gz"). Without Kineto
(torch.autograd.kineto_available() is False), as in Debian 12, that method writes no shapes. This
needs PyTorch 1.13 or later, and nothing else. With a schedule, give repeat=1, or call it from
on_trace_ready: a new recording replaces the old one.
"""

from __future__ import annotations

import gzip
import json
import os
from typing import Any, Iterator

import torch


def _inputs(fields: Any) -> dict[str, Any]:
    inputs = fields.inputs
    if not inputs.shapes:
        return {}

    def concrete(value: Any) -> str:
        return "" if value is None else str(value)

    # Strides are a list of their own in 1.13, and part of each tensor's description later.
    return {"Input Dims": [list(shape) for shape in inputs.shapes],
            "Input Strides": [list(strides) for strides in getattr(inputs, "strides", [])],
            "Input type": list(inputs.dtypes),
            "Concrete Inputs": [concrete(value) for value in getattr(inputs, "ivalues", [])]}


def _events(roots: Any, base_ns: int) -> Iterator[dict[str, Any]]:
    pending = list(reversed(roots))
    while pending:
        event = pending.pop()
        pending.extend(reversed(event.children))
        kind = str(event.tag)
        args: dict[str, Any] = {}
        if kind.endswith("TorchOp"):
            # A name without a namespace that is no function of backward is record_function()'s.
            is_user = str(event.extra_fields.scope).endswith("USER_SCOPE")
            category = "user_annotation" if is_user else "cpu_op"
            args = _inputs(event.extra_fields)
            if event.extra_fields.sequence_number >= 0:
                args["Sequence number"] = event.extra_fields.sequence_number
        elif kind.endswith(("PyCall", "PyCCall")):
            category = "python_function"
        else:
            continue
        yield {"ph": "X", "cat": category, "name": event.name, "pid": os.getpid(),
               "tid": event.start_tid, "ts": (event.start_time_ns - base_ns) / 1000,
               "dur": max(event.end_time_ns - event.start_time_ns, 0) / 1000, "args": args}


def export_torch_trace(recorded: torch.profiler.profile, path: str) -> None:
    """Writes the trace to the file; to a compressed one if its name ends in .gz.

    Raises:
        ValueError: nothing was recorded.
    """
    results = recorded.profiler.kineto_results if recorded.profiler else None
    if results is None:
        raise ValueError("export_torch_trace: nothing was recorded; call it after the profiler's "
                         "block, or from on_trace_ready")
    roots = results.experimental_event_tree()
    # Unix time in nanoseconds is too long for a number of JSON, which is of double precision.
    base_ns = roots[0].start_time_ns // 10**9 * 10**9 if roots else 0
    with (gzip.open if path.endswith(".gz") else open)(path, "wt", encoding="utf-8") as file:
        file.write(f'{{"schemaVersion": 1, "baseTimeNanoseconds": {base_ns}, "traceEvents": [')
        separator = ""
        for event in _events(roots, base_ns):
            file.write(separator + json.dumps(event))
            separator = ",\n"
        file.write("]}\n")
