# SPDX-License-Identifier: Apache-2.0
"""The timed scopes of vecdet.profile and vecdet.torch.profile."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
from typing import Any, Callable, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


# The innermost scope that was entered, of each thread and each task of asyncio: its record, the
# scope, and the same of the one around it. The record is in scope._open until it ends.
_innermost: contextvars.ContextVar[Any] = contextvars.ContextVar("vecdet_profile_scope",
                                                                 default=None)


class BaseScope(contextlib.ContextDecorator):
    """A profiler's scope derives from it. _begin(name) begins a record and returns its number, and
    _end(number) ends it; both are static."""

    _begin: Any
    _end: Any

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: set[Any] = set()

    def _recreate_cm(self) -> BaseScope:
        return type(self)(self._name)  # each call of a decorated function has its own

    def __call__(self, func: _Function) -> _Function:
        for is_of_kind, kind in ((inspect.iscoroutinefunction(func), "coroutine"),
                                 (inspect.isgeneratorfunction(func), "generator"),
                                 (inspect.isasyncgenfunction(func), "asynchronous generator")):
            if is_of_kind:
                raise TypeError(f"vecdet.profile.scope: {func.__qualname__} is a {kind} function, "
                                "expected one that has finished when it returns; write "
                                f"`with scope({self._name!r}):` inside it")
        return super().__call__(func)

    def __enter__(self) -> Any:
        around = _innermost.get()
        record = self._begin(self._name)
        self._open.add(record)
        _innermost.set((record, self, around))
        return self

    def __exit__(self, *exception: Any) -> None:
        entered = innermost = _innermost.get()
        while entered is not None and (entered[1] is not self or entered[0] not in self._open):
            entered = entered[2]
        try:
            # Without one of its own, it ends that of another thread or task, which is then dropped.
            record = self._open.pop() if entered is None else entered[0]
        except KeyError:
            raise RuntimeError(f"vecdet.profile.scope: {self._name!r} ends more often than it "
                               "began") from None
        self._open.discard(record)  # first, because the next record may get its number
        self._end(record)
        while innermost is not None and innermost[0] not in innermost[1]._open:
            innermost = innermost[2]
        _innermost.set(innermost)
