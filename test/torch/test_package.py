# SPDX-License-Identifier: Apache-2.0
"""The Python package against torchvision. Needs torch, torchvision and vecdet on PYTHONPATH."""

import contextlib
import copy
import inspect
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections import OrderedDict

try:
    import torch
    import torchvision
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import vecdet.torch
from torch.nn import functional as F
from torchvision import ops as theirs
from torchvision.models import detection
from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
from torchvision.models.detection.ssd import SSD
from vecdet.torch import _library, _patch
from vecdet.torch import ops as ours

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from threads import run_on_threads  # noqa: E402

# Whether the operators are those on PyTorch's stable ABI.
IS_STABLE = not _library.TORCH_VERSION


def names_in(trace):
    """On the stable ABI, functions in Python call the operators with an underscore."""
    return {event.name.replace("vecdet::_", "vecdet::") for event in trace.events()}


def some_boxes(n, dtype=torch.float32):
    corner = torch.rand(n, 2, dtype=dtype) * 80
    return torch.cat([corner, corner + torch.rand(n, 2, dtype=dtype) * 20 + 1], 1)


def loss_and_grad(function, values, weight):
    inputs = values.clone().requires_grad_()
    loss = function(inputs)
    (loss * weight).sum().backward()
    return loss.detach(), inputs.grad


class Functions(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def assert_same_loss(self, ours_of, theirs_of, values, rtol=1e-5):
        weight = torch.rand_like(theirs_of(values))
        for mine, other in zip(loss_and_grad(ours_of, values, weight),
                               loss_and_grad(theirs_of, values, weight)):
            self.assertEqual(mine.shape, other.shape)
            torch.testing.assert_close(mine, other, rtol=rtol, atol=1e-6)

    def test_lists_of_classes(self):
        low = torch.rand(30, 2) * 60
        heads = (torch.randn(1, 30, 3), torch.randn(1, 30, 4) * 0.1,
                 torch.cat([low, low + 5 + 20 * torch.rand(30, 2)], 1), [(90, 90)])
        every, = ours.postprocess(*heads)
        some, = ours.postprocess(*heads, classes=[2, 0], class_thresholds=[0.3, 0.05, 0.2])
        chosen = (every[2] != 1) & (every[1] > torch.tensor([0.3, 0.05, 0.2])[every[2]])
        self.assertTrue(0 < chosen.sum() < len(chosen))
        for part, whole in zip(some, every):
            self.assertTrue(torch.equal(part, whole[chosen]))
        self.assertLess(len(ours.postprocess(*heads, class_groups=[1, 1, 1])[0][0]), len(chosen))
        with self.assertRaisesRegex(ValueError, "postprocess: classes has no elements"):
            ours.postprocess(*heads, classes=[])

    def test_sigmoid_focal_loss(self):
        logits = torch.randn(40, 9) * 3
        labels = torch.randint(-1, 9, (40,))
        one_hot = (labels[:, None] == torch.arange(9)).float()
        for reduction in ("none", "mean", "sum"):
            for alpha, gamma in ((0.25, 2), (-1, 1.5)):
                options = dict(alpha=alpha, gamma=gamma, reduction=reduction)
                expected = lambda x: theirs.sigmoid_focal_loss(x, one_hot, **options)
                self.assert_same_loss(lambda x: ours.sigmoid_focal_loss(x, one_hot, **options),
                                      expected, logits)
                self.assert_same_loss(
                    lambda x: ours.sigmoid_focal_loss(x, labels=labels, **options), expected,
                    logits)
        # Integer targets are numbers, as in torchvision.
        torch.testing.assert_close(ours.sigmoid_focal_loss(logits, one_hot.long()),
                                   theirs.sigmoid_focal_loss(logits, one_hot))

    def test_box_losses(self):
        boxes1, boxes2 = some_boxes(30), some_boxes(30)
        boxes2[:15] = boxes1[:15] + 1
        for name in ("generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"):
            for reduction in ("none", "mean", "sum"):
                self.assert_same_loss(
                    lambda b: getattr(ours, name)(b, boxes2, reduction),
                    lambda b: getattr(theirs, name)(b, boxes2, reduction), boxes1)
        for reduction in ("none", "mean", "sum"):
            self.assert_same_loss(lambda b: ours.smooth_l1_loss(b, boxes2, reduction, 0.5),
                                  lambda b: F.smooth_l1_loss(b, boxes2, reduction=reduction,
                                                             beta=0.5), boxes1)

    def test_regression_loss(self):
        anchors, truth = some_boxes(50), some_boxes(6)
        matches = torch.randint(-2, 6, (50,))
        chosen = matches >= 0
        coder = detection._utils.BoxCoder((10.0, 10.0, 5.0, 5.0))

        def smooth_l1(deltas):
            return F.smooth_l1_loss(deltas[chosen],
                                    coder.encode_single(truth[matches[chosen]], anchors[chosen]),
                                    reduction="sum", beta=0.1)

        def giou(deltas):
            return theirs.generalized_box_iou_loss(
                coder.decode_single(deltas[chosen], anchors[chosen]), truth[matches[chosen]], "sum")

        deltas = torch.randn(50, 4)
        weights = (10, 10, 5, 5)
        self.assert_same_loss(
            lambda d: ours.regression_loss(d, anchors, truth, matches, beta=0.1, weights=weights),
            smooth_l1, deltas, rtol=1e-4)
        self.assert_same_loss(
            lambda d: ours.regression_loss(d, anchors, truth, matches, loss="giou",
                                           weights=weights), giou, deltas, rtol=1e-4)

    def test_overlaps(self):
        a, b = some_boxes(20), some_boxes(30)
        for name in ("box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou"):
            mine, other = getattr(ours, name)(a, b), getattr(theirs, name)(a, b)
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
        self.assertTrue(torch.equal(ours.box_iou(a, b), theirs.box_iou(a, b)))
        self.assertTrue(torch.equal(ours.box_iou(a.long(), b.long()),
                                    theirs.box_iou(a.long(), b.long())))
        for name in ("distance_box_iou", "complete_box_iou"):
            mine, other = getattr(ours, name)(a, b, eps=9.0), getattr(theirs, name)(a, b, eps=9.0)
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
            self.assertGreater(float((mine - getattr(ours, name)(a, b)).abs().max()), 1e-3)
        rows = torch.rand(20, 7)  # whose columns are strided
        self.assertTrue(torch.equal(ours.box_iou(rows[:, 1:5], rows[::2, 2:6]),
                                    theirs.box_iou(rows[:, 1:5], rows[::2, 2:6])))

    def test_formats_of_overlaps_and_areas(self):
        a, b = some_boxes(20), some_boxes(30)
        for fmt in ("xyxy", "xywh", "cxcywh"):
            x, y = (ours.box_convert(boxes, "xyxy", fmt) for boxes in (a, b))
            for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
                typed = x.to(dtype)
                area = ours.box_area(typed, fmt=fmt)
                if fmt != "xyxy":  # exactly
                    sides = typed.float() if dtype is torch.bfloat16 else typed
                    self.assert_equal(area, sides[:, 2] * sides[:, 3])
                if "fmt" in inspect.signature(theirs.box_area).parameters:
                    self.assert_equal(area, theirs.box_area(typed, fmt=fmt))
            torch.testing.assert_close(ours.box_iou(x, y, fmt=fmt), theirs.box_iou(a, b),
                                       rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(ours.box_iou(x.long(), y.long(), fmt=fmt), theirs.box_iou(
                theirs.box_convert(x.long().float(), fmt, "xyxy"),
                theirs.box_convert(y.long().float(), fmt, "xyxy")), rtol=1e-4, atol=1e-5)
        tracked = a.clone().requires_grad_()
        ours.box_area(tracked, "cxcywh").sum().backward()
        self.assertTrue(torch.equal(tracked.grad[:, 2], a[:, 3]))
        for call in (lambda: ours.box_iou(a, b, fmt="yxyx"), lambda: ours.box_area(a, "yxyx")):
            with self.assertRaisesRegex(ValueError, "(fmt is|[Ff]ormat).*'?yxyx'?"):
                call()

    def test_boxes(self):
        images = some_boxes(40) * 1.5 - 10
        images[0, 2] = images[0, 0]  # a box without width
        images[1, 1] = float("nan")
        with torch.profiler.profile() as trace:
            for boxes in (images, images.double(), images[:0], images[::2], images.nan_to_num().long()):
                for given in ("xyxy", "xywh", "cxcywh"):
                    for wanted in ("xyxy", "xywh", "cxcywh"):
                        self.assert_equal(ours.box_convert(boxes, given, wanted),
                                          theirs.box_convert(boxes, given, wanted))
                self.assert_equal(ours.box_area(boxes), theirs.box_area(boxes))
                self.assert_equal(ours.clip_boxes_to_image(boxes, (50, 70)),
                                  theirs.clip_boxes_to_image(boxes, (50, 70)))
                for size in (0.0, 1.0, 9.5):
                    self.assert_equal(ours.remove_small_boxes(boxes, size),
                                      theirs.remove_small_boxes(boxes, size))
        calls = names_in(trace)
        self.assertTrue({f"vecdet::{name}" for name in
                         ("convert_boxes", "box_areas", "clip_boxes", "large_boxes")} <= calls)
        for dtype in (torch.bfloat16, torch.float16):
            boxes = images.nan_to_num().to(dtype)
            area = ours.box_area(boxes)
            self.assert_equal(area, theirs.box_area(boxes))
            self.assertEqual(ours.box_convert(boxes, "xyxy", "xywh").dtype, dtype)
        pyramid = images[2:38].view(4, 9, 4)
        self.assert_equal(ours.clip_boxes_to_image(pyramid, (50, 70)),
                          theirs.clip_boxes_to_image(pyramid, (50, 70)))
        self.assert_equal(ours.box_convert(pyramid, "cxcywh", "xyxy"),
                          theirs.box_convert(pyramid, "cxcywh", "xyxy"))
        same = ours.box_convert(images, "xywh", "xywh")
        self.assertNotEqual(same.data_ptr(), images.data_ptr())
        with self.assertRaisesRegex(ValueError, "Unsupported Bounding Box"):
            ours.box_convert(images, "xyxy", "yxyx")
        with self.assertRaisesRegex(RuntimeError, "vecdet::box_areas: boxes.shape is"):
            ours.box_area(pyramid)
        # They have gradients, as in torchvision.
        for function in (lambda b: ours.box_convert(b, "cxcywh", "xyxy"), ours.box_area,
                         lambda b: ours.clip_boxes_to_image(b, (50, 70))):
            self.assertTrue(torch.autograd.gradcheck(
                function, some_boxes(5, torch.float64).requires_grad_()))

    def assert_equal(self, mine, other):
        self.assertEqual(mine.dtype, other.dtype)
        torch.testing.assert_close(mine, other, rtol=0, atol=0, equal_nan=True)

    def test_coding(self):
        anchors, boxes = some_boxes(20), some_boxes(20)
        coder = detection._utils.BoxCoder((10.0, 10.0, 5.0, 5.0))
        deltas = ours.encode_boxes(boxes, anchors, coder.weights)
        torch.testing.assert_close(deltas, coder.encode_single(boxes, anchors))
        torch.testing.assert_close(ours.decode_boxes(deltas, anchors, coder.weights), boxes)
        clipped = ours.decode_boxes(deltas, anchors, coder.weights, (30, 50))
        torch.testing.assert_close(clipped, theirs.clip_boxes_to_image(boxes, (30, 50)))
        linear = detection._utils.BoxLinearCoder()
        distances = ours.encode_distances(boxes, anchors)
        torch.testing.assert_close(distances, linear.encode(anchors, boxes))
        torch.testing.assert_close(ours.decode_distances(distances, anchors), boxes)

    def test_nms(self):
        boxes, scores, classes = some_boxes(2000), torch.rand(2000), torch.randint(0, 3, (2000,))
        for threshold in (0.1, 0.5, 0.9):
            self.assertTrue(torch.equal(ours.nms(boxes, scores, threshold),
                                        theirs.nms(boxes, scores, threshold)))
            self.assertTrue(torch.equal(ours.batched_nms(boxes, scores, classes, threshold),
                                        theirs.batched_nms(boxes, scores, classes, threshold)))
        kept, left = ours.soft_nms(boxes[:100], scores[:100], method="gaussian")
        self.assertTrue(bool((left[:-1] >= left[1:]).all()))
        self.assertEqual(len(kept), len(left))

    def test_errors(self):
        logits, boxes = torch.randn(5, 3), some_boxes(5)
        with self.assertRaisesRegex(ValueError, "reduction.*'sums'"):
            ours.sigmoid_focal_loss(logits, logits, reduction="sums")
        with self.assertRaisesRegex(ValueError, "either targets or labels"):
            ours.sigmoid_focal_loss(logits)
        with self.assertRaisesRegex(
                RuntimeError, r"labels\[0\] is 3, expected 0 to 2 \(3 classes\), -1 or -2; do your labels start at 1\?"):
            ours.sigmoid_focal_loss(logits, labels=torch.full((5,), 3))
        labels = torch.zeros(5, dtype=torch.int64)
        with self.assertRaisesRegex(RuntimeError, r"targets.shape is \[5\], expected the shape of "
                                                  r"inputs, \[5, 3\]; pass class labels as labels="):
            ours.sigmoid_focal_loss(logits, labels)
        for wrong, said in ((labels.float(), "labels.dtype is torch.float32, expected integers"),
                            (labels > 0, "labels.dtype is torch.bool, expected integers"),
                            (labels[:4], r"labels.shape is \[4\], expected \[5\]"),
                            (logits.long(), r"labels.shape is \[5, 3\], expected \[5\]")):
            with self.assertRaisesRegex(RuntimeError, "vecdet::sigmoid_focal_loss: " + said):
                ours.sigmoid_focal_loss(logits, labels=wrong)
        for wrong in (dict(matches=labels.float()), dict(labels=labels.float()),
                      dict(labels=labels[:4])):
            with self.assertRaisesRegex(RuntimeError, f"regression_loss: {next(iter(wrong))}[.]"):
                ours.regression_loss(boxes, boxes, boxes, **wrong)
        if hasattr(torch, "uint64"):
            for call in (lambda wide: ours.sigmoid_focal_loss(logits, labels=wide),
                         lambda wide: ours.softmax_cross_entropy_loss(logits, wide)):
                with self.assertRaisesRegex(RuntimeError, "labels.dtype is .*, expected integers"):
                    call(labels.to(torch.uint64))
        with self.assertRaisesRegex(RuntimeError, "vecdet::nms: scores.shape is"):
            ours.nms(boxes, torch.rand(4), 0.5)
        with self.assertRaisesRegex(RuntimeError, "targets requires a gradient"):
            ours.generalized_box_iou_loss(boxes, boxes.clone().requires_grad_())
        for name in ("box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou"):
            with self.assertRaisesRegex(RuntimeError, f"vecdet::{name}: boxes2 is a list, expected"):
                getattr(ours, name)(boxes, [])
        for function in (ours.sigmoid_focal_loss, ours.distribution_focal_loss):
            with self.assertRaisesRegex(RuntimeError,
                                        rf"vecdet::{function.__name__}\(\) .*argument 'logits'"):
                function([], [])
        overlaps = ours.box_iou(boxes.clone().requires_grad_(), boxes)
        with self.assertRaisesRegex(RuntimeError, "pairwise_iou is not implemented"):
            overlaps.sum().backward()

    def test_without_gradients(self):
        logits = torch.randn(5, 3, requires_grad=True)
        labels = torch.zeros(5, dtype=torch.int64)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                self.assertFalse(ours.sigmoid_focal_loss(logits, labels=labels).requires_grad)
        with torch.inference_mode():
            torch.testing.assert_close(ours.sigmoid_focal_loss(logits * 1, labels=labels),
                                       ours.sigmoid_focal_loss(logits.detach(), labels=labels))

    def test_trace_and_script(self):
        logits, labels = torch.randn(6, 3, requires_grad=True), torch.randint(-1, 3, (6,))
        boxes, scores = some_boxes(50), torch.rand(50)

        def step(x, y, b, s):
            loss = torch.ops.vecdet.sigmoid_focal_loss(x, y, 0.25, 2.0, 2)
            return loss, torch.ops.vecdet.nms(b, s, 0.5)

        expected = step(logits, labels, boxes, scores)
        for compiled in (torch.jit.trace(step, (logits, labels, boxes, scores)),
                         torch.jit.script(step)):
            loss, kept = compiled(logits, labels, boxes, scores)
            self.assertTrue(torch.equal(loss, expected[0]))
            self.assertTrue(torch.equal(kept, expected[1]))
            loss.backward()

    def test_graphs_have_public_operators(self):
        """Other programs, such as those with libtorch, have no operators with an underscore."""

        class Detect(torch.nn.Module):
            def forward(self, logits, boxes, scores):
                return ours.nms(boxes, scores, 0.5), ours.box_area(boxes), ours.sigmoid_focal_loss(
                    logits, logits, reduction="sum")

        arguments = torch.rand(50, 3), some_boxes(50), torch.rand(50)
        names = {"traced": str(torch.jit.trace(Detect(), arguments).inlined_graph)}
        if hasattr(torch, "export"):
            names["exported"] = str(torch.export.export(Detect(), arguments).graph)
            names["exported, not strictly"] = str(torch.export.export(Detect(), arguments,
                                                                      strict=False).graph)
        for how, graph in names.items():
            with self.subTest(how):
                for name in ("nms", "box_areas", "sigmoid_focal_loss"):
                    self.assertRegex(graph, rf"vecdet(::|\.){name}\b")
                self.assertNotRegex(graph, r"vecdet(::|\.)_")

    def test_levels_with_other_images(self):
        for dtype in (torch.float32, torch.float64):
            for function in (torch.ops.vecdet.conv3x3_levels, ours.conv3x3_levels):
                with self.subTest(dtype), self.assertRaisesRegex(
                        RuntimeError, r"vecdet::conv3x3: input.shape is \[2, 16, 8, 8\], expected "
                        r"\[images, the weight's input channels, height, width\], the same images"):
                    function([torch.rand(images, 16, 8, 8, dtype=dtype) for images in (1, 2)],
                             torch.rand(16, 16, 3, 3, dtype=dtype))

    def test_errors_name_public_operators(self):
        boxes, scores = some_boxes(5), torch.rand(5)
        for name, call in {
            "roi_align": lambda: ours.roi_align(torch.rand(1, 2, 8, 8), boxes, ("2", "2")),
            "nms": lambda: ours.nms(boxes.to("meta"), scores.to("meta"), 0.5),
            "box_areas": lambda: torch.ops.vecdet.box_areas(boxes.to_sparse()),
        }.items():
            with self.subTest(name), self.assertRaises(Exception) as raised:
                call()
            self.assertRegex(str(raised.exception), rf"\b{name}\b")
            self.assertNotRegex(str(raised.exception), "vecdet::_|multiscale_roi")

    @unittest.skipUnless(hasattr(torch, "float8_e4m3fn"), "PyTorch 2.1 and newer")
    def test_float8(self):
        boxes, scores, classes = some_boxes(40), torch.rand(40), torch.arange(40) % 3
        expected = ours.batched_nms(boxes, scores, classes, 0.5)
        for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"):
            narrow = getattr(torch, f"float8_{name}")
            found = ours.batched_nms(boxes, scores, classes.to(narrow), 0.5)
            self.assertTrue(torch.equal(found, expected))
            with self.assertRaisesRegex(RuntimeError, f"boxes.dtype is Float8_{name}, expected"):
                ours.nms(boxes.to(narrow), scores, 0.5)

    @unittest.skipUnless(IS_STABLE, "the text is PyTorch's")
    def test_losses_under_torch_func(self):
        logits, labels = torch.randn(5, 3), torch.zeros(5, dtype=torch.int64)
        features, boxes = torch.rand(1, 2, 8, 8), some_boxes(5)
        for name, argument, call, value in (
                ("sigmoid_focal_loss", "logits",
                 lambda value: ours.sigmoid_focal_loss(value, labels=labels, reduction="sum"), logits),
                ("roi_align", "features",
                 lambda value: ours.roi_align(value, [boxes], 2).sum(), features),
                ("max_pool", "input", lambda value: ours.max_pool2d(value, 2).sum(), features),
                ("box_areas", "boxes", lambda value: torch.ops.vecdet.box_areas(value).sum(), boxes)):
            with self.subTest(name), self.assertRaisesRegex(
                    NotImplementedError, f"vecdet::{name}: {argument} requires a gradient inside "
                                         "torch.func, expected a tensor without one"):
                torch.func.grad(call)(value)


class TwoLevels(torch.nn.Module):
    """The smallest backbone with two levels."""

    def __init__(self, out_channels=32):
        super().__init__()
        self.out_channels = out_channels
        self.first = torch.nn.Conv2d(3, 32, 8, stride=8)
        self.second = torch.nn.Conv2d(32, 32, 2, stride=2)

    def forward(self, x):
        first = self.first(x).relu()
        return OrderedDict(first=first, second=self.second(first).relu())


class Detectors(unittest.TestCase):
    """Small models whose weights produce detections with different scores."""

    @classmethod
    def models(cls):
        torch.manual_seed(1)
        options = dict(min_size=64, max_size=80)
        one_per_location = AnchorGenerator(((16,), (32,)), ((1.0,),) * 2)
        three_per_location = AnchorGenerator(((16,), (32,)), ((0.5, 1.0, 2.0),) * 2)
        models = {
            "RetinaNet": detection.RetinaNet(TwoLevels(), 7, anchor_generator=three_per_location,
                                             **options),
            "FCOS": detection.FCOS(TwoLevels(), 7, anchor_generator=one_per_location, **options),
            "SSD": SSD(TwoLevels([32, 32]), DefaultBoxGenerator([[2], [2, 3]]), (64, 64), 7),
        }
        for model in models.values():
            for name, weight in model.named_parameters():
                if "head" in name and name.endswith("weight") and weight.dim() == 4:
                    torch.nn.init.normal_(weight, std=0.1)
                if name.endswith("cls_logits.bias"):
                    torch.nn.init.constant_(weight, -1.0)
        return models

    def setUp(self):
        torch.manual_seed(2)
        self.images = [torch.rand(3, 60, 75), torch.rand(3, 64, 64)]
        self.targets = [
            {"boxes": torch.tensor([[5.0, 10, 30, 45], [35, 15, 70, 55]]),
             "labels": torch.tensor([3, 5])},
            {"boxes": torch.tensor([[5.0, 5, 60, 50]]), "labels": torch.tensor([1])},
        ]

    def step(self, model, images, targets):
        model.train()
        model.zero_grad()
        losses = model(images, targets)
        sum(losses.values()).backward()
        grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        return {name: loss.detach() for name, loss in losses.items()}, grads

    def test_same_losses_and_detections(self):
        nothing = [{"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}]
        for name, model in self.models().items():
            for images, targets in ((self.images, self.targets),
                                    (self.images[:1], self.targets[:1]),
                                    (self.images[:1], nothing)):
                with self.subTest(model=name, images=len(images), boxes=len(targets[0]["boxes"])):
                    losses, grads = self.step(model, images, targets)
                    model.eval()
                    with torch.no_grad():
                        detections = model(images)
                    self.assertIs(vecdet.torch.accelerate(model, convolutions=False), model)
                    fast_losses, fast_grads = self.step(model, images, targets)
                    model.eval()
                    with torch.no_grad():
                        fast_detections = model(images)
                    vecdet.torch.restore(model)
                    self.assertEqual(losses.keys(), fast_losses.keys())
                    for key, loss in losses.items():
                        torch.testing.assert_close(fast_losses[key], loss, rtol=1e-5, atol=1e-7)
                    largest = max(grad.abs().max().item() for grad in grads.values())
                    for key, grad in grads.items():
                        torch.testing.assert_close(fast_grads[key], grad, rtol=1e-4,
                                                   atol=1e-6 * largest)
                    for mine, other in zip(fast_detections, detections):
                        self.assertGreater(len(other["boxes"]), 0)
                        self.assertTrue(torch.equal(mine["labels"], other["labels"]))
                        torch.testing.assert_close(mine["boxes"], other["boxes"], rtol=1e-4,
                                                   atol=1e-3)
                        torch.testing.assert_close(mine["scores"], other["scores"], rtol=1e-5,
                                                   atol=1e-7)

    def test_box_losses_of_retinanet(self):
        model = self.models()["RetinaNet"]
        for kind in ("l1", "smooth_l1", "giou", "diou", "ciou"):
            model.head.regression_head._loss_type = kind
            losses, _ = self.step(model, self.images, self.targets)
            fast_losses, _ = self.step(vecdet.torch.accelerate(model), self.images, self.targets)
            vecdet.torch.restore(model)
            torch.testing.assert_close(fast_losses["bbox_regression"], losses["bbox_regression"],
                                       rtol=1e-5, atol=1e-7)

    def test_models_stay_what_they_are(self):
        model = self.models()["RetinaNet"]
        names = list(model.state_dict())
        classes = [type(module) for module in model.modules()]
        vecdet.torch.accelerate(vecdet.torch.accelerate(model))
        self.assertIsInstance(model, detection.RetinaNet)
        self.assertEqual(list(model.state_dict()), names)
        copies = (copy.deepcopy(model), pickle.loads(pickle.dumps(model)))
        for other in (model, *copies):
            vecdet.torch.restore(other)
            self.assertEqual([type(module) for module in other.modules()], classes)

    def test_part_of_a_larger_model(self):
        model = self.models()["FCOS"]
        vecdet.torch.accelerate(torch.nn.Sequential(model))
        self.assertIsNot(type(model), detection.FCOS)

    def test_unknown_models(self):
        with self.assertRaisesRegex(TypeError, "a Linear, expected one of .*FCOS, .*MaskRCNN, RetinaNet, SSD"):
            vecdet.torch.accelerate(torch.nn.Linear(2, 3))


class Package(unittest.TestCase):
    ROOT = pathlib.Path(__file__).resolve().parents[2]

    def version(self):
        header = (self.ROOT / "include/vecdet/version.hpp").read_text()
        return ".".join(re.findall(r"define VECDET_VERSION_\w+ (\d+)", header)[:3])

    def test_version(self):
        self.assertEqual(vecdet.torch.__version__, self.version())

    def run_python(self, *arguments, without_torch=False, **variables):
        """Runs Python in a copy of the package's sources."""
        with tempfile.TemporaryDirectory() as folder:
            copied = pathlib.Path(folder) / "python"
            shutil.copytree(self.ROOT / "python", copied,
                            ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
            header = pathlib.Path(folder) / "include/vecdet"
            header.mkdir(parents=True)
            shutil.copy(self.ROOT / "include/vecdet/version.hpp", header)
            environment = {name: value for name, value in os.environ.items()
                           if name != "PYTHONPATH"}
            environment.update(variables)
            if without_torch:
                missing = pathlib.Path(folder) / "missing"
                missing.mkdir()
                (missing / "torch.py").write_text("raise ImportError(\"No module named 'torch'\")")
                environment["PYTHONPATH"] = str(missing)
            return subprocess.run([sys.executable, *arguments], cwd=copied, env=environment,
                                  capture_output=True, text=True)

    def test_metadata(self):
        made = self.run_python("-c", "import setuptools.build_meta as build, pathlib; "
                               "print(pathlib.Path(build.prepare_metadata_for_build_wheel('.'), "
                               "'METADATA').read_text())")
        self.assertEqual(made.returncode, 0, made.stderr)
        lines = made.stdout.splitlines()
        for line in ("Name: vecdet", f"Version: {self.version()}", "Provides-Extra: torch",
                     "Requires-Python: >=3.9"):
            self.assertIn(line, lines)
        self.assertRegex(made.stdout, r"Requires-Dist: numpy ?\(?>=1.19")

    def test_without_torch(self):
        # The build without torch's operators goes on; with them, pip shows a sentence.
        self.assertEqual(self.run_python("setup.py", "egg_info", without_torch=True).returncode, 0)
        failed = self.run_python("setup.py", "egg_info", without_torch=True, VECDET_TORCH="1")
        self.assertNotEqual(failed.returncode, 0)
        self.assertIn("install torch and torchvision first", failed.stderr)
        self.assertNotIn("Traceback", failed.stderr)
        # NumPy's functions need no torch, and vecdet.torch says what it needs.
        package = str(pathlib.Path(vecdet.__file__).parent.parent)
        run = self.run_python("-c", f"import sys; sys.path.insert(0, {package!r}); import vecdet; "
                              "assert vecdet.nms([[0, 0, 9, 9.]], [1.0], 0.5).tolist() == [0]; "
                              "import vecdet.torch", without_torch=True)
        self.assertIn("ImportError: vecdet.torch needs PyTorch and torchvision", run.stderr)

    @unittest.skipUnless(IS_STABLE, "the operators were built for this PyTorch")
    def test_what_the_stable_abi_needs(self):
        package = str(pathlib.Path(vecdet.__file__).parent.parent)
        for code, said in (
                ("torch.__version__ = '2.9.1'", "needs PyTorch 2.10 or newer, but this is PyTorch "
                                                "2.9.1. For this one, it must be built: "),
                ("other = torch.library.Library('vecdet', 'DEF'); "
                 "other.define('nms(Tensor boxes) -> Tensor')",
                 "this process has operators torch.ops.vecdet already, those of another vecdet "),
                ("import torch.multiprocessing.reductions as reductions; "
                 "del reductions.StorageWeakRef", f"does not know PyTorch {torch.__version__} ("),
                ("del torch._C._functorch.get_unwrapped",
                 f"does not know PyTorch {torch.__version__} ("),
                # A second import says the same, because the first has registered nothing.
                ("del torch._C._is_tracing\ntry: import vecdet.torch\nexcept ImportError: pass\n",
                 f"does not know PyTorch {torch.__version__} (")):
            run = self.run_python("-c", f"import sys; sys.path.insert(0, {package!r}); import torch, "
                                  f"torchvision\n{code}\nimport vecdet.torch")
            self.assertRegex(run.stderr, f"ImportError: vecdet.torch .*{re.escape(said)}")
            self.assertEqual(run.returncode, 1)  # not a signal

    @unittest.skipUnless(IS_STABLE, "the operators were built for this PyTorch")
    def test_other_devices(self):
        gpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
        for name, arguments in (("nms", (some_boxes(5), torch.rand(5), 0.5)),
                                ("box_areas", (some_boxes(5),))):
            with self.assertRaisesRegex(NotImplementedError,
                                        f"vecdet::{name}: .* is a CUDA tensor, but"):
                getattr(torch.ops.vecdet, "_" + name).default.redispatch(gpu, *arguments)

    def test_no_torch_is_imported(self):
        run = self.run_python("-c", "import sys; sys.path.insert(0, "
                              f"{str(pathlib.Path(vecdet.__file__).parent.parent)!r}); import vecdet; "
                              "assert 'torch' not in sys.modules")
        self.assertEqual(run.returncode, 0, run.stderr)


def keywords_of_functions():
    """Arguments of the functions that patched() replaces, and other values of each keyword."""
    boxes1, boxes2 = some_boxes(9), some_boxes(9) + 1
    logits = torch.randn(9, 4)
    loss = (dict(boxes1=boxes1, boxes2=boxes2), dict(reduction="mean", eps=0.5))
    pairs = (dict(boxes1=boxes1, boxes2=boxes2), {})
    return {
        "sigmoid_focal_loss": (dict(inputs=logits, targets=torch.rand(9, 4)),
                               dict(alpha=0.5, gamma=1.5, reduction="sum")),
        "generalized_box_iou_loss": loss, "distance_box_iou_loss": loss,
        "complete_box_iou_loss": loss, "generalized_box_iou": pairs,
        "box_iou": (pairs[0], dict(fmt="cxcywh")),
        "distance_box_iou": (pairs[0], dict(eps=9.0)), "complete_box_iou": (pairs[0], dict(eps=9.0)),
        "roi_align": (dict(input=torch.randn(1, 2, 30, 30), boxes=[boxes1], output_size=(3, 2)),
                      dict(spatial_scale=0.25, sampling_ratio=2, aligned=True)),
        "nms": (dict(boxes=boxes1, scores=torch.rand(9), iou_threshold=0.1), {}),
        "batched_nms": (dict(boxes=boxes1, scores=torch.rand(9), idxs=torch.arange(9) % 2,
                             iou_threshold=0.1), {}),
    }


class Patched(unittest.TestCase):
    # The keywords of torchvision 0.27 that 0.14 does not have. Older ones are torchvision's here.
    NEWER = {"box_iou": dict(fmt="xyxy"), "box_area": dict(fmt="xyxy")}

    def test_signatures_are_torchvisions(self):
        """Functions with a name of torchvision have its parameters, in its order and with its
        defaults; others of vecdet follow."""
        shared = [name for name in ours.__all__ if hasattr(theirs, name)]
        self.assertTrue({*_patch._OF_FIRST, *_patch._OTHERS, "box_area"} <= {*shared})
        for name in shared:
            expected = {each.name: each.default for each in
                        inspect.signature(getattr(theirs, name)).parameters.values()}
            expected.update(self.NEWER.get(name, {}))
            mine = inspect.signature(getattr(ours, name)).parameters
            with self.subTest(name):
                self.assertEqual(list(mine)[:len(expected)], list(expected))
                for keyword, default in expected.items():
                    if name != "sigmoid_focal_loss" or keyword != "targets":  # labels= instead
                        self.assertEqual(mine[keyword].default, default)

    def test_every_keyword(self):
        """Each keyword that this torchvision has gives torchvision's result."""
        torch.manual_seed(0)
        functions = keywords_of_functions()
        self.assertEqual({*functions}, {*_patch._OF_FIRST, *_patch._OTHERS})
        for name, (required, others) in functions.items():
            function = getattr(theirs, name)
            known = inspect.signature(function).parameters
            self.assertLessEqual({*known}, {*required, *others}, name)
            calls = [{}, *({keyword: value} for keyword, value in others.items()
                           if keyword in known)]
            for options in calls:
                with self.subTest(name, options=options):
                    expected = function(**required, **options)
                    in_order = [*required.values(), *options.values()] if len(options) < 2 and list(
                        known)[len(required):][:len(options)] == list(options) else None
                    with vecdet.torch.patched():
                        replaced = getattr(torchvision.ops, name)
                        self.assertIsNot(replaced, function)
                        torch.testing.assert_close(replaced(**required, **options), expected,
                                                   rtol=1e-4, atol=1e-5)
                        if in_order:
                            torch.testing.assert_close(replaced(*in_order), expected, rtol=1e-4,
                                                       atol=1e-5)

    def test_keywords_formats_and_shapes_that_vecdet_does_not_have(self):
        """As of a torchvision that is newer than vecdet."""
        boxes = some_boxes(4)

        def box_iou(boxes1, boxes2, fmt="xyxy", scale=1.0):
            return boxes1, boxes2, fmt, scale

        function = _patch._guarded(ours.box_iou, box_iou, False)
        self.assertEqual(function(boxes, boxes, scale=2.0), (boxes, boxes, "xyxy", 2.0))
        batch = boxes.reshape(2, 2, 4)
        self.assertEqual(function(batch, batch), (batch, batch, "xyxy", 1.0))
        self.assertTrue(torch.equal(function(boxes, boxes), theirs.box_iou(boxes, boxes)))

        def other_default(boxes, scores, iou_threshold=0.25):
            return None

        scores = torch.rand(4)
        boxes = torch.tensor([[0.0, 0, 10, 10]]).repeat(4, 1) + torch.arange(4)[:, None]
        found = _patch._guarded(ours.nms, other_default, False)(boxes, scores=scores)
        self.assertTrue(torch.equal(found, theirs.nms(boxes, scores, 0.25)))
        if "fmt" in inspect.signature(theirs.box_iou).parameters:
            rotated = torch.cat([boxes, torch.full((4, 1), 30.0)], 1)
            several = some_boxes(12).reshape(2, 6, 4)
            expected = theirs.box_iou(several, several)
            with vecdet.torch.patched():
                self.assertTrue(torch.equal(torchvision.ops.box_iou(several, several), expected))
                found = torchvision.ops.box_iou(rotated, rotated, "cxcywhr")
            self.assertTrue(torch.equal(found, ours.rotated_box_iou(rotated, rotated,
                                                                    "torchvision")))
            torch.testing.assert_close(found, theirs.box_iou(rotated, rotated, "cxcywhr"), rtol=0,
                                       atol=1e-4)

    def test_torchvision_runs_on_vecdet_inside(self):
        original = detection.retinanet.sigmoid_focal_loss
        nms = torchvision.ops.nms
        logits, targets = torch.randn(5, 3), torch.rand(5, 3)
        boxes, scores = some_boxes(50), torch.rand(50)
        expected = theirs.sigmoid_focal_loss(logits, targets), theirs.nms(boxes, scores, 0.5)
        with vecdet.torch.patched():
            self.assertIsNot(detection.retinanet.sigmoid_focal_loss, original)
            self.assertIsNot(torchvision.ops.boxes.nms, nms)
            with torch.profiler.profile() as trace:
                torch.testing.assert_close(detection.retinanet.sigmoid_focal_loss(logits, targets),
                                           expected[0])
                self.assertTrue(torch.equal(torchvision.ops.nms(boxes, scores, 0.5), expected[1]))
            # Cases that only torchvision can differentiate go there.
            tracked = boxes.clone().requires_grad_()
            torchvision.ops.box_iou(tracked, boxes).sum().backward()
            self.assertIsNotNone(tracked.grad)
            calls = names_in(trace)
        self.assertTrue({"vecdet::sigmoid_focal_loss", "vecdet::nms"} <= calls)
        self.assertIs(detection.retinanet.sigmoid_focal_loss, original)
        self.assertIs(torchvision.ops.boxes.nms, nms)

    def test_blocks_that_overlap(self):
        nms = torchvision.ops.nms
        first, second = contextlib.ExitStack(), contextlib.ExitStack()
        first.enter_context(vecdet.torch.patched())
        inside = torchvision.ops.nms
        second.enter_context(vecdet.torch.patched())
        first.close()
        self.assertIs(torchvision.ops.nms, inside)
        second.close()
        self.assertIs(torchvision.ops.nms, nms)

        barrier, wrong = threading.Barrier(4), []

        def run():
            for _ in range(20):
                barrier.wait()
                with vecdet.torch.patched():
                    if torchvision.ops.nms is nms:
                        wrong.append(1)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertFalse(wrong)
        self.assertIs(torchvision.ops.nms, nms)
        self.assertIs(torchvision.ops.boxes.nms, nms)

    def test_classes_of_any_type(self):
        """YOLOX evaluates with floating-point classes."""
        boxes, scores = some_boxes(300), torch.rand(300)
        classes = torch.randint(0, 4, (300,))
        expected = theirs.batched_nms(boxes, scores, classes, 0.5)
        with vecdet.torch.patched():
            for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8,
                          torch.uint8, torch.int32):
                found = torchvision.ops.batched_nms(boxes, scores, classes.to(dtype), 0.5)
                self.assertTrue(torch.equal(found, expected), dtype)
            halves = torchvision.ops.batched_nms(boxes, scores, classes / 2 - 0.5, 0.5)
            self.assertTrue(torch.equal(halves, expected))
            is_odd = classes % 2 == 1
            self.assertTrue(torch.equal(torchvision.ops.batched_nms(boxes, scores, is_odd, 0.5),
                                        ours.batched_nms(boxes, scores, classes % 2, 0.5)))
        zeros = torch.zeros(300)
        zeros[::2] = -0.0
        self.assertTrue(torch.equal(ours.batched_nms(boxes, scores, zeros, 0.5),
                                    ours.nms(boxes, scores, 0.5)))
        kept, _ = ours.soft_nms(boxes, scores, classes.float(), "hard")
        self.assertTrue(torch.equal(kept, ours.soft_nms(boxes, scores, classes, "hard")[0]))

    def test_is_taken_back_after_an_error(self):
        nms = torchvision.ops.nms
        with contextlib.suppress(KeyError), vecdet.torch.patched():
            raise KeyError
        self.assertIs(torchvision.ops.nms, nms)


class Profile(unittest.TestCase):
    def recorded(self, run):
        vecdet.torch.profile.reset()
        vecdet.torch.profile.enable()
        run()
        vecdet.torch.profile.disable()
        return {row["name"]: row for row in vecdet.torch.profile.rows()}

    def test_interleaved_coroutines(self):
        """Each closes its own scope, and the records have their own times."""

        def scoped(name):
            with vecdet.torch.profile.scope(name):
                yield

        def run():
            first, second = scoped("first"), scoped("second")
            next(first)
            time.sleep(0.05)
            next(second)
            self.assertRaises(StopIteration, next, first)
            time.sleep(0.02)
            self.assertRaises(StopIteration, next, second)

        rows = self.recorded(run)
        self.assertNotIn("first", rows)  # it ended before a scope inside it
        self.assertLess(rows["second"]["total_ns"], 45e6)
        self.assertGreater(rows["second"]["total_ns"], 15e6)

    def test_functions_that_call_themselves(self):
        @vecdet.torch.profile.scope("recursive")
        def descend(depth):
            if depth > 0:
                descend(depth - 1)

        self.assertEqual(self.recorded(lambda: descend(4))["recursive"]["count"], 5)

    def test_ends_on_another_thread(self):
        def run():
            scope = vecdet.torch.profile.scope("moved")
            scope.__enter__()
            thread = threading.Thread(target=scope.__exit__)
            thread.start()
            thread.join()
            with vecdet.torch.profile.scope("afterwards"):
                pass

        rows = self.recorded(run)
        self.assertNotIn("moved", rows)
        self.assertEqual(rows["afterwards"]["count"], 1)

    def test_a_scope_that_threads_share(self):
        threads, rounds = 8, 2000
        shared = vecdet.torch.profile.scope("shared")

        def work():
            for _ in range(rounds):
                with shared:
                    pass

        rows = self.recorded(lambda: run_on_threads(threads, work))
        self.assertEqual(rows["shared"]["count"], threads * rounds)

    def test_scopes_functions_and_operators(self):
        @vecdet.torch.profile.scope("whole")
        def step():
            with vecdet.torch.profile.scope("part"):
                logits = torch.randn(11, 3, requires_grad=True)
                labels = torch.zeros(11, dtype=torch.int64)
                ours.sigmoid_focal_loss(logits, labels=labels, reduction="sum").backward()

        step()  # not recorded
        vecdet.torch.profile.reset()
        vecdet.torch.profile.enable(torch_operators=not IS_STABLE)
        step()
        step()
        vecdet.torch.profile.disable()
        step()
        rows = {row["name"]: row for row in vecdet.torch.profile.rows()}
        self.assertEqual(rows["whole"]["count"], 2)
        self.assertEqual(rows["part"]["count"], 2)
        if not IS_STABLE:
            self.assertEqual(rows["vecdet::sigmoid_focal_loss/f32/11x3,11"]["count"], 2)
        self.assertTrue(any(name.startswith("sigmoid_focal_loss_and_grad/labels/f32/11x3/")
                            for name in rows))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.csv")
            vecdet.torch.profile.write(path)
            with open(path) as file:
                self.assertIn("whole", file.read())
        with self.assertRaisesRegex(RuntimeError, "profile.xyz"):
            vecdet.torch.profile.write("profile.xyz")
        vecdet.torch.profile.enable()
        vecdet.torch.profile.disable()
        self.assertEqual(vecdet.torch.profile.page_faults(), "")

    @unittest.skipUnless(IS_STABLE, "PyTorch's operators are recorded")
    def test_what_the_stable_abi_lacks(self):
        with self.assertRaisesRegex(RuntimeError, "only by a vecdet.torch that was built for this"):
            vecdet.torch.profile.enable(torch_operators=True)
        with self.assertRaisesRegex(RuntimeError, r"vecdet[.]torch[.]profile[.]enable: "
                                                  "torch_operators is False, expected True"):
            vecdet.torch.profile.enable(denormals=True)
        self.assertEqual(vecdet.torch.profile.denormals(), "")
        # As documented, there is one profile.
        self.assertIn("unless vecdet.torch was built", vecdet.torch.profile.enable.__doc__)
        rows = self.recorded(lambda: ours.box_area(some_boxes(5)))
        self.assertTrue(any("areas" in name for name in rows), rows)
        self.assertEqual(vecdet.profile.rows(), vecdet.torch.profile.rows())
        vecdet.profile.reset()
        self.assertEqual(vecdet.torch.profile.rows(), [])

    @unittest.skipIf(IS_STABLE, "PyTorch's operators are not recorded")
    def test_denormals(self):
        vecdet.torch.profile.enable(torch_operators=True, denormals=True)
        torch.relu(torch.full([10], 1e-40))
        torch.relu(torch.full([30], 1.0))
        vecdet.torch.profile.disable()
        report = vecdet.torch.profile.denormals()
        self.assertIn("25.00 %  aten::relu: 10 of 40 numbers", report)
        self.assertIn("torch.set_flush_denormal(True)", report)
        vecdet.torch.profile.enable(torch_operators=True)
        torch.relu(torch.full([10], 1e-40))
        vecdet.torch.profile.enable()
        vecdet.torch.profile.disable()
        self.assertEqual(vecdet.torch.profile.denormals(), "")
        with self.assertRaisesRegex(RuntimeError, "torch_operators is False, expected True"):
            vecdet.torch.profile.enable(denormals=True)


if __name__ == "__main__":
    unittest.main()
