# SPDX-License-Identifier: Apache-2.0
"""torchvision's detectors on vecdet: their losses and postprocessing, replaced in place.

A module changes its class to a subclass here, and back: parameters, hooks, names and state_dict stay
what they are, and the model may be copied and pickled as before.
"""

from typing import Dict, List, Optional, Tuple, TypeVar

import torch
from torch import Tensor, nn
from torchvision.models.detection import fcos, retinanet, ssd

from . import ops

_Model = TypeVar("_Model", bound=nn.Module)


def _factors(foreground: List[int], rows: int) -> Tuple[float, Optional[Tensor]]:
    """What makes a sum over the rows of all images torchvision's loss of a batch, the mean over the
    images of sums divided by their foreground: a factor for all rows, and one for each."""
    weights = [1.0 / max(1, count) for count in foreground]
    if len(weights) == 1:
        return weights[0], None
    return 1.0 / len(weights), torch.tensor(weights).repeat_interleave(rows)


def _labels(targets, matched_idxs: List[Tensor]) -> Tensor:
    """The class of each anchor [images, anchors]; what is matched to nothing keeps its -1 or -2, as
    vecdet calls background and ignored rows, too."""
    return torch.stack([
        torch.where(matches >= 0, target["labels"][matches.clamp(min=0)], matches)
        if len(target["labels"]) else matches
        for target, matches in zip(targets, matched_idxs)
    ])


def _foreground(matched_idxs: List[Tensor]) -> List[int]:
    return [int((matches >= 0).sum()) for matches in matched_idxs]


class _RetinaNetClassificationHead(retinanet.RetinaNetClassificationHead):
    def compute_loss(self, targets, head_outputs, matched_idxs):
        logits = head_outputs["cls_logits"]
        scale, weights = _factors(_foreground(matched_idxs), logits.shape[1])
        return ops.sigmoid_focal_loss(logits, labels=_labels(targets, matched_idxs),
                                      reduction="sum", scale=scale, row_weights=weights)


class _RetinaNetRegressionHead(retinanet.RetinaNetRegressionHead):
    _BETAS = {"l1": 0.0, "smooth_l1": 1.0}

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        deltas = head_outputs["bbox_regression"]
        scale, weights = _factors(_foreground(matched_idxs), deltas.shape[1])
        # Indices into the boxes of all images.
        matches, first = [], 0
        for target, matches_per_image in zip(targets, matched_idxs):
            matches.append(torch.where(matches_per_image >= 0, matches_per_image + first,
                                       matches_per_image))
            first += target["boxes"].shape[0]
        kind = self._loss_type
        return ops.regression_loss(
            deltas.reshape(-1, 4), torch.cat(anchors), torch.cat([t["boxes"] for t in targets]),
            torch.cat(matches), loss="smooth_l1" if kind in self._BETAS else kind,
            beta=self._BETAS.get(kind, 0.0), weights=self.box_coder.weights,
            size_limit=self.box_coder.bbox_xform_clip, scale=scale, box_weights=weights)


class _FCOSHead(fcos.FCOSHead):
    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        labels = _labels(targets, matched_idxs)
        scale = 1.0 / max(1, sum(_foreground(matched_idxs)))
        classification = ops.sigmoid_focal_loss(head_outputs["cls_logits"], labels=labels,
                                                reduction="sum", scale=scale)
        # The rest concerns foreground alone, about one anchor in a thousand.
        is_foreground = labels >= 0
        at_anchors = torch.stack(anchors)[is_foreground]
        boxes = torch.cat([target["boxes"][matches[matches >= 0]]
                           for target, matches in zip(targets, matched_idxs)])
        predicted = self.box_coder.decode(head_outputs["bbox_regression"][is_foreground], at_anchors)
        regression = ops.generalized_box_iou_loss(predicted, boxes.to(predicted.dtype), "sum")
        left, top, right, bottom = self.box_coder.encode(at_anchors, boxes).unbind(-1)
        centerness = torch.sqrt(
            torch.minimum(left, right) / torch.maximum(left, right)
            * (torch.minimum(top, bottom) / torch.maximum(top, bottom)))
        logits = head_outputs["bbox_ctrness"].squeeze(dim=2)[is_foreground]
        return {
            "classification": classification,
            "bbox_regression": regression * scale,
            "bbox_ctrness": nn.functional.binary_cross_entropy_with_logits(
                logits, centerness.to(logits.dtype), reduction="sum") * scale,
        }


def _joined(levels: List[Tensor]) -> Tensor:
    """The tensor [images, anchors, n] that was split into levels, without a copy where it still is
    one."""
    first = levels[0]
    end = first.data_ptr()
    for level in levels:
        if level.data_ptr() != end or level.stride() != first.stride():
            return torch.cat(levels, dim=1)
        end += level.shape[1] * level.stride(1) * level.element_size()
    shape = (first.shape[0], sum(level.shape[1] for level in levels), first.shape[2])
    return first.as_strided(shape, first.stride())


def _detections(found) -> List[Dict[str, Tensor]]:
    return [{"boxes": boxes, "scores": scores, "labels": labels} for boxes, scores, labels in found]


def _common(anchors: List[List[Tensor]]) -> Optional[Tensor]:
    """The anchors of all images, where they are the same."""
    joined = [torch.cat(levels) for levels in anchors]
    are_same = all(torch.equal(of_image, joined[0]) for of_image in joined[1:])
    return joined[0] if joined and are_same else None


class _RetinaNet(retinanet.RetinaNet):
    def postprocess_detections(self, head_outputs, anchors, image_shapes):
        common = _common(anchors)
        if common is None:
            return super().postprocess_detections(head_outputs, anchors, image_shapes)
        return _detections(ops.postprocess(
            _joined(head_outputs["cls_logits"]), _joined(head_outputs["bbox_regression"]), common,
            image_shapes, [level.shape[0] for level in anchors[0]], "retinanet",
            score_threshold=self.score_thresh, max_candidates=self.topk_candidates,
            iou_threshold=self.nms_thresh, max_detections=self.detections_per_img,
            weights=self.box_coder.weights, size_limit=self.box_coder.bbox_xform_clip))


class _FCOS(fcos.FCOS):
    def postprocess_detections(self, head_outputs, anchors, image_shapes):
        common = _common(anchors)
        if common is None or not self.box_coder.normalize_by_size:
            return super().postprocess_detections(head_outputs, anchors, image_shapes)
        return _detections(ops.postprocess(
            _joined(head_outputs["cls_logits"]), _joined(head_outputs["bbox_regression"]), common,
            image_shapes, [level.shape[0] for level in anchors[0]], "fcos",
            score_threshold=self.score_thresh, max_candidates=self.topk_candidates,
            iou_threshold=self.nms_thresh, max_detections=self.detections_per_img,
            centerness=_joined(head_outputs["bbox_ctrness"]).squeeze(2)))


class _SSD(ssd.SSD):
    def postprocess_detections(self, head_outputs, image_anchors, image_shapes):
        common = _common([[anchors] for anchors in image_anchors])
        if common is None:
            return super().postprocess_detections(head_outputs, image_anchors, image_shapes)
        return _detections(ops.postprocess(
            head_outputs["cls_logits"], head_outputs["bbox_regression"], common, image_shapes, (),
            "ssd", score_threshold=self.score_thresh, max_candidates=self.topk_candidates,
            iou_threshold=self.nms_thresh, max_detections=self.detections_per_img,
            weights=self.box_coder.weights, size_limit=self.box_coder.bbox_xform_clip))


# torchvision's classes, and what takes their place.
_MODELS = {retinanet.RetinaNet: _RetinaNet, fcos.FCOS: _FCOS, ssd.SSD: _SSD}
_HEADS = {
    retinanet.RetinaNetClassificationHead: _RetinaNetClassificationHead,
    retinanet.RetinaNetRegressionHead: _RetinaNetRegressionHead,
    fcos.FCOSHead: _FCOSHead,
}
_REPLACEMENTS = {**_MODELS, **_HEADS}
_ORIGINALS = {ours: theirs for theirs, ours in _REPLACEMENTS.items()}


def accelerate(model: _Model) -> _Model:
    """Gives each torchvision detector in ``model``, or the detector that it is, vecdet's losses and
    postprocessing, in place. Results are the same within rounding: losses within 1e-5, detections
    box for box but for the order of equal scores. Heads of other classes keep their own losses.

    Known are torchvision.models.detection's RetinaNet, FCOS and SSD, on the CPU; SSD keeps its own
    losses.

    Returns:
        The model.

    Raises:
        TypeError: where there is no detector that is known; it names those that are.
    """
    modules = list(model.modules())
    if not any(type(m) in _MODELS or type(m) in _ORIGINALS for m in modules):
        known = ", ".join(sorted(cls.__name__ for cls in _MODELS))
        raise TypeError(f"vecdet.accelerate: a {type(model).__name__}, expected one of "
                        f"torchvision.models.detection's {known}, or a model that contains one")
    for module in modules:
        module.__class__ = _REPLACEMENTS.get(type(module), type(module))
    return model


def restore(model: _Model) -> _Model:
    """Takes back what accelerate() did; a model that it did nothing to stays as it is."""
    for module in model.modules():
        module.__class__ = _ORIGINALS.get(type(module), type(module))
    return model
