# SPDX-License-Identifier: Apache-2.0
"""Converts names to the operators' numbers, and lists to tensors."""

from __future__ import annotations

import inspect
from typing import Callable, Mapping, Sequence, Union

import torch
import torchvision
from torch import Tensor

from .. import _c


def numbers(names: Sequence[str]) -> dict[str, int]:
    """The operators' numbers of the names of enumerators."""
    return {name: number for number, name in enumerate(names)}


REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
OVERLAPS = numbers(_c.iou_kind)
BOX_LOSSES = numbers(_c.box_loss)
DECAYS = numbers(_c.soft_nms_method)
DETECTORS = numbers(_c.dense_detector[:_c.RPN])  # the RPN has an operator of its own
FORMATS = numbers(_c.box_format)
CLASS_COSTS = numbers(_c.query_class_cost)
CLASS_LOSSES = numbers(_c.set_class_loss)
CONVENTIONS = numbers(_c.angle_convention)
ROTATED_FORMATS = numbers(_c.rotated_format)
MASK_PIXELS = numbers(_c.mask_pixels)
MASK_RULES = numbers(_c.mask_rule)

EPS = 1e-7  # torchvision's default of eps

# One image's tensor, or a list with one per image.
PerImage = Union[Tensor, Sequence[Tensor]]
# A decoder layer's tensor, or a list with one per layer.
PerLayer = Union[Tensor, Sequence[Tensor]]
# Height and width of each level, as a tensor or as pairs.
LevelSizes = Union[Tensor, Sequence[Sequence[int]]]


def torchvisions(name: str) -> Callable[..., Tensor]:
    """The function of torchvision.ops, also within patched()."""
    return inspect.unwrap(getattr(torchvision.ops, name))


def number(names: Mapping[str, int], argument: str, name: str) -> int:
    if name not in names:
        raise ValueError(f"Invalid value for argument '{argument}': '{name}'. "
                         f"Supported: {', '.join(names)}")
    return names[name]


def number_pair(value: int | Sequence[int]) -> list[int]:
    """Height and width, or one number for both."""
    return [value, value] if isinstance(value, int) else list(value)


def flat_sizes(level_sizes: LevelSizes) -> list[int]:
    """Heights and widths of levels in the operators' form: a flat list."""
    if isinstance(level_sizes, Tensor):
        return [int(size) for size in level_sizes.flatten().tolist()]
    return [int(size) for level in level_sizes for size in level]


def sizes_of(image_sizes: Sequence[Sequence[float]]) -> list[float]:
    """Heights and widths of images in the operators' form: a flat list."""
    return [float(side) for size in image_sizes for side in size]


def layers(value: PerLayer) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


def joined(function: str, argument: str, per_image: PerImage) -> tuple[Tensor, list[int]]:
    """Concatenates the tensors of all images and returns their lengths; a single tensor has no
    lengths."""
    if isinstance(per_image, Tensor):
        return per_image, []
    if len(per_image) == 0:
        raise RuntimeError(f"vecdet::{function}: {argument} is an empty list, expected a tensor, "
                           "or a list with one per image")
    return torch.cat(list(per_image)), [len(tensor) for tensor in per_image]


def joined_if_any(function: str, argument: str,
                  per_image: PerImage | None) -> tuple[Tensor | None, list[int]]:
    return (None, []) if per_image is None else joined(function, argument, per_image)


def split_by(offsets: Tensor, *tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """Splits a tensor into the parts of each image."""
    ends = offsets.tolist()
    return [tuple(tensor[first:end] for tensor in tensors)
            for first, end in zip(ends[:-1], ends[1:])]


def split_detections(boxes: Tensor, scores: Tensor, labels: Tensor,
                     offsets: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Splits detections into the boxes, scores and labels of each image."""
    ends = offsets.tolist()
    return [(boxes[first:end], scores[first:end], labels[first:end])
            for first, end in zip(ends[:-1], ends[1:])]
