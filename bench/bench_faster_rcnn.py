# SPDX-License-Identifier: Apache-2.0
"""Times a step of torchvision's Faster R-CNN (ResNet50, FPN) or Mask R-CNN, in training and in evaluation,
unmodified and accelerated, in one process.

    PYTHONPATH=<build tree>/python python3 bench/bench_faster_rcnn.py [--masks] [--size 800]
        [--threads 2] [--rounds 3]

One picture, 91 classes, 20 ground-truth boxes, and 1,000 proposals in training and in evaluation.
Times are medians of alternating rounds.
"""

import argparse
import statistics
import time

import figures
import torch
import vecdet.torch
from torchvision.models import detection


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--masks", action="store_true", help="Mask R-CNN")
    parser.add_argument("--size", type=int, default=800, help="side of the picture")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def make_model(args):
    make = detection.maskrcnn_resnet50_fpn if args.masks else detection.fasterrcnn_resnet50_fpn
    # The box head pools all proposals, up to the maximum of a batch.
    return make(weights=None, weights_backbone=None, num_classes=91, min_size=args.size,
                max_size=args.size, rpn_post_nms_top_n_train=1000, rpn_post_nms_top_n_test=1000,
                box_batch_size_per_image=1000)


def make_target(size):
    corner = torch.rand(20, 2) * size * 0.7
    boxes = torch.cat([corner, corner + size * (0.03 + 0.25 * torch.rand(20, 2))], 1)
    masks = torch.zeros(20, size, size, dtype=torch.uint8)
    for mask, (left, top, right, bottom) in zip(masks, boxes.long().tolist()):
        mask[top:bottom, left:right] = 1
    return {"boxes": boxes, "labels": torch.randint(1, 91, (20,)), "masks": masks}


def train(model, image, target):
    model.train()
    model.zero_grad()
    torch.manual_seed(1)  # for the samples
    begin = time.perf_counter()
    losses = model([image], [target])
    forward = time.perf_counter()
    sum(losses.values()).backward()
    end = time.perf_counter()
    return (forward - begin, end - forward, end - begin), {k: v.item() for k, v in losses.items()}


def detect(model, image):
    model.eval()
    begin = time.perf_counter()
    with torch.no_grad():
        model([image])
    return time.perf_counter() - begin


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model, target = make_model(args), make_target(args.size)
    image = torch.rand(3, args.size, args.size)
    ways = (("torchvision", vecdet.torch.restore), ("vecdet", vecdet.torch.accelerate))
    times = {name: [] for name, _ in ways}
    for _ in range(args.rounds + 1):
        for name, change in ways:
            change(model)
            step, losses = train(model, image, target)
            times[name].append((*step, detect(model, image), losses))
    print(f"PyTorch {torch.__version__}, {figures.blas()}, {type(model).__name__}, {args.size} x {args.size}, "
          f"{args.threads} threads")
    print("| | forward s | backward s | step s | detection s | losses |\n|---|--:|--:|--:|--:|---|")
    for name, measured in times.items():
        *columns, losses = zip(*measured[1:])  # the first ones allocate memory
        print(f"| {name} | " + " | ".join(f"{statistics.median(c):.3f}" for c in columns) + " | "
              + " ".join(f"{k} {v:.6f}" for k, v in losses[-1].items()) + " |")


if __name__ == "__main__":
    main()
