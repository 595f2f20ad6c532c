# SPDX-License-Identifier: Apache-2.0
"""Is a Python function slower than another?

    python -m vecdet.gate base.module:function head.module:function
    python -m vecdet.gate released/kernel.py:run kernel.py:run --threshold 5 --json gate.json

A callable is `module:name` or `path/to/file.py:name`, where the name may contain dots. It takes no
arguments and does its work when it is called: one that returns a coroutine or a generator, as
`async def` and `yield` make, is an error.
Exit codes: 0 head is not slower, 1 it is, by over 3 %, 2 error, 3 inconclusive.
The options are those of `vecdet-gate callables --help`. The command vecdet-gate gives the verdict;
$VECDET_GATE names it, or it is found beside this file or in $PATH. This module needs only the
standard library.

Both callables run in one new process for each set of rounds, on one processor, in pieces of about a
millisecond of the thread's CPU time, in random order, and base runs again as the control. Work on
other threads is not measured.
"""

from __future__ import annotations

import collections.abc
import contextlib
import gc
import importlib
import importlib.util
import itertools
import json
import os
import random
import resource
import shutil
import sys
import time
import traceback
from typing import Any, Callable, Iterator, NamedTuple, NoReturn

Call = Callable[[], Any]

PIECE_NS = 1e6
ATTEMPTS = 5  # to time a piece without the thread being preempted


class _Error(Exception):
    """What is wrong is said in full."""


class _Function(NamedTuple):
    spec: str
    call: Call


@contextlib.contextmanager
def _running(function: _Function) -> Iterator[None]:
    """Names the function if it does not return."""
    try:
        yield
    except BaseException as error:
        traceback.print_exc()
        raise _Error(f'"{function.spec}" raised {error!r}, expected it to return') from None


def _load(spec: str) -> _Function:
    """The callable of "module:name" or "path/to/file.py:name"."""
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise _Error(f'"{spec}": expected module:function or file.py:function')
    if place.endswith(".py"):
        found = importlib.util.spec_from_file_location(
            "vecdet_gate_" + "".join(c if c.isalnum() else "_" for c in place), place)
        if found is None or found.loader is None or not os.path.isfile(place):
            raise _Error(f'"{spec}": there is no file "{place}"')
        module = importlib.util.module_from_spec(found)
        sys.modules[found.name] = module
        # The file can import files next to it, as when it is run.
        sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
        try:
            found.loader.exec_module(module)
        finally:
            sys.path.pop(0)
    else:
        module = importlib.import_module(place)
    call: Any = module
    for part in name.split("."):
        if not hasattr(call, part):
            raise _Error(f'"{spec}": "{place}" has no "{name}"')
        call = getattr(call, part)
    if not callable(call):
        raise _Error(f'"{spec}" is not callable')
    return _Function(spec, call)


def _refuse_unrun(function: _Function) -> None:
    """Calls it once. The body of a coroutine or a generator that it returns would not run."""
    with _running(function):
        result = function.call()
    for kind, name in ((collections.abc.Coroutine, "a coroutine"),
                       (collections.abc.Generator, "a generator"),
                       (collections.abc.AsyncGenerator, "an asynchronous generator")):
        if isinstance(result, kind):
            if isinstance(result, collections.abc.Coroutine):
                result.close()  # without a warning that it was never awaited
            raise _Error(f'"{function.spec}" returns {name}, whose body does not run: expected a '
                         "function that does its work when it is called")


def _preemptions() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _piece(function: _Function, times: int) -> float:
    """Nanoseconds per call. A first, untimed call warms the caches."""
    call = function.call
    with _running(function):
        return _time_of(call, times)


def _time_of(call: Call, times: int) -> float:
    for attempt in range(ATTEMPTS):
        if times > 8:
            call()
        before = _preemptions()
        repeat = itertools.repeat(None, times)
        gc.disable()
        start = time.thread_time_ns()
        for _ in repeat:
            call()
        ns = time.thread_time_ns() - start
        gc.enable()
        if _preemptions() == before:
            break
    return ns / times


def _calls_per_piece(function: _Function) -> int:
    times = 1
    while True:
        ns = max(1.0, min(_piece(function, times) for _ in range(3)))
        if ns * times >= PIECE_NS / 2:
            return max(1, round(PIECE_NS / ns))
        times *= 2


def _measure_rounds(base: _Function, head: _Function, pairs: int) -> dict[str, list[float]]:
    times = {"head": _calls_per_piece(head), "base": _calls_per_piece(base)}
    order = [("head", head, times["head"]), ("base", base, times["base"]),
             ("control", base, times["base"])]
    measured: dict[str, list[float]] = {"head": [], "base": [], "control": []}
    for _ in range(pairs):
        random.shuffle(order)
        for side, function, calls in order:
            measured[side].append(_piece(function, calls))
    return measured


def _count_calls(base: _Function, head: _Function, calls: int, results: int) -> None:
    """Reads the clock of CPU time around calls of nothing, of base and of head; the preloaded
    counter notes allocations and page faults each time. The last line of the results is the
    function that runs, or "done"."""
    def nothing() -> None:
        pass

    def announce(function: _Function) -> None:
        os.write(results, f"{function.spec}\n".encode("utf-8", "replace"))

    for function in (base, head):
        announce(function)
        _refuse_unrun(function)
    for function in (_Function("nothing", nothing), base, head):
        announce(function)
        call = function.call
        with _running(function):
            for _ in range(calls):
                time.thread_time_ns()
                call()
                time.thread_time_ns()
    os.write(results, b"done\n")


def _measure(job: dict[str, Any]) -> None:
    """The measuring process's side of bench/gate/callables.hpp. Writes to what file descriptor 3
    was at first: the functions may use the number."""
    results = os.dup(3)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 3)
    os.close(nothing)
    # This file runs as a script. The modules beside it, torch among them, must not hide others.
    beside = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [os.getcwd(), *(p for p in sys.path if os.path.realpath(p) != beside)]
    base, head = _load(job["base"]), _load(job["head"])
    if job["pairs"] == 0:
        _count_calls(base, head, job["counted_calls"], results)
        return
    measured = _measure_rounds(base, head, job["pairs"])
    with os.fdopen(results, "w") as out:
        json.dump(measured, out)


def _fail(message: object) -> NoReturn:
    """Ends with the exit code of errors: Python's own, 1, would mean that head is slower."""
    print(f"vecdet.gate: {message}", file=sys.stderr)
    sys.exit(2)


def _command() -> str:
    """The path of vecdet-gate."""
    named = os.environ.get("VECDET_GATE")
    if named:
        if os.path.isfile(named) and os.access(named, os.X_OK):
            return named
        _fail(f'$VECDET_GATE is "{named}", expected the path of the program vecdet-gate')
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vecdet-gate")
    for path in (beside, shutil.which("vecdet-gate")):
        if path and os.access(path, os.X_OK):
            return path
    _fail("there is no command vecdet-gate in $PATH, and $VECDET_GATE is not set. Build it from a "
          "clone of vecdet:\n  cmake -S bench/gate/command -B build && cmake --build build && "
          "cmake --install build")


def main(arguments: list[str]) -> None:
    """Measures, if vecdet-gate has started this process; otherwise becomes vecdet-gate."""
    if arguments[:1] == ["--measure"]:
        try:
            _measure(json.loads(arguments[1]))
        except _Error as error:
            _fail(error)
        return
    if not arguments:
        _fail("two callables are needed; see python -m vecdet.gate --help")
    if arguments[0] in ("-h", "--help"):
        print(__doc__)
        return
    command = _command()
    try:
        os.execv(command, [command, "callables", "--python", sys.executable,
                           "--measurer", os.path.abspath(__file__), *arguments])
    except OSError as error:
        _fail(f'"{command}": {error.strerror}')


if __name__ == "__main__":
    main(sys.argv[1:])
