# SPDX-License-Identifier: Apache-2.0
"""The NumPy functions against the same rules in plain NumPy."""
import itertools
import unittest

import numpy as np
import vecdet
from support import generator, iou, nms, numerical_grad, some_boxes


class Detections(unittest.TestCase):
    def test_nms(self):
        for dtype in (np.float32, np.float64):
            for count in (1, 7, 300):
                boxes = some_boxes(count, dtype=dtype)
                scores = generator.random(count).astype(dtype)
                classes = generator.integers(-3, 3, count)
                for threshold in (0.2, 0.5):
                    self.assertEqual(vecdet.nms(boxes, scores, threshold).tolist(),
                                     nms(boxes, scores, threshold).tolist())
                    self.assertEqual(vecdet.batched_nms(boxes, scores, classes, threshold).tolist(),
                                     nms(boxes, scores, threshold, classes).tolist())

    def test_soft_nms(self):
        boxes, scores = some_boxes(40, dtype=np.float64), generator.random(40)
        for method in ("hard", "linear", "gaussian"):
            left, expected, picked = scores.copy(), [], []
            remaining = list(range(40))
            while remaining:
                best = max(remaining, key=lambda k: (left[k], -k))
                remaining.remove(best)
                picked.append(best)
                expected.append(left[best])
                for k in remaining:
                    overlap = iou(boxes[[best]], boxes[[k]])[0, 0]
                    left[k] *= {"hard": float(overlap < 0.3),
                                "linear": 1 - overlap if overlap >= 0.3 else 1,
                                "gaussian": np.exp(-overlap**2 / 0.5)}[method]
                remaining = [k for k in remaining if left[k] >= 1e-3]
            kept, reduced = vecdet.soft_nms(boxes, scores, method=method)
            self.assertEqual(kept.tolist(), picked)
            np.testing.assert_allclose(reduced, expected, rtol=1e-9)

    def test_filter_topk(self):
        logits = generator.normal(0, 3, (50, 20)).astype(np.float32)
        values, places = vecdet.filter_topk(logits, 0.7, 40)
        flat = logits.reshape(-1)
        order = np.argsort(-flat, kind="stable")
        order = order[flat[order] > np.log(0.7 / 0.3)][:40]
        self.assertEqual(places.tolist(), order.tolist())
        self.assertEqual(values.tolist(), flat[order].tolist())
        chances = generator.random(30).astype(np.float32)
        values, _ = vecdet.filter_topk(chances, 0.6, 99, kind="probabilities")
        self.assertEqual(values.tolist(), sorted(chances[chances > 0.6].tolist(), reverse=True))

    def test_postprocess(self):
        """RetinaNet: threshold, best k per level, decoding, clipping, NMS per class."""
        anchors = some_boxes(200)
        levels, sizes = [150, 50], [(90, 80), (70, 100)]
        logits = generator.normal(-2, 2, (2, 200, 3)).astype(np.float32)
        deltas = generator.normal(0, 0.2, (2, 200, 4)).astype(np.float32)
        found = vecdet.postprocess(logits, deltas, anchors, sizes, levels, max_candidates=100)
        for image, size in enumerate(sizes):
            chosen, first = [], 0
            for level in levels:
                part = logits[image, first:first + level].reshape(-1)
                order = np.argsort(-part, kind="stable")
                order = order[1 / (1 + np.exp(-part[order].astype(np.float64))) > 0.05][:100]
                chosen += [(first + place // 3, place % 3) for place in order]
                first += level
            rows, labels = np.array(chosen).T
            boxes = vecdet.decode_boxes(deltas[image, rows], anchors[rows], image_size=size)
            scores = (1 / (1 + np.exp(-logits[image, rows, labels].astype(np.float64)))).astype(
                np.float32)
            kept = nms(boxes, scores, 0.5, labels)[:300]
            self.assertEqual(found[image].labels.tolist(), labels[kept].tolist())
            np.testing.assert_allclose(found[image].boxes, boxes[kept], rtol=1e-6)
            np.testing.assert_allclose(found[image].scores, scores[kept], rtol=1e-6)

    def test_lists_of_classes(self):
        """NMS per class does not depend on the other classes, nor on boxes with lower scores."""
        anchors, sizes = some_boxes(200), [(90, 80), (70, 100)]
        logits = generator.normal(-2, 2, (2, 200, 3)).astype(np.float32)
        deltas = generator.normal(0, 0.2, (2, 200, 4)).astype(np.float32)
        thresholds = np.array([0.2, 0.05, 0.3])

        def run(**options):
            return vecdet.postprocess(logits, deltas, anchors, sizes, detector="fcos",
                                      centerness=np.full((2, 200), 20, np.float32),
                                      max_detections=1000, score_threshold=0.05, **options)
        for all_, part in zip(run(), run(classes=[2, 0], class_thresholds=thresholds)):
            chosen = (all_.labels != 1) & (all_.scores > thresholds[all_.labels])
            self.assertTrue(0 < chosen.sum() < len(chosen))
            for every, some in zip(all_, part):
                np.testing.assert_array_equal(every[chosen], some)
        groups = np.array([4, -2, 4])
        for all_, part in zip(run(iou_threshold=1), run(class_groups=groups)):
            kept = nms(all_.boxes, all_.scores, 0.6, groups[all_.labels])
            for every, some in zip(all_, part):
                np.testing.assert_array_equal(every[kept], some)
        queries = generator.uniform(0.2, 0.6, (2, 200, 4)).astype(np.float32)
        for softmax in (False, True):
            options = {"softmax": softmax, "score_threshold": 0.05, "max_detections": 1000}
            own = thresholds[:3 - softmax]
            for all_, part in zip(
                    vecdet.postprocess_detr(logits, queries, sizes, **options),
                    vecdet.postprocess_detr(logits, queries, sizes, classes=[0],
                                            class_thresholds=own, **options)):
                chosen = (all_.labels == 0) & (all_.scores > own[0])
                self.assertTrue(0 < chosen.sum() < len(chosen))
                for every, some in zip(all_[:-1], part[:-1]):  # without masks
                    np.testing.assert_array_equal(every[chosen], some)

    def test_postprocess_detr(self):
        logits = generator.normal(-1, 2, (2, 30, 5)).astype(np.float32)
        boxes = generator.uniform(0.2, 0.6, (2, 30, 4)).astype(np.float32)
        sizes = [(100, 200), (300, 50)]
        found = vecdet.postprocess_detr(logits, boxes, sizes, max_detections=20)
        softmaxed = vecdet.postprocess_detr(logits, boxes, sizes, softmax=True,
                                            score_threshold=0.4)
        for image, (height, width) in enumerate(sizes):
            center, side = boxes[image, :, :2], boxes[image, :, 2:]
            corners = np.concatenate([center - side / 2, center + side / 2], 1)
            corners = np.clip(corners, 0, 1) * [width, height, width, height]
            flat = logits[image].reshape(-1)
            order = np.argsort(-flat, kind="stable")
            order = order[flat[order] > 0][:20]
            self.assertEqual(found[image].sources.tolist(), (order // 5).tolist())
            self.assertEqual(found[image].labels.tolist(), (order % 5).tolist())
            np.testing.assert_allclose(found[image].boxes, corners[order // 5], rtol=1e-4)
            chances = np.exp(logits[image].astype(np.float64))
            chances /= chances.sum(1, keepdims=True)
            best = chances[:, :-1].max(1)
            order = np.argsort(-best, kind="stable")
            order = order[best[order] > 0.4]
            self.assertEqual(softmaxed[image].sources.tolist(), order.tolist())
            np.testing.assert_allclose(softmaxed[image].scores, best[order], rtol=1e-5)

    def test_postprocess_box_head(self):
        proposals = [some_boxes(5), some_boxes(3)]
        logits = generator.normal(0, 2, (8, 4)).astype(np.float32)
        deltas = generator.normal(0, 0.5, (8, 16)).astype(np.float32)
        found = vecdet.postprocess_box_head(logits, deltas, proposals, [(100, 100)] * 2)
        first = 0
        for image, own in enumerate(proposals):
            rows = slice(first, first + len(own))
            first += len(own)
            chances = np.exp(logits[rows].astype(np.float64))
            chances = (chances / chances.sum(1, keepdims=True)).astype(np.float32)
            row, label = np.nonzero(chances[:, 1:] > 0.05)
            label += 1
            boxes = vecdet.decode_boxes(deltas[rows].reshape(-1, 4, 4)[row, label], own[row],
                                        (10, 10, 5, 5), (100, 100))
            scores = chances[row, label]
            large = (boxes[:, 2:] - boxes[:, :2] >= 1e-2).all(1)
            boxes, scores, label = boxes[large], scores[large], label[large]
            kept = nms(boxes, scores, 0.5, label)
            self.assertEqual(found[image].labels.tolist(), label[kept].tolist())
            np.testing.assert_allclose(found[image].boxes, boxes[kept], rtol=1e-5)


class Boxes(unittest.TestCase):
    def test_overlaps(self):
        for dtype in (np.float32, np.float64):
            a, b = some_boxes(20, dtype=dtype), some_boxes(30, dtype=dtype)
            self.assertTrue(np.array_equal(vecdet.box_iou(a, b), iou(a, b)))
            hull = (np.maximum(a[:, None, 2:], b[None, :, 2:])
                    - np.minimum(a[:, None, :2], b[None, :, :2]))
            hull_area = hull[..., 0] * hull[..., 1]
            areas = vecdet.box_area(a)[:, None] + vecdet.box_area(b)[None]
            union = areas / (1 + iou(a, b))
            np.testing.assert_allclose(vecdet.generalized_box_iou(a, b),
                                       iou(a, b) - (hull_area - union) / hull_area, atol=1e-5)
            shift = (a[:, None, :2] + a[:, None, 2:] - b[None, :, :2] - b[None, :, 2:]) / 2
            diou = iou(a, b) - (shift**2).sum(-1) / ((hull**2).sum(-1) + 1e-7)
            np.testing.assert_allclose(vecdet.distance_box_iou(a, b), diou, atol=1e-5)
            sides = [x[:, 2:] - x[:, :2] for x in (a, b)]
            angles = [np.arctan(s[:, 0] / s[:, 1]) for s in sides]
            v = 4 / np.pi**2 * (angles[0][:, None] - angles[1][None])**2
            ciou = diou - v**2 / (1 - iou(a, b) + v + 1e-7)
            np.testing.assert_allclose(vecdet.complete_box_iou(a, b), ciou, atol=1e-5)
            np.testing.assert_allclose(vecdet.elementwise_iou(a, b[:20], "ciou"),
                                       np.diag(ciou[:, :20]), atol=1e-5)

    def test_rotated(self):
        def corners_of(box, sign):
            x, y, w, h, angle = box.astype(np.float64)
            u = np.array([np.cos(angle), sign * np.sin(angle)])
            v = np.array([-u[1], u[0]])
            return [np.array([x, y]) + i * w / 2 * u + j * h / 2 * v
                    for i, j in ((-1, -1), (1, -1), (1, 1), (-1, 1))]

        def area(polygon):
            return sum(p[0] * q[1] - p[1] * q[0]
                       for p, q in zip(polygon, polygon[1:] + polygon[:1])) / 2

        def cut(polygon, normal, reach):
            """The part of a polygon with normal * p <= reach."""
            part = []
            for p, q in zip(polygon, polygon[1:] + polygon[:1]):
                before, after = normal @ p - reach, normal @ q - reach
                if before <= 0:
                    part.append(p)
                if before * after < 0:
                    part.append(p + before / (before - after) * (q - p))
            return part

        def overlap(a, b):
            both, first = b, a
            for p, q in zip(first, first[1:] + first[:1]):
                normal = np.array([q[1] - p[1], p[0] - q[0]])
                both = cut(both, normal, normal @ p)
            shared = area(both) if both else 0
            return shared / (area(a) + area(b) - shared)

        for angles, sign, unit in (("torchvision", -1, 180 / np.pi), ("opencv", 1, 180 / np.pi),
                                   ("ultralytics", 1, 1), ("mmcv_counter_clockwise", -1, 1)):
            for dtype, within in ((np.float32, 1e-5), (np.float64, 1e-12)):
                boxes = np.c_[generator.random((12, 2)) * 30, generator.random((12, 2)) * 30 + 1,
                              generator.random((12, 1)) * 6 - 3]
                turned = boxes.copy()
                turned[:, 4] *= unit
                turned = turned.astype(dtype)
                boxes = turned.astype(np.float64)
                boxes[:, 4] /= unit
                polygons = [corners_of(box, sign) for box in boxes]
                expected = [[overlap(a, b) for b in polygons] for a in polygons]
                found = vecdet.rotated_box_iou(turned, turned, angles)
                self.assertEqual(found.dtype, dtype)
                np.testing.assert_allclose(found, expected, rtol=0, atol=within)
                np.testing.assert_array_equal(
                    vecdet.elementwise_rotated_iou(turned[1:], turned[:-1], angles),
                    np.diag(found[1:]))
                points = vecdet.rotated_box_convert(turned, "cxcywhr", "xyxyxyxy", angles)
                np.testing.assert_allclose(points, np.reshape(polygons, (12, 8)), atol=1e-4)
                upright = vecdet.rotated_box_convert(turned, "cxcywhr", "xyxy", angles)
                np.testing.assert_allclose(
                    upright, [[*np.min(p, 0), *np.max(p, 0)] for p in polygons], atol=1e-4)
                back = vecdet.rotated_box_convert(points, "xyxyxyxy", "cxcywhr", angles)
                np.testing.assert_allclose(back[:, :4], turned[:, :4], atol=1e-4)
                np.testing.assert_array_equal(vecdet.rotated_box_area(turned),
                                              turned[:, 2] * turned[:, 3])
        corner = vecdet.rotated_box_convert(turned, "cxcywhr", "xywhr", "torchvision")
        points = vecdet.rotated_box_convert(turned, "cxcywhr", "xyxyxyxy", "torchvision")
        np.testing.assert_allclose(corner[:, :2], points[:, :2], atol=1e-12)
        np.testing.assert_array_equal(
            vecdet.rotated_box_convert(turned, "xywhr", "cxcywhr", "ultralytics"), turned)

    def test_rotated_nms(self):
        for dtype in (np.float32, np.float64):
            boxes = np.c_[generator.random((200, 2)) * 60, generator.random((200, 2)) * 30 + 1,
                          generator.random((200, 1)) * 360 - 180].astype(dtype)
            scores, classes = generator.random(200).astype(dtype), generator.integers(0, 3, 200)
            overlaps = vecdet.rotated_box_iou(boxes, boxes, "torchvision")
            for idxs in (None, classes):
                for threshold in (0.1, 0.5):
                    rest, kept = list(np.argsort(-scores, kind="stable")), []
                    while rest:
                        best = rest.pop(0)
                        kept.append(best)
                        rest = [k for k in rest if overlaps[best, k] <= threshold
                                or idxs is not None and idxs[k] != idxs[best]]
                    found = vecdet.rotated_nms(boxes, scores, threshold, "torchvision", idxs)
                    self.assertEqual(found.tolist(), kept)
        with self.assertRaisesRegex(ValueError, "rotated_nms: iou_threshold is 50"):
            vecdet.rotated_nms(boxes, scores, 50, "opencv")
        with self.assertRaisesRegex(ValueError, r"rotated_nms: boxes.shape is \[200, 4\]"):
            vecdet.rotated_nms(boxes[:, :4], scores, 0.5, "opencv")

    def test_prob_iou(self):
        random = np.random.default_rng(7)
        for dtype, within in ((np.float32, 1e-5), (np.float64, 1e-10)):
            boxes = np.c_[random.random((200, 2)) * 60, random.random((200, 2)) * 30 + 1,
                          random.random((200, 1)) * 6].astype(dtype)
            scores, classes = random.random(200).astype(dtype), random.integers(0, 3, 200)
            x, y, w, h, angle = boxes.astype(np.float64).T
            p, q, c, s = w ** 2 / 12, h ** 2 / 12, np.cos(angle), np.sin(angle)
            a, b, c = (np.add.outer(each, each) for each in (
                p * c * c + q * s * s, p * s * s + q * c * c, (p - q) * c * s))
            dx, dy, det = np.subtract.outer(x, x), np.subtract.outer(y, y), a * b - c * c
            power = ((a * dy ** 2 + b * dx ** 2 - 2 * c * dx * dy) / (4 * (det + 1e-7)) + np.log(
                det / (4 * np.outer(w * h, w * h) / 144 + 1e-7) + 1e-7) / 2).clip(1e-7, 100)
            expected = 1 - np.sqrt(1 - np.exp(-power) + 1e-7)
            found = vecdet.pairwise_prob_iou(boxes, boxes, "ultralytics")
            self.assertEqual(found.dtype, dtype)
            np.testing.assert_allclose(found, expected, rtol=0, atol=within)
            np.testing.assert_array_equal(
                vecdet.elementwise_prob_iou(boxes[1:], boxes[:-1], "ultralytics"),
                found.diagonal(1))
            order = np.argsort(-scores, kind="stable")
            for idxs in (None, classes):
                for threshold in (0.1, 0.5):
                    kept = [each for i, each in enumerate(order) if not any(
                        found[each, k] >= dtype(threshold)
                        and (idxs is None or idxs[each] == idxs[k]) for k in order[:i])]
                    self.assertEqual(vecdet.prob_iou_nms(boxes, scores, threshold, "ultralytics",
                                                         idxs).tolist(), kept)
        with self.assertRaisesRegex(ValueError, "prob_iou_nms: iou_threshold is 50"):
            vecdet.prob_iou_nms(boxes, scores, 50, "opencv")
        with self.assertRaisesRegex(ValueError, r"boxes2.shape is \[2, 5\], expected \[3, 5\]"):
            vecdet.elementwise_prob_iou(boxes[:3], boxes[:2], "opencv")

    def test_prob_iou_loss(self):
        random = np.random.default_rng(7)
        for dtype, within in ((np.float32, 1e-5), (np.float64, 1e-6)):
            a = np.c_[random.random((50, 2)) * 9, random.random((50, 2)) * 30 + 9,
                      random.random((50, 1)) * 6].astype(dtype)
            b = (a + random.random((50, 5)) * [9, 9, 9, 9, 0.5]).astype(dtype)
            weights = random.random(50).astype(np.float32)
            expected = 1 - vecdet.elementwise_prob_iou(a, b, "ultralytics").astype(np.float64)
            losses = vecdet.prob_iou_loss(a, b, "ultralytics")
            self.assertEqual(losses.dtype, dtype)
            np.testing.assert_allclose(losses, expected, rtol=0, atol=within)
            for reduction, factor in (("sum", 2.0), ("mean", 2 / 50)):
                loss = vecdet.prob_iou_loss(a, b, "ultralytics", reduction, scale=2,
                                            box_weights=weights)
                self.assertAlmostEqual(loss, factor * (expected * weights).sum(), 3)
                again, grad = vecdet.prob_iou_loss_and_grad(a, b, "ultralytics", reduction, scale=2,
                                                            box_weights=weights)
                self.assertEqual(loss, again)
                exact, other = a.astype(np.float64), b.astype(np.float64)
                for k in range(5):
                    step = np.zeros(5)
                    step[k] = 1e-5
                    slope = np.subtract(*(vecdet.prob_iou_loss(
                        exact + sign * step, other, "ultralytics") for sign in (1, -1))) / 2e-5
                    np.testing.assert_allclose(grad[:, k], factor * weights * slope, atol=1e-5,
                                               rtol=1e-3)
        self.assertEqual(vecdet.prob_iou_loss(a[:0], b[:0], "ultralytics", "mean"), 0)
        with self.assertRaisesRegex(ValueError, r"boxes2.shape is \[2, 5\], expected \[3, 5\]"):
            vecdet.prob_iou_loss(a[:3], b[:2], "opencv")

    def test_rotated_errors(self):
        boxes = np.ones((3, 5), np.float32)
        with self.assertRaises(TypeError):
            vecdet.rotated_box_iou(boxes, boxes)  # there is no default convention
        for call, text in (
                (lambda: vecdet.rotated_box_iou(boxes, boxes, "mmdet"), "angles is 'mmdet'"),
                (lambda: vecdet.rotated_box_iou(boxes[:, :4], boxes, "opencv"),
                 r"boxes1.shape is \[3, 4\], expected \[N, 5\]"),
                (lambda: vecdet.elementwise_rotated_iou(boxes, boxes[:2], "opencv"),
                 r"boxes2.shape is \[2, 5\], expected \[3, 5\]"),
                (lambda: vecdet.rotated_box_convert(boxes, "xywhr", "xyxy", "opencv"),
                 "in_fmt is xywhr, expected cxcywhr"),
                (lambda: vecdet.rotated_box_convert(boxes, "xyxyxyxy", "xyxy", "opencv"),
                 r"boxes.shape is \[3, 5\], expected \[N, 8\]")):
            with self.assertRaisesRegex(ValueError, text):
                call()

    def test_formats(self):
        boxes = some_boxes(50, dtype=np.float64)
        x1, y1, x2, y2 = boxes.T
        formats = {"xyxy": boxes, "xywh": np.stack([x1, y1, x2 - x1, y2 - y1], 1),
                   "cxcywh": np.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], 1)}
        for source, values in formats.items():
            for target, expected in formats.items():
                found = vecdet.box_convert(values.reshape(5, 10, 4), source, target)
                np.testing.assert_allclose(found.reshape(-1, 4), expected, rtol=1e-12)
        self.assertEqual(vecdet.box_area(boxes).tolist(), ((x2 - x1) * (y2 - y1)).tolist())
        clipped = vecdet.clip_boxes_to_image(boxes, (60, 70))
        self.assertTrue(np.array_equal(clipped, np.clip(boxes, 0, [70, 60, 70, 60])))
        self.assertEqual(vecdet.remove_small_boxes(boxes, 10).tolist(),
                         np.nonzero(np.minimum(x2 - x1, y2 - y1) >= 10)[0].tolist())

    def test_coding(self):
        boxes, anchors = some_boxes(40, dtype=np.float64), some_boxes(40, dtype=np.float64)
        deltas = vecdet.encode_boxes(boxes, anchors, (10, 10, 5, 5))
        center = [(x[:, :2] + x[:, 2:]) / 2 for x in (boxes, anchors)]
        side = [x[:, 2:] - x[:, :2] for x in (boxes, anchors)]
        expected = np.concatenate([10 * (center[0] - center[1]) / side[1],
                                   5 * np.log(side[0] / side[1])], 1)
        np.testing.assert_allclose(deltas, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(vecdet.decode_boxes(deltas, anchors, (10, 10, 5, 5)), boxes,
                                   rtol=1e-9, atol=1e-9)
        batch = vecdet.decode_boxes(np.stack([deltas, deltas]), anchors, (10, 10, 5, 5),
                                    [(50, 60), (9, 9)])
        np.testing.assert_allclose(batch[0], np.clip(boxes, 0, [60, 50, 60, 50]), atol=1e-9)
        np.testing.assert_allclose(batch[1], np.clip(boxes, 0, 9), atol=1e-9)
        priors = vecdet.box_convert(anchors, "xyxy", "cxcywh")
        np.testing.assert_allclose(vecdet.decode_boxes(deltas, priors, (10, 10, 5, 5),
                                                       anchor_format="cxcywh"), boxes, atol=1e-9)
        distances = vecdet.encode_distances(boxes, anchors)
        expected = np.concatenate([center[1] - boxes[:, :2], boxes[:, 2:] - center[1]],
                                  1) / np.tile(side[1], 2)
        np.testing.assert_allclose(distances, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(vecdet.decode_distances(distances, anchors), boxes, atol=1e-9)

    def test_distributions(self):
        logits = generator.normal(0, 2, (6, 4, 16)).astype(np.float32)
        chances = np.exp(logits.astype(np.float64))
        chances /= chances.sum(-1, keepdims=True)
        expected = (chances * np.arange(16)).sum(-1)
        np.testing.assert_allclose(vecdet.decode_distributions(logits), expected, rtol=1e-5)
        points, strides = generator.uniform(0, 99, (6, 2)), np.array([8, 8, 8, 16, 16, 32])
        sides = expected * strides[:, None]
        boxes = np.concatenate([points - sides[:, :2], points + sides[:, 2:]], 1)
        np.testing.assert_allclose(vecdet.decode_distribution_boxes(logits, points, strides), boxes,
                                   rtol=1e-4, atol=1e-3)


class Targets(unittest.TestCase):
    def test_matching(self):
        anchors = some_boxes(300)
        truth = [some_boxes(5), np.zeros((0, 4), np.float32), some_boxes(3)]
        classes = [generator.integers(0, 9, len(boxes)) for boxes in truth]
        index = vecdet.AnchorIndex(anchors)
        found = vecdet.match_anchors(index, truth, classes, allow_low_quality=False)
        first = 0
        for image, boxes in enumerate(truth):
            expected, labels = np.full(300, -1), np.full(300, -1)
            if len(boxes):
                overlaps = iou(anchors, boxes)
                best = overlaps.max(1)
                own = overlaps.argmax(1)
                expected = np.where(best >= np.float32(0.5), own + first, np.where(
                    best < np.float32(0.4), -1, -2))
                labels = np.where(expected >= 0, classes[image][own], expected)
                self.assertTrue(np.array_equal(found[2][image], best))
            self.assertEqual(found[0][image].tolist(), expected.tolist())
            self.assertEqual(found[1][image].tolist(), labels.tolist())
            first += len(boxes)
        single = vecdet.match_anchors(anchors, truth[0], allow_low_quality=False)[0]
        self.assertEqual(single.tolist(), found[0][0].tolist())

    def test_anchors_and_assigners(self):
        sizes = [(10, 12), (5, 6)]
        anchors = vecdet.make_anchors((80, 96), sizes, [([16], [1]), ([32], [1])])
        points = vecdet.make_points(sizes, [8, 16])
        self.assertEqual((len(anchors), len(points)), (150, 150))
        self.assertEqual(anchors[120].tolist(), [-16, -16, 16, 16])
        self.assertEqual(points[121].tolist(), [24, 8])
        self.assertEqual(vecdet.make_anchors((256, 256), [(32, 32), (16, 16), (8, 8), (4, 4),
                                                          (2, 2)]).shape, (9 * 1364, 4))
        boxes = np.array([[10, 10, 60, 50]], np.float32)
        for matches in (vecdet.assign_atss(anchors, sizes, boxes),
                        vecdet.assign_fcos(anchors, sizes, [boxes])[0]):
            chosen = np.nonzero(matches == 0)[0]
            self.assertGreater(len(chosen), 0)
            center = (anchors[chosen, :2] + anchors[chosen, 2:]) / 2
            self.assertTrue(((center > boxes[0, :2]) & (center < boxes[0, 2:])).all())
        scores = np.full((150, 2), 0.5, np.float32)
        predicted = np.tile(boxes, (150, 1))
        matches, targets = vecdet.assign_task_aligned(scores, predicted, points, sizes, boxes, [1])
        self.assertEqual(np.count_nonzero(matches == 0), 10)
        np.testing.assert_allclose(targets[matches == 0], 1, rtol=1e-4)

    def test_small_boxes(self):
        points = vecdet.make_points([(10, 12)], [8])
        boxes = np.array([[9, 9, 11, 11], [53, 40, 56, 70]], np.float32)  # between the points
        predicted = np.repeat(boxes, [60, 60], 0)
        given = np.full((120, 1), 0.5, np.float32), predicted, points, [(10, 12)], boxes, [0, 0]
        self.assertTrue((vecdet.assign_task_aligned(*given)[0] == -1).all())
        yolo26 = {"least_side": 8, "grown_side": 16}
        matches, _ = vecdet.assign_task_aligned(*given, **yolo26)
        self.assertEqual(np.nonzero(matches == 0)[0].tolist(), [0, 1, 12, 13])
        low, high = [46.5, 40], [62.5, 70]
        inside = ((points > low) & (points < high)).all(1) & (np.arange(120) >= 60)
        self.assertEqual(np.nonzero(matches == 1)[0].tolist(), np.nonzero(inside)[0].tolist())
        matches, targets = vecdet.assign_task_aligned(*given, **yolo26, top=7, final_top=1)
        self.assertEqual(np.nonzero(matches == 0)[0].tolist(), [0])
        self.assertEqual(np.count_nonzero(targets), 2)
        with self.assertRaisesRegex(ValueError, "final_top is 11, expected 0 to 10"):
            vecdet.assign_task_aligned(*given, final_top=11)

    def test_rotated_task_aligned(self):
        """Against ultralytics' rule as operations on whole matrices, in float64."""
        sizes = [(12, 14), (6, 7)]
        points = vecdet.make_points(sizes, [8, 16])
        boxes = np.c_[generator.uniform(10, 90, (9, 2)), generator.uniform(4, 70, (9, 2)),
                      generator.uniform(-2, 2, 9)].astype(np.float32)
        classes = generator.integers(0, 3, 9)
        scores = generator.uniform(0.05, 0.9, (210, 3)).astype(np.float32)
        predicted = boxes[generator.integers(0, 9, 210)]
        predicted += generator.uniform(0.1, 3, (210, 5)).astype(np.float32) * [1, 1, 1, 1, 0.05]

        def covariances(of):
            x, y, w, h, angle = of.astype(float).T
            p, q, c, s = w * w / 12, h * h / 12, np.cos(angle), np.sin(angle)
            return x, y, p * c * c + q * s * s, p * s * s + q * c * c, (p - q) * c * s

        def expected(least_side, grown_side, final_top):
            x1, y1, a1, b1, c1 = (v[:, None] for v in covariances(boxes))
            x2, y2, a2, b2, c2 = covariances(predicted)
            a, b, c, dx, dy = a1 + a2, b1 + b2, c1 + c2, x2 - x1, y2 - y1
            det, eps = a * b - c * c, 1e-7
            roots = np.sqrt((a1 * b1 - c1 * c1) * (a2 * b2 - c2 * c2))
            distance = ((a * dy * dy + b * dx * dx - 2 * c * dx * dy) / (det + eps) / 4
                        + np.log(det / (4 * roots + eps) + eps) / 2).clip(eps, 100)
            overlaps = (1 - np.sqrt(1 - np.exp(-distance) + eps)).clip(0)
            x, y, w, h, angle = (v[:, None] for v in boxes.astype(float).T)
            w, h = (np.where(side < least_side, grown_side, side) for side in (w, h))
            dx, dy = points[:, 0] - x, points[:, 1] - y
            inside = ((abs(dx * np.cos(angle) + dy * np.sin(angle)) <= w / 2)
                      & (abs(dy * np.cos(angle) - dx * np.sin(angle)) <= h / 2))
            metrics = np.where(inside, scores[:, classes].T ** 0.5 * overlaps ** 6, 0)
            chosen = np.zeros(metrics.shape, bool)
            for own, metric in zip(chosen, metrics):
                own[np.argsort(-metric, kind="stable")[:10]] = True
            chosen &= metrics > 0
            best = np.where(inside, overlaps, 0).argmax(0)
            matches = np.where(chosen.sum(0) > 1, best, chosen.argmax(0))
            matches[~chosen.any(0)] = -1
            targets = np.zeros(len(points))
            for g in range(len(boxes)):
                mine = np.nonzero(matches == g)[0]
                if final_top:
                    matches[mine] = -1
                    mine = mine[np.argsort(-metrics[g, mine], kind="stable")[:final_top]]
                    matches[mine] = g
                if len(mine):
                    targets[mine] = (metrics[g, mine] * overlaps[g, mine].max()
                                     / (metrics[g, mine].max() + 1e-9))
            return matches, targets

        for least_side, grown_side, final_top in ((0, 0, 0), (30, 45, 0), (8, 16, 1)):
            given = dict(least_side=least_side, grown_side=grown_side, final_top=final_top)
            matches, targets = expected(**given)
            self.assertGreater(np.count_nonzero(matches >= 0), 6 if final_top else 30)
            for angles, factor in (("ultralytics", 1), ("mmcv_counter_clockwise", -1)):
                turn = np.array([1, 1, 1, 1, factor], np.float32)
                found, soft = vecdet.assign_rotated_task_aligned(
                    scores, predicted * turn, points, sizes, boxes * turn, classes, angles, **given)
                self.assertEqual(found.tolist(), matches.tolist())
                np.testing.assert_allclose(soft, targets, rtol=1e-3, atol=1e-9)
        both = vecdet.assign_rotated_task_aligned(
            np.stack([scores] * 2), np.stack([predicted] * 2), points, sizes, [boxes, boxes[:0]],
            [classes, []], "ultralytics", regions=[[[0, 0, 50, 50]], [[0, 0, 30, 30]]])[0]
        plain, _ = expected(0, 0, 0)
        covered = (points < 50).all(1)
        self.assertEqual(both[0].tolist(), np.where((plain < 0) & covered, -2, plain).tolist())
        self.assertEqual(both[1].tolist(), np.where((points < 30).all(1), -2, -1).tolist())
        with self.assertRaisesRegex(ValueError, r"boxes.shape is \[9, 4\], expected \[M, 5\]"):
            vecdet.assign_rotated_task_aligned(scores, predicted, points, sizes, boxes[:, :4],
                                               classes, "ultralytics")

    def test_sim_ota(self):
        """Against the formulas in NumPy."""
        sizes, strides = [(10, 12), (5, 6)], [8, 16]
        points = vecdet.make_points(sizes, strides)
        steps = np.repeat(strides, [120, 30])
        low = generator.uniform(0, 50, (7, 2))
        boxes = np.hstack([low, low + generator.uniform(5, 45, (7, 2))]).astype(np.float32)
        classes = generator.integers(0, 4, 7)
        logits = generator.normal(-1, 2, (150, 4)).astype(np.float32)
        objectness = generator.normal(-1, 2, 150).astype(np.float32)
        predicted = boxes[generator.integers(0, 7, 150)] + generator.uniform(
            -6, 6, (150, 4)).astype(np.float32)
        matches, targets = vecdet.assign_sim_ota(logits, objectness, predicted, points, sizes,
                                                 strides, boxes, classes)
        center = (boxes[:, :2] + boxes[:, 2:]) / 2
        in_box = ((points > boxes[:, None, :2]) & (points < boxes[:, None, 2:])).all(2)
        in_center = (abs(points - center[:, None]) < 2.5 * steps[:, None]).all(2)
        is_near = (in_box | in_center).any(0)
        ious = vecdet.box_iou(boxes, predicted).astype(float)
        p = np.sqrt(sigmoid(logits.astype(float)) * sigmoid(objectness.astype(float))[:, None])
        costs = -np.log1p(-p).sum(1) + (np.log1p(-p) - np.log(p))[:, classes].T
        costs = costs - 3 * np.log(ious + 1e-8) + 1e5 * ~(in_box & in_center)
        costs[:, ~is_near] = np.inf
        chosen = np.zeros(costs.shape, bool)
        for own, cost, overlaps in zip(chosen, costs, ious):
            wanted = max(1, int(np.sort(overlaps[is_near])[-10:].sum()))
            own[np.argsort(cost, kind="stable")[:wanted]] = True
        expected = np.where(chosen.sum(0) > 1, costs.argmin(0), chosen.argmax(0))
        expected[~chosen.any(0)] = -1
        self.assertEqual(matches.tolist(), expected.tolist())
        self.assertGreater(vecdet.count_foreground(matches), 20)
        self.assertTrue((chosen.sum(0) > 1).any())
        np.testing.assert_allclose(targets, np.where(matches < 0, 0, ious[matches, range(150)]),
                                   rtol=1e-6)
        batch = vecdet.assign_sim_ota(logits[None], objectness[None], predicted[None], points,
                                      sizes, strides, [boxes], [classes])
        self.assertEqual(batch[0].tolist(), [matches.tolist()])
        with self.assertRaisesRegex(ValueError, "objectness.shape is"):
            vecdet.assign_sim_ota(logits, objectness[1:], predicted, points, sizes, strides, boxes,
                                  classes)

    def test_regions_in_assigners(self):
        sizes = [(10, 12), (5, 6)]
        anchors = vecdet.make_anchors((80, 96), sizes, [([16], [1]), ([32], [1])])
        points = vecdet.make_points(sizes, [8, 16])
        boxes, regions = [[[10, 10, 60, 50]], []], [[[40, 30, 90, 77]], [[-9, -9, 20, 50]]]
        predicted = np.tile(np.array([[10, 10, 60, 50]], np.float32), (2, 150, 1))
        given = np.full((2, 150, 2), 0.5, np.float32), predicted, points, sizes, boxes, [[1], []]
        plain, targets = vecdet.assign_task_aligned(*given)
        found, same_targets = vecdet.assign_task_aligned(*given, regions=regions)
        self.assertEqual(targets.tolist(), same_targets.tolist())
        for image in (0, 1):
            region = np.array(regions[image][0])
            inside = ((points > region[:2]) & (points < region[2:])).all(1)
            expected = np.where((plain[image] < 0) & inside, -2, plain[image])
            self.assertEqual(found[image].tolist(), expected.tolist())
            self.assertGreater(np.count_nonzero(expected == -2), 5)
            for assign in (vecdet.assign_atss, vecdet.assign_fcos):
                for threshold in (0.5, 0.2):
                    low = np.maximum(anchors[:, :2], region[:2])
                    high = np.minimum(anchors[:, 2:], region[2:])
                    shared = np.maximum(high - low, 0).prod(1)
                    covered = shared / (anchors[:, 2:] - anchors[:, :2]).prod(1) > threshold
                    plain_anchors = assign(anchors, sizes, boxes)[image]
                    expected = np.where((plain_anchors < 0) & covered, -2, plain_anchors)
                    matches = assign(anchors, sizes, boxes, regions=regions,
                                     region_threshold=threshold)[image]
                    self.assertEqual(matches.tolist(), expected.tolist())
        with self.assertRaisesRegex(ValueError, "regions has 1 images, expected 2, as in boxes"):
            vecdet.assign_atss(anchors, sizes, boxes, regions=regions[:1])

    def test_samples(self):
        labels = [generator.integers(-2, 3, 500), generator.integers(-2, 0, 40)]
        found = vecdet.sample_balanced(labels, 64, 0.25, seed=3)
        for (positives, negatives), own in zip(found, labels):
            self.assertTrue((own[positives] >= 0).all() and (own[negatives] == -1).all())
            self.assertEqual(len(positives), min(16, np.count_nonzero(own >= 0)))
            self.assertEqual(len(negatives), min(64 - len(positives), np.count_nonzero(own == -1)))
        again = vecdet.sample_balanced(labels, 64, 0.25, seed=3)
        self.assertEqual(found[0][0].tolist(), again[0][0].tolist())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Losses(unittest.TestCase):
    """Losses are compared with their formulas, gradients with finite differences, in double."""

    def check(self, loss, loss_and_grad, formula, inputs, *arguments, rtol=1e-4, **options):
        for reduction, expected in (("none", formula), ("sum", formula.sum()),
                                    ("mean", formula.mean())):
            found = loss(inputs, *arguments, reduction=reduction, **options)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
        value, grad = loss_and_grad(inputs, *arguments, **options)
        self.assertAlmostEqual(value, formula.sum(), delta=1e-5 * (1 + abs(formula.sum())))
        self.assertEqual(grad.dtype, inputs.dtype)
        if inputs.dtype == np.float64:
            numeric = numerical_grad(lambda x: loss(x, *arguments, reduction="sum", **options),
                                     inputs)
            np.testing.assert_allclose(grad, numeric, rtol=rtol, atol=rtol / 100)

    def test_focal(self):
        logits = generator.normal(0, 2, (12, 5))
        labels = generator.integers(-1, 5, 12)
        targets = np.zeros((12, 5))
        targets[labels >= 0, labels[labels >= 0]] = 1
        p = sigmoid(logits)
        chance = p * targets + (1 - p) * (1 - targets)
        weight = 0.25 * targets + 0.75 * (1 - targets)
        formula = -weight * (1 - chance)**2 * np.log(chance)
        self.check(vecdet.sigmoid_focal_loss, vecdet.sigmoid_focal_loss_and_grad, formula, logits,
                   labels=labels)
        self.check(vecdet.sigmoid_focal_loss, vecdet.sigmoid_focal_loss_and_grad, formula, logits,
                   targets)
        self.check(vecdet.sigmoid_focal_loss, vecdet.sigmoid_focal_loss_and_grad, formula,
                   logits.astype(np.float32), labels=labels)
        weights = generator.random(12).astype(np.float32)
        self.check(vecdet.sigmoid_focal_loss, vecdet.sigmoid_focal_loss_and_grad,
                   formula * weights[:, None], logits, labels=labels, row_weights=weights)

    def test_scored(self):
        logits = generator.normal(0, 2, (9, 4))
        labels, scores = generator.integers(-1, 4, 9), generator.random(9).astype(np.float32)
        targets = np.zeros((9, 4))
        targets[labels >= 0, labels[labels >= 0]] = scores[labels >= 0]
        p = sigmoid(logits)
        entropy = -(targets * np.log(p) + (1 - targets) * np.log(1 - p))
        self.check(vecdet.bce_loss, vecdet.bce_loss_and_grad, entropy, logits, labels, scores)
        self.check(vecdet.quality_focal_loss, vecdet.quality_focal_loss_and_grad,
                   np.abs(p - targets)**2 * entropy, logits, labels, scores)
        self.check(vecdet.varifocal_loss, vecdet.varifocal_loss_and_grad,
                   np.where(targets > 0, targets * entropy, 0.75 * p**2 * -np.log(1 - p)), logits,
                   labels, scores)

    def test_softmax(self):
        logits = generator.normal(0, 2, (2, 50, 5)).astype(np.float32)
        labels = generator.integers(0, 5, (2, 50))
        labels[generator.random((2, 50)) < 0.9] = 0
        chances = np.exp(logits.astype(np.float64))
        chances /= chances.sum(-1, keepdims=True)
        one_hot = np.eye(5)[labels]
        losses = -np.log((chances * one_hot).sum(-1))
        np.testing.assert_allclose(vecdet.softmax_cross_entropy_loss(logits, labels), losses,
                                   rtol=1e-5)
        self.assertAlmostEqual(vecdet.softmax_cross_entropy_loss(logits, labels, "mean"),
                               losses.mean(), places=5)
        loss, grad = vecdet.softmax_cross_entropy_loss_and_grad(logits, labels)
        self.assertAlmostEqual(loss, losses.sum(), places=3)
        np.testing.assert_allclose(grad, chances - one_hot, atol=1e-6)
        mined, _ = vecdet.softmax_cross_entropy_loss_and_grad(logits, labels,
                                                              negatives_per_foreground=3)
        expected = 0.0
        for own, label in zip(losses, labels):
            hard = np.sort(own[label == 0])[::-1]
            expected += own[label > 0].sum() + hard[:3 * np.count_nonzero(label)].sum()
        self.assertAlmostEqual(mined, expected, places=3)

    def test_ctc(self):
        logits = generator.normal(0, 2, (4, 3, 3)).astype(np.float32)
        targets, lengths = np.array([[1, 2], [1, 1], [2, 0]]), np.array([2, 2, 1])
        chances = np.exp(logits.astype(np.float64))
        chances /= chances.sum(-1, keepdims=True)
        losses = np.zeros(3)
        for sample, (target, length) in enumerate(zip(targets, lengths)):
            for path in itertools.product(range(3), repeat=4):
                merged = [own for own, _ in itertools.groupby(path)]
                if [own for own in merged if own] == target[:length].tolist():
                    losses[sample] += chances[np.arange(4), sample, path].prod()
        losses = -np.log(losses)
        for given, weights in ((targets, None), (np.array([1, 2, 1, 1, 2]), np.array([1., 0, 2]))):
            factors = 1 if weights is None else weights
            arguments = {"target_lengths": lengths, "sample_weights": weights}
            np.testing.assert_allclose(vecdet.ctc_loss(logits, given, **arguments),
                                       losses * factors, rtol=1e-5)
            self.assertAlmostEqual(vecdet.ctc_loss(logits, given, reduction="mean", **arguments),
                                   (losses * factors / lengths).mean(), places=5)
            loss, grad = vecdet.ctc_loss_and_grad(logits, given, **arguments)
            self.assertAlmostEqual(loss, (losses * factors).sum(), places=4)
            moved = logits.astype(np.float64)
            moved[2, 2, 1] += 1e-4
            above = vecdet.ctc_loss(moved, given, reduction="sum", **arguments)
            moved[2, 2, 1] -= 2e-4
            below = vecdet.ctc_loss(moved, given, reduction="sum", **arguments)
            self.assertAlmostEqual(grad[2, 2, 1], (above - below) / 2e-4, places=5)
        self.assertEqual(vecdet.ctc_loss(logits, targets[:, :1], [4, 0, 4])[1], np.inf)
        self.assertEqual(vecdet.ctc_loss(logits, targets[:, :1], [4, 0, 4], zero_infinity=True)[1],
                         0)
        self.assertEqual(vecdet.ctc_loss(logits.astype(np.float64), targets[:, :1]).dtype,
                         np.float64)
        for message, call in (
                ("targets has 3 at position 1, expected 0 to 2",
                 lambda: vecdet.ctc_loss(logits, [[1], [3], [1]])),
                ("target_lengths\\[0\\] is 3, expected 0 to 2",
                 lambda: vecdet.ctc_loss(logits, targets, None, [3, 1, 1])),
                ("target_lengths is None", lambda: vecdet.ctc_loss(logits, [1, 2, 1])),
                ("targets.shape is \\[2, 2\\], expected \\[3, labels\\]",
                 lambda: vecdet.ctc_loss(logits, targets[:2])),
                ("input_lengths\\[2\\] is 5", lambda: vecdet.ctc_loss(logits, targets[:, :1],
                                                                      [4, 4, 5])),
                ("sample_weights.shape is \\[2\\], expected \\[3\\]",
                 lambda: vecdet.ctc_loss(logits, targets[:, :1], sample_weights=[1.0, 2.0])),
                ("inputs.shape is \\[3, 3\\]", lambda: vecdet.ctc_loss(logits[0], targets)),
                ("blank is 3, expected 0 to 2",
                 lambda: vecdet.ctc_loss(logits, targets[:, :1], blank=3))):
            with self.assertRaisesRegex(ValueError, message):
                call()

    def test_masks_from_prototypes(self):
        def enlarged(maps, height, width):
            for axis, size in ((1, height), (2, width)):
                count = maps.shape[axis]
                at = np.maximum((np.arange(size) + 0.5) * (count / size) - 0.5, 0)
                first = at.astype(int)
                weight = (at - first).reshape((-1, 1) if axis == 1 else -1)
                after = np.take(maps, np.minimum(first + 1, count - 1), axis)
                maps = np.take(maps, first, axis) * (1 - weight) + after * weight
            return maps

        def inside(boxes, height, width):
            x, y = np.arange(width), np.arange(height)[:, None]
            return np.array([(x >= x1) & (x < x2) & (y >= y1) & (y < y2)
                             for x1, y1, x2, y2 in boxes])

        prototypes = generator.normal(size=(7, 20, 30)).astype(np.float32)
        coefficients = generator.normal(size=(5, 7)).astype(np.float32)
        boxes = some_boxes(5, 70)
        height, width = 80, 120
        logits = np.einsum("nc,chw->nhw", coefficients.astype(np.float64), prototypes)
        small = logits * inside(boxes * np.float32(0.25), 20, 30)
        native = enlarged(logits, height, width) * inside(boxes, height, width)
        for rule, exact in (("native", native), ("upsampled", enlarged(small, height, width)),
                            ("cropped", small)):
            for pixels in ("bits", "bytes"):
                masks = vecdet.masks_from_prototypes(prototypes, coefficients, boxes,
                                                     (height, width), rule=rule, pixels=pixels)
                differ = masks.full(*exact.shape[1:]) != (exact > 0)
                self.assertLess(np.abs(exact[differ]).max(initial=0), 1e-5)
                x1, y1, x2, y2 = masks.boxes[3]
                np.testing.assert_array_equal(masks.rectangle(3),
                                              masks.full(*exact.shape[1:])[3, y1:y2, x1:x2])
        single = vecdet.masks_from_prototypes(prototypes, coefficients, boxes, (height, width))
        # Rows of bits are those of packbits.
        first = single.offsets.item(2)
        np.testing.assert_array_equal(
            np.packbits(single.rectangle(2), axis=1, bitorder="little").ravel(),
            single.pixels[first:single.offsets.item(3)])
        batch = vecdet.masks_from_prototypes(
            np.stack([prototypes, prototypes]), coefficients, boxes,
            [(height, width), (height, width)], [0, 2, 5])
        for a, b in zip(single, batch):
            np.testing.assert_array_equal(a, b)
        none = vecdet.masks_from_prototypes(prototypes, np.zeros((0, 7), np.float32),
                                            np.zeros((0, 4), np.float32), (height, width))
        self.assertEqual([part.shape for part in none[:3]], [(0, 4), (1,), (0,)])
        self.assertEqual(none.full(3, 4).shape, (0, 3, 4))
        for text, change in {
            r"prototypes.shape is \[20, 30\], expected \[prototypes, height, width\] or ":
                {"prototypes": prototypes[0]},
            "image_offsets is None, expected one more than there are images":
                {"prototypes": np.stack([prototypes, prototypes])},
            r"coefficients.shape is \[5, 6\], expected \[N, 7\]":
                {"coefficients": coefficients[:, 1:]},
            r"coefficients.shape is \[4, 7\], expected \[5, 7\]":
                {"coefficients": coefficients[1:]},
            r"size is \(1, 2, 3\), expected \(height, width\)": {"size": (1, 2, 3)},
            "rule is 'small', expected 'native', 'upsampled', 'cropped'": {"rule": "small"},
            "pixels is 'rle', expected 'bits', 'bytes'": {"pixels": "rle"},
            r"size has a side of -1 pixels for image 0, expected sides of 0 to 2\^20":
                {"size": (3, -1)},
            "size has 2 pictures, expected 1, the number of images": {"size": [(3, 4), (3, 4)]},
        }.items():
            arguments = {"prototypes": prototypes, "coefficients": coefficients, "boxes": boxes,
                         "size": (height, width), **change}
            with self.assertRaisesRegex(ValueError, text):
                vecdet.masks_from_prototypes(**arguments)

    def test_postprocess_yolo_with_masks(self):
        images, classes, prototypes, boxes = 2, 3, 6, 60
        input_size, map_size = (96, 160), (24, 40)
        pictures = [(60, 200), (177, 91)]
        transforms = [vecdet.LetterboxTransform.centred(size, input_size) for size in pictures]
        output = np.zeros((images, 4 + classes + prototypes, boxes), np.float32)
        output[:, :2] = generator.uniform(10, 140, (images, 2, boxes))
        output[:, 2:4] = generator.uniform(20, 90, (images, 2, boxes))
        output[:, 4:7] = generator.random((images, classes, boxes)) ** 4
        output[:, 7:] = generator.normal(size=(images, prototypes, boxes))
        maps = generator.normal(size=(images, prototypes, *map_size)).astype(np.float32)
        integers = np.round(output[:, 4:] * 40 + 128).clip(0, 255).astype(np.uint8)
        quantised = vecdet.Quantised(integers, 1 / 40, 128)
        cases = [(output, {}, pictures, transforms, {}),
                 (quantised, {"boxes": output[:, :4]}, pictures, transforms, {}),
                 (output, {"mask_pixels": "bytes"}, pictures, transforms, {"pixels": "bytes"})]
        cases += [(output, {"mask_rule": rule, "input_size": input_size}, [input_size] * images,
                   None, {"rule": rule}) for rule in ("native", "upsampled", "cropped")]
        for given, options, sizes, moved, mask_options in cases:
            with self.subTest(options=list(options), mask_options=mask_options):
                found = vecdet.postprocess_yolo(given, "yolo11", moved, masks=maps, **options)
                plain = vecdet.postprocess_yolo(given, "yolo11", moved, extras=prototypes,
                                                boxes=options.get("boxes"))
                self.assertEqual(len(found), images)
                for image, expected, size, own in zip(found, plain, sizes, maps):
                    for a, b in zip(image[:5], expected[:5]):
                        np.testing.assert_array_equal(a, b)
                    self.assertIsNone(expected.masks)
                    self.assertGreater(len(image.boxes), 2)
                    masks = vecdet.masks_from_prototypes(own, expected.extras, expected.boxes, size,
                                                         **mask_options)
                    self.assertGreater(masks.pixels.sum(), 0)
                    for a, b in zip(image.masks, masks):
                        np.testing.assert_array_equal(a, b)
        none = vecdet.postprocess_yolo(output, "yolo11", transforms, masks=maps,
                                       score_threshold=1)
        self.assertEqual([len(image.masks.boxes) for image in none], [0, 0])
        self.assertEqual(none[1].masks.offsets.tolist(), [0])
        for changes, text in (
                ({"masks": maps[0]}, r"masks.shape is \[6, 24, 40\], expected \[images, proto"),
                ({"masks": maps[:1]}, r"masks.shape is \[1, 6, 24, 40\], expected \[2, 6, "),
                ({"extras": 5}, "extras is 5, expected 6, the number of prototypes in masks"),
                ({"result_format": "xywh"}, "result_format is 'xywh', expected 'xyxy' with masks"),
                ({"keypoint_size": 2}, "keypoint_size is 2, expected 0"),
                ({"mask_rule": "own"}, "mask_rule is 'own', expected"),
                ({"mask_pixels": "own"}, "mask_pixels is 'own', expected"),
                ({"mask_rule": "cropped"}, "mask_rule is 'cropped', expected native"),
                ({"input_size": input_size}, "input_size is .96, 160., expected None with trans"),
                ({"transforms": None}, "input_size is None, expected the .height, width. of the"),
                ({"transforms": None, "input_size": (0, 5)}, "a side of input_size is 0, expec"),
                ({"masks": None, "input_size": (5, 5)}, "input_size is .5, 5., expected None"),
                ({"transforms": [vecdet.LetterboxTransform.top_left(size, input_size)
                                 for size in pictures]},
                 r"transforms\[0\].pad_y is 0, expected the padding of a centred"),
                ({"transforms": [transform._replace(width=3e6) for transform in transforms]},
                 r"transforms\[0\].width is 3000000, expected 1 to 2\^20 pixels"),
                ({"model": "rt-detr", "output": output.transpose(0, 2, 1)},
                 "model is 'rt-detr', expected")):
            with self.subTest(text=text), self.assertRaisesRegex(
                    ValueError, "vecdet.postprocess_yolo: " + text):
                vecdet.postprocess_yolo(**{"output": output, "model": "yolo11", "masks": maps,
                                           "transforms": transforms, **changes})

    def test_paste_masks(self):
        def pasted(probabilities, box, height, width):
            """torchvision's rule, in double."""
            count = len(probabilities)
            padded = np.pad(probabilities.astype(np.float64), 1)
            centre, half = (box[2:] + box[:2]) / 2, (box[2:] - box[:2]) / 2 * (count + 2) / count
            first = np.trunc(centre - half).astype(int)
            sides = np.maximum(np.trunc(centre + half).astype(int) - first + 1, 1)
            picture = np.zeros((height, width))
            for axis, pixels in ((0, sides[1]), (1, sides[0])):
                at = np.maximum((np.arange(pixels) + 0.5) * ((count + 2) / pixels) - 0.5, 0)
                before = np.minimum(at.astype(int), count + 1)
                weight = (at - before).reshape((-1, 1) if axis == 0 else -1)
                after = np.take(padded, np.minimum(before + 1, count + 1), axis)
                padded = np.take(padded, before, axis) * (1 - weight) + after * weight
            (x1, y1), (x2, y2) = np.maximum(first, 0), first + sides
            picture[y1:y2, x1:x2] = padded[y1 - first[1]:height - first[1],
                                           x1 - first[0]:width - first[0]]
            return picture

        maps = generator.random((7, 14, 14)).astype(np.float32)
        boxes = some_boxes(7, 70)
        height, width = 80, 100
        exact = np.array([pasted(*pair, height, width) for pair in zip(maps, boxes)])
        for threshold, pixels in ((0.5, "bits"), (0.3, "bytes")):
            soft = vecdet.paste_soft_masks(maps[:, None], boxes, (height, width))
            np.testing.assert_allclose(soft, exact, atol=2.0 ** -20)
            np.testing.assert_array_equal(soft == 0, exact == 0)
            masks = vecdet.paste_masks(maps[:, None], boxes, (height, width), threshold=threshold,
                                       pixels=pixels)
            differ = masks.full(height, width) != (exact > threshold)
            self.assertLess(np.abs(exact[differ] - threshold).max(initial=0), 1e-5)
        batch = vecdet.paste_masks(maps, boxes, [(height, width), (20, 30)], [0, 3, 7])
        np.testing.assert_array_equal(
            batch.full(height, width)[:3],
            vecdet.paste_masks(maps, boxes, (height, width)).full(height, width)[:3])
        self.assertLessEqual(batch.boxes[3:, 2].max(), 30)
        none = vecdet.paste_masks(np.zeros((0, 1, 28, 28)), np.zeros((0, 4)), (5, 6))
        self.assertEqual(none.full(5, 6).shape, (0, 5, 6))
        for text, change in {
            r"maps.shape is \[14, 14\], expected \[N, height, width\]": {"maps": maps[0]},
            r"maps.shape is \[7, 2, 14, 7\], expected": {"maps": maps.reshape(7, 2, 14, 7)},
            r"maps.shape is \[6, 14, 14\], expected \[7, ...\], one map per box":
                {"maps": maps[1:]},
            "threshold is nan, expected a number that is finite": {"threshold": np.nan},
            "pixels is 'rle', expected 'bits', 'bytes'": {"pixels": "rle"},
            r"size has a side of -1 pixels for image 0, expected sides of 0": {"size": (3, -1)},
            "size has 2 pictures, expected 1, the number of images": {"size": [(3, 4), (3, 4)]},
            r"image_offsets.shape is \[0\], expected \[images \+ 1\]": {"image_offsets": []},
            "image_offsets.1. is 6, expected 7, the number of boxes": {"image_offsets": [0, 6]},
        }.items():
            with self.assertRaisesRegex(ValueError, "vecdet.paste_masks: " + text):
                vecdet.paste_masks(**{"maps": maps, "boxes": boxes, "size": (height, width),
                                      **change})

    def test_ctc_greedy(self):
        logits = generator.normal(0, 2, (30, 4, 3)).astype(np.float32)
        lengths = np.array([30, 0, 17, 1])
        chances = np.exp(logits.astype(np.float64))
        chances /= chances.sum(-1, keepdims=True)
        best = logits.argmax(-1)
        for blank in (0, 2):
            texts = vecdet.ctc_greedy(logits, lengths, blank=blank)
            self.assertEqual(len(texts), 4)
            for sample, (text, length) in enumerate(zip(texts, lengths)):
                own = best[:length, sample]
                kept = own != blank
                kept[1:] &= own[1:] != own[:-1]
                places = np.flatnonzero(kept)
                np.testing.assert_array_equal(text.classes, own[places])
                np.testing.assert_array_equal(text.steps, places)
                most = chances[:length, sample].max(-1)
                np.testing.assert_allclose(text.probabilities, most[places], rtol=1e-5)
                self.assertAlmostEqual(text.log_probability, np.log(most).sum(), places=4)
        with self.assertRaisesRegex(ValueError, "blank is 3, expected 0 to 2"):
            vecdet.ctc_greedy(logits, blank=3)
        with self.assertRaisesRegex(ValueError, "input_lengths\\[1\\] is 31, expected 0 to 30, the "
                                    "steps of inputs"):
            vecdet.ctc_greedy(logits, [30, 31, 0, 0])
        with self.assertRaisesRegex(ValueError, "inputs.shape is \\[30, 4\\]"):
            vecdet.ctc_greedy(logits[..., 0])

    def test_ctc_beams(self):
        logits = generator.normal(0, 2, (7, 2, 3))
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        for sample, found in enumerate(vecdet.ctc_beams(logits, [7, 5], width=6, texts=4)):
            beam = {(): (0.0, -np.inf)}
            for log_p in logs[:(7, 5)[sample], sample]:
                following = {}
                for prefix, (by_blank, by_class) in beam.items():
                    both = np.logaddexp(by_blank, by_class)
                    grown = [(prefix, 0, log_p[0] + both)]
                    for label in (1, 2):
                        repeats = prefix[-1:] == (label,)
                        grown.append((prefix + (label,), 1,
                                      log_p[label] + (by_blank if repeats else both)))
                        if repeats:
                            grown.append((prefix, 1, log_p[label] + by_class))
                    for text, kind, log in grown:
                        own = following.setdefault(text, [-np.inf, -np.inf])
                        own[kind] = np.logaddexp(own[kind], log)
                ranked = sorted(following.items(), key=lambda pair: -np.logaddexp(*pair[1]))
                beam = dict(ranked[:6])
            self.assertEqual(len(found), 4)
            for own, (text, both) in zip(found, beam.items()):
                self.assertEqual(own.classes.tolist(), list(text))
                self.assertEqual(len(own.steps), len(text))
                self.assertAlmostEqual(own.log_probability, np.logaddexp(*both), places=9)
        with self.assertRaisesRegex(ValueError, "texts is 11, expected 1 to 10, the width"):
            vecdet.ctc_beams(logits, texts=11)
        with self.assertRaisesRegex(ValueError, "min_probability is 2, expected 0 to 1"):
            vecdet.ctc_beams(logits, min_probability=2)

    def test_distribution(self):
        logits = generator.normal(0, 2, (10, 8)).astype(np.float32)
        targets = generator.uniform(0, 6.9, 10)
        chances = np.exp(logits.astype(np.float64))
        chances /= chances.sum(-1, keepdims=True)
        hat = np.maximum(0, 1 - np.abs(np.arange(8) - targets[:, None]))
        formula = -(hat * np.log(chances)).sum(1)
        np.testing.assert_allclose(vecdet.distribution_focal_loss(logits, targets), formula,
                                   rtol=1e-5)
        loss, grad = vecdet.distribution_focal_loss_and_grad(logits, targets)
        self.assertAlmostEqual(loss, formula.sum(), places=4)
        np.testing.assert_allclose(grad, chances - hat, atol=1e-6)
        self.assertEqual(vecdet.distribution_focal_loss(logits, targets, "sum"), loss)
        mean, grad = vecdet.distribution_focal_loss_and_grad(logits, targets, "mean")
        self.assertAlmostEqual(mean, formula.mean(), places=5)
        self.assertEqual(vecdet.distribution_focal_loss(logits, targets, "mean"), mean)
        np.testing.assert_allclose(grad, (chances - hat) / 10, atol=1e-7)
        mean, grad = vecdet.distribution_focal_loss_and_grad(logits[:0], targets[:0], "mean")
        self.assertTrue(np.isnan(mean) and grad.shape == (0, 8))
        self.assertTrue(np.isnan(vecdet.distribution_focal_loss(logits[:0], targets[:0], "mean")))

    def test_boxes(self):
        boxes = some_boxes(11, dtype=np.float64)
        targets = boxes + generator.normal(0, 2, boxes.shape)
        d = np.abs(boxes - targets)
        formula = np.where(d < 1, d**2 / 2, d - 0.5)
        self.check(vecdet.smooth_l1_loss, vecdet.smooth_l1_loss_and_grad, formula, boxes, targets)
        labels = generator.integers(-2, 2, 11)
        chosen = formula[labels >= 0]
        self.assertAlmostEqual(vecdet.smooth_l1_loss(boxes, targets, labels=labels), chosen.mean())
        for kind, loss, loss_and_grad in (
                ("giou", vecdet.generalized_box_iou_loss, vecdet.generalized_box_iou_loss_and_grad),
                ("diou", vecdet.distance_box_iou_loss, vecdet.distance_box_iou_loss_and_grad),
                ("ciou", vecdet.complete_box_iou_loss, vecdet.complete_box_iou_loss_and_grad)):
            self.check(loss, loss_and_grad, 1 - vecdet.elementwise_iou(boxes, targets, kind),
                       boxes, targets,
                       rtol=1e-1 if kind == "ciou" else 1e-4)  # alpha counts as a constant

    def test_regression(self):
        anchors, truth = some_boxes(20, dtype=np.float64), some_boxes(4, dtype=np.float64)
        deltas = generator.normal(0, 0.3, (20, 4))
        matches = generator.integers(-2, 4, 20)
        chosen = matches >= 0
        encoded = vecdet.encode_boxes(truth[matches[chosen]], anchors[chosen])
        expected = vecdet.smooth_l1_loss(deltas[chosen], encoded, "sum", 1 / 9)
        self.assertAlmostEqual(vecdet.regression_loss(deltas, anchors, truth, matches), expected,
                               places=6)
        decoded = vecdet.decode_boxes(deltas[chosen], anchors[chosen])
        expected = vecdet.generalized_box_iou_loss(decoded, truth[matches[chosen]], "sum")
        found, grad = vecdet.regression_loss_and_grad(deltas, anchors, truth, matches, loss="giou")
        self.assertAlmostEqual(found, expected, places=6)
        numeric = numerical_grad(lambda x: vecdet.regression_loss(x, anchors, truth, matches,
                                                                  loss="giou"), deltas)
        np.testing.assert_allclose(grad, numeric, rtol=1e-4, atol=1e-6)


class Features(unittest.TestCase):
    def test_roi_align(self):
        features = generator.normal(0, 1, (2, 3, 12, 15))
        boxes = [some_boxes(4, 10), some_boxes(3, 10)]

        def interpolated(plane, y, x):
            y, x = min(max(y, 0), 11), min(max(x, 0), 14)
            top, left = min(int(y), 10), min(int(x), 13)
            dy, dx = y - top, x - left
            corner = plane[top:top + 2, left:left + 2]
            return np.array([1 - dy, dy]) @ corner @ np.array([1 - dx, dx])

        out = vecdet.roi_align(features, boxes, (2, 3), 0.5, 2, aligned=True)
        row = 0
        for image, own in enumerate(boxes):
            for box in own.astype(np.float64):
                x1, y1, x2, y2 = box * 0.5 - 0.5
                for p in range(2):
                    for q in range(3):
                        samples = [[interpolated(features[image, 1],
                                                 y1 + (p + (i + 0.5) / 2) * (y2 - y1) / 2,
                                                 x1 + (q + (j + 0.5) / 2) * (x2 - x1) / 3)
                                    for j in range(2)] for i in range(2)]
                        self.assertAlmostEqual(out[row, 1, p, q], np.mean(samples), places=9)
                row += 1
        # The gradient is the transpose of the pooling, which is linear.
        upstream = generator.normal(0, 1, out.shape)
        grad = vecdet.roi_align_grad(upstream, boxes, features.shape, 0.5, 2, aligned=True)
        self.assertAlmostEqual((grad * features).sum(), (upstream * out).sum(), places=8)
        rows = np.concatenate([np.insert(own, 0, image, 1) for image, own in enumerate(boxes)])
        self.assertTrue(np.array_equal(vecdet.roi_align(features, rows, (2, 3), 0.5, 2, True), out))

    def test_multiscale(self):
        levels = [generator.normal(0, 1, (1, 2, side, side)).astype(np.float32)
                  for side in (64, 32)]
        boxes = np.array([[0, 0, 30, 30], [5, 5, 250, 250]], np.float32)
        out = vecdet.multiscale_roi_align(levels, [boxes], 3, [0.25, 0.125])
        own = vecdet.pyramid_levels(boxes, 2, 0.25)
        self.assertEqual(own.tolist(), [0, 1])
        for k, level in enumerate(own):
            one = vecdet.roi_align(levels[level], [boxes[k:k + 1]], 3, (0.25, 0.125)[level], 2)
            self.assertTrue(np.array_equal(out[k], one[0]))

    def test_convolution(self):
        weight = generator.normal(0, 0.1, (5, 4, 3, 3)).astype(np.float32)
        bias = generator.normal(0, 1, 5).astype(np.float32)
        image = generator.normal(0, 1, (2, 4, 9, 11)).astype(np.float32)
        padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
        expected = np.zeros((2, 5, 9, 11))
        for i in range(3):
            for j in range(3):
                expected += np.einsum("nchw,kc->nkhw", padded[..., i:i + 9, j:j + 11],
                                      weight[..., i, j])
        expected += bias[:, None, None]
        for accurate in (False, True):
            found = vecdet.Conv3x3(weight, bias, accurate=accurate)(image)
            np.testing.assert_allclose(found, expected, atol=1e-4)
            found = vecdet.Conv3x3(weight, bias, relu=True, accurate=accurate)(image)
            np.testing.assert_allclose(found, np.maximum(expected, 0), atol=1e-4)

    def test_grouped_convolution(self):
        for groups, inputs, outputs in ((3, 4, 4), (2, 16, 32), (1, 5, 3)):
            weight = generator.normal(0, 0.1, (groups * outputs, inputs, 3, 3)).astype(np.float32)
            bias = generator.normal(0, 1, groups * outputs).astype(np.float32)
            image = generator.normal(0, 1, (2, groups * inputs, 9, 12)).astype(np.float32)
            padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
            padded = padded.reshape(2, groups, inputs, 11, 14)
            grouped = weight.reshape(groups, outputs, inputs, 3, 3)
            expected = np.zeros((2, groups * outputs, 9, 12))
            for i in range(3):
                for j in range(3):
                    expected += np.einsum("ngchw,gkc->ngkhw", padded[..., i:i + 9, j:j + 12],
                                          grouped[..., i, j]).reshape(expected.shape)
            for stride in (1, 2):
                kept = expected[..., ::stride, ::stride]
                found = vecdet.grouped_conv3x3(image, weight, groups=groups, stride=stride)
                np.testing.assert_allclose(found, kept, atol=1e-4)
                found = vecdet.grouped_conv3x3(image, weight, bias, groups, stride)
                np.testing.assert_allclose(found, kept + bias[:, None, None], atol=1e-4)


if __name__ == "__main__":
    unittest.main()
