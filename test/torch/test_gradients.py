# SPDX-License-Identifier: Apache-2.0
"""Gradients with respect to every tensor argument in every operator's schema. Needs torch and vecdet
on PYTHONPATH."""

import sys
import unittest

try:
    import torch
    import torchvision  # noqa: F401 (vecdet needs it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import vecdet.torch  # noqa: F401 (loads the operators)
from test_package import some_boxes

CLASSES, ROWS = 4, 6


def levels(columns):
    return [torch.randn(1, 2 * columns, side, side) for side in (3, 2)]


def samples():
    """Arguments for each operator, including every tensor argument."""
    torch.manual_seed(0)
    boxes, others, logits = some_boxes(ROWS), some_boxes(ROWS) + 1, torch.randn(ROWS, CLASSES)
    labels, weights = torch.randint(0, CLASSES, (ROWS,)), torch.rand(ROWS) + 0.5
    scores, anchors = torch.rand(ROWS), some_boxes(26)
    scored = dict(logits=logits, labels=labels, scores=scores, row_weights=weights, reduction=2)
    centres = torch.tensor([10.0, 30, 50])
    points = torch.stack([centres.repeat(3), centres.repeat_interleave(3)], 1)
    squares = torch.cat([points - 8, points + 8], 1)
    grid = dict(level_sizes=[3, 3], boxes=boxes[:2])
    image = dict(image_sizes=[90.0, 90.0])
    convolution = dict(weight=torch.randn(16, 16, 3, 3), bias=torch.randn(16), relu=True)
    rois = dict(boxes=some_boxes(3), output_size=[2, 2])
    queries = dict(logits=[torch.randn(1, 5, CLASSES)], boxes=[torch.rand(1, 5, 4)],
                   targets=torch.rand(2, 4), classes=labels[:2])
    return {
        "conv3x3": dict(input=torch.randn(1, 16, 9, 9), **convolution),
        "conv3x3_levels": dict(inputs=[torch.randn(1, 16, side, side) for side in (8, 5)],
                               **convolution),
        "deformable_attention": dict(value=torch.randn(1, 20, 2, 3), level_sizes=[4, 4, 2, 2],
                                     points=torch.rand(1, 5, 2, 2, 3, 2),
                                     weights=torch.rand(1, 5, 2, 2, 3)),
        "sigmoid_focal_loss": dict(logits=logits, targets=torch.rand(ROWS, CLASSES),
                                   row_weights=weights, reduction=2),
        "smooth_l1_loss": dict(predictions=boxes, targets=others, labels=labels,
                               box_weights=weights, reduction=2),
        "iou_loss": dict(predicted=boxes, targets=others, kind=2, box_weights=weights, reduction=2),
        "regression_loss": dict(deltas=torch.randn(ROWS, 4), anchors=boxes, targets=others,
                                matches=torch.arange(ROWS), labels=labels, box_weights=weights),
        "quality_focal_loss": scored, "varifocal_loss": scored, "bce_loss": scored,
        "distribution_focal_loss": dict(logits=logits, targets=scores, row_weights=weights,
                                        reduction=2),
        "softmax_cross_entropy_loss": dict(logits=logits, labels=labels, reduction=2),
        "mined_cross_entropy_loss": dict(logits=logits[None], labels=labels[None]),
        "sigmoid_focal_loss_levels": dict(logits=levels(CLASSES),
                                          labels=torch.randint(-2, CLASSES, (1, 26)),
                                          image_scales=torch.ones(1)),
        "retinanet_loss": dict(logits=levels(CLASSES), deltas=levels(4), anchors=anchors,
                               boxes=anchors[:2] + 1, classes=labels[:2], regions=anchors[5:6]),
        "match_anchors": dict(anchors=anchors, boxes=boxes, classes=labels, regions=boxes),
        "assign_atss": dict(anchors=squares, **grid),
        "assign_fcos": dict(anchors=squares, **grid),
        "assign_task_aligned": dict(scores=torch.rand(9, CLASSES), predicted=some_boxes(9),
                                    points=points, classes=labels[:2], **grid),
        "match_queries": queries, "assign_least_cost": dict(costs=torch.rand(3, 4)),
        "set_loss": dict(matches=[torch.tensor([[3, 1]])], **queries),
        "encode_boxes": dict(targets=boxes, anchors=others),
        "decode_boxes": dict(deltas=boxes, anchors=others),
        "encode_distances": dict(targets=boxes, anchors=others),
        "decode_distances": dict(distances=boxes, anchors=others),
        "decode_distributions": dict(logits=logits),
        "decode_distribution_boxes": dict(logits=torch.randn(2, 4, 5), points=points[:2],
                                          strides=torch.ones(2)),
        "pairwise_iou": dict(a=boxes, b=others), "elementwise_iou": dict(a=boxes, b=others),
        "convert_boxes": {"boxes": boxes, "in_fmt": 0, "out_fmt": 1},
        "clip_boxes": dict(boxes=boxes, image_size=[50.0, 50.0]),
        "box_areas": dict(boxes=boxes), "large_boxes": dict(boxes=boxes, min_size=2.0),
        "nms": dict(boxes=boxes, scores=scores, iou_threshold=0.5),
        "batched_nms": dict(boxes=boxes, scores=scores, classes=scores, iou_threshold=0.5),
        "soft_nms": dict(boxes=boxes, scores=scores, classes=labels),
        "filter_topk": dict(logits=logits, score_threshold=0.1, k=3),
        "postprocess": dict(logits=logits[None], deltas=torch.randn(1, ROWS, 4), anchors=boxes,
                            centerness=scores[None], kind=1, **image),
        "rpn_postprocess": dict(logits=levels(1), deltas=levels(4), anchors=anchors, **image),
        "postprocess_box_head": dict(logits=logits, deltas=torch.randn(ROWS, 4 * CLASSES),
                                     proposals=boxes, proposal_counts=[ROWS], **image),
        "sample_balanced": dict(labels=labels),
        "roi_align": dict(features=torch.randn(1, 2, 8, 8), **rois),
        "multiscale_roi_align": dict(features=[torch.randn(1, 2, side, side) for side in (8, 4)],
                                     scales=[0.5, 0.25], **rois),
    }


# The arguments with a gradient: the first ones.
DIFFERENTIABLE = {name: 1 for name in samples() if name.endswith(("_loss", "_levels", "roi_align"))}
DIFFERENTIABLE.update(retinanet_loss=2, set_loss=2, conv3x3=3, conv3x3_levels=3,
                      deformable_attention=4)


def schemas():
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "vecdet" and not name.startswith("_"):
            found[name] = schema
    return found


def tracked(value):
    """The value as leaves of the graph."""
    if isinstance(value, list):
        return [tensor.detach().clone().requires_grad_() for tensor in value]
    return value.detach().clone().requires_grad_()


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in tensors_of(each)]


class Gradients(unittest.TestCase):
    def test_every_tensor_argument(self):
        known = schemas()
        self.assertEqual(set(known), set(samples()))
        for name, schema in known.items():
            given = samples()[name]
            for index, argument in enumerate(schema.arguments):
                if "Tensor" not in str(argument.type):
                    continue
                self.assertIn(argument.name, given, name)
                value = given[argument.name]
                if not tensors_of(value)[0].is_floating_point():
                    continue
                with self.subTest(operator=name, argument=argument.name):
                    leaves = tracked(value)
                    arguments = [given.get(each.name, each.default_value)
                                 for each in schema.arguments]
                    arguments[index] = leaves
                    self.check(name, arguments, tensors_of(leaves),
                               index < DIFFERENTIABLE.get(name, 0), argument.name)

    def check(self, name, arguments, leaves, is_differentiable, argument):
        operator = getattr(torch.ops.vecdet, name)
        if name in DIFFERENTIABLE and not is_differentiable:
            with self.assertRaisesRegex(RuntimeError, f"vecdet::{name}: {argument} requires a "
                                                      f"gradient, .*{argument}.detach"):
                operator(*arguments)
            with torch.no_grad():
                operator(*arguments)
            return
        results = [result for result in tensors_of(operator(*arguments))
                   if result.is_floating_point()]
        if is_differentiable:
            sum(result.sum() for result in results).backward()
            for leaf in leaves:
                self.assertIsNotNone(leaf.grad)
            return
        for result in results:  # integers never have a gradient
            self.assertTrue(result.requires_grad)
            with self.assertRaisesRegex(RuntimeError, f"derivative for vecdet::{name} is not"):
                result.sum().backward()


if __name__ == "__main__":
    unittest.main()
