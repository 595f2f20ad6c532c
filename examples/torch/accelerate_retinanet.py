# SPDX-License-Identifier: Apache-2.0
"""Times training steps and inference of torchvision's RetinaNet: without vecdet, with vecdet except for its
convolutions, and with all of vecdet. Rounds alternate; times are medians.

    PYTHONPATH=<build tree>/python python3 accelerate_retinanet.py [size [classes]]
        [--threads N] [--rounds N] [--keep-memory]
"""

import argparse
import copy
import statistics
import time

import torch
import vecdet.torch
from torchvision.models import detection


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", type=int, default=128)
    parser.add_argument("classes", nargs="?", type=int, default=91)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keep-memory", action="store_true")
    options = parser.parse_args()
    if options.keep_memory and not vecdet.torch.keep_memory():
        print("memory is not kept: malloc is not glibc's")
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    size = options.size
    model = detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None,
                                             num_classes=options.classes, min_size=size,
                                             max_size=size)
    models = {
        "torchvision": model,
        "vecdet, torch's convolutions": vecdet.torch.accelerate(copy.deepcopy(model),
                                                          convolutions=False),
        "vecdet": vecdet.torch.accelerate(copy.deepcopy(model)),
    }
    images = [torch.rand(3, size, size)]
    box = torch.tensor([[0.1, 0.2, 0.6, 0.7], [0.3, 0.1, 0.9, 0.5]]) * size
    targets = [{"boxes": box, "labels": torch.tensor([3, 17])}]

    def step(model):
        model.train()
        model.zero_grad(set_to_none=True)
        begin = time.perf_counter()
        losses = model(images, targets)
        sum(losses.values()).backward()
        return time.perf_counter() - begin, {name: loss.item() for name, loss in losses.items()}

    def detect(model):
        model.eval()
        begin = time.perf_counter()
        with torch.no_grad():
            model(images)
        return time.perf_counter() - begin

    training, inference, losses = {}, {}, {}
    for number in range(options.rounds + 1):
        for name, model in models.items():
            seconds, losses[name] = step(model)
            found = detect(model)
            if number > 0:  # the first round allocates memory and selects algorithms
                training.setdefault(name, []).append(seconds)
                inference.setdefault(name, []).append(found)
    for name in models:
        print(f"{name:28} step {statistics.median(training[name]):6.3f} s  inference "
              f"{statistics.median(inference[name]):6.3f} s  " +
              "  ".join(f"{key} {loss:.6f}" for key, loss in losses[name].items()))


if __name__ == "__main__":
    main()
