# SPDX-License-Identifier: Apache-2.0
"""How an accelerated model asks its head for levels in the layout that the convolutions give."""

from __future__ import annotations

import contextlib
import threading
from typing import Iterator

from torch import nn

_asked = threading.local()


@contextlib.contextmanager
def levels_from(head: nn.Module | None) -> Iterator[None]:
    """Inside, this head returns its levels instead of rows. The model asks because it alone knows
    whether it trains: its head may be in another mode."""
    before = getattr(_asked, "head", None)
    _asked.head = head
    try:
        yield
    finally:
        _asked.head = before


def is_asked(head: nn.Module) -> bool:
    return getattr(_asked, "head", None) is head
