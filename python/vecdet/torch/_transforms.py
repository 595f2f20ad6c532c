# SPDX-License-Identifier: Apache-2.0
"""Recognises forward-mode differentiation and the transforms of torch.func, which vecdet's
operators do not support."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

# PyTorch 2.1 and newer.
_is_wrapped = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor",
                      lambda tensor: False)
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def is_transformed(tensor: Tensor) -> bool:
    """Whether the tensor has a tangent (torch.func.jvp, torch.autograd.forward_ad), or is an
    argument of a function that vmap, grad or another transform of torch.func calls. Code that
    torch.compile traces does not ask: the tensors are not there yet."""
    if _is_compiling():
        return False
    return _is_wrapped(tensor) or forward_ad.unpack_dual(tensor).tangent is not None
