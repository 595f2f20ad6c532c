# SPDX-License-Identifier: Apache-2.0
"""Rotated boxes, against torch and, where it has them, torchvision. Needs torch, torchvision and
vecdet on PYTHONPATH."""

import inspect
import re
import sys
import unittest

try:
    import torch
    import torchvision
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import vecdet.torch  # noqa: F401 (registers the operators)
from vecdet.torch import ops


def some_boxes(count, dtype=torch.float32):
    """Centre, width, height and an angle in degrees."""
    return torch.cat([torch.rand(count, 2) * 60, torch.rand(count, 2) * 40 + 1,
                      torch.rand(count, 1) * 360 - 180], 1).to(dtype)


def corners_of(boxes, sign):
    """[N, 4, 2], for angles in radians whose sine points down times sign."""
    x, y, w, h, angle = boxes.double().unbind(1)
    u = torch.stack([angle.cos(), sign * angle.sin()], 1)
    v = torch.stack([-u[:, 1], u[:, 0]], 1)
    u, v = u * w[:, None] / 2, v * h[:, None] / 2
    centre = torch.stack([x, y], 1)
    return torch.stack([centre - u - v, centre + u - v, centre + u + v, centre - u + v], 1)


class Rotated(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_conventions_agree(self):
        for dtype, within in ((torch.float32, 1e-5), (torch.float64, 1e-6)):
            a, b = some_boxes(20, dtype), some_boxes(30, dtype)
            expected = ops.rotated_box_iou(a, b, "torchvision")
            self.assertEqual(expected.dtype, dtype)
            self.assertTrue(((expected > 0) & (expected < 1)).any())
            for angles, factor in (("detectron2", 1), ("opencv", -1),
                                   ("ultralytics", -torch.pi / 180), ("mmcv", -torch.pi / 180),
                                   ("mmcv_counter_clockwise", torch.pi / 180)):
                scale = torch.tensor([1, 1, 1, 1, factor], dtype=dtype)
                torch.testing.assert_close(ops.rotated_box_iou(a * scale, b * scale, angles),
                                           expected, rtol=0, atol=within)
            torch.testing.assert_close(ops.elementwise_rotated_iou(a, b[:20], "torchvision"),
                                       expected[:, :20].diagonal(), rtol=0, atol=0)

    def test_upright(self):
        a, b = some_boxes(20), some_boxes(30)
        a[:, 4], b[:, 4] = 0, 180
        corners = [torchvision.ops.box_convert(boxes[:, :4], "cxcywh", "xyxy") for boxes in (a, b)]
        self.assertTrue(torch.equal(ops.rotated_box_iou(a, b, "opencv"),
                                    torchvision.ops.box_iou(*corners)))

    def test_half_precision(self):
        a = some_boxes(9).half()
        found = ops.rotated_box_iou(a, a, "torchvision")
        self.assertEqual(found.dtype, torch.float16)
        exact = ops.rotated_box_iou(a.float(), a.float(), "torchvision")
        self.assertTrue(torch.equal(found, exact.half()))
        self.assertEqual(ops.rotated_box_area(a).dtype, torch.float32)

    def test_formats(self):
        boxes = some_boxes(40, torch.float64)
        radians = boxes.clone()
        radians[:, 4] *= torch.pi / 180
        for angles, given, sign in (("torchvision", boxes, -1), ("opencv", boxes, 1),
                                    ("ultralytics", radians, 1)):
            points = ops.rotated_box_convert(given, "cxcywhr", "xyxyxyxy", angles)
            corners = corners_of(radians, sign)
            torch.testing.assert_close(points, corners.flatten(1))
            torch.testing.assert_close(
                ops.rotated_box_convert(given, "cxcywhr", "xyxy", angles),
                torch.cat([corners.amin(1), corners.amax(1)], 1))
            torch.testing.assert_close(
                ops.rotated_box_convert(points, "xyxyxyxy", "cxcywhr", angles), given)
        torch.testing.assert_close(
            ops.rotated_box_convert(boxes, "cxcywhr", "xywhr", "torchvision")[:, :2],
            corners_of(radians, -1)[:, 0])
        torch.testing.assert_close(ops.rotated_box_area(boxes), boxes[:, 2] * boxes[:, 3])

    def test_nms(self):
        boxes, scores, classes = some_boxes(200), torch.rand(200), torch.randint(0, 3, (200,))
        overlaps = ops.rotated_box_iou(boxes, boxes, "torchvision")
        for idxs in (None, classes):
            rest, kept = scores.argsort(descending=True).tolist(), []
            while rest:
                best = rest.pop(0)
                kept.append(best)
                rest = [k for k in rest if overlaps[best, k] <= 0.3
                        or idxs is not None and idxs[k] != idxs[best]]
            found = ops.rotated_nms(boxes, scores, 0.3, "torchvision", idxs)
            self.assertEqual(found.tolist(), kept)

    def test_prob_iou(self):
        boxes, scores, classes = some_boxes(200), torch.rand(200), torch.randint(0, 3, (200,))
        overlaps = ops.pairwise_prob_iou(boxes, boxes, "torchvision")
        torch.testing.assert_close(
            overlaps.double(), ops.pairwise_prob_iou(boxes.double(), boxes.double(), "torchvision"),
            rtol=0, atol=1e-5)
        self.assertTrue(torch.equal(ops.elementwise_prob_iou(boxes[1:], boxes[:-1], "torchvision"),
                                    overlaps.diagonal(1)))
        order = scores.argsort(descending=True).tolist()
        for idxs in (None, classes):
            kept = [each for i, each in enumerate(order) if not any(
                overlaps[each, k] >= 0.3 and (idxs is None or idxs[each] == idxs[k])
                for k in order[:i])]
            self.assertEqual(ops.prob_iou_nms(boxes, scores, 0.3, "torchvision", idxs).tolist(),
                             kept)

    def test_prob_iou_loss(self):
        a = some_boxes(30, torch.float64)
        b = a + torch.rand(30, 5, dtype=torch.float64) * 4
        weights = torch.rand(30)
        for angles in ("torchvision", "ultralytics"):
            given = a.clone().requires_grad_()
            losses = ops.prob_iou_loss(given, b, angles)
            torch.testing.assert_close(losses.detach(), 1 - ops.elementwise_prob_iou(a, b, angles))
            self.assertTrue(torch.autograd.gradcheck(
                lambda x: ops.prob_iou_loss(x, b, angles, "sum", 0.5, weights), given, atol=1e-4,
                check_undefined_grad=False))
            loss = ops.prob_iou_loss(given, b, angles, "mean", box_weights=weights)
            torch.testing.assert_close(loss, (losses * weights).mean())
            single = a.float().requires_grad_()
            ops.prob_iou_loss(single, b.float(), angles, "sum").backward()
            losses.sum().backward()
            torch.testing.assert_close(single.grad.double(), given.grad, rtol=1e-3, atol=1e-5)

    def test_task_aligned(self):
        points = torch.stack([torch.arange(8).repeat(8), torch.arange(8).repeat_interleave(8)],
                             1) * 10.0 + 5
        boxes = [torch.tensor([[40.0, 40, 50, 8, 45], [60, 20, 20, 20, 0]]),
                 torch.tensor([[30.0, 50, 12, 50, 20]])]
        classes = [torch.tensor([1, 0]), torch.tensor([2])]
        scores, predicted = torch.rand(2, 64, 3), torch.empty(2, 64, 5)
        for image in (0, 1):
            near = boxes[image][torch.randint(len(boxes[image]), (64,))]
            predicted[image] = near + torch.rand(64, 5) * 3
        given = scores, predicted, points, [(8, 8)], boxes, classes
        matches, targets = ops.assign_rotated_task_aligned(*given, "opencv", top=4)
        self.assertEqual((matches >= 0).sum(1).tolist(), [8, 4])
        self.assertEqual([(matches == box).sum().item() for box in range(3)], [4, 4, 4])
        self.assertTrue(torch.equal(targets > 0, matches >= 0))
        for image, every in enumerate((boxes[0], boxes[1])):
            first = 2 * image
            for own in range(len(every)):
                mine = (matches[image] == first + own).nonzero()[:, 0]
                x, y, w, h, angle = every[own].double().tolist()
                dx, dy = (points[mine].double() - torch.tensor([x, y])).unbind(1)
                turn = torch.tensor(angle * torch.pi / 180).double()
                self.assertTrue(bool(((dx * turn.cos() + dy * turn.sin()).abs() <= w / 2).all()))
                self.assertTrue(bool(((dy * turn.cos() - dx * turn.sin()).abs() <= h / 2).all()))
                overlaps = ops.pairwise_prob_iou(every[own:own + 1], predicted[image, mine],
                                                 "opencv")[0].double()
                metrics = scores[image, mine, classes[image][own]].double() ** 0.5 * overlaps ** 6
                torch.testing.assert_close(targets[image, mine].double(),
                                           metrics * overlaps.max() / (metrics.max() + 1e-9),
                                           rtol=1e-4, atol=1e-8)
        turn = torch.tensor([1.0, 1, 1, 1, -torch.pi / 180])
        for k, factor in (("detectron2", torch.tensor([1.0, 1, 1, 1, -1])),
                          ("mmcv_counter_clockwise", turn)):
            found, _ = ops.assign_rotated_task_aligned(
                scores, predicted * factor, points, [(8, 8)], [own * factor for own in boxes],
                classes, k, top=4)
            self.assertTrue(torch.equal(found, matches))
        alone, soft = ops.assign_rotated_task_aligned(
            scores[1], predicted[1], points, [(8, 8)], boxes[1], classes[1], "opencv", top=4)
        self.assertTrue(torch.equal(torch.where(alone < 0, alone, alone + 2), matches[1]))
        self.assertTrue(torch.equal(soft, targets[1]))
        region = torch.tensor([[0.0, 0, 30, 80]])
        found, _ = ops.assign_rotated_task_aligned(*given, "opencv", top=4,
                                                   regions=[region, region[:0]])
        ignored = (points[:, 0] < 30) & (matches[0] < 0)
        self.assertTrue(torch.equal(found[0], torch.where(ignored, -2, matches[0])))
        self.assertTrue(torch.equal(found[1], matches[1]))
        with self.assertRaisesRegex(RuntimeError, r"predicted.shape is \[2, 64, 4\]"):
            ops.assign_rotated_task_aligned(scores, predicted[..., :4], points, [(8, 8)], boxes,
                                            classes, "opencv")

    def test_torchvision(self):
        """torchvision 0.27 has rotated boxes."""
        if "fmt" not in inspect.signature(torchvision.ops.box_iou).parameters:
            self.skipTest("this torchvision has no rotated boxes")
        a, b = some_boxes(20), some_boxes(30)
        torch.testing.assert_close(ops.rotated_box_iou(a, b, "torchvision"),
                                   torchvision.ops.box_iou(a, b, fmt="cxcywhr"), rtol=0, atol=1e-4)
        for source, target in (("cxcywhr", "xywhr"), ("cxcywhr", "xyxyxyxy")):
            torch.testing.assert_close(ops.rotated_box_convert(a, source, target, "torchvision"),
                                       torchvision.ops.box_convert(a, source, target), rtol=0,
                                       atol=1e-4)

    def test_formats_of_torchvision(self):
        """box_iou, box_convert and box_area take torchvision 0.27's formats."""
        boxes, others = some_boxes(20, torch.float64), some_boxes(30, torch.float64)
        expected = ops.rotated_box_iou(boxes, others, "torchvision")
        for fmt in ("cxcywhr", "xywhr", "xyxyxyxy"):
            a, b = (each if fmt == "cxcywhr" else ops.box_convert(each, "cxcywhr", fmt)
                    for each in (boxes, others))
            torch.testing.assert_close(ops.box_iou(a, b, fmt), expected)
            torch.testing.assert_close(ops.box_area(a, fmt), boxes[:, 2] * boxes[:, 3])
            if fmt != "cxcywhr":
                torch.testing.assert_close(ops.box_convert(a, fmt, "cxcywhr"), boxes)
                torch.testing.assert_close(
                    ops.box_convert(a.reshape(4, 5, -1), fmt, "cxcywhr").reshape(20, 5), boxes)
        with self.assertRaisesRegex(RuntimeError, "a.shape is"):
            ops.box_iou(boxes[:, :4], others, "cxcywhr")
        for fmt, numbers in (("cxcywhr", 5), ("xywhr", 5), ("xyxyxyxy", 8)):
            for bad in (boxes[:, :4], boxes.new_ones(4, 5, numbers)):
                expected = (rf"^vecdet::box_area: boxes.shape is {re.escape(str(list(bad.shape)))}, "
                            rf"expected \[N, {numbers}\] for {fmt}$")
                with self.assertRaisesRegex(RuntimeError, expected):
                    ops.box_area(bad, fmt)

    def test_errors(self):
        boxes = some_boxes(3)
        for call, text in (
                (lambda: ops.rotated_box_iou(boxes[:, :4], boxes, "opencv"), "a.shape is"),
                (lambda: ops.elementwise_rotated_iou(boxes, boxes[:2], "opencv"), "b.shape is"),
                (lambda: ops.rotated_box_convert(boxes, "xywhr", "xyxy", "opencv"), "is xywhr"),
                (lambda: ops.rotated_nms(boxes, torch.rand(2), 0.5, "opencv"), "scores.shape is"),
                (lambda: ops.rotated_nms(boxes, torch.rand(3), 2, "opencv"), "iou_threshold is 2")):
            with self.assertRaisesRegex(RuntimeError, text):
                call()
        with self.assertRaisesRegex(ValueError, "angles.*mmdet"):
            ops.rotated_box_iou(boxes, boxes, "mmdet")


if __name__ == "__main__":
    unittest.main()
