# SPDX-License-Identifier: Apache-2.0
"""torchvision's RetinaNet on vecdet. The classes have the names of those that they replace."""

from __future__ import annotations

import torch
from torch import Tensor
from torchvision.models.detection import retinanet
from torchvision.models.detection._utils import BoxCoder, Matcher

from ._convolutions import has_replaced, over_levels
from ._detections import postprocess
from ._functions import regression_loss
from ._levels import is_asked, levels_from
from ._losses import retinanet_loss, sigmoid_focal_loss
from ._parts import (are_float32, are_same, are_watched, as_detections, boxes_of,
                     coder_options, common_anchors, count_foreground, is_own, join_matches,
                     joined_levels, labels_of_anchors, match_all, replaces, rows_of)

_BETAS = {"l1": 0.0, "smooth_l1": 1.0}


def _factors(foreground: list[int], rows: int) -> tuple[float, Tensor | None]:
    """The factors that turn a sum over the rows of all images into torchvision's loss of a batch:
    one for all rows, and one per row. That loss is the mean over images of each image's sum divided
    by its foreground."""
    weights = [1.0 / max(1, count) for count in foreground]
    if len(weights) == 1:
        return weights[0], None
    return 1.0 / len(weights), torch.tensor(weights).repeat_interleave(rows)


def _check_labels(targets: list[dict[str, Tensor]]) -> None:
    """Refuses negative labels, which users pass by mistake: torchvision would count them back from
    the last class, and here -1 and -2 would mean background and ignored."""
    for index, target in enumerate(targets):
        labels = target["labels"]
        if len(labels) and int(labels.min()) < 0:
            raise RuntimeError(f"vecdet: labels of target {index} contain {int(labels.min())}, "
                               "expected 0 or more")


def _box_loss(head: retinanet.RetinaNetRegressionHead) -> dict:
    kind = head._loss_type
    return dict(loss="smooth_l1" if kind in _BETAS else kind, beta=_BETAS.get(kind, 0.0))


@replaces(retinanet.RetinaNetClassificationHead)
class RetinaNetClassificationHead(retinanet.RetinaNetClassificationHead):
    def forward(self, x):
        if not has_replaced(self):
            return super().forward(x)
        return rows_of(over_levels(self.cls_logits, over_levels(self.conv, x)), self.num_classes)

    def compute_loss(self, targets, head_outputs, matched_idxs):
        logits = head_outputs["cls_logits"]
        _check_labels(targets)
        labels = labels_of_anchors(targets, matched_idxs, -1)
        labels[torch.stack(list(matched_idxs)) == self.BETWEEN_THRESHOLDS] = -2
        scale, weights = _factors(count_foreground(matched_idxs), logits.shape[1])
        return sigmoid_focal_loss(logits, labels=labels, reduction="sum", scale=scale,
                                  row_weights=weights)


@replaces(retinanet.RetinaNetRegressionHead)
class RetinaNetRegressionHead(retinanet.RetinaNetRegressionHead):
    def forward(self, x):
        if not has_replaced(self):
            return super().forward(x)
        return rows_of(over_levels(self.bbox_reg, over_levels(self.conv, x)), 4)

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        if not is_own(self.box_coder, BoxCoder):
            return super().compute_loss(targets, head_outputs, anchors, matched_idxs)
        deltas = head_outputs["bbox_regression"]
        scale, weights = _factors(count_foreground(matched_idxs), deltas.shape[1])
        return regression_loss(
            deltas.reshape(-1, 4), torch.cat(anchors), torch.cat(boxes_of(targets)),
            join_matches(targets, matched_idxs), **_box_loss(self),
            **coder_options(self.box_coder), scale=scale, box_weights=weights)


@replaces(retinanet.RetinaNetHead)
class RetinaNetHead(retinanet.RetinaNetHead):
    def forward(self, x):
        if not is_asked(self):
            return super().forward(x)
        classes, boxes = self.classification_head, self.regression_head
        return {"cls_logits": over_levels(classes.cls_logits, over_levels(classes.conv, x)),
                "bbox_regression": over_levels(boxes.bbox_reg, over_levels(boxes.conv, x))}


@replaces(retinanet.RetinaNet)
class RetinaNet(retinanet.RetinaNet):
    def _trains_on_levels(self) -> bool:
        """Whether the losses are computed from levels: the head and its parts are torchvision's
        own, replaced here, and have no hooks."""
        head = self.head
        if not (self.training and type(head) is RetinaNetHead
                and is_own(head, retinanet.RetinaNetHead)
                and is_own(self, retinanet.RetinaNet)):
            return False
        classes, boxes = head.classification_head, head.regression_head
        return (is_own(classes, retinanet.RetinaNetClassificationHead)
                and is_own(boxes, retinanet.RetinaNetRegressionHead)
                and not are_watched(head, classes, boxes))

    def forward(self, images, targets=None):
        with levels_from(self.head if self._trains_on_levels() else None):
            return super().forward(images, targets)

    def compute_loss(self, targets, head_outputs, anchors):
        logits, deltas = head_outputs["cls_logits"], head_outputs["bbox_regression"]
        matcher, head, boxes = self.proposal_matcher, self.head, boxes_of(targets)
        is_known = is_own(matcher, Matcher) and are_float32(boxes)
        if isinstance(logits, list):
            coder = head.regression_head.box_coder
            if (is_known and is_own(coder, BoxCoder) and logits[0].dtype != torch.float64
                    and are_same(anchors)):
                _check_labels(targets)
                classification, regression = retinanet_loss(
                    logits, deltas, anchors[0], boxes, [t["labels"] for t in targets],
                    matcher.high_threshold, matcher.low_threshold,
                    matcher.allow_low_quality_matches, **_box_loss(head.regression_head),
                    **coder_options(coder))
                return {"classification": classification, "bbox_regression": regression}
            head_outputs = {"cls_logits": rows_of(logits, head.classification_head.num_classes),
                            "bbox_regression": rows_of(deltas, 4)}
        matched_idxs = match_all(targets, anchors, matcher, False) if is_known else None
        if matched_idxs is None:
            return super().compute_loss(targets, head_outputs, anchors)
        return head.compute_loss(targets, head_outputs, anchors, matched_idxs)

    def postprocess_detections(self, head_outputs, anchors, image_shapes):
        common = common_anchors(anchors)
        if (common is None or not is_own(self.box_coder, BoxCoder)
                or head_outputs["cls_logits"][0].dtype == torch.float64):
            return super().postprocess_detections(head_outputs, anchors, image_shapes)
        return as_detections(postprocess(
            joined_levels(head_outputs["cls_logits"]),
            joined_levels(head_outputs["bbox_regression"]), common, image_shapes,
            [level.shape[0] for level in anchors[0]], "retinanet",
            score_threshold=self.score_thresh, max_candidates=self.topk_candidates,
            iou_threshold=self.nms_thresh, max_detections=self.detections_per_img,
            **coder_options(self.box_coder)))
