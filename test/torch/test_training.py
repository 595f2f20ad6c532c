# SPDX-License-Identifier: Apache-2.0
"""Matching, assigners, losses of scores and of heads, and how accelerated detectors train on them,
against torchvision and torch. Needs torch, torchvision and vecdet on PYTHONPATH."""

import sys
import unittest

try:
    import torch
    import torchvision  # noqa: F401: missing, the whole file is skipped
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import test_package
import vecdet.torch
from test_package import loss_and_grad, names_in, some_boxes
from torch.nn import functional as F
from torchvision import ops as theirs
from torchvision.models import detection
from torchvision.models.detection._utils import Matcher, SSDMatcher
from vecdet.torch import ops as ours

CLASSES = 5


def called(run):
    """The names of the operators that a call runs, for vecdet's without an underscore before them."""
    with torch.profiler.profile() as trace:
        run()
    return names_in(trace)


class Losses(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def assert_same_loss(self, ours_of, theirs_of, values):
        weight = torch.rand_like(theirs_of(values))
        for mine, other in zip(loss_and_grad(ours_of, values, weight),
                               loss_and_grad(theirs_of, values, weight)):
            self.assertEqual(mine.shape, other.shape)
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)

    def test_scores(self):
        labels, scores = torch.randint(-1, CLASSES, (40,)), torch.rand(40)
        hot = (labels[:, None] == torch.arange(CLASSES)).float()
        dense = hot * scores[:, None]
        ce = lambda x: F.binary_cross_entropy_with_logits(x, dense, reduction="none")
        logits = torch.randn(40, CLASSES)
        for reduction in ("none", "mean", "sum"):
            reduced = {"none": lambda x: x, "mean": torch.mean, "sum": torch.sum}[reduction]
            self.assert_same_loss(
                lambda x: ours.quality_focal_loss(x, labels, scores, reduction=reduction),
                lambda x: reduced((x.sigmoid() - dense).abs() ** 2 * ce(x)), logits)
            self.assert_same_loss(
                lambda x: ours.varifocal_loss(x, labels, scores, reduction=reduction),
                lambda x: reduced(
                    (hot * dense + (1 - hot) * 0.75 * x.sigmoid() ** 2) * ce(x)), logits)
            self.assert_same_loss(
                lambda x: ours.bce_loss(x, labels, scores, reduction), lambda x: reduced(ce(x)),
                logits)

    def test_distributions_and_classes(self):
        logits, targets = torch.randn(30, 9), torch.rand(30) * 8
        low = targets.floor().long()

        def formula(x):
            return (F.cross_entropy(x, low, reduction="none") * (low + 1 - targets)
                    + F.cross_entropy(x, low + 1, reduction="none") * (targets - low))

        self.assert_same_loss(lambda x: ours.distribution_focal_loss(x, targets), formula, logits)
        self.assert_same_loss(lambda x: ours.distribution_focal_loss(x, targets, "mean"),
                              lambda x: formula(x).mean(), logits)
        distances = (logits.softmax(-1) * torch.arange(9)).sum(-1)
        torch.testing.assert_close(ours.decode_distributions(logits), distances)
        points, strides = torch.rand(5, 2) * 50, torch.full((5,), 8.0)
        sides = ours.decode_distributions(logits[:20].view(5, 4, 9)) * 8
        torch.testing.assert_close(
            ours.decode_distribution_boxes(logits[:20].view(5, 4, 9), points, strides),
            torch.cat([points - sides[:, :2], points + sides[:, 2:]], 1))
        labels = torch.randint(0, 9, (30,))
        labels[:4] = -100
        for reduction in ("none", "mean", "sum"):
            self.assert_same_loss(
                lambda x: ours.softmax_cross_entropy_loss(x, labels, reduction, ignore=-100),
                lambda x: F.cross_entropy(x, labels, reduction=reduction), logits)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "reduction.*'sums'"):
            ours.bce_loss(torch.randn(2, 3), torch.zeros(2, dtype=torch.int64), torch.rand(2),
                          "sums")
        with self.assertRaisesRegex(RuntimeError, "logits.dtype is Double"):
            ours.distribution_focal_loss(torch.randn(2, 3).double(), torch.rand(2))
        with self.assertRaisesRegex(RuntimeError, "classes.shape is"):
            ours.match_anchors(some_boxes(9), some_boxes(3), torch.zeros(2, dtype=torch.int64))

    def test_empty_lists(self):
        boxes, classes = some_boxes(9), torch.zeros(9, dtype=torch.int64)
        levels, sizes = [torch.randn(1, 4, 3, 3)], [(3, 3)]
        for name, arguments, said in (
                ("match_anchors", (boxes, []), "boxes is an empty list"),
                ("match_anchors", (boxes, [boxes], []), "classes is an empty list"),
                ("assign_atss", (boxes, sizes, []), "boxes is an empty list"),
                ("assign_fcos", (boxes, sizes, []), "boxes is an empty list"),
                ("assign_task_aligned", (torch.rand(9, 2), boxes, boxes[:, :2], sizes, [], []),
                 "boxes is an empty list"),
                ("sigmoid_focal_loss_levels", ([], classes), r"logits.size\(\) is 0"),
                ("retinanet_loss", ([], [], boxes, boxes, classes), r"logits.size\(\) is 0"),
                ("retinanet_loss", (levels, levels, boxes, [], []), "boxes is an empty list")):
            with self.assertRaisesRegex(RuntimeError, f"vecdet::{name}: {said}"):
                getattr(ours, name)(*arguments)
        with self.assertRaisesRegex(RuntimeError, "vecdet::match_anchors: regions is an empty list"):
            ours.match_anchors(boxes, boxes, regions=[])


class Matching(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.anchors = some_boxes(3000)

    def test_is_torchvisions(self):
        boxes, classes = some_boxes(12), torch.randint(0, 7, (12,))
        overlaps = theirs.box_iou(boxes, self.anchors)
        for high, low in ((0.5, 0.4), (0.7, 0.3), (0.5, 0.5)):
            for low_quality in (True, False):
                matches, labels, best = ours.match_anchors(self.anchors, boxes, classes, high, low,
                                                           low_quality)
                expected = Matcher(high, low, low_quality)(overlaps)
                self.assertTrue(torch.equal(matches, expected))
                self.assertTrue(torch.equal(best, overlaps.max(0).values))
                self.assertTrue(torch.equal(
                    labels, torch.where(expected >= 0, classes[expected.clamp(min=0)], expected)))
        matches, _, _ = ours.match_anchors(self.anchors, boxes, None, 0.5, 0.5, False,
                                           force_best=True)
        self.assertTrue(torch.equal(matches, SSDMatcher(0.5)(overlaps)))

    def test_batches(self):
        boxes = [some_boxes(5), some_boxes(0), some_boxes(7)]
        classes = [torch.full((len(b),), i) for i, b in enumerate(boxes)]
        matches, labels, _ = ours.match_anchors(self.anchors, boxes, classes)
        self.assertEqual(matches.shape, (3, 3000))
        alone, _, _ = ours.match_anchors(self.anchors, boxes[2])
        self.assertTrue(torch.equal(matches[2], torch.where(alone >= 0, alone + 5, alone)))
        self.assertTrue(bool((matches[1] == -1).all()))
        self.assertEqual(set(labels[2].tolist()), {-2, -1, 2})

    def test_assigners(self):
        centres = torch.arange(8) * 10.0 + 5
        points = torch.stack([centres.repeat(8), centres.repeat_interleave(8)], 1)
        anchors = torch.cat([points - 15, points + 15], 1)
        boxes = [torch.tensor([[20.0, 20, 50, 50]]), torch.tensor([[38.0, 38, 72, 72]])]
        matches = ours.assign_atss(anchors, [(8, 8)], boxes)
        self.assertEqual(matches.shape, (2, 64))
        for image in (0, 1):
            chosen = matches[image] >= 0
            self.assertTrue(bool(chosen.any()))
            self.assertTrue(bool((matches[image][chosen] == image).all()))
            self.assertGreater(theirs.box_iou(boxes[image], anchors[chosen]).min(), 0.3)
        scores = torch.rand(2, 64, 3)
        aligned, targets = ours.assign_task_aligned(
            scores, anchors.expand(2, 64, 4), points, [(8, 8)], boxes,
            [torch.tensor([1]), torch.tensor([2])], top=4)
        self.assertEqual((aligned >= 0).sum(1).tolist(), [4, 4])
        self.assertTrue(torch.equal(targets > 0, aligned >= 0))
        assigned, ious = ours.assign_sim_ota(
            scores, scores[..., 0], anchors.expand(2, 64, 4), points, [(8, 8)], [10], boxes,
            [torch.tensor([1]), torch.tensor([2])])
        for image in (0, 1):
            chosen = assigned[image] >= 0
            self.assertTrue(bool(chosen.any()))
            self.assertTrue(torch.equal(ious[image][chosen],
                                        theirs.box_iou(boxes[image], anchors[chosen])[0]))
            self.assertFalse(bool(ious[image][~chosen].any()))
        regions = [torch.tensor([[0.0, 0, 30, 80]]), torch.zeros(0, 4)]
        found = ours.assign_atss(anchors, [(8, 8)], boxes, regions=regions)
        covered = torch.minimum(anchors[:, 2:], regions[0][:, 2:]) - anchors[:, :2].clamp(min=0)
        ignored = (covered.clamp(min=0).prod(1) > 0.5 * 30 * 30) & (matches[0] < 0)
        self.assertTrue(bool(ignored.any()))
        self.assertTrue(torch.equal(found[0], torch.where(ignored, -2, matches[0])))
        self.assertTrue(torch.equal(found[1], matches[1]))
        plain = ours.assign_fcos(anchors, [(8, 8)], boxes)
        found = ours.assign_fcos(anchors, [(8, 8)], boxes, regions=regions, region_threshold=1.0)
        self.assertTrue(torch.equal(found, plain))  # no more than all of an anchor
        found, same_targets = ours.assign_task_aligned(
            scores, anchors.expand(2, 64, 4), points, [(8, 8)], boxes,
            [torch.tensor([1]), torch.tensor([2])], top=4, regions=regions)
        ignored = (points[:, 0] < 30) & (aligned[0] < 0)
        self.assertTrue(torch.equal(found[0], torch.where(ignored, -2, aligned[0])))
        self.assertTrue(torch.equal(found[1], aligned[1]) and torch.equal(same_targets, targets))


class AcceleratedTraining(unittest.TestCase):
    """The operators that a step of an accelerated detector runs, and their results."""

    def setUp(self):
        test_package.Detectors.setUp(self)

    step = test_package.Detectors.step

    def check_step(self, model, expected_calls, forbidden_calls=()):
        losses, grads = self.step(model, self.images, self.targets)
        vecdet.torch.accelerate(model, convolutions=False)
        results = []
        calls = called(lambda: results.extend(self.step(model, self.images, self.targets)))
        vecdet.torch.restore(model)
        self.assertLessEqual({f"vecdet::{name}" for name in expected_calls}, calls)
        self.assertFalse({f"vecdet::{name}" for name in forbidden_calls} & calls)
        for name, loss in losses.items():
            torch.testing.assert_close(results[0][name], loss, rtol=1e-5, atol=1e-7)
        largest = max(grad.abs().max().item() for grad in grads.values())
        for name, grad in grads.items():
            torch.testing.assert_close(results[1][name], grad, rtol=1e-4, atol=1e-6 * largest)
        return calls

    def test_one_call_for_retinanet(self):
        for channels_last in (False, True):
            model = test_package.Detectors.models()["RetinaNet"]
            if channels_last:
                model = model.to(memory_format=torch.channels_last)
            calls = self.check_step(model, {"retinanet_loss"},
                                    {"sigmoid_focal_loss", "regression_loss", "match_anchors"})
            self.assertNotIn("aten::index_put_", calls)

    def test_retinanet_with_other_parts(self):
        class OtherMatcher(Matcher):
            pass

        parts = {"match_anchors", "sigmoid_focal_loss", "regression_loss"}
        model = test_package.Detectors.models()["RetinaNet"]
        seen = []
        handle = model.head.register_forward_hook(
            lambda module, inputs, output: seen.append(output["cls_logits"].shape))
        self.check_step(model, parts, {"retinanet_loss"})  # the tensors that the hook sees do not change
        self.assertEqual(seen[0], seen[1])
        handle.remove()
        handle = model.head.regression_head.register_forward_pre_hook(
            lambda module, inputs: ([2 * level for level in inputs[0]],))
        self.check_step(model, parts, {"retinanet_loss"})
        handle.remove()
        model.proposal_matcher = OtherMatcher(0.5, 0.4, True)
        self.check_step(model, parts - {"match_anchors"}, {"retinanet_loss", "match_anchors"})

    def test_retinanet_in_double(self):
        model = test_package.Detectors.models()["RetinaNet"].double()
        self.images = [image.double() for image in self.images]
        for target in self.targets:
            target["boxes"] = target["boxes"].double()
        self.check_step(model, {"sigmoid_focal_loss", "regression_loss"}, {"retinanet_loss"})

    def test_retinanet_under_autocast(self):
        model = test_package.Detectors.models()["RetinaNet"]

        def step():
            with torch.autocast("cpu", torch.bfloat16):
                return self.step(model, self.images, self.targets)[0]

        losses = step()
        vecdet.torch.accelerate(model)
        fast = {}
        self.assertIn("vecdet::retinanet_loss", called(lambda: fast.update(step())))
        for name, loss in losses.items():
            self.assertEqual(fast[name].dtype, torch.float32)
            # torchvision encodes boxes in bfloat16, on anchors that autocast rounded.
            torch.testing.assert_close(fast[name], loss.float(), rtol=2e-2, atol=1e-3)

    def test_part_of_another_model(self):
        class Derived(detection.RetinaNet):
            pass

        model = test_package.Detectors.models()["RetinaNet"]
        model.__class__ = Derived
        both = torch.nn.ModuleList([test_package.Detectors.models()["FCOS"], model])
        vecdet.torch.accelerate(both)
        self.assertIs(type(model), Derived)
        # A user's own class may expect tensors from the head.
        seen = []
        compute_loss = model.compute_loss
        model.compute_loss = lambda *args: seen.append(args[1]) or compute_loss(*args)
        self.step(model, self.images, self.targets)
        self.assertTrue(all(isinstance(output, torch.Tensor) for output in seen[0].values()))
        vecdet.torch.restore(both)
        self.assertIs(type(model.head), detection.retinanet.RetinaNetHead)
        self.assertIs(type(both[0].head), detection.fcos.FCOSHead)

    def test_fcos_and_ssd(self):
        self.check_step(test_package.Detectors.models()["FCOS"],
                        {"sigmoid_focal_loss_levels", "iou_loss"}, {"sigmoid_focal_loss"})
        model = test_package.Detectors.models()["SSD"]
        self.check_step(model, {"match_anchors", "mined_cross_entropy_loss", "regression_loss"})
        model.neg_to_pos_ratio = 2.5  # torchvision's own loss
        self.check_step(model, {"match_anchors"}, {"mined_cross_entropy_loss"})

    def test_matches_of_detectors(self):
        """The matches that accelerated models train on, compared with torchvision's matcher."""
        from vecdet.torch._parts import match_all
        torch.manual_seed(3)
        anchors, boxes = some_boxes(5000), [some_boxes(9), some_boxes(0), some_boxes(20)]
        targets = [{"boxes": b} for b in boxes]
        for matcher, force_best in ((Matcher(0.5, 0.4, True), False), (SSDMatcher(0.5), True)):
            found = match_all(targets, [anchors] * 3, matcher, force_best)
            for matches, each in zip(found, boxes):
                expected = (matcher(theirs.box_iou(each, anchors)) if len(each)
                            else torch.full((5000,), -1))
                self.assertTrue(torch.equal(matches, expected))

    def test_invalid_targets_of_ssd(self):
        model = vecdet.torch.accelerate(test_package.Detectors.models()["SSD"]).train()
        flat = [dict(target, boxes=target["boxes"] * torch.tensor([1.0, 1, 0, 1]))
                for target in self.targets]
        with self.assertRaisesRegex(AssertionError, "positive height and width"):
            model(self.images, flat)


if __name__ == "__main__":
    unittest.main()
