# SPDX-License-Identifier: Apache-2.0
"""torchvision.ops on vecdet, for as long as a block runs."""

import contextlib
import functools
import inspect
import sys
from typing import Iterator, List

import torch
import torchvision
from torch import Tensor

from . import ops

# What is differentiable in its first argument alone, and what in none.
_OF_FIRST = ("sigmoid_focal_loss", "generalized_box_iou_loss", "distance_box_iou_loss",
             "complete_box_iou_loss", "roi_align")
_OTHERS = ("nms", "batched_nms", "box_iou", "generalized_box_iou", "distance_box_iou",
           "complete_box_iou")


def _tensors(values) -> List[Tensor]:
    """The tensors among arguments, in lists as well."""
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(_tensors(value))
    return found


def _guarded(ours, theirs, is_of_first: bool):
    """Ours, but theirs for tensors elsewhere than on the CPU, quantized ones, and gradients that
    only theirs has."""
    signature = inspect.signature(theirs)

    @functools.wraps(theirs)
    def function(*args, **kwargs):
        tensors = _tensors(signature.bind(*args, **kwargs).arguments.values())
        held_constant = tensors[1:] if is_of_first else tensors
        if any(not tensor.is_cpu or tensor.is_quantized for tensor in tensors):
            return theirs(*args, **kwargs)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in held_constant):
            return theirs(*args, **kwargs)
        return ours(*args, **kwargs)

    return function


@contextlib.contextmanager
def patched() -> Iterator[None]:
    """Inside of the block, torchvision.ops' losses, overlaps, NMS and RoIAlign are vecdet's,
    wherever torchvision uses them, in the whole process. Tensors elsewhere than on the CPU, and
    quantized ones, go to torchvision's own, as do overlaps whose gradient is needed."""
    replacements = {}
    for name in _OF_FIRST + _OTHERS:
        theirs = getattr(torchvision.ops, name, None)
        if theirs is not None:
            replacements[theirs] = _guarded(getattr(ops, name), theirs, name in _OF_FIRST)
    replaced = []
    for module_name, module in list(sys.modules.items()):
        if module is None or module_name.partition(".")[0] != "torchvision":
            continue
        for name, value in list(vars(module).items()):
            if inspect.isfunction(value) and value in replacements:
                setattr(module, name, replacements[value])
                replaced.append((module, name, value))
    try:
        yield
    finally:
        for module, name, value in replaced:
            setattr(module, name, value)
