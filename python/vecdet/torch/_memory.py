# SPDX-License-Identifier: Apache-2.0
"""Memory that the process or the operators keep."""

from __future__ import annotations

from ._library import ops as _ops


def keep_memory() -> bool:
    """Makes glibc's malloc keep freed memory of every size, for the whole process. Otherwise it
    returns large tensors to the system, and each page of a new one faults. Call it once, before
    training. The process then keeps as much memory as it has ever used at one time.

    All threads then share one arena of malloc, and may wait for each other when they allocate. Call
    it before other threads allocate: the arena of such a thread stays, and later threads may get
    it. Arrays above 64 MiB are still returned to the system there.

    Returns:
        Whether glibc has taken the settings: False if malloc is not glibc's. An allocator that
        replaces it, such as jemalloc, is not affected.
    """
    return _ops._keep_memory()


def free_cached_memory() -> int:
    """Frees the memory that the operators hold for later calls: at most 512 MiB of gradients'
    memory, and the transformed weights of convolutions, four times as large as the weights. The
    latter are freed with the module that accelerate() or accelerate_convolutions() replaced, and by
    restore(). Those of vecdet.torch.ops.conv3x3 are freed when other weights are transformed after
    the tensor is gone.

    Returns:
        The number of bytes freed.
    """
    return _ops._free_cached_memory()
