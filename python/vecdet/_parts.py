# SPDX-License-Identifier: Apache-2.0
"""What the accelerated detectors have in common."""

from typing import List, Optional, Union

import torch
from torch import Tensor
from torchvision.models.detection._utils import Matcher

from . import ops


def boxes_of(targets) -> List[Tensor]:
    return [target["boxes"] for target in targets]


def are_same(anchors: List[Tensor]) -> bool:
    """Whether all images have the same anchors, in numbers of which the overlaps are float32's."""
    return anchors[0].dtype != torch.float64 and all(
        torch.equal(each, anchors[0]) for each in anchors[1:])


def matches_per_image(matches: Tensor, boxes: List[Tensor]) -> List[Tensor]:
    """Indices into the boxes of all images as indices into those of each."""
    matched_idxs, first = [], 0
    for each, image_boxes in zip(matches, boxes):
        matched_idxs.append(torch.where(each >= 0, each - first, each))
        first += len(image_boxes)
    return matched_idxs


def match_all(targets, anchors: List[Tensor], matcher: Matcher,
              force_best: bool) -> Optional[List[Tensor]]:
    """What the matcher gives for each image, without the matrix of overlaps; None where the matrix
    would not be of float32, or anchors differ."""
    boxes = boxes_of(targets)
    if not are_same(anchors) or any(b.dtype != torch.float32 for b in boxes):
        return None
    matches, _, _ = ops.match_anchors(
        anchors[0], boxes, None, matcher.high_threshold, matcher.low_threshold,
        matcher.allow_low_quality_matches, force_best=force_best)
    return matches_per_image(matches, boxes)


# The output of a head: images x anchors x columns, or levels as convolutions left them.
_Output = Union[Tensor, List[Tensor]]


def rows_of(output: _Output, columns: int) -> Tensor:
    """An output of a head as torchvision's heads give it."""
    if isinstance(output, Tensor):
        return output
    return torch.cat([
        level.reshape(len(level), -1, columns, *level.shape[2:]).permute(0, 3, 4, 1, 2).reshape(
            len(level), -1, columns) for level in output
    ], dim=1)
