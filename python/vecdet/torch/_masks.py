# SPDX-License-Identifier: Apache-2.0
"""Masks of objects, from prototypes or from maps of the objects."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor

from .. import _masks as _arrays
from ._library import ops as _ops
from ._names import MASK_PIXELS, MASK_RULES, PerImage, joined, number

__all__ = ["Masks", "masks_from_prototypes", "paste_masks", "paste_soft_masks"]


class Masks(NamedTuple):
    """The masks of N objects: rectangles of a picture's pixels."""

    boxes: Tensor
    """[N, 4], int64: x1, y1, x2, y2. The mask has the pixels in columns [x1, x2) and rows
    [y1, y2)."""
    offsets: Tensor
    """[N + 1], int64: where the pixels of each mask begin."""
    pixels: Tensor
    """Of all masks, row by row, uint8. A row of bits, the lowest of a byte first, is padded to
    whole bytes."""
    kind: str
    """``"bits"`` or ``"bytes"``."""

    def rectangle(self, index: int) -> Tensor:
        """The pixels [y2 - y1, x2 - x1] of one mask, of type bool."""
        return torch.from_numpy(self._as_arrays().rectangle(index))

    def full(self, height: int, width: int) -> Tensor:
        """All masks in pictures of this size: [N, height, width], of type bool."""
        return torch.from_numpy(self._as_arrays().full(height, width))

    def _as_arrays(self) -> _arrays.Masks:
        """vecdet.Masks in the same memory."""
        return _arrays.Masks(self.boxes.numpy(), self.offsets.numpy(), self.pixels.numpy(),
                             self.kind)


def _sides_of(size: Sequence[Any]) -> list[int]:
    """Heights and widths of one picture or several."""
    if isinstance(size, (Tensor, np.ndarray)):
        size = size.tolist()
    if len(size) and isinstance(size[0], (tuple, list)):
        return [side for each in size for side in each]
    return list(size)


def _with_channel(maps: Tensor) -> Tensor:
    return maps[:, None] if maps.dim() == 3 else maps


# Keywords of prototype_masks_params
def masks_from_prototypes(
    prototypes: Tensor,
    coefficients: PerImage,
    boxes: PerImage,
    size: Sequence[Any],
    *,
    rule: str = "native",
    pixels: str = "bits",
) -> Masks:
    """The masks of objects of a YOLO model for segmentation, or of YOLACT
    (https://arxiv.org/abs/1904.02689): the pixels in an object's box where the sum of prototypes
    times the object's coefficients is above 0. They have no gradient.

    Args:
        prototypes: [images, P, H, W] of float32, bfloat16 or float16.
        coefficients: [N, P], or a list with those of each image.
        boxes: [N, 4], x1, y1, x2, y2 in pixels of the picture, or a list with those of each image.
        size: (height, width) of the picture, or a list with one for each image.
        rule: the order of steps: "native" (enlarged to the picture, without a letterbox's padding,
            then cropped (process_mask_native)), "upsampled" (cropped, then enlarged (process_mask
            with upsample=True): a mask may reach beyond its box) or "cropped" (cropped only
            (process_mask): masks have the size of the prototypes). Default "native".
        pixels: how the result is stored: "bits" (one bit each, the lowest of a byte first; rows are
            padded with zeros to whole bytes) or "bytes" (one byte each, 1 or 0). Default "bits".

    Returns:
        The masks of all images, in the order of the boxes.
    """
    factors, rows = joined("masks_from_prototypes", "coefficients", coefficients)
    all_boxes, counts = joined("masks_from_prototypes", "boxes", boxes)
    if rows and counts and rows != counts:
        raise RuntimeError("vecdet::masks_from_prototypes: the lengths of coefficients are "
                           f"{rows}, expected {counts}, those of boxes")
    if not counts and prototypes.dim() == 4 and len(prototypes) != 1:
        raise RuntimeError("vecdet::masks_from_prototypes: boxes is one tensor, expected a list of "
                           f"{len(prototypes)} tensors, one per image of prototypes")
    own, offsets, data = _ops.masks_from_prototypes(
        prototypes, factors, all_boxes, _sides_of(size), counts, number(MASK_RULES, "rule", rule),
        number(MASK_PIXELS, "pixels", pixels))
    return Masks(own, offsets, data, pixels)


# Keywords of paste_masks_params
def paste_masks(
    maps: Tensor,
    boxes: PerImage,
    size: Sequence[Any],
    *,
    threshold: float = 0.5,
    pixels: str = "bits",
) -> Masks:
    """The masks of Mask R-CNN (https://arxiv.org/abs/1703.06870): each object's map, enlarged to
    its box and pasted into the picture by the rule of torchvision's ``paste_masks_in_image``. They
    have no gradient.

    Args:
        maps: [N, 1, height, width], or [N, height, width]: probabilities; float32, bfloat16 or
            float16.
        boxes: [N, 4], x1, y1, x2, y2 in pixels of the picture, or a list with those of each image.
        size: (height, width) of the picture, or a list with one for each image.
        threshold: a pixel belongs to the object if its number is above this. Default 0.5.
        pixels: how the result is stored: "bits" (one bit each, the lowest of a byte first; rows are
            padded with zeros to whole bytes) or "bytes" (one byte each, 1 or 0). Default "bits".
    """
    all_boxes, counts = joined("paste_masks", "boxes", boxes)
    own, offsets, data = _ops.paste_masks(_with_channel(maps), all_boxes, _sides_of(size), counts,
                                          threshold, number(MASK_PIXELS, "pixels", pixels))
    return Masks(own, offsets, data, pixels)


def paste_soft_masks(maps: Tensor, boxes: Tensor, size: Sequence[int]) -> Tensor:
    """The numbers of paste_masks, without a threshold: [N, 1, height, width] of float32, 0 outside
    the masks, as torchvision's ``paste_masks_in_image`` returns. They have no gradient.

    Args:
        maps: [N, 1, height, width], or [N, height, width]: probabilities; float32, bfloat16 or
            float16.
        boxes: [N, 4], x1, y1, x2, y2 in pixels of the picture.
        size: (height, width) of the picture.
    """
    if not isinstance(boxes, Tensor):
        raise RuntimeError(f"vecdet::paste_soft_masks: boxes is a {type(boxes).__name__}, expected "
                           "a tensor: all objects are of one picture")
    return _ops.paste_soft_masks(_with_channel(maps), boxes, list(size))
