# SPDX-License-Identifier: Apache-2.0
"""What the accelerated detectors have in common."""

from __future__ import annotations

from typing import Any, Callable, TypeVar, Union

import torch
from torch import Tensor, nn
from torchvision.models.detection._utils import Matcher

from ._assignment import match_anchors

_Class = TypeVar("_Class", bound=type)

# What stands in the place of torchvision's classes, and what it replaces.
ORIGINALS: dict[type, type] = {}


def _refuse_scripting(self: nn.Module) -> nn.Module:
    raise RuntimeError("vecdet: an accelerated model cannot be scripted; call "
                       "torch.jit.script(vecdet.restore(model))")


def replaces(theirs: type) -> Callable[[_Class], _Class]:
    """Makes a class the one that accelerate() puts in the place of ``theirs``."""

    def register(ours: _Class) -> _Class:
        ORIGINALS[ours] = theirs
        # Not by a common base, with which torchvision's classes would have another layout: then a
        # module could not change its class.
        setattr(ours, "__prepare_scriptable__", _refuse_scripting)
        return ours

    return register


def is_a(part: object, *classes: type) -> bool:
    """Whether the class of ``part`` is one of torchvision's ``classes``, replaced or not, and not
    one derived from them."""
    return ORIGINALS.get(type(part), type(part)) in classes


def is_own(part: object, *classes: type) -> bool:
    """Whether ``part`` behaves as one of torchvision's ``classes``: is_a(), and no method is
    overridden in the object itself. Ask at every call: users replace parts at any time."""
    if not is_a(part, *classes):
        return False
    return not any(callable(getattr(type(part), name, None)) for name in vars(part))


def are_watched(*modules: nn.Module) -> bool:
    """Whether hooks see what the modules take or give, and expect it in torchvision's form."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, kind, None) for module in modules for kind in kinds)


def boxes_of(targets: list[dict[str, Tensor]]) -> list[Tensor]:
    return [target["boxes"] for target in targets]


def are_float32(tensors: list[Tensor]) -> bool:
    return all(tensor.dtype == torch.float32 for tensor in tensors)


def are_same(anchors: list[Tensor]) -> bool:
    """Whether all images have the same anchors, whose overlaps are computed in float32."""
    return anchors[0].dtype != torch.float64 and all(
        torch.equal(per_image, anchors[0]) for per_image in anchors[1:])


def common_anchors(anchors: list[list[Tensor]]) -> Tensor | None:
    """The anchors of all levels if they are the same in all images."""
    joined = [torch.cat(levels) for levels in anchors]
    return joined[0] if joined and are_same(joined) else None


def split_matches(matches: Tensor, boxes: list[Tensor]) -> list[Tensor]:
    """Indices into the boxes of all images as indices into those of each image."""
    matched_idxs, first = [], 0
    for per_image, boxes_of_image in zip(matches, boxes):
        matched_idxs.append(torch.where(per_image >= 0, per_image - first, per_image))
        first += len(boxes_of_image)
    return matched_idxs


def join_matches(targets: list[dict[str, Tensor]], matched_idxs: list[Tensor]) -> Tensor:
    """Indices into the boxes of each image as indices into those of all images."""
    matches, first = [], 0
    for target, per_image in zip(targets, matched_idxs):
        matches.append(torch.where(per_image >= 0, per_image + first, per_image))
        first += len(target["boxes"])
    return torch.cat(matches)


def match_all(targets: list[dict[str, Tensor]], anchors: list[Tensor], matcher: Matcher,
              force_best: bool) -> list[Tensor] | None:
    """The matches of each image, as from the matcher, without the matrix of overlaps. None if the
    matrix would not be of float32, or the anchors differ between images."""
    boxes = boxes_of(targets)
    if not are_same(anchors) or not are_float32(boxes):
        return None
    matches, _, _ = match_anchors(
        anchors[0], boxes, None, matcher.high_threshold, matcher.low_threshold,
        matcher.allow_low_quality_matches, force_best=force_best)
    return split_matches(matches, boxes)


def labels_of_anchors(targets: list[dict[str, Tensor]], matched_idxs: list[Tensor],
                      background: int) -> Tensor:
    """The class of each anchor [images, anchors]; ``background`` if it is matched to nothing."""
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
    """An output of a head as torchvision's heads give it."""
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
    """The tensor [images, anchors, n] that was split into levels: a view of it if they still lie
    one after the other in one storage, otherwise a copy."""
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
    """A torchvision BoxCoder as the options of vecdet's operators."""
    return dict(weights=coder.weights, size_limit=coder.bbox_xform_clip)
