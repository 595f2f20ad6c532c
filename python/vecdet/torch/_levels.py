# SPDX-License-Identifier: Apache-2.0
"""Lets an accelerated model request levels from its head in the convolutions' layout."""

from __future__ import annotations

import contextlib
import threading
from typing import Iterator

from torch import nn

_asked = threading.local()


@contextlib.contextmanager
def levels_from(head: nn.Module | None) -> Iterator[None]:
    """Inside this context, the head returns levels instead of rows. The model requests this because
    only the model knows whether it is training: its head may be in another mode."""
    before = getattr(_asked, "head", None)
    _asked.head = head
    try:
        yield
    finally:
        _asked.head = before


def is_asked(head: nn.Module) -> bool:
    return getattr(_asked, "head", None) is head
