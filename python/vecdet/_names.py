# SPDX-License-Identifier: Apache-2.0
"""Names that stand for numbers in the operators, and lists that stand for tensors."""

from typing import List, Sequence, Tuple, Union

import torch
from torch import Tensor

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
OVERLAPS = {"iou": 0, "giou": 1, "diou": 2, "ciou": 3}
BOX_LOSSES = {"smooth_l1": 0, "giou": 1, "diou": 2, "ciou": 3}
DECAYS = {"hard": 0, "linear": 1, "gaussian": 2}
DETECTORS = {"retinanet": 0, "fcos": 1, "ssd": 2}


SIZE_LIMIT = 4.135166556742356  # log(1000 / 16): torchvision's bound of dw and dh


def number(names: dict, argument: str, name: str) -> int:
    if name not in names:
        raise ValueError(f"Invalid value for argument '{argument}': '{name}'. "
                         f"Supported: {', '.join(names)}")
    return names[name]


def number_pair(value: Union[int, Sequence[int]]) -> List[int]:
    """Height and width, which may be given as one number."""
    return [value, value] if isinstance(value, int) else list(value)


def sizes_of(image_sizes: Sequence[Tuple[float, float]]) -> List[float]:
    """Heights and widths as the operators take them: one number after the other."""
    return [float(side) for size in image_sizes for side in size]


def joined(function: str, argument: str,
           per_image: Union[Tensor, Sequence[Tensor]]) -> Tuple[Tensor, List[int]]:
    """What all images have, and how much each has: nothing, where there are no images."""
    if isinstance(per_image, Tensor):
        return per_image, []
    if len(per_image) == 0:
        raise RuntimeError(f"vecdet::{function}: {argument} is an empty list, expected a tensor, or "
                           "a list with one of each image")
    return torch.cat(list(per_image)), [len(each) for each in per_image]


def split_by(offsets: Tensor, *tensors: Tensor) -> List[Tuple[Tensor, ...]]:
    """The part of each image."""
    ends = offsets.tolist()
    return [tuple(tensor[first:end] for tensor in tensors)
            for first, end in zip(ends[:-1], ends[1:])]
