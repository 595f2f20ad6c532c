# SPDX-License-Identifier: Apache-2.0
"""Runs torchvision.ops and torch's CTC on vecdet within a block."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from types import ModuleType
from typing import Any, Callable, Iterable, Iterator

import torch
import torchvision
from torch import Tensor
from torch.nn import functional

from . import ops
from ._rcnn import PASTE_MASKS_IN_IMAGE, paste_masks_in_image
from ._parts import register_patch
from ._transforms import is_transformed

# Functions differentiable in only the first argument, and functions without a gradient.
_OF_FIRST = ("sigmoid_focal_loss", "generalized_box_iou_loss", "distance_box_iou_loss",
             "complete_box_iou_loss", "roi_align")
_OTHERS = ("nms", "batched_nms", "box_iou", "generalized_box_iou", "distance_box_iou",
           "complete_box_iou")

_lock = threading.Lock()
_blocks = 0  # blocks running now
_replaced: list[tuple[ModuleType, str, Callable]] = []  # what the modules had before


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among arguments, including those in lists."""
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(_tensors(value))
    return found


def _guarded(ours: Callable, theirs: Callable, is_of_first: bool) -> Callable:
    """Calls vecdet's function, or theirs for keywords and shapes that vecdet's does not
    have, tensors not on the CPU, quantized tensors, gradients that only they support,
    forward-mode differentiation and torch.func."""
    signature = inspect.signature(theirs)
    known = inspect.signature(ours).parameters.keys()
    has_pairs = theirs.__name__.endswith("_iou")  # newer torchvisions take batches of them

    @functools.wraps(theirs)
    def function(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        tensors = _tensors(bound.arguments.values())
        held_constant = tensors[1:] if is_of_first else tensors
        if (not bound.arguments.keys() <= known
                or has_pairs and any(tensor.dim() != 2 for tensor in tensors)
                or any(not tensor.is_cpu or tensor.is_quantized for tensor in tensors)
                or torch.is_grad_enabled() and any(tensor.requires_grad for tensor in held_constant)
                or any(is_transformed(tensor) for tensor in tensors)):
            return theirs(*args, **kwargs)
        # Their names and defaults, if vecdet's are others.
        bound.apply_defaults()
        return ours(**{name: value for name, value in bound.arguments.items() if name in known})

    register_patch(function, theirs)
    return function


def _replace_all() -> None:
    replacements = {}
    for name in _OF_FIRST + _OTHERS:
        theirs = getattr(torchvision.ops, name, None)
        if theirs is not None:
            replacements[theirs] = _guarded(getattr(ops, name), theirs, name in _OF_FIRST)
    replacements[PASTE_MASKS_IN_IMAGE] = _guarded(paste_masks_in_image, PASTE_MASKS_IN_IMAGE, False)
    ctc_loss = functional.ctc_loss
    replacements[ctc_loss] = _guarded(ops.ctc_loss, ctc_loss, True)
    for module_name, module in list(sys.modules.items()):
        if module is None or not (module is functional
                                  or module_name.partition(".")[0] == "torchvision"):
            continue
        for name, value in list(vars(module).items()):
            if inspect.isfunction(value) and value in replacements:
                setattr(module, name, replacements[value])
                _replaced.append((module, name, value))


@contextlib.contextmanager
def patched() -> Iterator[None]:
    """Inside the block, torchvision.ops' losses, overlaps, NMS and RoIAlign run on vecdet, in the
    whole process and wherever torchvision uses them, and so do paste_masks_in_image, which Mask
    R-CNN calls, and torch.nn.functional.ctc_loss, which torch.nn.CTCLoss calls. Arguments that
    vecdet.torch.ops does not have, such as overlaps of batches, tensors not on the CPU, quantized
    tensors, overlaps whose gradient is needed, forward-mode differentiation and the transforms of
    torch.func go to the replaced functions. Blocks may overlap, also on several threads; the end of
    the last one restores torchvision and torch."""
    global _blocks
    with _lock:
        if _blocks == 0:
            _replace_all()
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if _blocks == 0:
                for module, name, value in _replaced:
                    setattr(module, name, value)
                _replaced.clear()
