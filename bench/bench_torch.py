# SPDX-License-Identifier: Apache-2.0
"""vecdet's operators beside torchvision's, in one process, forward and backward where there is one.

    PYTHONPATH=<build tree>/python python3 bench/bench_torch.py [threads ...]

Medians of runs that alternate between the two. Most memory is fresh at each call as glibc is set;
MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 keeps it.
"""

import statistics
import sys
import time

import torch
from torchvision import ops as theirs
from torchvision.models.detection._utils import BoxCoder
from vecdet import ops as ours

ROUNDS = 9


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def compare(name, mine, other):
    times = [], []
    for _ in range(ROUNDS + 1):
        times[0].append(seconds(mine))
        times[1].append(seconds(other))
    fast, slow = (statistics.median(t[1:]) * 1e3 for t in times)
    print(f"| {name:40} | {torch.get_num_threads():7} | {slow:14.3f} | {fast:9.3f} | "
          f"{slow / fast:5.1f}x |", flush=True)


def step(loss, values):
    """loss(values), and its gradient."""

    def call():
        values.grad = None
        loss(values).backward()

    return call


def run():
    torch.manual_seed(0)
    rows, classes = 120087, 91
    logits = (torch.randn(rows, classes) - 4).requires_grad_()
    labels = torch.full((rows,), -1)
    labels[::1000] = 3
    one_hot = torch.zeros(rows, classes)
    one_hot[labels >= 0, 3] = 1
    expected = step(lambda x: theirs.sigmoid_focal_loss(x, one_hot, reduction="sum"), logits)
    compare(f"sigmoid_focal_loss/labels/{rows}x{classes}",
            step(lambda x: ours.sigmoid_focal_loss(x, labels=labels, reduction="sum"), logits),
            expected)
    compare(f"sigmoid_focal_loss/dense/{rows}x{classes}",
            step(lambda x: ours.sigmoid_focal_loss(x, one_hot, reduction="sum"), logits), expected)

    corner = torch.rand(rows, 2) * 800
    boxes = torch.cat([corner, corner + torch.rand(rows, 2) * 100 + 1], 1)
    predicted = (boxes + torch.randn(rows, 4)).requires_grad_()
    for name in ("generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"):
        compare(f"{name}/{rows}",
                step(lambda b: getattr(ours, name)(b, boxes, "sum"), predicted),
                step(lambda b: getattr(theirs, name)(b, boxes, "sum"), predicted))
    compare(f"smooth_l1_loss/{rows}x4",
            step(lambda b: ours.smooth_l1_loss(b, boxes, "sum"), predicted),
            step(lambda b: torch.nn.functional.smooth_l1_loss(b, boxes, reduction="sum"),
                 predicted))

    coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
    deltas = torch.randn(rows, 4) * 0.2
    compare(f"encode_boxes/{rows}", lambda: ours.encode_boxes(boxes, boxes),
            lambda: coder.encode_single(boxes, boxes))
    compare(f"decode_boxes/clip/{rows}",
            lambda: ours.decode_boxes(deltas, boxes, image_size=(800, 800)),
            lambda: theirs.clip_boxes_to_image(coder.decode_single(deltas, boxes), (800, 800)))
    compare(f"box_iou/20x{rows}", lambda: ours.box_iou(boxes[:20], boxes),
            lambda: theirs.box_iou(boxes[:20], boxes))
    scores = torch.rand(rows)
    for count in (1000, 5000):
        compare(f"nms/{count}", lambda: ours.nms(boxes[:count], scores[:count], 0.5),
                lambda: theirs.nms(boxes[:count], scores[:count], 0.5))
    few, few_labels = torch.randn(8, 4, requires_grad=True), torch.zeros(8, dtype=torch.int64)
    few_hot = torch.zeros(8, 4)
    compare("sigmoid_focal_loss/labels/8x4, the call",
            step(lambda x: ours.sigmoid_focal_loss(x, labels=few_labels, reduction="sum"), few),
            step(lambda x: theirs.sigmoid_focal_loss(x, few_hot, reduction="sum"), few))


def main():
    print("| function | threads | torchvision ms | vecdet ms | ratio |\n|---|--:|--:|--:|--:|")
    for threads in [int(n) for n in sys.argv[1:]] or [1, 2]:
        torch.set_num_threads(threads)
        run()


if __name__ == "__main__":
    main()
