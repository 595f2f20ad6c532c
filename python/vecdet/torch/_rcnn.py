# SPDX-License-Identifier: Apache-2.0
"""The parts of torchvision's two-stage detectors on vecdet. The classes have the names of those
that they replace."""

from __future__ import annotations

import inspect
import types
from typing import Sequence

import torch
import torchvision
from torch import Tensor
from torchvision.models.detection import roi_heads, rpn, transform
from torchvision.models.detection._utils import BoxCoder, Matcher
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import boxes as box_ops
from torchvision.ops import poolers

from . import ops
from ._convolutions import has_replaced, over_levels
from ._parts import (are_float32, boxes_of, coder_options, is_function, is_own,
                     replaces, rows_of)
from ._transforms import is_transformed

# torchvision's own, even if users wrapped them before.
_BOX_IOU = inspect.unwrap(box_ops.box_iou)
# Users replace these in the module to train with their own losses.
_FASTRCNN_LOSS = roi_heads.fastrcnn_loss
_MASKRCNN_LOSS = roi_heads.maskrcnn_loss
_MASKRCNN_INFERENCE = roi_heads.maskrcnn_inference
PASTE_MASKS_IN_IMAGE = inspect.unwrap(roi_heads.paste_masks_in_image)


def _with(function, **replacements):
    """A copy of torchvision's function in which these names of its module are bound to other
    objects. There is no other way to replace functions that are called by global names, not as
    methods."""
    names = {**function.__globals__, **replacements}
    return types.FunctionType(function.__code__, names, function.__name__, function.__defaults__,
                              function.__closure__)


@replaces(poolers.MultiScaleRoIAlign)
class MultiScaleRoIAlign(ops.MultiScaleRoIAlign):
    """Installed by accelerate() in place of torchvision's, and removed by restore()."""


@replaces(rpn.RPNHead)
class RPNHead(rpn.RPNHead):
    def forward(self, x):
        if not has_replaced(self):
            return super().forward(x)
        features = over_levels(self.conv, x)
        return over_levels(self.cls_logits, features), over_levels(self.bbox_pred, features)


@replaces(rpn.RegionProposalNetwork)
class RegionProposalNetwork(rpn.RegionProposalNetwork):
    def forward(self, images, features, targets=None):
        if not self._is_known(features, targets):
            return super().forward(images, features, targets)
        maps = list(features.values())
        objectness, deltas = self.head(maps)
        anchors = self.anchor_generator(images, maps)[0]  # equal for all images
        proposals = ops.rpn_postprocess(
            [level.detach() for level in objectness], [level.detach() for level in deltas], anchors,
            images.image_sizes, max_candidates=self.pre_nms_top_n(), iou_threshold=self.nms_thresh,
            max_proposals=self.post_nms_top_n(), min_size=self.min_size,
            **coder_options(self.box_coder))
        losses = self._losses(objectness, deltas, anchors, targets) if self.training else {}
        return [boxes for boxes, _, _ in proposals], losses

    def _is_known(self, features, targets) -> bool:
        """Whether all parts are torchvision's own and of types that vecdet supports.
        In torchvision, a score equal to the threshold counts, which makes no difference if the
        threshold is 0."""
        return (is_own(self, rpn.RegionProposalNetwork)
                and is_own(self.anchor_generator, AnchorGenerator)
                and is_own(self.box_coder, BoxCoder) and is_own(self.proposal_matcher, Matcher)
                and is_function(self.box_similarity, _BOX_IOU) and self.score_thresh <= 0
                and all(f.is_cpu and f.dtype != torch.float64 for f in features.values())
                and (not self.training or targets is not None and are_float32(
                    boxes_of(targets))))

    def _losses(self, objectness: list[Tensor], deltas: list[Tensor], anchors: Tensor, targets):
        matcher, boxes = self.proposal_matcher, boxes_of(targets)
        # Labels in the form for torchvision's sampler.
        matches, labels, _ = ops.match_anchors(
            anchors, boxes, [torch.ones(len(b), dtype=torch.int64) for b in boxes],
            matcher.high_threshold, matcher.low_threshold, matcher.allow_low_quality_matches,
            background=0, ignore=-1)
        is_positive, is_negative = (torch.stack(chosen).bool()
                                    for chosen in self.fg_bg_sampler(list(labels)))
        count = max(1, int(is_positive.sum()) + int(is_negative.sum()))
        # Cross entropy of only the sample, with one class: 0 is an object.
        labels_of_sample = torch.full_like(labels, -2)
        labels_of_sample[is_negative] = -1
        labels_of_sample[is_positive] = 0
        loss_objectness = ops.sigmoid_focal_loss_levels(objectness, labels_of_sample, alpha=-1,
                                                        gamma=0, scale=1 / count)
        _, positive = torch.where(is_positive)
        loss_boxes = ops.regression_loss(
            rows_of(deltas, 4)[is_positive], anchors[positive], torch.cat(boxes),
            matches[is_positive], beta=1 / 9, weights=self.box_coder.weights, scale=1 / count)
        return {"loss_objectness": loss_objectness, "loss_rpn_box_reg": loss_boxes}


def _fastrcnn_loss(class_logits: Tensor, box_regression: Tensor, labels: list[Tensor],
                   regression_targets: list[Tensor]) -> tuple[Tensor, Tensor]:
    if (roi_heads.fastrcnn_loss is not _FASTRCNN_LOSS or class_logits.dtype == torch.float64
            or not class_logits.is_cpu):
        return roi_heads.fastrcnn_loss(class_logits, box_regression, labels, regression_targets)
    label_of, targets = torch.cat(labels), torch.cat(regression_targets)
    positive = torch.where(label_of > 0)[0]
    deltas = box_regression.reshape(len(label_of), -1, 4)[positive, label_of[positive]]
    return (ops.softmax_cross_entropy_loss(class_logits, label_of, "mean", ignore=-100),
            ops.smooth_l1_loss(deltas, targets[positive], "sum", 1 / 9,
                               scale=1 / max(1, len(label_of))))


_maskrcnn_loss_on_vecdet = _with(
    roi_heads.maskrcnn_loss,
    project_masks_on_boxes=_with(roi_heads.project_masks_on_boxes, roi_align=ops.roi_align))


def _maskrcnn_loss(*arguments):
    is_torchvisions = roi_heads.maskrcnn_loss is _MASKRCNN_LOSS
    return (_maskrcnn_loss_on_vecdet if is_torchvisions else roi_heads.maskrcnn_loss)(*arguments)


def _maskrcnn_inference(x: Tensor, labels: list[Tensor]) -> Sequence[Tensor]:
    """The probabilities of only the detected classes."""
    if roi_heads.maskrcnn_inference is not _MASKRCNN_INFERENCE:
        return roi_heads.maskrcnn_inference(x, labels)
    chosen = x[torch.arange(len(x), device=x.device), torch.cat(labels)]
    return chosen.sigmoid()[:, None].split([len(per_image) for per_image in labels])


def paste_masks_in_image(masks: Tensor, boxes: Tensor, img_shape: Sequence[int]) -> Tensor:
    """torchvision's function with its default padding. torchvision computes masks that are not
    square or not of float32, masks with a gradient, and everything else that vecdet does not."""
    is_known = (masks.dim() == 4 and masks.shape[1] == 1 and masks.shape[2] == masks.shape[3] > 0
                and boxes.shape == (len(masks), 4) and are_float32([masks, boxes])
                and masks.is_cpu and boxes.is_cpu and not torchvision._is_tracing()
                and not (torch.is_grad_enabled() and (masks.requires_grad or boxes.requires_grad))
                and not is_transformed(masks) and not is_transformed(boxes))
    if not is_known:
        return PASTE_MASKS_IN_IMAGE(masks, boxes, img_shape)
    return ops.paste_soft_masks(masks, boxes, img_shape)


@replaces(transform.GeneralizedRCNNTransform)
class GeneralizedRCNNTransform(transform.GeneralizedRCNNTransform):
    def postprocess(self, result, image_shapes, original_image_sizes):
        if (self.training or not any("masks" in each for each in result)
                or not is_function(transform.paste_masks_in_image, PASTE_MASKS_IN_IMAGE)):
            return super().postprocess(result, image_shapes, original_image_sizes)
        masks = [each.pop("masks", None) for each in result]
        result = super().postprocess(result, image_shapes, original_image_sizes)
        for each, own, size in zip(result, masks, original_image_sizes):
            if own is not None:
                each["masks"] = paste_masks_in_image(own, each["boxes"], size)
        return result


@replaces(roi_heads.RoIHeads)
class RoIHeads(roi_heads.RoIHeads):
    forward = _with(roi_heads.RoIHeads.forward, fastrcnn_loss=_fastrcnn_loss,
                    maskrcnn_loss=_maskrcnn_loss, maskrcnn_inference=_maskrcnn_inference)

    def assign_targets_to_proposals(self, proposals, gt_boxes, gt_labels):
        matcher = self.proposal_matcher
        if (not is_own(matcher, Matcher) or not are_float32(gt_boxes)
                or any(not boxes.is_cpu for boxes in gt_boxes)):
            return super().assign_targets_to_proposals(proposals, gt_boxes, gt_labels)
        matched_idxs, labels = [], []
        for per_image, boxes, classes in zip(proposals, gt_boxes, gt_labels):
            matches, label_of, _ = ops.match_anchors(
                per_image, boxes, classes, matcher.high_threshold, matcher.low_threshold,
                matcher.allow_low_quality_matches, background=0, ignore=-1)
            matched_idxs.append(matches.clamp(min=0))
            labels.append(label_of)
        return matched_idxs, labels

    def postprocess_detections(self, class_logits, box_regression, proposals, image_shapes):
        if (not is_own(self.box_coder, BoxCoder) or class_logits.dtype == torch.float64
                or not class_logits.is_cpu):
            return super().postprocess_detections(class_logits, box_regression, proposals,
                                                  image_shapes)
        found = ops.postprocess_box_head(
            class_logits, box_regression, proposals, image_shapes,
            score_threshold=self.score_thresh, iou_threshold=self.nms_thresh,
            max_detections=self.detections_per_img, **coder_options(self.box_coder))
        boxes, scores, labels = zip(*found)
        return list(boxes), list(scores), list(labels)
