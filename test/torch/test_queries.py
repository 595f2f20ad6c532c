# SPDX-License-Identifier: Apache-2.0
"""Matching and losses of queries against SciPy and the published criteria, composed of PyTorch's
operators. Needs torch and vecdet on PYTHONPATH."""

import sys
import unittest

try:
    import torch
    import torchvision
    from scipy.optimize import linear_sum_assignment
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from vecdet.torch import ops
from torch.nn import functional

CLASSES = 12


def corners(boxes):
    return torchvision.ops.box_convert(boxes, "cxcywh", "xyxy")


def some_outputs(images, queries, dtype=torch.float32):
    boxes = torch.rand(images, queries, 4) * 0.5 + 0.1
    return {"pred_logits": (2 * torch.randn(images, queries, CLASSES) - 2).to(dtype),
            "pred_boxes": boxes.to(dtype)}


def some_targets(counts):
    return [{"boxes": torch.rand(n, 4) * 0.4 + 0.1, "labels": torch.randint(0, CLASSES - 1, (n,))}
            for n in counts]


def cost_matrix(outputs, target, weights, focal):
    """The costs of one image, in double."""
    logits, boxes = outputs["pred_logits"].double(), outputs["pred_boxes"].double()
    labels, truth = target["labels"], target["boxes"].double()
    if focal:
        p = logits.sigmoid()[:, labels]
        positive = 0.25 * (1 - p) ** 2 * -(p + 1e-8).log()
        negative = 0.75 * p ** 2 * -(1 - p + 1e-8).log()
        by_class = positive - negative
    else:
        by_class = -logits.softmax(-1)[:, labels]
    giou = torchvision.ops.generalized_box_iou(corners(boxes), corners(truth))
    return (weights[0] * by_class + weights[1] * torch.cdist(boxes, truth, p=1)
            - weights[2] * giou)


def image_of(outputs, i):
    return {name: outputs[name][i] for name in ("pred_logits", "pred_boxes")}


def published_losses(outputs, targets, pairs, class_loss, num_boxes):
    """The losses of one layer as in DETR, Deformable DETR and RT-DETR."""
    logits, boxes = outputs["pred_logits"], outputs["pred_boxes"]
    images = torch.cat([torch.full_like(q, i) for i, (q, _) in enumerate(pairs)])
    queries = torch.cat([q for q, _ in pairs])
    truth = torch.cat([t["boxes"][k] for t, (_, k) in zip(targets, pairs)])
    labels = torch.cat([t["labels"][k] for t, (_, k) in zip(targets, pairs)])
    predicted = boxes[images, queries]
    overlaps = torchvision.ops.box_iou(corners(predicted), corners(truth)).diag().detach()
    one_hot = torch.zeros_like(logits)
    one_hot[images, queries, labels] = 1
    if class_loss == "varifocal":
        aim = torch.zeros_like(logits)
        aim[images, queries, labels] = overlaps.to(logits.dtype)
        weight = 0.75 * logits.sigmoid().detach() ** 2 * (1 - one_hot) + aim
        by_class = functional.binary_cross_entropy_with_logits(logits, aim, weight,
                                                               reduction="sum") / num_boxes
    elif class_loss == "focal":
        by_class = torchvision.ops.sigmoid_focal_loss(logits, one_hot, 0.25, 2.0,
                                                      "sum") / num_boxes
    else:
        aim = torch.full(logits.shape[:2], CLASSES - 1)
        aim[images, queries] = labels
        weight = torch.ones(CLASSES, dtype=logits.dtype)
        weight[-1] = 0.1
        by_class = functional.cross_entropy(logits.transpose(1, 2), aim, weight)
    l1 = functional.l1_loss(predicted, truth, reduction="sum") / num_boxes
    giou = 1 - torchvision.ops.generalized_box_iou(corners(predicted), corners(truth)).diag()
    return by_class, 5 * l1, 2 * giou.sum() / num_boxes


class Assignment(unittest.TestCase):
    def test_as_scipy(self):
        torch.manual_seed(0)
        for rows, columns in ((1, 1), (5, 9), (9, 5), (30, 30), (0, 3), (7, 300)):
            for dtype in (torch.float32, torch.float64):
                costs = torch.randn(rows, columns, dtype=dtype)
                expected = torch.full((rows,), -1)
                found = linear_sum_assignment(costs.numpy())
                expected[torch.as_tensor(found[0])] = torch.as_tensor(found[1])
                self.assertTrue(ops.assign_least_cost(costs).equal(expected))

    def test_errors(self):
        with self.assertRaisesRegex(RuntimeError, r"costs\(0, 1\) is nan, expected a number"):
            ops.assign_least_cost(torch.tensor([[1.0, float("nan")]]))
        with self.assertRaisesRegex(RuntimeError, r"costs.shape is \[3\], expected \[rows, colu"):
            ops.assign_least_cost(torch.zeros(3))


class Matching(unittest.TestCase):
    def test_as_published_matchers(self):
        torch.manual_seed(1)
        for focal, weights in ((True, (2, 5, 2)), (False, (1, 5, 2))):
            for groups in (1, 3):
                outputs, targets = some_outputs(4, 60), some_targets((5, 0, 1, 15))
                matcher = ops.HungarianMatcher(*weights, use_focal_loss=focal, groups=groups)
                pairs = matcher(outputs, targets)
                self.assertEqual(len(pairs), 4)
                for i, (queries, boxes) in enumerate(pairs):
                    costs = cost_matrix(image_of(outputs, i), targets[i], weights, focal)
                    expected = [(rows + g * 60 // groups, columns) for g, part in
                                enumerate(costs.split(60 // groups))
                                for rows, columns in [linear_sum_assignment(part.numpy())]]
                    rows = torch.cat([torch.as_tensor(each[0]) for each in expected])
                    columns = torch.cat([torch.as_tensor(each[1]) for each in expected])
                    self.assertTrue(queries.equal(rows))
                    self.assertTrue(boxes.equal(columns))

    def test_names_and_dictionary(self):
        torch.manual_seed(2)
        outputs, targets = some_outputs(2, 9), some_targets((3, 12))
        expected = ops.HungarianMatcher()(outputs, targets)
        self.assertEqual(len(expected[1][0]), 9)  # more boxes than queries
        other = ops.HungarianMatcher(as_dict=True)(
            {"logits": outputs["pred_logits"], "pred_boxes": outputs["pred_boxes"]},
            [{"boxes": t["boxes"], "class_labels": t["labels"]} for t in targets])
        for a, b in zip(expected, other["indices"]):
            self.assertTrue(a[0].equal(b[0]) and a[1].equal(b[1]))

    def test_strides_and_types(self):
        torch.manual_seed(3)
        outputs, targets = some_outputs(2, 30), some_targets((4, 3))
        expected = ops.HungarianMatcher()(image_of(outputs, slice(None)), targets)
        wide = torch.zeros(2, 50, CLASSES)
        wide[:, :30] = outputs["pred_logits"]
        for logits in (wide[:, :30], outputs["pred_logits"].transpose(0, 1).contiguous()
                       .transpose(0, 1)):
            found = ops.HungarianMatcher()({**outputs, "pred_logits": logits}, targets)
            for a, b in zip(expected, found):
                self.assertTrue(a[0].equal(b[0]))
        for dtype in (torch.bfloat16, torch.float16):
            ops.HungarianMatcher()({k: v.to(dtype) for k, v in outputs.items()}, targets)

    def test_shapes_without_data(self):
        logits, boxes = torch.empty(2, 9, 5, device="meta"), torch.empty(2, 9, 4, device="meta")
        truth = torch.empty(6, 4, device="meta")
        found = torch.ops.vecdet.match_queries([logits] * 3, [boxes] * 3, truth, None, [2, 4],
                                               groups=3)
        self.assertEqual((found.shape, found.dtype), ((3, 3, 6), torch.int64))
        losses = torch.ops.vecdet.set_loss([logits], [boxes], [found[0]], truth, None, [2, 4])
        self.assertEqual((losses.shape, losses.dtype), ((1, 3), torch.float32))

    def test_errors(self):
        outputs, targets = some_outputs(2, 9), some_targets((3, 2))
        with self.assertRaisesRegex(RuntimeError, r"boxes\[0\].shape is \[2, 8, 4\], expected "):
            ops.HungarianMatcher()({**outputs, "pred_boxes": outputs["pred_boxes"][:, 1:]},
                                          targets)
        with self.assertRaisesRegex(RuntimeError, "box_counts.size.. is 1, expected 2, the number"):
            ops.HungarianMatcher()(outputs, targets[:1])
        with self.assertRaisesRegex(ValueError, "'class_cost': 'sigmoid'. Supported: focal, softm"):
            ops.match_queries(outputs["pred_logits"], outputs["pred_boxes"],
                                     [t["boxes"] for t in targets], class_cost="sigmoid")


def leaves(outputs):
    for name in ("pred_logits", "pred_boxes"):
        outputs[name].requires_grad_()
    return [outputs["pred_logits"], outputs["pred_boxes"]]


def gradients(tensors):
    taken = [tensor.grad.clone() for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
    return taken


class Losses(unittest.TestCase):
    def check_close(self, found, expected, tolerance=1e-5):
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)

    def test_as_published_criteria(self):
        torch.manual_seed(4)
        for class_loss in ("varifocal", "focal", "cross_entropy"):
            outputs, targets = some_outputs(3, 40), some_targets((5, 0, 9))
            inputs = leaves(outputs)
            matcher = ops.HungarianMatcher()
            options = dict(alpha=0.25) if class_loss == "focal" else {}
            criterion = ops.SetCriterion(matcher, class_loss, **options)
            losses = criterion(outputs, targets)
            expected = published_losses(outputs, targets, matcher(outputs, targets), class_loss, 14)
            self.assertEqual(list(losses)[1:], ["loss_bbox", "loss_giou"])
            for a, b in zip(losses.values(), expected):
                self.check_close(a, b)
            # Each loss with an upstream gradient of its own.
            factors = (1.0, 0.5, 3.0)
            sum(f * loss for f, loss in zip(factors, losses.values())).backward()
            found = gradients(inputs)
            sum(f * loss for f, loss in zip(factors, expected)).backward()
            for a, b in zip(found, gradients(inputs)):
                self.check_close(a, b)
            # Twice through the same graph.
            total = sum(criterion(outputs, targets).values())
            total.backward(retain_graph=True)
            once = gradients(inputs)
            total.backward()
            for a, b in zip(once, gradients(inputs)):
                self.assertTrue(a.equal(b))

    def test_layers_and_denoising(self):
        torch.manual_seed(5)
        targets = some_targets((3, 5))
        outputs = some_outputs(2, 30)
        outputs["aux_outputs"] = [some_outputs(2, 30) for _ in range(2)]
        outputs["enc_aux_outputs"] = [some_outputs(2, 25)]
        outputs["dn_aux_outputs"] = [some_outputs(2, 20) for _ in range(2)]
        positives = [torch.randperm(20)[:2 * len(t["labels"])] for t in targets]
        outputs["dn_meta"] = {"dn_positive_idx": positives, "dn_num_group": 2}
        layers = [outputs, *outputs["aux_outputs"], *outputs["enc_aux_outputs"],
                  *outputs["dn_aux_outputs"]]
        inputs = [leaf for layer in layers for leaf in leaves(layer)]
        matcher = ops.HungarianMatcher()
        losses = ops.SetCriterion(matcher)(outputs, targets)
        self.assertEqual(len(losses), 18)
        suffixes = ["", "_aux_0", "_aux_1", "_enc_0", "_dn_0", "_dn_1"]
        total = 0
        for layer, suffix in zip(layers, suffixes):
            is_denoising = suffix.startswith("_dn")
            pairs = ([(rows, torch.arange(len(t["labels"])).tile(2))
                      for rows, t in zip(positives, targets)]
                     if is_denoising else matcher(layer, targets))
            expected = published_losses(layer, targets, pairs, "varifocal", 16 if is_denoising
                                        else 8)
            for name, loss in zip(("loss_vfl", "loss_bbox", "loss_giou"), expected):
                self.check_close(losses[name + suffix], loss)
                total = total + loss
        sum(losses.values()).backward()
        found = gradients(inputs)
        total.backward()
        for a, b in zip(found, gradients(inputs)):
            self.check_close(a, b)

    def test_number_of_boxes_and_groups(self):
        """Sums are divided by the number of boxes, at least 1, times the groups, unless no image
        has a box."""
        torch.manual_seed(8)
        logits, boxes = torch.randn(2, 9, CLASSES), torch.rand(2, 9, 4)
        some, none = [torch.rand(1, 4), torch.rand(2, 4)], [torch.zeros(0, 4)] * 2
        for truth, num_boxes, divisor in ((some, 0, 6), (some, 5, 10), (some, 0.5, 2), (none, 0, 1),
                                          (none, 5, 5)):
            count = sum(map(len, truth))
            # The boxes have class 0, and a query of their own in each group.
            matches = torch.arange(2 * count).view(2, count)
            labels = torch.full((2, 9), -1)
            for image, image_matches in enumerate(matches.split([len(t) for t in truth], 1)):
                labels[image, image_matches.flatten()] = 0
            found = ops.set_loss(logits, boxes, matches, truth, None, "focal", alpha=0.25,
                                 num_boxes=num_boxes)[0, 0]
            total = ops.sigmoid_focal_loss(logits.flatten(0, 1), labels=labels.flatten(),
                                           reduction="sum")
            torch.testing.assert_close(found, total / divisor)

    def test_no_boxes(self):
        outputs, targets = some_outputs(2, 7), some_targets((0, 0))
        inputs = leaves(outputs)
        losses = ops.SetCriterion(ops.HungarianMatcher())(outputs, targets)
        self.assertGreater(float(losses["loss_vfl"]), 0)
        self.assertEqual(float(losses["loss_bbox"] + losses["loss_giou"]), 0)
        sum(losses.values()).backward()
        self.assertEqual(float(inputs[1].grad.abs().sum()), 0)

    def test_types(self):
        torch.manual_seed(6)
        targets = some_targets((3, 5))
        for dtype in (torch.bfloat16, torch.float16):
            outputs = some_outputs(2, 30, dtype)
            inputs = leaves(outputs)
            losses = ops.SetCriterion(ops.HungarianMatcher())(outputs, targets)
            sum(losses.values()).backward()
            for leaf in inputs:
                self.assertEqual(leaf.grad.dtype, dtype)
        with self.assertRaisesRegex(RuntimeError, r"logits\[0\].dtype is Double, expected float32"):
            ops.HungarianMatcher()(some_outputs(2, 30, torch.float64), targets)

    def test_weights_are_not_rounded_to_the_type(self):
        """The gradient of a weighted loss is the weight times that of the loss, rounded once."""
        torch.manual_seed(8)
        outputs, truth = some_outputs(1, 30), some_targets((2,))[0]["boxes"]
        weight = torch.tensor(0.3)
        for dtype in (torch.bfloat16, torch.float16):
            def grad(weight):
                logits = outputs["pred_logits"].to(dtype).requires_grad_()
                losses = torch.ops.vecdet.set_loss(
                    [logits], [outputs["pred_boxes"].to(dtype)], [torch.tensor([[3, 17]])], truth)
                (weight * losses[0, 0]).backward()
                return logits.grad

            expected = (grad(1.0).float() * weight).to(dtype)
            self.assertTrue(torch.equal(grad(weight), expected))

    def test_once(self):
        outputs, targets = some_outputs(1, 7), some_targets((2,))
        inputs = leaves(outputs)
        losses = ops.SetCriterion(ops.HungarianMatcher())(outputs, targets)
        grad, = torch.autograd.grad(sum(losses.values()), inputs[:1], create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "cannot be differentiated again"):
            grad.sum().backward()


if __name__ == "__main__":
    unittest.main()
