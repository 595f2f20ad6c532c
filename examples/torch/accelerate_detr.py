# SPDX-License-Identifier: Apache-2.0
"""Times training steps of a public DETR: without vecdet, with its deformable attention, then also its matching and
losses, and its convolutions. Rounds alternate; times are medians. Prints how far the losses of the first round differ.

    PYTHONPATH=<build tree>/python python3 accelerate_detr.py rt_detr <clone of github.com/lyuwenyu/RT-DETR>
    PYTHONPATH=<build tree>/python python3 accelerate_detr.py rt_detr_v2          Hugging Face's transformers
    PYTHONPATH=<build tree>/python python3 accelerate_detr.py deformable_detr     Hugging Face's transformers
        [--size 640] [--pictures 2] [--boxes 7] [--threads N] [--rounds N]

Models have random weights, also where they would begin as zeros, which hide differences; a backbone ResNet-18 or, for
Deformable DETR, ResNet-50. Pictures are noise. A clone of RT-DETR needs its requirements.txt, except for its data sets.
"""

import argparse
import copy
import os
import pathlib
import statistics
import sys
import time
import types

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import figures  # noqa: E402 (before torch: removes what spoils figures from the environment)
import torch  # noqa: E402
import vecdet.torch  # noqa: E402
from vecdet.torch import ops  # noqa: E402

CLASSES = 80


def rt_detr(clone, size):
    """RTDETRv2-R18 and its criterion."""
    folder = os.path.join(clone, "rtdetrv2_pytorch")
    for name in ("src", "src.data"):  # without the data sets, which need further packages
        sys.modules[name] = types.ModuleType(name)
    sys.modules["src"].__path__ = [os.path.join(folder, "src")]
    sys.modules["src.data"].DataLoader = torch.utils.data.DataLoader
    import src.nn  # noqa: F401 (registers the modules)
    import src.zoo  # noqa: F401
    from src.core import YAMLConfig

    config = YAMLConfig(os.path.join(folder, "configs", "rtdetrv2", "rtdetrv2_r18vd_120e_coco.yml"),
                        PResNet={"pretrained": False}, eval_spatial_size=[size, size])
    matcher = ops.HungarianMatcher(2, 5, 2, as_dict=True)
    return config.model, config.criterion, matcher


def hugging_face(name):
    import transformers

    if name == "rt_detr_v2":
        backbone = transformers.RTDetrResNetConfig(
            embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic",
            out_features=["stage2", "stage3", "stage4"])
        return transformers.RTDetrV2ForObjectDetection(transformers.RTDetrV2Config(
            backbone_config=backbone, encoder_in_channels=[128, 256, 512], decoder_layers=3, hidden_expansion=0.5,
            num_labels=CLASSES))
    return transformers.DeformableDetrForObjectDetection(transformers.DeformableDetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, num_labels=CLASSES, auxiliary_loss=True,
        backbone_config=transformers.ResNetConfig(out_features=["stage2", "stage3", "stage4"])))


def without_zeros(model):
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.02)
    return model


def make_steps(options):
    """Functions that return the losses of a step, by what vecdet computes in them."""
    pictures = torch.rand(options.pictures, 3, options.size, options.size)
    boxes = torch.rand(options.pictures, options.boxes, 4) * 0.4 + 0.1
    classes = torch.randint(0, CLASSES, (options.pictures, options.boxes))
    is_rt_detr = options.model == "rt_detr"
    label = "labels" if is_rt_detr else "class_labels"
    targets = [{"boxes": picture_boxes, label: names} for picture_boxes, names in zip(boxes, classes)]

    def run(model, criterion):
        if is_rt_detr:
            return criterion(model(pictures, targets), targets)
        return model(pixel_values=pictures, labels=targets).loss_dict

    torch.manual_seed(0)
    if not is_rt_detr:
        model = without_zeros(hugging_face(options.model))
        return {
            "without vecdet": (run, model, None),
            "attention": (run, vecdet.torch.accelerate(copy.deepcopy(model), convolutions=False), None),
            "attention, convolutions": (run, vecdet.torch.accelerate(copy.deepcopy(model)), None)}
    model, criterion, matcher = rt_detr(options.clone, options.size)
    without_zeros(model)
    attends = vecdet.torch.accelerate(copy.deepcopy(model), convolutions=False)
    matches = copy.deepcopy(criterion)
    matches.matcher = matcher
    losses = ops.SetCriterion(matcher)
    return {
        "without vecdet": (run, model, criterion),
        "attention": (run, attends, criterion),
        "attention, matching": (run, attends, matches),
        "attention, matching and losses": (run, attends, losses),
        "all, with convolutions": (run, vecdet.torch.accelerate(copy.deepcopy(model)), losses)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["rt_detr", "rt_detr_v2", "deformable_detr"])
    parser.add_argument("clone", nargs="?", help="of github.com/lyuwenyu/RT-DETR")
    parser.add_argument("--size", type=int, default=640)
    parser.add_argument("--pictures", type=int, default=2)
    parser.add_argument("--boxes", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if (options.model == "rt_detr") != (options.clone is not None):
        parser.error("rt_detr needs the path of a clone, the others none")
    torch.set_num_threads(options.threads)

    steps, seconds, first = make_steps(options), {}, {}
    for number in range(options.rounds + 1):
        for name, (run, model, criterion) in steps.items():
            model.train()
            model.zero_grad(set_to_none=True)
            torch.manual_seed(1)  # of the denoising queries
            begin = time.perf_counter()
            losses = run(model, criterion)
            sum(losses.values()).backward()
            elapsed = time.perf_counter() - begin
            print(f"  round {number}, {name}: {elapsed:.3f} s", file=sys.stderr, flush=True)
            if number == 0:  # allocates memory and selects algorithms
                first[name] = {key: loss.item() for key, loss in losses.items()}
            else:
                seconds.setdefault(name, []).append(elapsed)
    expected = first["without vecdet"]
    print(f"{options.model}, PyTorch {torch.__version__}, {figures.blas()}, {options.threads} threads, {options.pictures} x "
          f"{options.size} x {options.size}, {len(expected)} losses, sum {sum(expected.values()):.6f}")
    before = statistics.median(seconds["without vecdet"])
    for name, times in seconds.items():
        if set(first[name]) != set(expected):
            raise SystemExit(f"other losses: {set(first[name]) ^ set(expected)}")
        furthest = max(abs(first[name][key] / loss - 1) for key, loss in expected.items())
        print(f"  {name:32} step {statistics.median(times):6.3f} s, {before / statistics.median(times):.2f}x  "
              f"losses differ by {furthest:.1e}", flush=True)


if __name__ == "__main__":
    main()
