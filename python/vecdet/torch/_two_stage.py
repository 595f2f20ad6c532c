# SPDX-License-Identifier: Apache-2.0
"""Functions of vecdet.torch.ops for two-stage detectors: RoIAlign, proposals, detections of a box
head, and samples."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor
from torchvision.ops import MultiScaleRoIAlign as _TorchvisionMultiScaleRoIAlign
from torchvision.ops import poolers

from ._library import ops as _ops
from ._names import SIZE_LIMIT, PerImage, joined, number_pair, sizes_of, split_by, split_detections

__all__ = [
    "MultiScaleRoIAlign", "multiscale_roi_align", "postprocess_box_head", "roi_align",
    "rpn_postprocess", "sample_balanced",
]


# Keywords of roi_align_params, without sampling_ratio, add_to_grad
def roi_align(
    input: Tensor,
    boxes: PerImage,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """RoIAlign, https://arxiv.org/abs/1703.06870, differentiable in ``input``.

    Args:
        input: features [N, C, H, W], contiguous or channels_last; neither is copied, and result and
            gradient have the same layout.
        boxes: [K, 5], an image index and x1, y1, x2, y2 in pixels; or a list with the boxes [L, 4]
            of each image. Any floating-point type.
        output_size: (height, width), or one number for both.
        spatial_scale: locations per pixel: 1 / stride. Default 1.
        aligned: shifts boxes by half a location, as detectron2 does. Default False.
        sampling_ratio: samples per bin along each axis; 0 or less: one per location in the bin.

    Returns:
        [K, C, height, width] with the type of ``input``. bfloat16 is summed in float32.

    Raises:
        RuntimeError: different shapes, an image index out of range, boxes that require a gradient.
    """
    all_boxes, counts = joined("roi_align", "boxes", boxes)
    return _ops.roi_align(input, all_boxes, number_pair(output_size), spatial_scale, sampling_ratio,
                          aligned, counts)


def multiscale_roi_align(
    features: Sequence[Tensor],
    boxes: PerImage,
    output_size: int | Sequence[int],
    scales: Sequence[float],
    sampling_ratio: int = 2,
    aligned: bool = False,
    *,
    canonical_scale: float = 224,
    canonical_level: int = 4,
) -> Tensor:
    """RoIAlign of a pyramid, with results in the order of the boxes. Each box is pooled from the
    level for its size, by equation 1 of https://arxiv.org/abs/1612.03144, as in torchvision's
    MultiScaleRoIAlign.

    Args:
        features: levels [N, C, H, W], finest first.
        boxes, output_size, sampling_ratio, aligned: as in roi_align.
        scales: locations per pixel, one per level, each half of the previous one.
        canonical_scale: the side in pixels of a box that belongs to level ``canonical_level``,
            which has one location per 2 ** canonical_level pixels.
    """
    all_boxes, counts = joined("multiscale_roi_align", "boxes", boxes)
    return _ops.multiscale_roi_align(list(features), all_boxes, number_pair(output_size), scales,
                                     sampling_ratio, aligned, counts, canonical_scale,
                                     canonical_level)


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


def rpn_postprocess(
    logits: Sequence[Tensor],
    deltas: Sequence[Tensor],
    anchors: Tensor,
    image_sizes: Sequence[tuple[float, float]],
    *,
    max_candidates: int = 2000,
    iou_threshold: float = 0.7,
    max_proposals: int = 2000,
    score_threshold: float = 0.0,
    weights: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
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
        max_candidates: per level, before NMS.
        max_proposals: per image, after NMS of each level.
        score_threshold: only scores above it count.
        min_size: boxes with a smaller side are removed.
    """
    return split_detections(*_ops.rpn_postprocess(
        list(logits), list(deltas), anchors, sizes_of(image_sizes), max_candidates,
        iou_threshold, max_proposals, score_threshold, weights, size_limit, min_size))


# Keywords of box_head_params, without coder, with weights, size_limit
def postprocess_box_head(
    logits: Tensor,
    deltas: Tensor,
    proposals: PerImage,
    image_sizes: Sequence[tuple[float, float]],
    *,
    score_threshold: float = 0.05,
    iou_threshold: float = 0.5,
    max_detections: int = 100,
    weights: Sequence[float] = (10.0, 10.0, 5.0, 5.0),
    size_limit: float = SIZE_LIMIT,
    min_size: float = 1e-2,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Turns the outputs of Faster R-CNN's box head into detections: boxes, scores and labels of
    each image, like torchvision's postprocess_detections.

    Args:
        logits: [K, classes]; class 0 is background.
        deltas: [K, classes x 4].
        proposals: corners [K, 4] of one image, or a list with one tensor per image.
        image_sizes: (height, width) of each image.
        score_threshold: in [0, 1]; scores above it count. Default 0.05.
        iou_threshold: in [0, 1]. Default 0.5.
        max_detections: per image. Default 100.
        min_size: boxes with a smaller side are removed; 0 removes none. Default 1e-2.
    """
    all_proposals, counts = joined("postprocess_box_head", "proposals", proposals)
    return split_detections(*_ops.postprocess_box_head(
        logits, deltas, all_proposals, counts, sizes_of(image_sizes), score_threshold,
        iou_threshold, max_detections, weights, size_limit, min_size))


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
