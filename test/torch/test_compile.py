# SPDX-License-Identifier: Apache-2.0
"""Requirements of newer PyTorch on operators: opcheck, torch.compile without graph breaks, torch.export. Needs
torch 2.4 or newer, and vecdet on PYTHONPATH."""

import sys
import unittest

try:
    import torch
    from torch.library import opcheck
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import vecdet.torch
from detr_forms import CHANNELS
from test_attention import LOCATIONS, SIZES, operands
from test_detr import FORMS
from test_gradients import DIFFERENTIABLE, arguments_of, schemas, tracked

OPS = torch.ops.vecdet
ROWS, CLASSES = 64, 7


def some_boxes(count, needs_grad=False):
    corner = torch.rand(count, 2) * 50
    boxes = torch.cat([corner, corner + 5 + torch.rand(count, 2) * 50], 1)
    return boxes.requires_grad_(needs_grad)


def some_labels():
    return torch.randint(-2, CLASSES, (ROWS,))


# The levels of a head for two images with three anchors at each location.
LEVELS = ((4, 6), (2, 3))
ANCHORS = 3 * (4 * 6 + 2 * 3)


def some_levels(columns, layout, dtype=torch.float32):
    return [torch.randn(2, 3 * columns, *size, dtype=dtype).to(memory_format=layout).requires_grad_()
            for size in LEVELS]


class Operators(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_opcheck_of_every_operator(self):
        for name, schema in schemas().items():
            arguments, floating = arguments_of(schema)
            for index, _ in floating:
                if index < DIFFERENTIABLE.get(name, 0):
                    arguments[index] = tracked(arguments[index])
            with self.subTest(name):
                opcheck(getattr(OPS, name).default, tuple(arguments))

    def test_opcheck_of_losses(self):
        logits = torch.randn(ROWS, CLASSES, requires_grad=True)
        calls = [
            ("sigmoid_focal_loss", (logits, some_labels())),
            ("sigmoid_focal_loss", (logits, torch.rand(ROWS, CLASSES))),
            ("sigmoid_focal_loss", (logits.detach(), some_labels())),
            ("iou_loss", (some_boxes(ROWS, True), some_boxes(ROWS), 1)),
            ("iou_loss", (some_boxes(ROWS, True), some_boxes(ROWS), 3)),
        ]
        for name, arguments in calls:
            with self.subTest(name):
                opcheck(getattr(OPS, name).default, arguments)

    def test_opcheck_of_training(self):
        logits = torch.randn(ROWS, CLASSES, requires_grad=True)
        narrow = torch.randn(ROWS, CLASSES, dtype=torch.bfloat16, requires_grad=True)
        transposed = torch.randn(2, CLASSES, 32).transpose(1, 2).requires_grad_()
        labels, scores = some_labels(), torch.rand(ROWS)
        bins = torch.randn(ROWS, 4, 9, requires_grad=True)
        classes = torch.randint(0, CLASSES, (5,))
        points = torch.stack([torch.arange(8).repeat(8), torch.arange(8).repeat_interleave(8)], 1)
        points = points * 10.0 + 5
        calls = [
            ("sigmoid_focal_loss", (transposed, some_labels().view(2, 32), 0.25, 2.0, 2)),
            ("bce_loss", (logits, labels, scores, 2)),
            ("bce_loss", (narrow, labels, scores, 1)),
            ("distribution_focal_loss", (bins, torch.rand(ROWS, 4) * 8)),
            ("distribution_focal_loss", (bins, torch.rand(ROWS, 4) * 8, 1)),
            *(("ctc_loss", (x, classes.clamp(min=1), *lengths, 0, reduction)) for reduction in range(3)
              for x, lengths in ((torch.randn(9, 2, CLASSES, requires_grad=True),
                                  (torch.tensor([9, 8]), torch.tensor([2, 3]))),
                                 (torch.randn(11, CLASSES, requires_grad=True),
                                  (torch.tensor([11]), torch.tensor([5]))))),
            ("ctc_loss", (torch.randn(2, 9, CLASSES).transpose(0, 1).requires_grad_(),
                          classes[:4].clamp(min=1).view(2, 2), torch.tensor([9, 8]),
                          torch.tensor([2, 1]))),
            ("match_anchors", (some_boxes(ROWS), some_boxes(5), classes, [2, 3])),
            ("assign_atss", (torch.cat([points - 15, points + 15], 1), [8, 8], some_boxes(5),
                             [2, 3])),
            ("assign_fcos", (torch.cat([points - 15, points + 15], 1), [8, 8], some_boxes(5),
                             [2, 3])),
            ("assign_task_aligned", (torch.rand(2, 64, CLASSES), some_boxes(128).view(2, 64, 4),
                                     points, [8, 8], some_boxes(5), classes, [2, 3])),
            ("assign_rotated_task_aligned", (
                torch.rand(2, 64, CLASSES), torch.rand(2, 64, 5), points, [8, 8], torch.rand(5, 5),
                classes, [2, 3], 3)),
            ("assign_sim_ota", (torch.rand(2, 64, CLASSES), torch.rand(2, 64),
                                some_boxes(128).view(2, 64, 4), points, [8, 8], [8.0],
                                some_boxes(5), classes, [2, 3])),
        ]
        layers = [torch.randn(2, 30, CLASSES, requires_grad=True) for _ in range(3)]
        predicted = [torch.rand(2, 30, 4, requires_grad=True) for _ in range(3)]
        truth, matches = torch.rand(5, 4), [torch.tensor([[3, 9, 1, 29, 0]])] * 3
        calls += [
            ("match_queries", ([x.detach() for x in layers], [x.detach() for x in predicted], truth,
                               classes, [2, 3])),
            ("set_loss", (layers, predicted, matches, truth, classes, [2, 3])),
        ]
        for layout in (torch.contiguous_format, torch.channels_last):
            levels, deltas = some_levels(CLASSES, layout), some_levels(4, layout)
            calls += [
                ("sigmoid_focal_loss_levels", (levels, torch.randint(-2, CLASSES, (2, ANCHORS)))),
                ("retinanet_loss", (levels, deltas, some_boxes(ANCHORS), some_boxes(5), classes,
                                    [2, 3])),
            ]
        for name, arguments in calls:
            with self.subTest(name):
                opcheck(getattr(OPS, name).default, arguments)

    def test_opcheck_of_convolutions(self):
        for layout in (torch.contiguous_format, torch.channels_last):
            levels = [torch.randn(2, 16, side, side).to(memory_format=layout).requires_grad_()
                      for side in (16, 8)]
            weight = torch.randn(24, 16, 3, 3, requires_grad=True)
            bias = torch.randn(24, requires_grad=True)
            for name, arguments in (("conv3x3", (levels[0], weight)),
                                    ("conv3x3", (levels[0], weight, bias, True)),
                                    ("conv3x3", (levels[0].bfloat16(), weight.bfloat16())),
                                    ("conv3x3_levels", (levels, weight, bias, True))):
                arguments = [[x.detach().requires_grad_() for x in each]
                             if isinstance(each, list) else
                             each.detach().requires_grad_() if isinstance(each, torch.Tensor)
                             else each for each in arguments]
                with self.subTest(name):
                    opcheck(getattr(OPS, name).default, tuple(arguments))

    def test_compile_convolutions(self):
        weight, bias = torch.randn(24, 16, 3, 3), torch.randn(24)

        def convolve(levels):
            return vecdet.torch.ops.conv3x3_levels(levels, weight, bias, True)

        for layout in (torch.contiguous_format, torch.channels_last):
            self.assert_compiles(
                convolve, lambda: ([torch.randn(2, 16, side, side).to(memory_format=layout)
                                    .requires_grad_() for side in (16, 8)],))

        def under_autocast(levels, weight, bias):
            with torch.autocast("cpu", torch.bfloat16):
                return vecdet.torch.ops.conv3x3_levels(levels, weight, bias, True)

        self.assert_compiles(
            under_autocast, lambda: ([torch.randn(2, 16, side, side, requires_grad=True)
                                      for side in (16, 8)],
                                     torch.randn(24, 16, 3, 3, requires_grad=True),
                                     torch.randn(24, requires_grad=True)))

    def test_grouped_convolutions(self):
        for layout in (torch.contiguous_format, torch.channels_last):
            def some_operands():
                x = torch.randn(2, 8, 9, 8).to(memory_format=layout)
                weight = torch.randn(8, 4, 3, 3).to(memory_format=layout)
                return tuple(each.detach().requires_grad_() for each in (x, weight, torch.randn(8)))

            for stride in (1, 2):
                with self.subTest(layout=layout, stride=stride):
                    opcheck(OPS.grouped_conv3x3.default, (*some_operands(), 2, stride))
                    self.assert_compiles(
                        lambda *given: [vecdet.torch.ops.grouped_conv3x3(*given, 2, stride)],
                        some_operands)

    def test_pooling(self):
        for layout in (torch.contiguous_format, torch.channels_last):
            for dtype in (torch.float32, torch.bfloat16):
                def some_map():
                    return torch.randn(2, 5, 9, 8).to(dtype).to(memory_format=layout).requires_grad_()

                with self.subTest(layout=layout, dtype=dtype):
                    opcheck(OPS.max_pool.default, (some_map().detach().requires_grad_(), 3, 3, 2, 2, 1, 1))
                    self.assert_compiles(lambda x: [vecdet.torch.ops.max_pool2d(x, 3, 2, 1)],
                                         lambda: (some_map().detach().requires_grad_(),))

    def test_normalization(self):
        for layout in (torch.contiguous_format, torch.channels_last):
            for dtype in (torch.float32, torch.bfloat16):
                def some_operands():
                    return (torch.randn(2, 5, 9, 8).to(dtype).to(memory_format=layout).requires_grad_(),
                            *(torch.randn(5, requires_grad=True) for _ in range(2)))

                def normalize(x, weight, bias):
                    return [vecdet.torch.ops.batch_norm(x, None, None, weight, bias, True,
                                                        activation="silu")]

                with self.subTest(layout=layout, dtype=dtype):
                    for activation in (0, 1, 2):
                        opcheck(OPS.batch_norm.default, (*some_operands(), 1e-3, activation))
                    statistics = torch.rand(2, 5, dtype=torch.float64)
                    opcheck(OPS.batch_norm_inference.default,
                            (some_operands()[0].detach(), statistics))
                    self.assert_compiles(normalize, some_operands)

    def test_opcheck_of_attention(self):
        value, points, weights = operands()
        narrow = [each.detach().bfloat16().requires_grad_() for each in (value, weights)]
        sizes = [side for size in SIZES for side in size]
        for arguments in ((value, sizes, points, weights, [2, 2, 2]),
                          (value, sizes, points, weights, [4, 0, 2]),
                          (value, sizes, *(each.detach().unflatten(3, (3, 2)).requires_grad_()
                                           for each in (points, weights))),
                          (narrow[0], sizes, points, narrow[1], [2, 2, 2]),
                          tuple(each.detach() if isinstance(each, torch.Tensor) else each
                                for each in (value, sizes, points, weights, [2, 2, 2]))):
            opcheck(OPS.deformable_attention.default, arguments)

    def test_compile_attention(self):
        def attend(value, points, weights):
            return [vecdet.torch.ops.deformable_attention(value, SIZES, points, weights)]

        self.assert_compiles(attend, operands)

    def test_compile_queries(self):
        classes = [torch.tensor([1, 2]), torch.tensor([0, 3, 4])]
        boxes = [torch.rand(2, 4) * 0.4 + 0.1, torch.rand(3, 4) * 0.4 + 0.1]

        def losses(logits, predicted):
            with torch.no_grad():
                matches = vecdet.torch.ops.match_queries(logits, predicted, boxes, classes)
                column = vecdet.torch.ops.assign_least_cost(predicted[0][0, :3])
            return [vecdet.torch.ops.set_loss(logits, predicted, list(matches), boxes, classes),
                    column]

        self.assert_compiles(
            losses, lambda: ([torch.randn(2, 30, CLASSES).requires_grad_() for _ in range(2)],
                             [torch.rand(2, 30, 4).requires_grad_() for _ in range(2)]))

    def test_compile_accelerated_detrs(self):
        torch.manual_seed(0)
        for name, form in FORMS.items():
            if name == "Hugging Face without a list":  # reads the sizes from a tensor
                continue
            with self.subTest(name):
                module = vecdet.torch.accelerate(form())

                def layer(query, points, value):
                    return [module(query, points, value, SIZES)]

                self.assert_compiles(
                    layer, lambda: [torch.randn(2, 7, CHANNELS).requires_grad_(),
                                    torch.rand(2, 7, 2).requires_grad_(),
                                    torch.randn(2, LOCATIONS, CHANNELS).requires_grad_()],
                    ("aot_eager",))

    def test_opcheck_of_two_stages(self):
        rois = torch.cat([torch.randint(0, 2, (9, 1)).float(), some_boxes(9)], 1)
        calls = [
            ("postprocess_box_head", (torch.randn(9, CLASSES), torch.randn(9, 4 * CLASSES),
                                      some_boxes(9), [4, 5], [90.0, 90.0, 90.0, 90.0])),
            ("sample_balanced", (some_labels(), [30, 34], 16)),
            ("masks_from_prototypes", (torch.randn(2, 3, 6, 7), torch.randn(9, 3), some_boxes(9),
                                       [24, 28, 30, 28], [4, 5], 1, 1)),
            ("paste_masks", (torch.rand(9, 1, 4, 4), some_boxes(9), [24, 28])),
            ("paste_soft_masks", (torch.rand(9, 1, 4, 4), some_boxes(9), [24, 28])),
            ("postprocess", (torch.randn(1, ROWS, CLASSES), torch.randn(1, ROWS, 4),
                             some_boxes(ROWS), [90.0, 90.0], [ROWS])),
            ("postprocess", (torch.randn(1, ROWS, CLASSES), torch.randn(1, ROWS, 4),
                             some_boxes(ROWS), [90.0, 90.0], [ROWS], 0, 0.05, 1000, 0.5, 300, [],
                             None, 4.0, 0.0, [0], [0.5] * CLASSES, [1] * CLASSES)),
        ]
        for layout in (torch.contiguous_format, torch.channels_last):
            features = [torch.randn(2, 5, side, side).to(memory_format=layout).requires_grad_()
                        for side in (16, 8)]
            calls += [
                ("roi_align", (features[0], rois, [3, 2], 0.2, 2)),
                ("roi_align", (features[0].detach().bfloat16().requires_grad_(), rois, [3, 2])),
                ("roi_align", (features[0].detach(), some_boxes(9), [2, 2], 0.2, -1, True, [4, 5])),
                ("multiscale_roi_align", (features, rois, [3, 2], [0.25, 0.125])),
                ("rpn_postprocess", ([x.detach() for x in some_levels(1, layout)],
                                     [x.detach() for x in some_levels(4, layout)],
                                     some_boxes(ANCHORS), [90.0, 90.0, 90.0, 90.0])),
            ]
        for name, arguments in calls:
            with self.subTest(name):
                opcheck(getattr(OPS, name).default, arguments)

    def test_compile_without_graph_breaks(self):
        def loss_of(logits, labels, boxes, targets):
            focal = vecdet.torch.ops.sigmoid_focal_loss(logits, labels=labels, reduction="sum")
            return focal + OPS.iou_loss(boxes, targets, 1, 1)

        def run(function):
            torch.manual_seed(1)
            logits = torch.randn(ROWS, CLASSES, requires_grad=True)
            boxes = some_boxes(ROWS, True)
            loss = function(logits, some_labels(), boxes, some_boxes(ROWS))
            loss.backward()
            return loss.detach(), logits.grad, boxes.grad

        expected = run(loss_of)
        for backend in ("aot_eager", "inductor"):
            with self.subTest(backend):
                torch._dynamo.reset()
                found = run(torch.compile(loss_of, fullgraph=True, backend=backend))
                for a, b in zip(found, expected):
                    torch.testing.assert_close(a, b)

    def assert_compiles(self, function, make_inputs, backends=("aot_eager", "inductor")):
        """Compiled without graph breaks: the same results, and gradients with the same layout."""

        def run(compiled):
            torch.manual_seed(1)
            inputs = make_inputs()
            results = compiled(*inputs)
            sum(result.sum() for result in results if result.requires_grad).backward()
            leaves = [t for i in inputs for t in (i if isinstance(i, list) else [i])]
            return [r.detach() for r in results], [t.grad for t in leaves if t.requires_grad]

        expected, expected_grads = run(function)
        for backend in backends:
            with self.subTest(backend):
                torch._dynamo.reset()
                found, grads = run(torch.compile(function, fullgraph=True, backend=backend))
                for a, b in zip(found, expected):
                    torch.testing.assert_close(a, b)
                for a, b in zip(grads, expected_grads):
                    torch.testing.assert_close(a, b)
                    self.assertEqual(a.stride(), b.stride())

    def test_compile_heads(self):
        boxes = [some_boxes(2), some_boxes(3)]
        classes = [torch.tensor([1, 2]), torch.tensor([0, 3, 4])]
        anchors = some_boxes(ANCHORS)

        def losses(logits, deltas):
            return vecdet.torch.ops.retinanet_loss(logits, deltas, anchors, boxes, classes)

        def parts(logits, rows):
            matches, labels, _ = vecdet.torch.ops.match_anchors(anchors, boxes, classes)
            scores = (matches >= 0).float()
            return (vecdet.torch.ops.sigmoid_focal_loss_levels(logits, labels),
                    vecdet.torch.ops.quality_focal_loss(rows, labels, scores, reduction="sum"))

        def under_autocast(logits, deltas):
            with torch.autocast("cpu", torch.bfloat16):
                return losses(logits, deltas)

        for layout in (torch.contiguous_format, torch.channels_last):
            self.assert_compiles(
                losses, lambda: (some_levels(CLASSES, layout), some_levels(4, layout)))
            self.assert_compiles(
                parts, lambda: (some_levels(CLASSES, layout),
                                torch.randn(2, ANCHORS, CLASSES, requires_grad=True)))
        self.assert_compiles(
            under_autocast, lambda: (some_levels(CLASSES, torch.channels_last, torch.bfloat16),
                                     some_levels(4, torch.channels_last, torch.bfloat16)))

    def test_compile_roi_align(self):
        boxes = [some_boxes(4), some_boxes(5)]

        def one(features):
            return [vecdet.torch.ops.roi_align(features, boxes, 3, 0.2, 2)]

        def pyramid(levels):
            return [vecdet.torch.ops.multiscale_roi_align(levels, boxes, (3, 2), [0.25, 0.125])]

        def features(side, layout):
            return torch.randn(2, 5, side, side).to(memory_format=layout).requires_grad_()

        for layout in (torch.contiguous_format, torch.channels_last):
            self.assert_compiles(one, lambda: (features(16, layout),))
            self.assert_compiles(pyramid, lambda: ([features(16, layout), features(8, layout)],))

    def test_export(self):
        class Detections(torch.nn.Module):
            def forward(self, boxes, scores):
                return OPS.nms(boxes, scores, 0.5), OPS.pairwise_iou(boxes, boxes)

        arguments = (some_boxes(ROWS), torch.rand(ROWS))
        exported = torch.export.export(Detections(), arguments).module()
        for a, b in zip(exported(*arguments), Detections()(*arguments)):
            torch.testing.assert_close(a, b, equal_nan=True)

    def test_export_of_two_stages(self):
        class Head(torch.nn.Module):
            def forward(self, features, proposals, deltas):
                bins = OPS.roi_align(features, proposals, [2, 2], 0.2, 2, False, [9])
                return OPS.postprocess_box_head(bins.flatten(1)[:, :3], deltas, proposals, [9],
                                                [90.0, 90.0])

        arguments = (torch.randn(1, 4, 16, 16), some_boxes(9), torch.randn(9, 12))
        exported = torch.export.export(Head(), arguments).module()
        for a, b in zip(exported(*arguments), Head()(*arguments)):
            torch.testing.assert_close(a, b)


if __name__ == "__main__":
    unittest.main()
