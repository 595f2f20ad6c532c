# SPDX-License-Identifier: Apache-2.0
"""Functions of vecdet.torch.ops for two-stage detectors: RoIAlign, proposals, detections of a box
head, and samples."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor
from torchvision.ops import MultiScaleRoIAlign as _TorchvisionMultiScaleRoIAlign
from torchvision.ops import poolers

from .._boxes import SIZE_LIMIT, WEIGHTS
from ._functions import multiscale_roi_align
from ._library import ops as _ops
from ._names import PerImage, joined, sizes_of, split_by, split_detections

__all__ = ["MultiScaleRoIAlign", "rpn_postprocess", "sample_balanced"]


class MultiScaleRoIAlign(_TorchvisionMultiScaleRoIAlign):
    """torchvision's MultiScaleRoIAlign, with the same arguments, in one call for all levels. Scales
    that do not halve from level to level, and tensors not on the CPU, go to torchvision's own
    forward()."""

    scales: Any
    map_levels: Any

    def forward(self, x: dict[str, Tensor], boxes: list[Tensor],
                image_shapes: list[tuple[int, int]]) -> Tensor:
        features = [feature for name, feature in x.items() if name in self.featmap_names]
        if self.scales is None or self.map_levels is None:
            # torchvision's attributes, so that a model can change between both classes at any time.
            self.scales, self.map_levels = poolers._setup_scales(
                features, image_shapes, self.canonical_scale, self.canonical_level)
        are_halves = all(2 * fine == coarse
                         for coarse, fine in zip(self.scales, self.scales[1:]))
        if not are_halves or any(not feature.is_cpu for feature in features):
            return super().forward(x, boxes, image_shapes)
        return multiscale_roi_align(
            features, [each.detach() for each in boxes], self.output_size, self.scales,
            self.sampling_ratio, canonical_scale=self.canonical_scale,
            canonical_level=self.canonical_level)


# Keywords of postprocess_params::rpn: max_detections is max_proposals,
# without detector, coder, classes, class_thresholds, class_groups, with weights, size_limit
def rpn_postprocess(
    logits: Sequence[Tensor],
    deltas: Sequence[Tensor],
    anchors: Tensor,
    image_sizes: Sequence[Sequence[float]],
    *,
    max_candidates: int = 2000,
    iou_threshold: float = 0.7,
    max_proposals: int = 2000,
    score_threshold: float = 0.0,
    weights: Sequence[float] = WEIGHTS,
    size_limit: float = SIZE_LIMIT,
    min_size: float = 1e-3,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Turns the outputs of an RPN into proposals: boxes, scores and levels of each image, in
    descending score. Like torchvision's filter_proposals, except for scores equal to the threshold.

    Args:
        logits: levels in the convolutions' layout, [images, anchors, height, width] each.
        deltas: levels of the same sizes, [images, anchors x 4, height, width] each.
        anchors: corners [N, 4] of all levels, the same for all images.
        image_sizes: (height, width) of each image.
        score_threshold: in [0, 1]; scores above it count. Default 0.
        max_candidates: per level. Default 2000. NMS compares only these.
        iou_threshold: in [0, 1]. Default 0.7.
        max_proposals: per image. Default 2000. They are the best after NMS of each level.
        min_size: at most 1e35. Boxes with a smaller side are removed; 0 removes none. Default 1e-3.
    """
    return split_detections(*_ops.rpn_postprocess(
        list(logits), list(deltas), anchors, sizes_of(image_sizes), max_candidates,
        iou_threshold, max_proposals, score_threshold, weights, size_limit, min_size))


# Keywords of balanced_sample_params, without seed
def sample_balanced(
    labels: PerImage,
    size: int = 256,
    positive_share: float = 0.5,
    seed: int | None = None,
    *,
    background: int = -1,
    ignore: int = -2,
) -> list[tuple[Tensor, Tensor]]:
    """Draws the anchors or proposals of each image that a step learns from, uniformly and without
    replacement. Returns ascending indices of the positives and of the negatives into the labels.

    Args:
        labels: integers of one image, or a list with one tensor per image; all labels except
            ``background`` and ``ignore`` are positive.
        size: sample size per image; 0 or more. Default 256.
        positive_share: greatest share of positives; in [0, 1]. Default 0.5. Negatives fill the
            rest.
        background, ignore: labels, as in the focal loss. Defaults -1, -2.
        seed: the sample depends only on the seed and the image's position; without a seed, one is
            drawn from torch's generator.
    """
    all_labels, counts = joined("sample_balanced", "labels", labels)
    if seed is None:
        seed = int(torch.randint(2**62, ()))
    indices, offsets, positives = _ops.sample_balanced(all_labels, counts, size, positive_share,
                                                       seed, background, ignore)
    samples, begin = [], 0
    for (each,), chosen, count in zip(split_by(offsets, indices), positives.tolist(),
                                      counts or [len(all_labels)]):
        samples.append((each[:chosen] - begin, each[chosen:] - begin))
        begin += count
    return samples
