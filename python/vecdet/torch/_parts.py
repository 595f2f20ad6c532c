# SPDX-License-Identifier: Apache-2.0
"""Helpers shared by the accelerated detectors."""

from __future__ import annotations

import functools
import inspect
import weakref
from typing import Any, Callable, TypeVar, Union

import torch
from torch import Tensor, nn
from torch.nn.modules import module as _module
from torchvision.models.detection._utils import Matcher

from ._functions import match_anchors

_Class = TypeVar("_Class", bound=type)

# The replacements of torchvision's classes, and the classes that they replace.
ORIGINALS: dict[type, type] = {}

_patches: weakref.WeakKeyDictionary[Callable, Callable] = weakref.WeakKeyDictionary()


def register_patch(ours: Callable, theirs: Callable) -> None:
    """Registers a function that patched() installs in place of ``theirs``."""
    _patches[ours] = theirs


def is_function(function: Callable, theirs: Callable) -> bool:
    """Whether ``function`` is torchvision's, or what patched() installed in its place. Users'
    wrappers are neither, although functools.wraps() copies all attributes to them."""
    return function is theirs or (inspect.isfunction(function)
                                  and _patches.get(function) is theirs)


def _refuse_scripting(self: nn.Module) -> nn.Module:
    raise RuntimeError("vecdet: an accelerated model cannot be scripted; call "
                       "torch.jit.script(vecdet.torch.restore(model))")


def replaces(theirs: type) -> Callable[[_Class], _Class]:
    """Registers a class as accelerate()'s replacement for ``theirs``."""

    def register(ours: _Class) -> _Class:
        ORIGINALS[ours] = theirs
        # With a common base, the class would have a different layout than torchvision's, and a
        # module could not change its class.
        setattr(ours, "__prepare_scriptable__", _refuse_scripting)
        return ours

    return register


def forward_of(module: nn.Module) -> Any:
    """The forward() of the module's class. type(module).forward raises if the module was traced or
    scripted."""
    return inspect.getattr_static(type(module), "forward", None)


@functools.lru_cache(maxsize=None)
def with_forward(theirs: Any, make: Callable[[Any], Any]) -> Any:
    """The replacement of a class of which only the form is known: a class derived from it with the
    forward() that make(theirs) returns. Pickles and copies name ``theirs`` and ``make``."""
    return replaces(theirs)(type(theirs.__name__, (theirs,), {
        "__module__": theirs.__module__, "__qualname__": theirs.__qualname__,
        "forward": make(theirs), "made_by": staticmethod(make), "__reduce_ex__": _reduce}))


def _reduce(self: Any, protocol: int) -> tuple[Any, ...]:
    get_state = getattr(self, "__getstate__", lambda: vars(self))
    return _new_with_forward, (ORIGINALS[type(self)], self.made_by), get_state()


def _new_with_forward(theirs: Any, make: Callable[[Any], Any]) -> object:
    return theirs.__new__(with_forward(theirs, make))


def is_a(part: object, *classes: type) -> bool:
    """Whether the class of ``part`` is one of torchvision's ``classes`` or the replacement of one.
    Derived classes do not count."""
    return ORIGINALS.get(type(part), type(part)) in classes


def is_own(part: object, *classes: type) -> bool:
    """Whether ``part`` behaves like one of torchvision's ``classes``: is_a() holds, and no method
    is overridden in the object itself. Check at every call, because users may replace parts at any
    time."""
    if not is_a(part, *classes):
        return False
    return not any(callable(getattr(type(part), name, None)) for name in vars(part))


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def are_watched(*modules: nn.Module) -> bool:
    """Whether the modules have hooks, their own or those of all modules. Hooks expect that each
    module is called, with inputs and outputs in torchvision's form."""
    return any(getattr(_module, "_global" + kind, None) or
               any(getattr(module, kind, None) for module in modules) for kind in _HOOKS)


def boxes_of(targets: list[dict[str, Tensor]]) -> list[Tensor]:
    return [target["boxes"] for target in targets]


def are_float32(tensors: list[Tensor]) -> bool:
    return all(tensor.dtype == torch.float32 for tensor in tensors)


def are_same(anchors: list[Tensor]) -> bool:
    """Whether all images have the same anchors, with overlaps computed in float32."""
    return anchors[0].dtype != torch.float64 and all(
        torch.equal(per_image, anchors[0]) for per_image in anchors[1:])


def common_anchors(anchors: list[list[Tensor]]) -> Tensor | None:
    """The anchors of all levels, if they are the same for all images."""
    joined = [torch.cat(levels) for levels in anchors]
    return joined[0] if joined and are_same(joined) else None


def split_matches(matches: Tensor, boxes: list[Tensor]) -> list[Tensor]:
    """Converts indices into the boxes of all images to indices into those of each image."""
    matched_idxs, first = [], 0
    for per_image, boxes_of_image in zip(matches, boxes):
        matched_idxs.append(torch.where(per_image >= 0, per_image - first, per_image))
        first += len(boxes_of_image)
    return matched_idxs


def join_matches(targets: list[dict[str, Tensor]], matched_idxs: list[Tensor]) -> Tensor:
    """Converts indices into the boxes of each image to indices into those of all images."""
    matches, first = [], 0
    for target, per_image in zip(targets, matched_idxs):
        matches.append(torch.where(per_image >= 0, per_image + first, per_image))
        first += len(target["boxes"])
    return torch.cat(matches)


def match_all(targets: list[dict[str, Tensor]], anchors: list[Tensor], matcher: Matcher,
              force_best: bool) -> list[Tensor] | None:
    """The matcher's matches of each image, computed without the matrix of overlaps. None if the
    matrix would not be float32, or if the anchors differ between images."""
    boxes = boxes_of(targets)
    if not are_same(anchors) or not are_float32(boxes):
        return None
    matches, _, _ = match_anchors(
        anchors[0], boxes, None, matcher.high_threshold, matcher.low_threshold,
        matcher.allow_low_quality_matches, force_best=force_best)
    return split_matches(matches, boxes)


def labels_of_anchors(targets: list[dict[str, Tensor]], matched_idxs: list[Tensor],
                      background: int) -> Tensor:
    """The class of each anchor [images, anchors]; ``background`` if it has no match."""
    labels = []
    for target, matches in zip(targets, matched_idxs):
        nothing = torch.full_like(matches, background)
        labels.append(torch.where(matches >= 0, target["labels"][matches.clamp(min=0)], nothing)
                      if len(target["labels"]) else nothing)
    return torch.stack(labels)


def count_foreground(matched_idxs: list[Tensor]) -> list[int]:
    return [int((matches >= 0).sum()) for matches in matched_idxs]


# The output of a head: images x anchors x columns, or levels in the convolutions' layout.
Output = Union[Tensor, list[Tensor]]


def rows_of(output: Output, columns: int) -> Tensor:
    """A head's output in the form of torchvision's heads."""
    if isinstance(output, Tensor):
        return output
    return torch.cat([
        level.reshape(len(level), -1, columns, *level.shape[2:]).permute(0, 3, 4, 1, 2).reshape(
            len(level), -1, columns) for level in output
    ], dim=1)


def _storage(tensor: Tensor) -> int:
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return storage.data_ptr()


def joined_levels(levels: list[Tensor]) -> Tensor:
    """Rejoins the tensor [images, anchors, n] that was split into levels: a view if they are still
    consecutive in one storage, else a copy."""
    first = levels[0]
    end = first.storage_offset()
    for level in levels:
        if (_storage(level) != _storage(first) or level.storage_offset() != end
                or level.stride() != first.stride() or level.dtype != first.dtype):
            return torch.cat(levels, dim=1)
        end += level.shape[1] * level.stride(1)
    shape = (first.shape[0], sum(level.shape[1] for level in levels), first.shape[2])
    return first.as_strided(shape, first.stride())


def as_detections(found: list[tuple[Tensor, Tensor, Tensor]]) -> list[dict[str, Tensor]]:
    return [{"boxes": boxes, "scores": scores, "labels": labels} for boxes, scores, labels in found]


def coder_options(coder: Any) -> dict[str, Any]:
    """Converts a torchvision BoxCoder to options of vecdet's operators."""
    return dict(weights=coder.weights, size_limit=coder.bbox_xform_clip)
