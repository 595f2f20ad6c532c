# SPDX-License-Identifier: Apache-2.0
"""Matching and losses of a DETR's queries, and the matcher and the criterion of public trainers."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from ._functions import match_queries, set_loss
from ._names import CLASS_LOSSES, PerImage, PerLayer, number

__all__ = ["HungarianMatcher", "SetCriterion"]

_LOSS_NAMES = {"focal": "loss_focal", "varifocal": "loss_vfl", "cross_entropy": "loss_ce"}


def _default(function: Callable[..., Any], argument: str) -> Any:
    return inspect.signature(function).parameters[argument].default


def _first_of(mapping: Mapping[str, Any], *names: str) -> Any:
    for name in names:
        if name in mapping:
            return mapping[name]
    raise KeyError(f"vecdet: none of {', '.join(names)} in {', '.join(mapping)}")


def _truth(targets: Sequence[Mapping[str, Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    return ([target["boxes"] for target in targets],
            [_first_of(target, "labels", "class_labels") for target in targets])


def _logits_and_boxes(outputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    return _first_of(outputs, "pred_logits", "logits"), outputs["pred_boxes"]


class HungarianMatcher(nn.Module):
    """The matcher of DETR, Deformable DETR, RT-DETR and their descendants: the same call and the
    same result.

        criterion.matcher = vecdet.torch.ops.HungarianMatcher(2, 5, 2)

    Args:
        cost_class, cost_bbox, cost_giou: weights of the costs; 1, 5, 2 in DETR.
        use_focal_loss: the focal class cost; otherwise minus the softmax probability.
        alpha, gamma: of the focal cost.
        groups: queries are this many consecutive groups, each matched on its own (Group DETR).
        as_dict: return {"indices": pairs}, as RT-DETRv2's matcher does.
    """

    def __init__(self, cost_class: float = _default(match_queries, "class_weight"),
                 cost_bbox: float = _default(match_queries, "l1_weight"),
                 cost_giou: float = _default(match_queries, "giou_weight"),
                 use_focal_loss: bool = True, alpha: float = _default(match_queries, "alpha"),
                 gamma: float = _default(match_queries, "gamma"),
                 groups: int = _default(match_queries, "groups"), as_dict: bool = False) -> None:
        super().__init__()
        self.cost_class, self.cost_bbox, self.cost_giou = cost_class, cost_bbox, cost_giou
        self.use_focal_loss, self.alpha, self.gamma = use_focal_loss, alpha, gamma
        self.groups, self.as_dict = groups, as_dict

    def match(self, logits: PerLayer, boxes: PerLayer, targets: PerImage,
              classes: PerImage) -> Tensor:
        """match_queries with these weights."""
        return match_queries(logits, boxes, targets, classes,
                             "focal" if self.use_focal_loss else "softmax", alpha=self.alpha,
                             gamma=self.gamma, class_weight=self.cost_class,
                             l1_weight=self.cost_bbox, giou_weight=self.cost_giou,
                             groups=self.groups)

    @torch.no_grad()
    def forward(self, outputs: Mapping[str, Any], targets: Sequence[Mapping[str, Tensor]]) -> Any:
        """Returns (query indices, box indices) for each image, both int64.

        Args:
            outputs: "pred_logits" or "logits" [images, queries, classes], and "pred_boxes".
            targets: for each image "boxes" [n, 4], cx cy w h in [0, 1], and "labels" or
                "class_labels" [n].
        """
        boxes, classes = _truth(targets)
        logits, predicted = _logits_and_boxes(outputs)
        matches = self.match(logits, predicted, boxes, classes)[0]
        counts, queries = [len(image_boxes) for image_boxes in boxes], logits.shape[1]
        sizes = torch.tensor(counts)
        image = torch.arange(len(counts)).repeat_interleave(sizes)
        # Image after image, in each group after group, and there the queries ascend, as SciPy
        # returns them. An image's keys begin above those of the image before.
        order = (matches + image * (queries + 1)).argsort(dim=1)
        indices = order - (sizes.cumsum(0) - sizes)[image]
        pairs = [(of_queries.reshape(-1), of_boxes.reshape(-1)) for of_queries, of_boxes in
                 zip(matches.gather(1, order).split(counts, 1), indices.split(counts, 1))]
        if max(counts, default=0) * self.groups > queries:  # some boxes have no query
            pairs = [(rows[rows >= 0], columns[rows >= 0]) for rows, columns in pairs]
        return {"indices": pairs} if self.as_dict else pairs


class SetCriterion(nn.Module):
    """The criterion of RT-DETR and its like: matches all decoder layers in one call, and computes
    the losses of all layers and denoising groups in another.

        criterion = vecdet.torch.ops.SetCriterion(vecdet.torch.ops.HungarianMatcher())

    Args:
        matcher: a HungarianMatcher of this module.
        class_loss, alpha, gamma, no_object_weight, class_weight, l1_weight, giou_weight: as in
            set_loss.
    """

    def __init__(self, matcher: HungarianMatcher,
                 class_loss: str = _default(set_loss, "class_loss"),
                 alpha: float = _default(set_loss, "alpha"),
                 gamma: float = _default(set_loss, "gamma"),
                 no_object_weight: float = _default(set_loss, "no_object_weight"),
                 class_weight: float = _default(set_loss, "class_weight"),
                 l1_weight: float = _default(set_loss, "l1_weight"),
                 giou_weight: float = _default(set_loss, "giou_weight")) -> None:
        super().__init__()
        number(CLASS_LOSSES, "class_loss", class_loss)
        self.matcher, self.class_loss = matcher, class_loss
        self.options = dict(alpha=alpha, gamma=gamma, no_object_weight=no_object_weight,
                            class_weight=class_weight, l1_weight=l1_weight,
                            giou_weight=giou_weight)

    def forward(self, outputs: Mapping[str, Any],
                targets: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Returns the weighted losses by RT-DETR's names: the class loss, "loss_bbox" and
        "loss_giou", and those of other layers with "_aux_0", "_enc_0", "_dn_0" and so on.

        Args:
            outputs: as in HungarianMatcher; "aux_outputs" and "enc_aux_outputs", lists of the same;
                "dn_aux_outputs" with "dn_meta", whose "dn_positive_idx" has the positive queries of
                each image, group after group, and "dn_num_group" groups.
            targets: as in HungarianMatcher.
        """
        boxes, classes = _truth(targets)
        layers, suffixes = [outputs], [""]
        for key, suffix in (("aux_outputs", "_aux_"), ("enc_aux_outputs", "_enc_")):
            for i, layer in enumerate(outputs.get(key, ())):
                layers.append(layer)
                suffixes.append(f"{suffix}{i}")
        logits, predicted = (list(each) for each in zip(*map(_logits_and_boxes, layers)))
        with torch.no_grad():
            matches = list(self.matcher.match(logits, predicted, boxes, classes))
        denoising = outputs.get("dn_aux_outputs", ())
        if denoising and sum(map(len, boxes)) > 0:
            meta = outputs["dn_meta"]
            positives = torch.cat([indices.reshape(meta["dn_num_group"], -1)
                                   for indices in meta["dn_positive_idx"]], dim=1)
            for i, layer in enumerate(denoising):
                layer_outputs = _logits_and_boxes(layer)
                logits.append(layer_outputs[0])
                predicted.append(layer_outputs[1])
                matches.append(positives)
                suffixes.append(f"_dn_{i}")
        losses = set_loss(logits, predicted, matches, boxes, classes, self.class_loss,
                          num_boxes=_mean_boxes(boxes), **self.options)
        names = (_LOSS_NAMES[self.class_loss], "loss_bbox", "loss_giou")
        return {name + suffix: losses[i, k] for i, suffix in enumerate(suffixes)
                for k, name in enumerate(names)}


def _mean_boxes(boxes: Sequence[Tensor]) -> float:
    """The number of boxes of a rank, on average; at least 1."""
    count = float(sum(map(len, boxes)))
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        total = torch.tensor(count)
        distributed.all_reduce(total)
        count = float(total) / distributed.get_world_size()
    return max(1.0, count)
