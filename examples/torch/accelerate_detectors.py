# SPDX-License-Identifier: Apache-2.0
"""Times training steps and inference of torchvision's detectors: without vecdet, with vecdet except for its
convolutions, and with all of vecdet. Rounds alternate; times are medians. SSD300 has a batch of four pictures, the
others have one. "retinanet_resnext50" has ResNeXt50 and 264 classes, as in MLPerf's benchmark. "yolov8s" is a network
with the layers of YOLOv8-s, of which vecdet takes convolutions, normalisation with SiLU, and pooling: four pictures of
640 x 640, and the sum of the outputs instead of losses.

    PYTHONPATH=<build tree>/python python3 accelerate_detectors.py [size [classes]]
        [--models retinanet retinanet_resnext50 fcos ssd300 faster_rcnn yolov8s] [--threads N] [--rounds N]
        [--keep-memory] [--bfloat16] [--only training | inference] [--processor-time]

--bfloat16 computes in autocast's bfloat16 and with channels_last. --processor-time prints the shortest processor times
instead of medians of elapsed times: for a machine that others use, on one thread.
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
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone  # noqa: E402
from torchvision.ops.feature_pyramid_network import LastLevelP6P7  # noqa: E402
from yolov8_network import YOLOv8s  # noqa: E402


def retinanet_resnext50(num_classes, **options):
    backbone = resnet_fpn_backbone(backbone_name="resnext50_32x4d", weights=None, trainable_layers=3,
                                   returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256))
    return detection.RetinaNet(backbone, num_classes, **options)


MODELS = {
    "retinanet": detection.retinanet_resnet50_fpn,
    "retinanet_resnext50": retinanet_resnext50,
    "fcos": detection.fcos_resnet50_fpn,
    "ssd300": detection.ssd300_vgg16,
    "faster_rcnn": detection.fasterrcnn_resnet50_fpn,
}


def make_model(name, options):
    """A model without vecdet, its pictures, and a function of a model that returns its losses or detections."""
    if name == "yolov8s":
        pictures = torch.rand(4, 3, 640, 640)
        return YOLOv8s(), pictures, lambda model: {"sum": sum(output.float().sum() for output in model(pictures))}
    is_ssd = name == "ssd300"
    size, count = (300, 4) if is_ssd else (options.size, 1)
    limits = {} if is_ssd else {"min_size": size, "max_size": size}
    own = {} if name == "retinanet_resnext50" else {"weights": None, "weights_backbone": None}
    model = MODELS[name](num_classes=264 if name == "retinanet_resnext50" else options.classes, **own, **limits)
    pictures = [torch.rand(3, size, size) for _ in range(count)]
    box = torch.tensor([[0.1, 0.2, 0.6, 0.7], [0.3, 0.1, 0.9, 0.5]]) * size
    targets = [{"boxes": box, "labels": torch.tensor([3, 17])}] * count
    return model, pictures, lambda model: model(pictures, targets) if model.training else model(pictures)


def make_models(name, options):
    """The model without vecdet and with it, by what vecdet computes; and a function of a model that returns its losses or
    detections."""
    model, _, run = make_model(name, options)
    if name == "yolov8s":
        return {"torch": model, "vecdet's layers": vecdet.torch.accelerate_convolutions(copy.deepcopy(model))}, run
    return {
        "torchvision": model,
        "vecdet, torch's convolutions": vecdet.torch.accelerate(copy.deepcopy(model), convolutions=False),
        "vecdet": vecdet.torch.accelerate(copy.deepcopy(model)),
    }, run


def time_model(name, options):
    torch.manual_seed(0)
    models, run = make_models(name, options)
    if options.bfloat16:
        for model in models.values():
            model.to(memory_format=torch.channels_last)
    clock = time.process_time if options.processor_time else time.perf_counter
    shortest_or_median = min if options.processor_time else statistics.median

    def forward(model):
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bfloat16):
            return run(model)

    def step(model):
        model.train()
        model.zero_grad(set_to_none=True)
        torch.manual_seed(0)  # of Faster R-CNN's samples
        begin = clock()
        losses = forward(model)
        sum(losses.values()).backward()
        return clock() - begin, {key: loss.item() for key, loss in losses.items()}

    def detect(model):
        model.eval()
        begin = clock()
        with torch.no_grad():
            forward(model)
        return clock() - begin

    seconds, losses = {"training": {}, "inference": {}}, {}
    for number in range(options.rounds + 1):
        for kind, model in models.items():
            times = {}
            if options.only != "inference":
                times["training"], losses[kind] = step(model)
            if options.only != "training":
                times["inference"] = detect(model)
            if number > 0:  # the first round allocates memory and selects algorithms
                for what, elapsed in times.items():
                    seconds[what].setdefault(kind, []).append(elapsed)
    print(name)
    for kind in models:
        columns = [f"  {kind:28}"]
        for what, label in (("training", "step"), ("inference", "inference")):
            if kind in seconds[what]:
                first, own = (shortest_or_median(seconds[what][each]) for each in (next(iter(models)), kind))
                columns.append(f"{label} {own:6.3f} s, {first / own:.2f}x")
        columns += [f"{key} {loss:.6f}" for key, loss in losses.get(kind, {}).items()]
        print("  ".join(columns), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", type=int, default=128)
    parser.add_argument("classes", nargs="?", type=int, default=91)
    parser.add_argument("--models", nargs="+", choices=[*MODELS, "yolov8s"], default=["retinanet"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keep-memory", action="store_true")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--only", choices=["training", "inference"])
    parser.add_argument("--processor-time", action="store_true")
    options = parser.parse_args()
    if options.keep_memory and not vecdet.torch.keep_memory():
        print("memory is not kept: malloc is not glibc's")
    torch.set_num_threads(options.threads)
    print(f"PyTorch {torch.__version__}, {figures.blas()}, {options.threads} threads"
          + ", bfloat16, channels_last" * options.bfloat16)
    for name in options.models:
        time_model(name, options)


if __name__ == "__main__":
    main()
