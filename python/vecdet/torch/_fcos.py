# SPDX-License-Identifier: Apache-2.0
"""torchvision's FCOS on vecdet. The classes have the names of those that they replace."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchvision.models.detection import fcos
from torchvision.models.detection._utils import BoxLinearCoder
from torchvision.models.detection.anchor_utils import AnchorGenerator

from ._convolutions import has_replaced, over_levels
from ._detections import postprocess
from ._functions import assign_fcos, generalized_box_iou_loss
from ._levels import is_asked, levels_from
from ._losses import sigmoid_focal_loss, sigmoid_focal_loss_levels
from ._parts import (are_float32, are_same, are_watched, as_detections, boxes_of,
                     common_anchors, is_own, joined_levels, labels_of_anchors, replaces, rows_of,
                     split_matches)


@replaces(fcos.FCOSClassificationHead)
class FCOSClassificationHead(fcos.FCOSClassificationHead):
    def forward(self, x):
        if not has_replaced(self):
            return super().forward(x)
        return rows_of(over_levels(self.cls_logits, over_levels(self.conv, x)), self.num_classes)


@replaces(fcos.FCOSRegressionHead)
class FCOSRegressionHead(fcos.FCOSRegressionHead):
    def forward(self, x):
        if not has_replaced(self):
            return super().forward(x)
        features = over_levels(self.conv, x)
        return (rows_of(over_levels(self.bbox_reg, features, relu=True), 4),
                rows_of(over_levels(self.bbox_ctrness, features), 1))


@replaces(fcos.FCOSHead)
class FCOSHead(fcos.FCOSHead):
    def forward(self, x):
        """Returns the levels of the classes' logits if the model asks for them."""
        if not is_asked(self):
            return super().forward(x)
        classes = self.classification_head
        deltas, centerness = self.regression_head(x)
        return {"cls_logits": over_levels(classes.cls_logits, over_levels(classes.conv, x)),
                "bbox_regression": deltas, "bbox_ctrness": centerness}

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        logits = head_outputs["cls_logits"]
        if not is_own(self.box_coder, BoxLinearCoder):
            rows = rows_of(logits, self.classification_head.num_classes)
            return super().compute_loss(targets, dict(head_outputs, cls_logits=rows), anchors,
                                        matched_idxs)
        # As in torchvision, an anchor whose box has a negative label is background.
        labels = labels_of_anchors(targets, matched_idxs, -1).clamp(min=-1)
        is_foreground = labels >= 0
        scale = 1.0 / max(1, int(is_foreground.sum()))
        if isinstance(logits, Tensor):
            classification = sigmoid_focal_loss(logits, labels=labels, reduction="sum",
                                                scale=scale)
        else:
            classification = sigmoid_focal_loss_levels(logits, labels, scale=scale)
        # The other losses need only the foreground, about one anchor in a thousand.
        at_anchors = torch.stack(anchors)[is_foreground]
        boxes = torch.cat([target["boxes"][matches[chosen]] for target, matches, chosen in
                           zip(targets, matched_idxs, is_foreground)])
        deltas = head_outputs["bbox_regression"][is_foreground]
        predicted = self.box_coder.decode(deltas, at_anchors)
        regression = generalized_box_iou_loss(predicted, boxes.to(predicted.dtype), "sum")
        left, top, right, bottom = self.box_coder.encode(at_anchors, boxes).unbind(-1)
        centerness = torch.sqrt(
            torch.minimum(left, right) / torch.maximum(left, right)
            * (torch.minimum(top, bottom) / torch.maximum(top, bottom)))
        centerness_logits = head_outputs["bbox_ctrness"].squeeze(dim=2)[is_foreground]
        return {
            "classification": classification,
            "bbox_regression": regression * scale,
            "bbox_ctrness": nn.functional.binary_cross_entropy_with_logits(
                centerness_logits, centerness.to(centerness_logits.dtype),
                reduction="sum") * scale,
        }


@replaces(fcos.FCOS)
class FCOS(fcos.FCOS):
    def _trains_on_levels(self) -> bool:
        """Whether the focal loss reads levels: the head and its classification part are
        torchvision's own, replaced here, and have no hooks."""
        head = self.head
        return (self.training and type(head) is FCOSHead and is_own(self, fcos.FCOS)
                and "forward" not in vars(head)
                and is_own(head.classification_head, fcos.FCOSClassificationHead)
                and not are_watched(head, head.classification_head))

    def forward(self, images, targets=None):
        with levels_from(self.head if self._trains_on_levels() else None):
            return super().forward(images, targets)

    def compute_loss(self, targets, head_outputs, anchors, num_anchors_per_level):
        logits, boxes = head_outputs["cls_logits"], boxes_of(targets)
        if not isinstance(logits, list):  # only levels have the widths of the anchor grids
            return super().compute_loss(targets, head_outputs, anchors, num_anchors_per_level)
        sizes = [level.shape[-2:] for level in logits]
        if not is_own(self.head, fcos.FCOSHead):  # a user's compute_loss() expects rows
            rows = rows_of(logits, self.head.classification_head.num_classes)
            head_outputs = dict(head_outputs, cls_logits=rows)
        # The assigner requires one anchor per grid point.
        if not (is_own(self.anchor_generator, AnchorGenerator) and are_same(anchors)
                and [size.numel() for size in sizes] == num_anchors_per_level
                and are_float32(boxes)):
            return super().compute_loss(targets, head_outputs, anchors, num_anchors_per_level)
        matches = assign_fcos(anchors[0], sizes, boxes, self.center_sampling_radius)
        return self.head.compute_loss(targets, head_outputs, anchors, split_matches(matches, boxes))

    def postprocess_detections(self, head_outputs, anchors, image_shapes):
        common, coder = common_anchors(anchors), self.box_coder
        if (common is None or not is_own(coder, BoxLinearCoder) or not coder.normalize_by_size
                or head_outputs["cls_logits"][0].dtype == torch.float64):
            return super().postprocess_detections(head_outputs, anchors, image_shapes)
        return as_detections(postprocess(
            joined_levels(head_outputs["cls_logits"]),
            joined_levels(head_outputs["bbox_regression"]), common, image_shapes,
            [level.shape[0] for level in anchors[0]], "fcos",
            score_threshold=self.score_thresh, max_candidates=self.topk_candidates,
            iou_threshold=self.nms_thresh, max_detections=self.detections_per_img,
            centerness=joined_levels(head_outputs["bbox_ctrness"]).squeeze(2)))
