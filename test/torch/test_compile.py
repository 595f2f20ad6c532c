# SPDX-License-Identifier: Apache-2.0
"""What newer PyTorch asks of operators: opcheck, torch.compile without graph breaks, torch.export. Needs
torch 2.4 or newer, and vecdet on PYTHONPATH."""

import sys
import unittest

try:
    import torch
    from torch.library import opcheck
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import vecdet

OPS = torch.ops.vecdet
ROWS, CLASSES = 64, 7


def some_boxes(count, needs_grad=False):
    corner = torch.rand(count, 2) * 50
    boxes = torch.cat([corner, corner + 5 + torch.rand(count, 2) * 50], 1)
    return boxes.requires_grad_(needs_grad)


def some_labels():
    return torch.randint(-2, CLASSES, (ROWS,))


class Operators(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_opcheck(self):
        logits = torch.randn(ROWS, CLASSES, requires_grad=True)
        deltas = (torch.randn(ROWS, 4) * 0.1).requires_grad_()
        calls = [
            ("sigmoid_focal_loss", (logits, some_labels())),
            ("sigmoid_focal_loss", (logits, torch.rand(ROWS, CLASSES))),
            ("sigmoid_focal_loss", (logits.detach(), some_labels())),
            ("giou_loss", (some_boxes(ROWS, True), some_boxes(ROWS))),
            ("diou_loss", (some_boxes(ROWS, True), some_boxes(ROWS))),
            ("ciou_loss", (some_boxes(ROWS, True), some_boxes(ROWS))),
            ("smooth_l1_loss", (deltas, torch.randn(ROWS, 4))),
            ("regression_loss", (deltas, some_boxes(ROWS), some_boxes(ROWS))),
            ("encode_boxes", (some_boxes(ROWS), some_boxes(ROWS))),
            ("decode_boxes", (deltas.detach(), some_boxes(ROWS))),
            ("encode_distances", (some_boxes(ROWS), some_boxes(ROWS))),
            ("decode_distances", (torch.rand(ROWS, 4), some_boxes(ROWS))),
            ("pairwise_iou", (some_boxes(5), some_boxes(9))),
            ("elementwise_iou", (some_boxes(5), some_boxes(5))),
            ("nms", (some_boxes(ROWS), torch.rand(ROWS), 0.5)),
            ("batched_nms", (some_boxes(ROWS), torch.rand(ROWS), torch.randint(0, 3, (ROWS,)), 0.5)),
            ("soft_nms", (some_boxes(ROWS), torch.rand(ROWS))),
            ("filter_topk", (logits.detach(), 0.5, 10)),
        ]
        for name, arguments in calls:
            with self.subTest(name):
                opcheck(getattr(OPS, name).default, arguments)

    def test_compile_without_graph_breaks(self):
        def loss_of(logits, labels, boxes, targets):
            focal = vecdet.ops.sigmoid_focal_loss(logits, labels=labels, reduction="sum")
            return focal + OPS.giou_loss(boxes, targets, 1)

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

    def test_export(self):
        class Detections(torch.nn.Module):
            def forward(self, boxes, scores):
                return OPS.nms(boxes, scores, 0.5), OPS.pairwise_iou(boxes, boxes)

        arguments = (some_boxes(ROWS), torch.rand(ROWS))
        exported = torch.export.export(Detections(), arguments).module()
        for a, b in zip(exported(*arguments), Detections()(*arguments)):
            torch.testing.assert_close(a, b, equal_nan=True)


if __name__ == "__main__":
    unittest.main()
