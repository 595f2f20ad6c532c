# SPDX-License-Identifier: Apache-2.0
"""Times a training step of torchvision's RetinaNet, without and with vecdet.

    PYTHONPATH=<build tree>/python python3 accelerate_retinanet.py [size [classes]]
"""

import sys
import time

import torch
import vecdet
from torchvision.models import detection


def main():
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 128
    classes = int(sys.argv[2]) if len(sys.argv) > 2 else 91
    torch.manual_seed(0)
    model = detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None,
                                             num_classes=classes, min_size=size, max_size=size)
    model.train()
    images = [torch.rand(3, size, size)]
    box = torch.tensor([[0.1, 0.2, 0.6, 0.7], [0.3, 0.1, 0.9, 0.5]]) * size
    targets = [{"boxes": box, "labels": torch.tensor([3, 17])}]

    def step():
        model.zero_grad()
        begin = time.perf_counter()
        losses = model(images, targets)
        sum(losses.values()).backward()
        return time.perf_counter() - begin, {name: loss.item() for name, loss in losses.items()}

    step()  # allocates memory and selects convolution algorithms
    for name, change in (("torchvision", vecdet.restore), ("vecdet", vecdet.accelerate)):
        change(model)
        seconds, losses = min((step() for _ in range(2)), key=lambda measured: measured[0])
        print(f"{name:12} {seconds:6.3f} s a step  " +
              "  ".join(f"{key} {loss:.6f}" for key, loss in losses.items()))


if __name__ == "__main__":
    main()
