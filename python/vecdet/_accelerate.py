# SPDX-License-Identifier: Apache-2.0
"""torchvision's detectors on vecdet: matching, losses and postprocessing, replaced in place.

A module changes its class to a subclass here, and back: parameters, hooks, names and state_dict stay
what they are, and the model may be copied and pickled as before.
"""

import contextlib
import threading
from typing import Dict, Iterable, Iterator, List, Optional, Tuple, TypeVar

import torch
from torch import Tensor, nn
from torchvision.models.detection import fcos, retinanet, rpn, roi_heads, ssd
from torchvision.models.detection._utils import Matcher, SSDMatcher
from torchvision.ops import poolers

from . import _rcnn, ops
from ._parts import are_same, boxes_of, match_all, matches_per_image, rows_of

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


def _offset(targets, matched_idxs: List[Tensor]) -> Tensor:
    """Indices into the boxes of all images."""
    matches, first = [], 0
    for target, matches_per_image in zip(targets, matched_idxs):
        matches.append(torch.where(matches_per_image >= 0, matches_per_image + first,
                                   matches_per_image))
        first += target["boxes"].shape[0]
    return torch.cat(matches)


_asked = threading.local()


@contextlib.contextmanager
def _as_levels(head: Optional[nn.Module]) -> Iterator[None]:
    """Inside, this head gives its levels as they are. Its model asks for that: whether the head is
    in training says nothing of whether the model is."""
    before = getattr(_asked, "head", None)
    _asked.head = head
    try:
        yield
    finally:
        _asked.head = before


def _is_asked(head: nn.Module) -> bool:
    return getattr(_asked, "head", None) is head


def _are_watched(*modules: nn.Module) -> bool:
    """Whether hooks look at what the modules take or give, and expect torchvision's."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, kind, None) for module in modules for kind in kinds)


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
        return ops.regression_loss(
            deltas.reshape(-1, 4), torch.cat(anchors), torch.cat(boxes_of(targets)),
            _offset(targets, matched_idxs), **self.box_loss(), weights=self.box_coder.weights,
            size_limit=self.box_coder.bbox_xform_clip, scale=scale, box_weights=weights)

    def box_loss(self) -> dict:
        kind = self._loss_type
        return dict(loss="smooth_l1" if kind in self._BETAS else kind,
                    beta=self._BETAS.get(kind, 0.0))


class _RetinaNetHead(retinanet.RetinaNetHead):
    """Gives its levels as they are where _RetinaNet asks for them."""

    def forward(self, x):
        classes, boxes = self.classification_head, self.regression_head
        if not _is_asked(self) or _are_watched(self, classes, boxes):
            return super().forward(x)
        return {"cls_logits": [classes.cls_logits(classes.conv(features)) for features in x],
                "bbox_regression": [boxes.bbox_reg(boxes.conv(features)) for features in x]}


class _FCOSHead(fcos.FCOSHead):
    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        labels = _labels(targets, matched_idxs)
        scale = 1.0 / max(1, sum(_foreground(matched_idxs)))
        logits = head_outputs["cls_logits"]
        if isinstance(logits, Tensor):
            classification = ops.sigmoid_focal_loss(logits, labels=labels, reduction="sum",
                                                    scale=scale)
        else:
            classification = ops.sigmoid_focal_loss_levels(logits, labels, scale=scale)
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
        centerness_logits = head_outputs["bbox_ctrness"].squeeze(dim=2)[is_foreground]
        return {
            "classification": classification,
            "bbox_regression": regression * scale,
            "bbox_ctrness": nn.functional.binary_cross_entropy_with_logits(
                centerness_logits, centerness.to(centerness_logits.dtype),
                reduction="sum") * scale,
        }


class _FCOSLevelsHead(_FCOSHead):
    """Leaves the classes' levels as they are where _FCOS asks for them."""

    def forward(self, x):
        classes = self.classification_head
        if not _is_asked(self) or _are_watched(self, classes):
            return super().forward(x)
        deltas, centerness = self.regression_head(x)
        return {"cls_logits": [classes.cls_logits(classes.conv(features)) for features in x],
                "bbox_regression": deltas, "bbox_ctrness": centerness}


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
    if not joined or any(not torch.equal(each, joined[0]) for each in joined[1:]):
        return None
    return joined[0]


class _RetinaNet(retinanet.RetinaNet):
    def forward(self, images, targets=None):
        with _as_levels(self.head if self.training else None):
            return super().forward(images, targets)

    def compute_loss(self, targets, head_outputs, anchors):
        logits, deltas = head_outputs["cls_logits"], head_outputs["bbox_regression"]
        matcher, head = self.proposal_matcher, self.head
        is_known = type(matcher) is Matcher and all(
            boxes.dtype == torch.float32 for boxes in boxes_of(targets))
        if (is_known and isinstance(logits, list) and logits[0].dtype != torch.float64
                and are_same(anchors)):
            coder = head.regression_head.box_coder
            classification, regression = ops.retinanet_loss(
                logits, deltas, anchors[0], boxes_of(targets), [t["labels"] for t in targets],
                matcher.high_threshold, matcher.low_threshold, matcher.allow_low_quality_matches,
                **head.regression_head.box_loss(), weights=coder.weights,
                size_limit=coder.bbox_xform_clip)
            return {"classification": classification, "bbox_regression": regression}
        if isinstance(logits, list):
            head_outputs = {"cls_logits": rows_of(logits, head.classification_head.num_classes),
                            "bbox_regression": rows_of(deltas, 4)}
        matched_idxs = match_all(targets, anchors, matcher, False) if is_known else None
        if matched_idxs is None:
            return super().compute_loss(targets, head_outputs, anchors)
        return head.compute_loss(targets, head_outputs, anchors, matched_idxs)

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
    def forward(self, images, targets=None):
        with _as_levels(self.head if self.training else None):
            return super().forward(images, targets)

    def compute_loss(self, targets, head_outputs, anchors, num_anchors_per_level):
        logits, boxes = head_outputs["cls_logits"], boxes_of(targets)
        # Without levels nothing says how wide the grids of anchors are.
        if not (isinstance(logits, list) and are_same(anchors)
                and [level.shape[-2:].numel() for level in logits] == num_anchors_per_level
                and all(each.dtype == torch.float32 for each in boxes)):
            return super().compute_loss(targets, head_outputs, anchors, num_anchors_per_level)
        matches = ops.assign_fcos(anchors[0], [level.shape[-2:] for level in logits], boxes,
                                  self.center_sampling_radius)
        return self.head.compute_loss(targets, head_outputs, anchors,
                                      matches_per_image(matches, boxes))

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
    def forward(self, images, targets=None):
        # torchvision's forward() makes the matrix of overlaps itself, so that training has another.
        if not (self.training and type(self.proposal_matcher) is SSDMatcher
                and self._are_valid(targets)):
            return super().forward(images, targets)
        images, targets = self.transform(images, targets)
        features = self.backbone(images.tensors)
        features = [features] if isinstance(features, Tensor) else list(features.values())
        head_outputs = self.head(features)
        anchors = self.anchor_generator(images, features)
        matched_idxs = match_all(targets, anchors, self.proposal_matcher, True)
        if matched_idxs is None:
            matched_idxs = [
                self.proposal_matcher(ops.box_iou(target["boxes"], each))
                if len(target["boxes"]) else torch.full((len(each),), -1)
                for target, each in zip(targets, anchors)
            ]
        return self.compute_loss(targets, head_outputs, anchors, matched_idxs)

    @staticmethod
    def _are_valid(targets) -> bool:
        """Whether torchvision has nothing to say against the targets; otherwise it says it."""
        return targets is not None and all(
            isinstance(boxes, Tensor) and boxes.dim() == 2 and boxes.shape[1] == 4
            and bool((boxes[:, 2:] > boxes[:, :2]).all()) for boxes in boxes_of(targets))

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs):
        logits, deltas = head_outputs["cls_logits"], head_outputs["bbox_regression"]
        negatives = int(self.neg_to_pos_ratio)
        if negatives != self.neg_to_pos_ratio or logits.dtype == torch.float64:
            return super().compute_loss(targets, head_outputs, anchors, matched_idxs)
        scale = 1.0 / max(1, sum(_foreground(matched_idxs)))
        return {
            "bbox_regression": ops.regression_loss(
                deltas.reshape(-1, 4), torch.cat(anchors), torch.cat(boxes_of(targets)),
                _offset(targets, matched_idxs), beta=1.0, weights=self.box_coder.weights,
                scale=scale),
            # Background is class 0.
            "classification": ops.mined_cross_entropy_loss(
                logits, _labels(targets, matched_idxs).clamp(min=0), negatives, scale=scale),
        }

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
# The parts of two-stage detectors, whatever the model is called.
_STAGES = {
    rpn.RegionProposalNetwork: _rcnn.RegionProposalNetwork,
    roi_heads.RoIHeads: _rcnn.RoIHeads,
}
_POOLS = {poolers.MultiScaleRoIAlign: _rcnn.MultiScaleRoIAlign}
# The same of heads whose models know what levels are.
_HEADS_OF_LEVELS = {
    retinanet.RetinaNetHead: _RetinaNetHead,
    fcos.FCOSHead: _FCOSLevelsHead,
}
_REPLACEMENTS = {**_MODELS, **_HEADS, **_STAGES, **_POOLS}
_ORIGINALS = {ours: theirs for classes in (_REPLACEMENTS, _HEADS_OF_LEVELS)
              for theirs, ours in classes.items()}
_KNOWN = ("FCOS", "FasterRCNN", "KeypointRCNN", "MaskRCNN", "RetinaNet", "SSD")


def _is(module: nn.Module, *classes: type) -> bool:
    """Whether a module's class is one of these, replaced or not, and not one derived from them."""
    return _ORIGINALS.get(type(module), type(module)) in classes


def _gives_levels(model: nn.Module) -> bool:
    """Whether the parts of a model's head are torchvision's own."""
    if _is(model, fcos.FCOS):
        return _is(model.head, fcos.FCOSHead) and _is(model.head.classification_head,
                                                      fcos.FCOSClassificationHead)
    return (_is(model, retinanet.RetinaNet) and _is(model.head, retinanet.RetinaNetHead)
            and _is(model.head.classification_head, retinanet.RetinaNetClassificationHead)
            and _is(model.head.regression_head, retinanet.RetinaNetRegressionHead))


def _replace(modules: Iterable[nn.Module], classes: Dict[type, type]) -> None:
    """Changes the classes that have another in ``classes``. Other modules are assigned nothing, not
    even the class that they have: a wrapper's __setattr__ may pass it on to what it wraps."""
    for module in modules:
        other = classes.get(type(module))
        if other is not None:
            module.__class__ = other


def accelerate(model: _Model) -> _Model:
    """Gives each torchvision detector in ``model``, or the detector that it is, vecdet's matching,
    losses and postprocessing, in place. Results are the same within rounding: matches exactly,
    losses within 1e-5, detections box for box but for the order of equal scores.

    RetinaNet in training has one call for matching and both losses, on the levels of its head as
    the convolutions left them; FCOS has one for matching and one for the levels of its classes.
    Heads with hooks, heads of other classes, and custom matchers, keep what is theirs.

    Faster R-CNN, and what is made of it, has its RPN's and its box head's matching, losses and
    postprocessing, and RoIAlign, that of the masks of the ground truth as well. Which anchors and
    proposals are sampled, torchvision's sampler draws from torch's generator, so that a seeded step
    learns from the same ones.

    Known are torchvision.models.detection's RetinaNet, FCOS, SSD, FasterRCNN, MaskRCNN and
    KeypointRCNN, and models with their RegionProposalNetwork or RoIHeads, on the CPU.

    Returns:
        The model.

    Raises:
        TypeError: where there is no detector that is known; it names those that are.
    """
    modules = list(model.modules())
    if not any(_is(module, *_MODELS, *_STAGES) for module in modules):
        raise TypeError(f"vecdet.accelerate: a {type(model).__name__}, expected one of "
                        f"torchvision.models.detection's {', '.join(_KNOWN)}, or a model that "
                        "contains one")
    _replace([module.head for module in modules if _gives_levels(module)], _HEADS_OF_LEVELS)
    _replace(modules, _REPLACEMENTS)
    return model


def restore(model: _Model) -> _Model:
    """Takes back what accelerate() did; a model that it did nothing to stays as it is."""
    _replace(model.modules(), _ORIGINALS)
    return model
