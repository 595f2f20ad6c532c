# SPDX-License-Identifier: Apache-2.0
"""Compares vecdet's operators with torchvision's, and with torch.compile if this PyTorch has it, in
one process, forward and, if supported, backward.

    PYTHONPATH=<build tree>/python python3 bench/bench_torch.py [threads ...]

Figures are medians of alternating runs. torch.compile gets hand-tuned formulas of the focal and the
IoU losses (loss_formulas.py), and torchvision's function for the others. glibc keeps freed memory
(vecdet.torch.keep_memory): otherwise, most memory is new at each call and costs more than many kernels.
~ marks times whose median is more than a third above the least one.
"""

import statistics
import sys
import time

import figures
import torch
from torch.nn import functional as F
from torchvision import ops as theirs
from torchvision.models.detection._utils import BoxCoder, Matcher

from loss_formulas import focal_loss_and_grad, iou_loss
from vecdet.torch import keep_memory, ops as ours

ROUNDS = 9


def compiles() -> bool:
    """Whether torch.compile exists and finds a compiler."""
    try:
        torch.compile(lambda x: x + 1)(torch.ones(3))
        return True
    except Exception:
        return False


HAS_COMPILE = compiles()


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def compare(name, mine, other, compiled=None):
    calls = [call for call in (mine, other, compiled) if call is not None]
    times = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(ROUNDS):
        for taken, call in zip(times, calls):
            taken.append(seconds(call))
    fast, slow, *rest = (statistics.median(t) * 1e3 for t in times)
    by_compiler = f"{rest[0]:16.3f} | {rest[0] / fast:5.1f}x" if rest else f"{'-':>16} | {'-':>6}"
    mark = " ~" if any(figures.is_unsteady(min(t), statistics.median(t)) for t in times) else ""
    print(f"| {name:42} | {torch.get_num_threads():7} | {slow:14.3f} | {by_compiler} | "
          f"{fast:9.3f} | {slow / fast:5.1f}x{mark} |", flush=True)


def step(loss, *values):
    """loss(*values), and its gradient."""

    def call():
        for value in values:
            value.grad = None
        loss(*values).backward()

    return call


def compiled_step(loss, *values):
    return step(torch.compile(loss), *values) if HAS_COMPILE else None


def compiled(function, *arguments):
    if not HAS_COMPILE:
        return None
    quick = torch.compile(function)
    return lambda: quick(*arguments)


def some_boxes(count, size=800):
    corner = torch.rand(count, 2) * size
    return torch.cat([corner, corner + torch.rand(count, 2) * 100 + 1], 1)


def losses(rows, classes):
    logits = (torch.randn(rows, classes) - 4).requires_grad_()
    labels = torch.full((rows,), -1)
    labels[::1000] = 3
    one_hot = torch.zeros(rows, classes)
    one_hot[labels >= 0, 3] = 1
    expected = focal_loss_and_grad(logits.detach()[:5000], labels[:5000])
    torch.testing.assert_close(
        expected[0], ours.sigmoid_focal_loss(logits[:5000], labels=labels[:5000], reduction="sum"))
    expected = step(lambda x: theirs.sigmoid_focal_loss(x, one_hot, reduction="sum"), logits)
    compare(f"sigmoid_focal_loss/labels/{rows}x{classes}",
            step(lambda x: ours.sigmoid_focal_loss(x, labels=labels, reduction="sum"), logits),
            expected, compiled(focal_loss_and_grad, logits.detach(), labels))
    compare(f"sigmoid_focal_loss/dense/{rows}x{classes}",
            step(lambda x: ours.sigmoid_focal_loss(x, one_hot, reduction="sum"), logits), expected,
            compiled_step(lambda x: theirs.sigmoid_focal_loss(x, one_hot, reduction="sum"), logits))

    boxes = some_boxes(rows)
    predicted = (boxes + torch.randn(rows, 4)).requires_grad_()
    for kind in ("generalized", "distance", "complete"):
        name = f"{kind}_box_iou_loss"
        torch.testing.assert_close(iou_loss(predicted[:1000], boxes[:1000], kind),
                                   getattr(ours, name)(predicted[:1000], boxes[:1000], "sum"))
        compare(f"{name}/{rows}", step(lambda b: getattr(ours, name)(b, boxes, "sum"), predicted),
                step(lambda b: getattr(theirs, name)(b, boxes, "sum"), predicted),
                compiled_step(lambda b: iou_loss(b, boxes, kind), predicted))
    theirs_of = lambda b: F.smooth_l1_loss(b, boxes, reduction="sum")
    compare(f"smooth_l1_loss/{rows}x4",
            step(lambda b: ours.smooth_l1_loss(b, boxes, "sum"), predicted),
            step(theirs_of, predicted), compiled_step(theirs_of, predicted))

    bins, distances = torch.randn(8400, 4, 16, requires_grad=True), torch.rand(8400, 4) * 15
    low = distances.floor().long().clamp(max=14)

    def distribution(x):
        log_p = x.log_softmax(-1)
        left = log_p.gather(-1, low[..., None]).squeeze(-1)
        right = log_p.gather(-1, low[..., None] + 1).squeeze(-1)
        return -(left * (low + 1 - distances) + right * (distances - low)).sum()

    compare("distribution_focal_loss/33600x16",
            step(lambda x: ours.distribution_focal_loss(x, distances, "sum"), bins),
            step(distribution, bins), compiled_step(distribution, bins))


def boxes_and_matching(rows):
    boxes, deltas = some_boxes(rows), torch.randn(rows, 4) * 0.2
    coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
    compare(f"encode_boxes/{rows}", lambda: ours.encode_boxes(boxes, boxes),
            lambda: coder.encode_single(boxes, boxes),
            compiled(coder.encode_single, boxes, boxes))
    decode = lambda d, b: theirs.clip_boxes_to_image(coder.decode_single(d, b), (800, 800))
    compare(f"decode_boxes/clip/{rows}",
            lambda: ours.decode_boxes(deltas, boxes, image_size=(800, 800)),
            lambda: decode(deltas, boxes), compiled(decode, deltas, boxes))
    compare(f"box_iou/20x{rows}", lambda: ours.box_iou(boxes[:20], boxes),
            lambda: theirs.box_iou(boxes[:20], boxes), compiled(theirs.box_iou, boxes[:20], boxes))
    truth, matcher = some_boxes(20, 700), Matcher(0.5, 0.4, True)
    compare(f"match_anchors/20x{rows}", lambda: ours.match_anchors(boxes, truth),
            lambda: matcher(theirs.box_iou(truth, boxes)))
    scores = torch.rand(rows)
    for count in (1000, 5000):
        compare(f"nms/{count}", lambda: ours.nms(boxes[:count], scores[:count], 0.5),
                lambda: theirs.nms(boxes[:count], scores[:count], 0.5))


def two_stages():
    """RoIAlign of 1,000 boxes of a picture of 800 x 800, on a map with stride 4."""
    boxes = some_boxes(1000, 690)
    for layout, kept in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
        features = torch.randn(1, 256, 200, 200).to(memory_format=kept)
        pools = [lambda x, f=f: f(x, [boxes], 7, 0.25, 2) for f in (ours.roi_align,
                                                                    theirs.roi_align)]
        compare(f"roi_align/{layout}/1000x256x7x7", *(lambda p=p: p(features) for p in pools))
        bins = [pool(features.requires_grad_()) for pool in pools]
        upstream = torch.randn_like(bins[0])
        compare(f"roi_align/{layout}/1000x256x7x7, backward alone",
                *(lambda b=b: torch.autograd.grad(b, features, upstream, retain_graph=True)
                  for b in bins))


def calls():
    """The overhead of a call, on problems of a few numbers."""
    few, labels = torch.randn(8, 4, requires_grad=True), torch.zeros(8, dtype=torch.int64)
    one_hot = torch.zeros(8, 4)
    theirs_of = lambda x: theirs.sigmoid_focal_loss(x, one_hot, reduction="sum")
    compare("sigmoid_focal_loss/labels/8x4, the call",
            step(lambda x: ours.sigmoid_focal_loss(x, labels=labels, reduction="sum"), few),
            step(theirs_of, few), compiled_step(theirs_of, few))
    boxes = some_boxes(8)
    compare("box_iou/8x8, the call", lambda: ours.box_iou(boxes, boxes),
            lambda: theirs.box_iou(boxes, boxes), compiled(theirs.box_iou, boxes, boxes))


def main():
    if not keep_memory():
        raise SystemExit("malloc does not keep memory here")
    print(f"{figures.processor()}, PyTorch {torch.__version__}, {figures.blas()}, {time.strftime('%Y-%m-%d')}\n")
    print("| function | threads | torchvision ms | torch.compile ms | ratio | vecdet ms | ratio |\n"
          "|---|--:|--:|--:|--:|--:|--:|")
    for threads in [int(n) for n in sys.argv[1:]] or [1, 2]:
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        losses(120087, 91)
        boxes_and_matching(120087)
        two_stages()
        calls()


if __name__ == "__main__":
    main()
