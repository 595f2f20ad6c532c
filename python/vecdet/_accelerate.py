# SPDX-License-Identifier: Apache-2.0
"""torchvision's detectors on vecdet: their losses and postprocessing, replaced in place.

A module changes its class to a subclass here, and back: parameters, hooks, names and state_dict stay
what they are, and the model may be copied and pickled as before.
"""

from typing import Dict, List, Tuple, TypeVar

import torch
from torch import Tensor, nn
from torchvision.models.detection import retinanet

from . import ops

_Model = TypeVar("_Model", bound=nn.Module)


def _batch_weights(foreground: List[int]) -> Tuple[float, List[float]]:
    """A factor for all images, and one for each: 1 / foreground, and their mean over the batch."""
    weights = [1.0 / max(1, count) for count in foreground]
    return 1.0 / len(foreground), weights


def _weighted_rows(foreground: List[int], rows: int) -> Dict[str, object]:
    """The arguments that make a sum over the rows of all images torchvision's loss of a batch."""
    scale, weights = _batch_weights(foreground)
    if len(weights) == 1:
        return {"scale": scale * weights[0]}
    return {"scale": scale,
            "weights": torch.tensor(weights, dtype=torch.float32).repeat_interleave(rows)}


class _RetinaNetClassificationHead(retinanet.RetinaNetClassificationHead):
    def compute_loss(self, targets, head_outputs, matched_idxs):
        logits = head_outputs["cls_logits"]
        labels, foreground = [], []
        for target, matches in zip(targets, matched_idxs):
            is_foreground = matches >= 0
            foreground.append(int(is_foreground.sum()))
            # Matches below 0 are background and ignored rows: vecdet's values for both.
            labels.append(
                torch.where(is_foreground, target["labels"][matches.clamp(min=0)], matches)
                if foreground[-1] else matches)
        options = _weighted_rows(foreground, logits.shape[1])
        weights = options.pop("weights", None)
        return ops.sigmoid_focal_loss(logits, labels=torch.stack(labels), reduction="sum",
                                      row_weights=weights, background=self._BACKGROUND,
                                      ignore=self.BETWEEN_THRESHOLDS, **options)

    _BACKGROUND = -1


class _RetinaNetRegressionHead(retinanet.RetinaNetRegressionHead):
    _BETAS = {"l1": 0.0, "smooth_l1": 1.0}

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        kind = self._loss_type
        deltas = head_outputs["bbox_regression"]
        foreground = [int((matches >= 0).sum()) for matches in matched_idxs]
        shifted, first = [], 0
        for target, matches in zip(targets, matched_idxs):
            shifted.append(torch.where(matches >= 0, matches + first, matches))
            first += target["boxes"].shape[0]
        options = _weighted_rows(foreground, deltas.shape[1])
        weights = options.pop("weights", None)
        return ops.regression_loss(
            deltas.reshape(-1, 4), torch.cat(anchors), torch.cat([t["boxes"] for t in targets]),
            torch.cat(shifted), loss="smooth_l1" if kind in self._BETAS else kind,
            beta=self._BETAS.get(kind, 0.0), weights=self.box_coder.weights,
            size_limit=self.box_coder.bbox_xform_clip, box_weights=weights, **options)


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


class _RetinaNet(retinanet.RetinaNet):
    def postprocess_detections(self, head_outputs, anchors, image_shapes):
        same = [torch.cat(levels) for levels in anchors[:1]]
        if not same or any(not torch.equal(torch.cat(levels), same[0]) for levels in anchors[1:]):
            return super().postprocess_detections(head_outputs, anchors, image_shapes)
        found = ops.postprocess(
            _joined(head_outputs["cls_logits"]), _joined(head_outputs["bbox_regression"]), same[0],
            image_shapes, [level.shape[0] for level in anchors[0]], "retinanet",
            score_threshold=self.score_thresh, max_candidates=self.topk_candidates,
            iou_threshold=self.nms_thresh, max_detections=self.detections_per_img,
            weights=self.box_coder.weights, size_limit=self.box_coder.bbox_xform_clip)
        return [{"boxes": boxes, "scores": scores, "labels": labels}
                for boxes, scores, labels in found]


# torchvision's classes, and what takes their place.
_MODELS = {retinanet.RetinaNet: _RetinaNet}
_PARTS = {
    retinanet.RetinaNetClassificationHead: _RetinaNetClassificationHead,
    retinanet.RetinaNetRegressionHead: _RetinaNetRegressionHead,
}
_REPLACEMENTS = {**_MODELS, **_PARTS}
_ORIGINALS = {ours: theirs for theirs, ours in _REPLACEMENTS.items()}


def accelerate(model: _Model) -> _Model:
    """Gives each torchvision detector in ``model``, or the detector that it is, vecdet's losses and
    postprocessing, in place. Results are the same within rounding: losses within 1e-5, detections
    box for box but for the order of equal scores. Heads of other classes keep their own losses.

    Known are torchvision.models.detection.RetinaNet models on the CPU.

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
