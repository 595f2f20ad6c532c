# SPDX-License-Identifier: Apache-2.0
"""Times training steps and inference of torchvision's detectors: without vecdet, with vecdet except for its
convolutions, and with all of vecdet. Rounds alternate; times are medians. SSD300 has a batch of four pictures, the
others have one.

    PYTHONPATH=<build tree>/python python3 accelerate_detectors.py [size [classes]]
        [--models retinanet fcos ssd300 faster_rcnn] [--threads N] [--rounds N] [--keep-memory]
"""

import argparse
import copy
import pathlib
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import figures  # noqa: E402 (before torch: removes what spoils figures from the environment)
import torch  # noqa: E402
import vecdet.torch  # noqa: E402
from torchvision.models import detection  # noqa: E402


MODELS = {
    "retinanet": detection.retinanet_resnet50_fpn,
    "fcos": detection.fcos_resnet50_fpn,
    "ssd300": detection.ssd300_vgg16,
    "faster_rcnn": detection.fasterrcnn_resnet50_fpn,
}


def time_model(name, options):
    torch.manual_seed(0)
    is_ssd = name == "ssd300"
    size, pictures = (300, 4) if is_ssd else (options.size, 1)
    limits = {} if is_ssd else {"min_size": size, "max_size": size}
    model = MODELS[name](weights=None, weights_backbone=None, num_classes=options.classes, **limits)
    models = {
        "torchvision": model,
        "vecdet, torch's convolutions": vecdet.torch.accelerate(copy.deepcopy(model),
                                                                convolutions=False),
        "vecdet": vecdet.torch.accelerate(copy.deepcopy(model)),
    }
    images = [torch.rand(3, size, size) for _ in range(pictures)]
    box = torch.tensor([[0.1, 0.2, 0.6, 0.7], [0.3, 0.1, 0.9, 0.5]]) * size
    targets = [{"boxes": box, "labels": torch.tensor([3, 17])}] * pictures

    def step(model):
        model.train()
        model.zero_grad(set_to_none=True)
        torch.manual_seed(0)  # of Faster R-CNN's samples
        begin = time.perf_counter()
        losses = model(images, targets)
        sum(losses.values()).backward()
        return time.perf_counter() - begin, {key: loss.item() for key, loss in losses.items()}

    def detect(model):
        model.eval()
        begin = time.perf_counter()
        with torch.no_grad():
            model(images)
        return time.perf_counter() - begin

    training, inference, losses = {}, {}, {}
    for number in range(options.rounds + 1):
        for kind, model in models.items():
            seconds, losses[kind] = step(model)
            found = detect(model)
            if number > 0:  # the first round allocates memory and selects algorithms
                training.setdefault(kind, []).append(seconds)
                inference.setdefault(kind, []).append(found)
    print(name)
    for kind in models:
        times = [statistics.median(seconds[kind]) for seconds in (training, inference)]
        gains = [statistics.median(seconds["torchvision"]) / time
                 for seconds, time in zip((training, inference), times)]
        print(f"  {kind:28} step {times[0]:6.3f} s, {gains[0]:.2f}x  inference {times[1]:6.3f} s, {gains[1]:.2f}x  "
              + "  ".join(f"{key} {loss:.6f}" for key, loss in losses[kind].items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", type=int, default=128)
    parser.add_argument("classes", nargs="?", type=int, default=91)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["retinanet"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keep-memory", action="store_true")
    options = parser.parse_args()
    if options.keep_memory and not vecdet.torch.keep_memory():
        print("memory is not kept: malloc is not glibc's")
    torch.set_num_threads(options.threads)
    print(f"PyTorch {torch.__version__}, {figures.blas()}, {options.threads} threads")
    for name in options.models:
        time_model(name, options)


if __name__ == "__main__":
    main()
