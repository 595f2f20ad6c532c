# SPDX-License-Identifier: Apache-2.0
"""Deformable attention, matching and losses of DETRs against their rules in plain NumPy, in double,
and SciPy's assignment, if it is installed."""
import itertools
import unittest

import numpy as np
import vecdet
from vecdet._arrays import TYPES
from vecdet._c import BFLOAT16
from support import generator, numerical_grad

try:
    from scipy.optimize import linear_sum_assignment
except ImportError:
    linear_sum_assignment = None

float32_and_float64 = (np.float32, 1e-5), (np.float64, 1e-12)


def attended(value, level_sizes, points, weights, level_points):
    """Equation 3 of arXiv 2010.04159 without its linear layers."""
    images, queries, heads = points.shape[:3]
    points = points.reshape(images, queries, heads, -1, 2)
    weights = weights.reshape(points.shape[:-1])
    out = np.zeros((images, queries, heads, value.shape[-1]))
    for n, q, h in np.ndindex(images, queries, heads):
        first_location = first_point = 0
        for (height, width), count in zip(level_sizes, level_points):
            level = value[n, first_location:first_location + height * width, h]
            level = level.reshape(height, width, -1)
            for k in range(first_point, first_point + count):
                x, y = points[n, q, h, k] * (width, height) - 0.5
                left, top = int(np.floor(x)), int(np.floor(y))
                for i, j in itertools.product((top, top + 1), (left, left + 1)):
                    if 0 <= i < height and 0 <= j < width:
                        share = (1 - abs(x - j)) * (1 - abs(y - i))
                        out[n, q, h] += weights[n, q, h, k] * share * level[i, j]
            first_location, first_point = first_location + height * width, first_point + count
    return out.reshape(images, queries, -1)


class Attention(unittest.TestCase):
    sizes, counts = [(4, 3), (2, 5), (1, 1)], [2, 1, 3]

    def inputs(self, dtype, points=(6,)):
        return (generator.normal(0, 1, (2, 23, 3, 5)).astype(dtype),
                generator.uniform(-0.2, 1.2, (2, 4, 3, *points, 2)).astype(dtype),
                generator.random((2, 4, 3, *points)).astype(dtype))

    def test_levels_of_different_points(self):
        for dtype, tolerance in float32_and_float64:
            value, points, weights = self.inputs(dtype)
            out = vecdet.deformable_attention(value, self.sizes, points, weights, self.counts)
            self.assertEqual((out.dtype, out.shape), (dtype, (2, 4, 15)))
            np.testing.assert_allclose(
                out, attended(value, self.sizes, points, weights, self.counts), atol=tolerance)

    def test_equal_points(self):
        value, points, weights = self.inputs(np.float64, (3, 2))
        out = vecdet.deformable_attention(value, self.sizes, points, weights)
        np.testing.assert_allclose(
            out, attended(value, self.sizes, points, weights, (2, 2, 2)), atol=1e-12)
        flat = points.reshape(2, 4, 3, 6, 2), weights.reshape(2, 4, 3, 6)
        self.assertTrue(np.array_equal(
            vecdet.deformable_attention(value, np.array(self.sizes), *flat), out))

    def test_points_outside(self):
        value, points, weights = self.inputs(np.float32)
        points[..., 0] = np.array([np.nan, np.inf, -np.inf, 9, -9, 1e30], np.float32)
        out = vecdet.deformable_attention(value, self.sizes, points, weights, self.counts)
        self.assertTrue((out == 0).all())

    def test_gradients(self):
        value, points, weights = self.inputs(np.float64)
        upstream = generator.normal(0, 1, (2, 4, 15))
        grads = vecdet.deformable_attention_grad(upstream, value, self.sizes, points, weights,
                                                 self.counts)
        inputs = [value, points, weights]
        for k, grad in enumerate(grads):
            def loss(x):
                own = [x if i == k else array for i, array in enumerate(inputs)]
                out = vecdet.deformable_attention(own[0], self.sizes, *own[1:], self.counts)
                return (out * upstream).sum()
            np.testing.assert_allclose(grad, numerical_grad(loss, inputs[k]), atol=1e-6)
        small = vecdet.deformable_attention_grad(
            upstream, value.astype(np.float32), self.sizes, points, weights, self.counts)
        for grad, expected in zip(small, grads):
            self.assertEqual(grad.dtype, np.float32)
            np.testing.assert_allclose(grad, expected, atol=1e-4)

    def test_bits_of_bfloat16(self):
        """uint16 stands for the type. Points and weights are float32."""
        bits = np.dtype(np.uint16)
        TYPES[bits] = BFLOAT16
        self.addCleanup(TYPES.pop, bits)
        exact, points, weights = self.inputs(np.float32)
        value = (exact.view(np.uint32) >> 16).astype(bits)
        rounded = (value.astype(np.uint32) << 16).view(np.float32)
        out = vecdet.deformable_attention(value, self.sizes, points.astype(np.float64), weights,
                                          self.counts)
        self.assertEqual(out.dtype, bits)
        np.testing.assert_allclose(
            (out.astype(np.uint32) << 16).view(np.float32),
            vecdet.deformable_attention(rounded, self.sizes, points, weights, self.counts),
            rtol=2**-8)
        grads = vecdet.deformable_attention_grad(out, value, self.sizes, points, weights,
                                                 self.counts)
        self.assertEqual([grad.dtype for grad in grads], [bits, np.float32, np.float32])

    def test_mistakes(self):
        value, points, weights = self.inputs(np.float32)
        for text, arguments in (
                (r"value.shape is \[23, 3, 5\]", (value[0], self.sizes, points, weights)),
                (r"expected \[N, 22, heads", (value, [(4, 3), (2, 5)], points, weights)),
                (r"points.shape is \[2, 4, 2, 6, 2\]", (value, self.sizes, points[:, :, 1:],
                                                        weights)),
                (r"weights.shape is \[2, 4, 3, 5\]", (value, self.sizes, points, weights[..., 1:])),
                (r"points.shape is \[2, 4, 3, 5, 2\], .* on each of 3 levels",
                 (value, self.sizes, points[..., 1:, :], weights[..., 1:])),
                (r"level_points is \[2, 2, 3\], expected 3 numbers, one per level, whose sum is 6",
                 (value, self.sizes, points, weights, [2, 2, 3])),
                (r"level_points.shape is \[3, 1\], expected \[3\], one number per level",
                 (value, self.sizes, points, weights, [[2], [1], [3]])),
                (r"level_points.shape is \[\], expected \[1\]",
                 (value, [(23, 1)], points, weights, 6)),
                (r"levels\[2\].points is -1", (value, self.sizes, points, weights, [2, 5, -1]))):
            with self.assertRaisesRegex(ValueError, "vecdet.*deformable_attention: .*" + text):
                vecdet.deformable_attention(*arguments)
        with self.assertRaisesRegex(ValueError, r"grad.shape is \[2, 4, 14\]"):
            vecdet.deformable_attention_grad(np.zeros((2, 4, 14)), value, self.sizes, points,
                                             weights, self.counts)


class Assignment(unittest.TestCase):
    def cost_of(self, costs, columns):
        rows = np.nonzero(columns >= 0)[0]
        self.assertEqual(len(rows), min(costs.shape))
        self.assertEqual(len(set(columns[rows].tolist())), len(rows))
        return costs[rows, columns[rows]].sum()

    def test_all_permutations(self):
        for dtype, tolerance in float32_and_float64:
            for rows, cols in ((1, 1), (4, 4), (3, 5), (5, 3)):
                for _ in range(10):
                    costs = generator.normal(0, 1, (rows, cols)).astype(dtype)
                    wide = costs.T if rows > cols else costs
                    least = min(sum(wide[i, j] for i, j in enumerate(chosen)) for chosen in
                                itertools.permutations(range(wide.shape[1]), len(wide)))
                    self.assertAlmostEqual(self.cost_of(costs, vecdet.assign_least_cost(costs)),
                                           least, delta=tolerance)

    @unittest.skipIf(linear_sum_assignment is None, "SciPy is not installed")
    def test_as_scipy(self):
        for rows, cols in ((40, 40), (7, 300), (300, 7), (0, 3), (3, 0)):
            costs = generator.normal(0, 1, (rows, cols))
            expected = np.full(rows, -1)
            assigned_rows, columns = linear_sum_assignment(costs)
            expected[assigned_rows] = columns
            self.assertEqual(vecdet.assign_least_cost(costs).tolist(), expected.tolist())

    def test_forbidden_pairs(self):
        costs = np.array([[0, np.inf], [1, 9]])
        self.assertEqual(vecdet.assign_least_cost(costs[::-1]).tolist(), [1, 0])
        with self.assertRaisesRegex(ValueError, "infinite in every complete assignment"):
            vecdet.assign_least_cost([[np.inf, np.inf], [0.0, 1]])
        with self.assertRaisesRegex(ValueError, r"costs\[0, 1\] is nan"):
            vecdet.assign_least_cost([[0.0, np.nan]])
        with self.assertRaisesRegex(ValueError, r"costs.shape is \[2\], expected \[rows, columns"):
            vecdet.assign_least_cost([1.0, 2])


def corners(boxes):
    return np.concatenate([boxes[..., :2] - boxes[..., 2:] / 2,
                           boxes[..., :2] + boxes[..., 2:] / 2], -1)


def iou_and_giou(boxes, others):
    """IoU and GIoU of boxes in cx cy w h whose shapes broadcast."""
    a, b = corners(boxes), corners(others)
    side = np.maximum(np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2]), 0)
    hull = np.maximum(a[..., 2:], b[..., 2:]) - np.minimum(a[..., :2], b[..., :2])
    inter, whole = side.prod(-1), hull.prod(-1)
    union = boxes[..., 2:].prod(-1) + others[..., 2:].prod(-1) - inter
    return inter / union, inter / union - (whole - union) / whole


def softmax(logits):
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    return chances / chances.sum(-1, keepdims=True)


class Queries(unittest.TestCase):
    """Two images with three boxes and one, and two layers with different numbers of queries."""

    def setUp(self):
        def boxes(*shape):
            return np.concatenate([generator.uniform(0.3, 0.7, (*shape, 2)),
                                   generator.uniform(0.1, 0.4, (*shape, 2))], -1).astype(np.float32)

        self.logits = [generator.normal(0, 2, (2, queries, 5)).astype(np.float32)
                       for queries in (8, 6)]
        self.boxes = [boxes(2, queries) for queries in (8, 6)]
        self.targets, self.classes = [boxes(3), boxes(1)], [np.array([0, 3, 3]), np.array([2])]

    def costs(self, layer, image, class_cost, class_weight):
        logits = self.logits[layer][image].astype(np.float64)
        if class_cost == "softmax":
            class_costs = -softmax(logits)
        else:
            p = 1 / (1 + np.exp(-logits))
            class_costs = (0.25 * (1 - p)**2 * -np.log(p + 1e-8)
                           - 0.75 * p**2 * -np.log(1 - p + 1e-8))
        own = self.boxes[layer][image].astype(np.float64)[:, None]
        truth = self.targets[image].astype(np.float64)
        return (5 * abs(own - truth).sum(-1) - 2 * iou_and_giou(own, truth)[1]
                + class_weight * class_costs[:, self.classes[image]])

    def match(self, *arguments, **options):
        return vecdet.match_queries(self.logits, self.boxes, self.targets, self.classes, *arguments,
                                    **options)

    def test_matches(self):
        for class_cost, class_weight in (("focal", 2), ("softmax", 1)):
            for groups in (1, 2):
                found = self.match(class_cost, class_weight=class_weight, groups=groups)
                self.assertEqual((found.dtype, found.shape), (np.int64, (2, groups, 4)))
                for layer, group in np.ndindex(2, groups):
                    size = self.logits[layer].shape[1] // groups
                    first = group * size
                    for image, own in enumerate((found[layer, group, :3], found[layer, group, 3:])):
                        costs = self.costs(layer, image, class_cost, class_weight)
                        costs = costs[first:first + size]
                        best = min(itertools.permutations(range(size), len(own)), key=lambda chosen:
                                   sum(costs[q, b] for b, q in enumerate(chosen)))
                        self.assertEqual((own - first).tolist(), list(best))

    def test_one_layer_and_image(self):
        both = self.match()
        one = vecdet.match_queries(self.logits[1], self.boxes[1], self.targets, self.classes)
        self.assertEqual(one.tolist(), both[1:].tolist())
        one = vecdet.match_queries(self.logits[1][:1], self.boxes[1][:1].astype(np.float64),
                                   self.targets[0], self.classes[0])
        self.assertEqual(one[0].tolist(), both[1, :, :3].tolist())
        few = vecdet.match_queries(self.logits[1][:1, :2], self.boxes[1][:1, :2], self.targets[0])
        self.assertEqual(sorted(few[0, 0].tolist()), [-1, 0, 1])

    def losses(self, logits, boxes, matches, class_loss, alpha, num_boxes):
        """The losses of a layer. The varifocal loss takes the IoUs and probabilities of its weights
        from self.fixed, if it is set, because gradients treat them as constants."""
        divisor = num_boxes * len(matches)
        rows, known = [], []
        for group in matches:
            for box, query in enumerate(group):
                if query >= 0:
                    rows.append((0 if box < 3 else 1, query))
                    known.append(box)
        image, query = np.array(rows).T
        truth = np.concatenate(self.targets).astype(np.float64)[known]
        label = np.concatenate(self.classes)[known]
        own = boxes[image, query]
        overlap, giou = iou_and_giou(own, truth)
        p = 1 / (1 + np.exp(-logits))
        targets = np.zeros(logits.shape)
        if class_loss == "focal":
            targets[image, query, label] = 1
            chance = p * targets + (1 - p) * (1 - targets)
            weight = alpha * targets + (1 - alpha) * (1 - targets)
            class_loss_sum = (-weight * (1 - chance)**2 * np.log(chance)).sum() / divisor
        elif class_loss == "varifocal":
            self.now = overlap, p
            fixed_overlap, fixed_p = self.fixed or self.now
            targets[image, query, label] = fixed_overlap
            is_labelled = np.zeros(logits.shape, bool)
            is_labelled[image, query, label] = True
            weight = np.where(is_labelled, targets, alpha * fixed_p**2)
            class_loss_sum = -(weight * (targets * np.log(p) + (1 - targets) * np.log(1 - p))).sum()
            class_loss_sum /= divisor
        else:
            labels = np.full(logits.shape[:2], logits.shape[2] - 1)
            weight = np.full(labels.shape, 0.1)
            labels[image, query], weight[image, query] = label, 1
            chance = np.take_along_axis(softmax(logits), labels[..., None], 2)[..., 0]
            class_loss_sum = -(weight * np.log(chance)).sum() / weight.sum()
        return np.array([2 * class_loss_sum, 5 * abs(own - truth).sum() / divisor,
                         2 * (1 - giou).sum() / divisor])

    def test_losses(self):
        matches = self.match()
        parts = [matches[0], np.array([[0, 1, -1, 2], [4, 3, 5, 3]])]  # the second has two groups
        for class_loss, alpha in (("focal", 0.25), ("varifocal", 0.75), ("cross_entropy", 0)):
            for num_boxes in (0, 6.5):
                losses, logits_grad, boxes_grad = vecdet.set_loss_and_grad(
                    self.logits, self.boxes, parts, self.targets, self.classes, class_loss,
                    alpha=alpha, class_weight=2, num_boxes=num_boxes)
                self.assertEqual((losses.dtype, losses.shape), (np.float64, (2, 3)))
                for k, own in enumerate(parts):
                    logits, boxes = (array[k].astype(np.float64) for array in (self.logits,
                                                                               self.boxes))
                    options = own, class_loss, alpha, num_boxes or 4
                    self.fixed = None
                    expected = self.losses(logits, boxes, *options)
                    np.testing.assert_allclose(losses[k], expected, rtol=2e-5)
                    self.fixed = self.now if class_loss == "varifocal" else None
                    for grad, numeric in (
                            (logits_grad[k], numerical_grad(
                                lambda x: self.losses(x, boxes, *options).sum(), logits)),
                            (boxes_grad[k], numerical_grad(
                                lambda x: self.losses(logits, x, *options).sum(), boxes))):
                        self.assertEqual((grad.dtype, grad.shape), (np.float32, numeric.shape))
                        np.testing.assert_allclose(grad, numeric, rtol=1e-3, atol=1e-4)

    def test_loss_of_one_layer(self):
        matches = vecdet.match_queries(self.logits[0], self.boxes[0], self.targets, self.classes)
        losses, logits_grad, boxes_grad = vecdet.set_loss_and_grad(
            self.logits[0], self.boxes[0], matches, self.targets, self.classes)
        both, *grads = vecdet.set_loss_and_grad(self.logits, self.boxes, self.match(), self.targets,
                                                self.classes)
        self.assertEqual(losses.tolist(), both[:1].tolist())
        self.assertTrue(np.array_equal(logits_grad, grads[0][0]))
        self.assertTrue(np.array_equal(boxes_grad, grads[1][0]))
        scaled, logits_grad, _ = vecdet.set_loss_and_grad(
            self.logits[0], self.boxes[0], matches, self.targets, self.classes, scale=4)
        np.testing.assert_allclose(scaled, 4 * losses, rtol=1e-6)
        np.testing.assert_allclose(logits_grad, 4 * grads[0][0], rtol=1e-6)

    def test_no_boxes(self):
        nothing = [np.zeros((0, 4)), np.zeros((0, 4))]
        matches = vecdet.match_queries(self.logits, self.boxes, nothing)
        self.assertEqual(matches.shape, (2, 1, 0))
        losses, _, boxes_grad = vecdet.set_loss_and_grad(self.logits, self.boxes, matches, nothing)
        self.assertTrue((losses[:, 0] > 0).all() and (losses[:, 1:] == 0).all())
        self.assertFalse(any(grad.any() for grad in boxes_grad))

    def test_mistakes(self):
        def fails(text, call, *arguments, **options):
            with self.assertRaisesRegex(ValueError, text):
                call(*arguments, **options)

        match, truth = vecdet.match_queries, (self.targets, self.classes)
        fails(r"logits is \[\], expected one", match, [], [], *truth)
        fails(r"boxes has 1 layers, expected 2", match, self.logits, self.boxes[:1], *truth)
        fails(r"logits\[1\].shape is \[1, 6, 5\], expected \[2, queries", match,
              [self.logits[0], self.logits[1][:1]], self.boxes, *truth)
        fails(r"boxes\[0\].shape is \[2, 6, 4\], expected \[2, 8, 4\]", match, self.logits,
              self.boxes[::-1], *truth)
        fails(r"classes has 1 images, expected 2, as in targets", match, self.logits, self.boxes,
              self.targets, self.classes[:1])
        fails(r"targets.shape is \[3, 3\]", match, self.logits, self.boxes,
              [self.targets[0][:, 1:], self.targets[1]])
        fails(r"class_cost is 'bce'", match, self.logits, self.boxes, *truth, "bce")
        fails(r"queries: groups is 0", match, self.logits, self.boxes, *truth, groups=0)
        fails(r"groups is 4, expected a divisor of 6, the queries of logits\[1\]", match,
              self.logits, self.boxes, *truth, groups=4)
        fails(r"alpha is 2", match, self.logits, self.boxes, *truth, alpha=2)
        loss, matches = vecdet.set_loss_and_grad, self.match()
        fails(r"matches has 1 layers, expected 2", loss, self.logits, self.boxes, matches[:1],
              *truth)
        fails(r"matches\[0\].shape is \[1, 3\], expected \[groups, 4\]", loss, self.logits,
              self.boxes, matches[:, :, 1:], *truth)
        fails(r"matches\[1\]", loss, self.logits, self.boxes,
              [matches[0], [[0, 0, 1, 1]]], *truth)
        fails(r"class_loss is 'mse'", loss, self.logits, self.boxes, matches, *truth, "mse")


if __name__ == "__main__":
    unittest.main()
