# SPDX-License-Identifier: Apache-2.0
"""torchvision's SSD on vecdet. The class has the name of the one that it replaces."""

from __future__ import annotations

import torch
from torch import Tensor
from torchvision.models.detection import ssd
from torchvision.models.detection._utils import BoxCoder, SSDMatcher

from ._boxes import box_iou
from ._detections import postprocess
from ._functions import regression_loss, softmax_cross_entropy_loss
from ._losses import mined_cross_entropy_loss
from ._parts import (as_detections, boxes_of, coder_options, common_anchors,
                     count_foreground, is_own, join_matches, labels_of_anchors, match_all, replaces)

# torch.nn.functional.cross_entropy's.
_IGNORE = -100


def _counted_twice(logits: Tensor, labels: Tensor, negatives: int) -> Tensor | None:
    """The foreground that torchvision's loss counts twice, [images, anchors], or None. It ranks the
    anchors by loss, the foreground last, and takes ``negatives`` of them per foreground anchor of
    the image. If there are too few other anchors, it takes some of the foreground as well."""
    is_foreground = labels > 0
    wanted = negatives * is_foreground.sum(1, keepdim=True)
    if bool((wanted <= (~is_foreground).sum(1, keepdim=True)).all()):
        return None
    losses = softmax_cross_entropy_loss(logits.detach(), labels, ignore=_IGNORE)
    losses[is_foreground] = -float("inf")
    # As in torchvision, torch's sort decides the order within the foreground.
    ranks = losses.sort(1, descending=True)[1].sort(1)[1]
    return is_foreground & (ranks < wanted)


@replaces(ssd.SSD)
class SSD(ssd.SSD):
    def forward(self, images, targets=None):
        # torchvision's forward() computes the matrix of overlaps itself: training uses another.
        if not (self.training and is_own(self.proposal_matcher, SSDMatcher)
                and self._are_valid(targets)):
            return super().forward(images, targets)
        images, targets = self.transform(images, targets)
        self._check_sizes(targets)
        features = self.backbone(images.tensors)
        features = [features] if isinstance(features, Tensor) else list(features.values())
        head_outputs = self.head(features)
        anchors = self.anchor_generator(images, features)
        matched_idxs = match_all(targets, anchors, self.proposal_matcher, True)
        if matched_idxs is None:
            matched_idxs = [
                self.proposal_matcher(box_iou(target["boxes"], per_image))
                if len(target["boxes"]) else torch.full((len(per_image),), -1)
                for target, per_image in zip(targets, anchors)
            ]
        return self.compute_loss(targets, head_outputs, anchors, matched_idxs)

    @staticmethod
    def _are_valid(targets) -> bool:
        """Whether torchvision accepts the targets; if not, its forward() raises the error."""
        return targets is not None and all(
            isinstance(boxes, Tensor) and boxes.dim() == 2 and boxes.shape[1] == 4
            for boxes in boxes_of(targets))

    @staticmethod
    def _check_sizes(targets) -> None:
        """Raises torchvision's error for boxes without area."""
        for index, boxes in enumerate(boxes_of(targets)):
            is_flat = (boxes[:, 2:] <= boxes[:, :2]).any(dim=1)
            if is_flat.any():
                raise AssertionError("All bounding boxes should have positive height and width. "
                                     f"Found invalid box {boxes[is_flat][0].tolist()} for target "
                                     f"at index {index}.")

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        logits, deltas = head_outputs["cls_logits"], head_outputs["bbox_regression"]
        negatives = int(self.neg_to_pos_ratio)
        if (negatives != self.neg_to_pos_ratio or logits.dtype == torch.float64
                or not is_own(self.box_coder, BoxCoder)):
            return super().compute_loss(targets, head_outputs, anchors, matched_idxs)
        scale = 1.0 / max(1, sum(count_foreground(matched_idxs)))
        labels = labels_of_anchors(targets, matched_idxs, 0)
        classification = mined_cross_entropy_loss(logits, labels, negatives, scale=scale,
                                                  ignore=_IGNORE)
        again = _counted_twice(logits, labels, negatives)
        if again is not None:
            classification = classification + softmax_cross_entropy_loss(
                logits[again], labels[again], "sum", scale=scale, ignore=_IGNORE)
        return {
            "bbox_regression": regression_loss(
                deltas.reshape(-1, 4), torch.cat(anchors), torch.cat(boxes_of(targets)),
                join_matches(targets, matched_idxs), beta=1.0, **coder_options(self.box_coder),
                scale=scale),
            "classification": classification,
        }

    def postprocess_detections(self, head_outputs, image_anchors, image_shapes):
        common = common_anchors([[anchors] for anchors in image_anchors])
        if (common is None or not is_own(self.box_coder, BoxCoder)
                or head_outputs["cls_logits"].dtype == torch.float64):
            return super().postprocess_detections(head_outputs, image_anchors, image_shapes)
        return as_detections(postprocess(
            head_outputs["cls_logits"], head_outputs["bbox_regression"], common, image_shapes, (),
            "ssd", score_threshold=self.score_thresh, max_candidates=self.topk_candidates,
            iou_threshold=self.nms_thresh, max_detections=self.detections_per_img,
            **coder_options(self.box_coder)))
