# SPDX-License-Identifier: Apache-2.0
"""Masks of objects, from prototypes or from maps of the objects."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import torch
from torch import Tensor

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
        x1, y1, x2, y2 = self.boxes[index].tolist()
        first, last = self.offsets[:-1][index], self.offsets[1:][index]
        width = x2 - x1
        own = self.pixels[first:last]
        if self.kind == "bytes":
            return own.reshape(y2 - y1, width).bool()
        bits = own.reshape(y2 - y1, (width + 7) // 8, 1) >> torch.arange(8, dtype=torch.uint8)
        return (bits & 1).reshape(y2 - y1, (width + 7) // 8 * 8)[:, :width].bool()

    def full(self, height: int, width: int) -> Tensor:
        """All masks in pictures of this size: [N, height, width], of type bool."""
        pictures = torch.zeros((len(self.boxes), height, width), dtype=torch.bool)
        for index, (x1, y1, x2, y2) in enumerate(self.boxes.tolist()):
            pictures[index, y1:y2, x1:x2] = self.rectangle(index)[:max(height - y1, 0),
                                                                  :max(width - x1, 0)]
        return pictures


def _sides_of(size: Sequence[Any]) -> list[int]:
    """Heights and widths of one picture or several."""
    if len(size) and isinstance(size[0], (tuple, list)):
        return [side for each in size for side in each]
    return list(size)


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
    factors, _ = joined("masks_from_prototypes", "coefficients", coefficients)
    all_boxes, counts = joined("masks_from_prototypes", "boxes", boxes)
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
        maps: [N, 1, height, width]: probabilities; float32, bfloat16 or float16.
        boxes: [N, 4], x1, y1, x2, y2 in pixels of the picture, or a list with those of each image.
        size: (height, width) of the picture, or a list with one for each image.
        threshold: a pixel belongs to the object if its number is above this. Default 0.5.
        pixels: how the result is stored: "bits" (one bit each, the lowest of a byte first; rows are
            padded with zeros to whole bytes) or "bytes" (one byte each, 1 or 0). Default "bits".
    """
    all_boxes, counts = joined("paste_masks", "boxes", boxes)
    own, offsets, data = _ops.paste_masks(maps, all_boxes, _sides_of(size), counts, threshold,
                                          number(MASK_PIXELS, "pixels", pixels))
    return Masks(own, offsets, data, pixels)


def paste_soft_masks(maps: Tensor, boxes: Tensor, size: Sequence[int]) -> Tensor:
    """The numbers of paste_masks, without a threshold: [N, 1, height, width] of float32, 0 outside
    the masks, as torchvision's ``paste_masks_in_image`` returns. They have no gradient.

    Args:
        maps: [N, 1, height, width]: probabilities; float32, bfloat16 or float16.
        boxes: [N, 4], x1, y1, x2, y2 in pixels of the picture.
        size: (height, width) of the picture.
    """
    return _ops.paste_soft_masks(maps, boxes, list(size))
