# SPDX-License-Identifier: Apache-2.0
"""Times training steps and inference of whole detectors: PyTorch as installed, PyTorch as a user tunes it, ONNX Runtime,
and vecdet in the same modes. Writes a run file, and from it the tables of docs/pytorch.md and README.md.

    PYTHONPATH=<build tree>/python python3 bench/bench_networks.py measure <run file> [--models ...] [--rounds N]
        [--yolox <clone of github.com/Megvii-BaseDetection/YOLOX>]
    python3 bench/bench_networks.py report <run file>
    PYTHONPATH=<build tree>/python python3 bench/bench_networks.py trace <model> <folder> [--yolox <clone>]

"trace" writes before.json.gz and after.json.gz, what torch.profiler records of two training steps in float32 with kept
memory, without and with vecdet: for vecdet-profile report (docs/torch_traces.md).

Needs PyTorch, torchvision, onnx and onnxruntime; transformers and SciPy for the DETRs; a compiler for torch.compile.
bench/peers.sh --networks creates such a root directory and measures there.

"As installed" is a process with glibc's default malloc, in float32. All others run in one process in which malloc keeps
freed memory (vecdet.torch.keep_memory). There, PyTorch runs in three modes: float32, float32 in channels_last, and
bfloat16 in channels_last. The fastest of them also runs with torch.compile of the network, and the fastest of the four
is "tuned". vecdet runs in the same three modes. Calls alternate. Times are the shortest processor times of one thread,
because other work on a machine only adds time; the first round, which allocates and compiles, does not count.

Weights are random and pictures are noise. A step is forward and backward, without the optimiser. torchvision's
detectors have 91 classes (RetinaNet-ResNeXt50 264, as in MLPerf's benchmark) and one picture of 800 x 800, SSD300 four
of 300 x 300. YOLOX-s, RT-DETRv2-R18 and Deformable DETR have two of 640 x 640. YOLOv8-s-like has the layers of YOLOv8-s,
the sum of the outputs as its loss, and four of 640 x 640. Inference includes torchvision's postprocessing, but only the
network of the others. ONNX Runtime runs in float32 what torch.onnx.export writes.
"""

import argparse
import copy
import dataclasses
import datetime
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
from typing import Any, Callable

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "examples" / "torch"))
import figures  # noqa: E402 (before torch: removes what spoils figures from the environment)

NAMES = {
    "retinanet_resnext50": "RetinaNet-ResNeXt50", "retinanet": "RetinaNet-R50", "fcos": "FCOS-R50",
    "ssd300": "SSD300", "faster_rcnn": "Faster R-CNN-R50", "yolox_s": "YOLOX-s", "yolov8s": "YOLOv8-s-like",
    "rt_detr_v2": "RT-DETRv2-R18", "deformable_detr": "Deformable DETR-R50",
}
IN_README = ("retinanet_resnext50", "ssd300")
MODES = ("float32", "float32, channels_last", "bfloat16, channels_last")


@dataclasses.dataclass
class Network:
    model: Any
    pictures: Any
    losses: Callable  # of a model: those of a step, by name
    detections: Callable  # of a model
    accelerate: Callable
    compiled: Callable  # of a model: the parts that a user compiles


def make_network(name, yolox):
    import torch
    import vecdet.torch

    if name in ("rt_detr_v2", "deformable_detr"):
        import accelerate_detr

        pictures = torch.rand(2, 3, 640, 640)
        targets = [{"boxes": torch.rand(7, 4) * 0.4 + 0.1, "class_labels": torch.randint(0, 80, (7,))} for _ in range(2)]
        return Network(accelerate_detr.without_zeros(accelerate_detr.hugging_face(name)), pictures,
                       lambda model: model(pixel_values=pictures, labels=targets).loss_dict,
                       lambda model: model(pixel_values=pictures),
                       vecdet.torch.accelerate, lambda model: [model.model])
    if name == "yolox_s":
        sys.path.append(yolox)
        from yolox.models import YOLOPAFPN, YOLOX, YOLOXHead

        pictures = torch.rand(2, 3, 640, 640)
        targets = torch.cat([torch.randint(0, 80, (2, 7, 1)), torch.rand(2, 7, 4) * 200 + 100], 2)
        return Network(YOLOX(YOLOPAFPN(0.33, 0.5), YOLOXHead(80, 0.5)), pictures,
                       lambda model: {"loss": model(pictures, targets)["total_loss"]}, lambda model: model(pictures),
                       vecdet.torch.accelerate_convolutions, lambda model: [model.backbone])
    import accelerate_detectors

    model, pictures, run = accelerate_detectors.make_model(name, argparse.Namespace(size=800, classes=91))
    accelerate = vecdet.torch.accelerate
    if name == "yolov8s":
        accelerate = vecdet.torch.accelerate_convolutions

        def compiled(model):
            return [model]
    elif name == "faster_rcnn":
        def compiled(model):
            return [model.backbone, model.rpn.head, model.roi_heads.box_head]
    else:
        def compiled(model):
            return [model.backbone, model.head]
    return Network(model, pictures, run, run, accelerate, compiled)


def step(mode, losses, model):
    import torch

    model.train()
    model.zero_grad(set_to_none=True)
    torch.manual_seed(0)  # of samples and of denoising queries
    begin = time.process_time()
    with torch.autocast("cpu", torch.bfloat16, enabled=mode.startswith("bfloat16")):
        loss = sum(losses(model).values())
    loss.backward()
    return time.process_time() - begin


def detect(mode, detections, model):
    import torch

    model.eval()
    begin = time.process_time()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=mode.startswith("bfloat16")):
        detections(model)
    return time.process_time() - begin


def onnx_runtime(model, pictures):
    """A function that runs what torch.onnx.export writes, and returns its processor time."""
    import onnxruntime
    import torch

    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        torch.onnx.export(model, (pictures,), path, opset_version=17, dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    if isinstance(pictures, list):
        inputs = {value.name: picture.numpy() for value, picture in zip(session.get_inputs(), pictures)}
    else:
        inputs = {session.get_inputs()[0].name: pictures.numpy()}

    def run():
        begin = time.process_time()
        session.run(None, inputs)
        return time.process_time() - begin

    return run


def message_of(error):
    return f"{type(error).__name__}: {str(error)[:200].splitlines()[0]}"


def alternate(calls, rounds):
    """The shortest time of each call over the rounds, without the first. A call that fails has its error instead."""
    times, errors = {name: [] for name in calls}, {}
    for number in range(rounds + 1):
        for name, call in calls.items():
            if name not in errors:
                try:
                    elapsed = call()
                except Exception as error:  # a model that torch.compile, an exporter or bfloat16 does not support
                    errors[name] = message_of(error)
                    continue
                print(f"  round {number}, {name}: {elapsed:.3f} s", file=sys.stderr, flush=True)
                if number > 0:
                    times[name].append(elapsed)
    return {name: errors.get(name) or min(values) for name, values in times.items()}


def in_mode(model, mode):
    import torch

    return model.to(memory_format=torch.channels_last) if mode.endswith("channels_last") else model


def update(optimizer):
    begin = time.process_time()
    optimizer.step()
    return time.process_time() - begin


def optimizers(model):
    """Functions that update all weights, and return their processor times."""
    import torch

    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    kinds = {"SGD": functools.partial(torch.optim.SGD, lr=1e-6, momentum=0.9),
             "AdamW": functools.partial(torch.optim.AdamW, lr=1e-6)}
    return {f"{kind}, fused={fused}": functools.partial(update, make(model.parameters(), fused=fused))
            for kind, make in kinds.items() for fused in (False, True)}


def measure_one(name, memory, rounds, yolox):
    """Times of a model by "training", "inference" or "optimizer" and what computes it, in this process."""
    import torch
    import vecdet.torch

    torch.set_num_threads(1)
    if memory == "kept" and not vecdet.torch.keep_memory():
        raise SystemExit("memory is not kept: malloc is not glibc's")
    torch.manual_seed(0)
    network = make_network(name, yolox)
    modes = MODES if memory == "kept" else MODES[:1]
    results = {}
    for what, time_call in (("training", functools.partial(step, losses=network.losses)),
                            ("inference", functools.partial(detect, detections=network.detections))):
        calls, failed = {}, {}
        for mode in modes:
            for who in "PyTorch", "vecdet":
                own = in_mode(copy.deepcopy(network.model), mode)
                if who == "vecdet":
                    network.accelerate(own)
                calls[f"{who}, {mode}"] = functools.partial(time_call, mode, model=own)
        if memory == "kept" and what == "inference":
            try:
                calls["ONNX Runtime"] = onnx_runtime(copy.deepcopy(network.model), network.pictures)
            except Exception as error:  # a model that cannot be exported
                failed["ONNX Runtime"] = message_of(error)
        results[what] = {**alternate(calls, rounds), **failed}
        if memory == "kept":
            mode = min(modes, key=lambda mode: numbers(results[what]).get(f"PyTorch, {mode}", float("inf")))
            own = in_mode(copy.deepcopy(network.model), mode)
            for part in network.compiled(own):
                part.compile()
            results[what].update(alternate(
                {f"PyTorch, {mode}, torch.compile": functools.partial(time_call, mode, model=own)}, rounds))
    if memory == "kept":
        results["optimizer"] = alternate(optimizers(network.model), rounds)
    return {"results": results, "torch": torch.__version__, "vecdet": vecdet.torch.__version__, "blas": figures.blas()}


def measure(options):
    run = json.loads(options.run.read_text()) if options.run.exists() else {"models": {}}
    run.update(date=datetime.date.today().isoformat(), processor=figures.processor(), rounds=options.rounds)
    for name in options.models:
        if name == "yolox_s" and not options.yolox:
            print("yolox_s is left out: --yolox names no clone", file=sys.stderr)
            continue
        run["models"][name] = {}
        for memory in "as installed", "kept":
            print(f"{name}, memory {memory}", file=sys.stderr, flush=True)
            result = subprocess.run(
                [sys.executable, __file__, "one", name, memory, str(options.rounds), options.yolox or ""],
                stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            if result.returncode != 0:
                run["models"][name][memory] = None
                continue
            one = json.loads(result.stdout.splitlines()[-1])
            run["models"][name][memory] = one.pop("results")
            run.update(one)
        options.run.write_text(json.dumps(run, indent=1) + "\n")


def trace(options):
    import torch
    import vecdet.torch

    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    vecdet.torch.keep_memory()
    torch.manual_seed(0)
    network = make_network(options.model, options.yolox)
    for name, own in ("before", network.model), ("after", network.accelerate(copy.deepcopy(network.model))):
        take_step = functools.partial(step, MODES[0], network.losses, own)
        for _ in range(3):
            take_step()
        print(f"{name}: {min(take_step() for _ in range(5)):.3f} s", flush=True)
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
        with torch.profiler.profile(record_shapes=True, schedule=schedule) as recorded:
            for _ in range(3):
                take_step()
                recorded.step()
        recorded.export_chrome_trace(str(options.folder / f"{name}.json.gz"))


def numbers(times):
    """The times without the errors of calls that failed."""
    return {name: value for name, value in times.items() if isinstance(value, float)}


def best(times, who):
    """The fastest way of PyTorch's or vecdet's, without its name's first part, and its time."""
    own = {name.removeprefix(f"{who}, "): value for name, value in numbers(times).items() if name.startswith(who)}
    return min(own.items(), key=lambda item: item[1])


def table(run, names, whats):
    """A row per model and per member of `whats`, which is "training", "inference" or both."""
    short = {"channels_last": "NHWC", "torch.compile": "compiled"}
    header = ["model", *[""] * (len(whats) - 1), "PyTorch as installed", "PyTorch tuned"]
    header += ["ONNX Runtime"] * ("inference" in whats) + ["vecdet", "vecdet against tuned", "both in float32"]
    texts = len(whats)
    lines = [header, ["---"] * texts + ["--:"] * (len(header) - texts)]
    for name, what in ((name, what) for name in names for what in whats):
        memories = run["models"].get(name, {})
        if not memories.get("as installed") or not memories.get("kept"):
            continue
        times = memories["kept"][what]
        cells = [NAMES[name], what][:texts] + [f"{memories['as installed'][what]['PyTorch, float32']:.2f} s"]
        found, in_float32 = {}, {}
        for who in "PyTorch", "vecdet":
            mode, found[who] = best(times, who)
            in_float32[who] = best({name: time for name, time in times.items() if "bfloat16" not in name}, who)[1]
            for long, brief in short.items():
                mode = mode.replace(long, brief)
            cells.append(f"{found[who]:.2f} s, {mode}")
        if "inference" in whats:
            onnx = numbers(times).get("ONNX Runtime")
            cells.insert(-1, f"{onnx:.2f} s" if onnx else "")
        lines.append(cells + [f"{each['PyTorch'] / each['vecdet']:.2f}x" for each in (found, in_float32)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def report(options):
    from plot_peers import put

    run = json.loads(options.run.read_text())
    machine = "\n" + textwrap.fill(
        f"Measured on {run['date']}: {run['processor']}; PyTorch {run['torch'].split('+')[0]}, {run['blas']}, vecdet "
        f"{run['vecdet'].split('+')[0]}. Shortest processor times of {run['rounds']} rounds on one thread.", 120) + "\n"
    put(ROOT / "docs/pytorch.md", "networks",
        table(run, NAMES, ["training"]) + "\n" + table(run, NAMES, ["inference"]) + machine)
    put(ROOT / "README.md", "networks", table(run, IN_README, ["training", "inference"]) + machine)


def main():
    if sys.argv[1:2] == ["one"]:
        name, memory, rounds, yolox = sys.argv[2:]
        print(json.dumps(measure_one(name, memory, int(rounds), yolox)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("run", type=pathlib.Path)
    measuring.add_argument("--models", nargs="+", choices=NAMES, default=list(NAMES))
    measuring.add_argument("--rounds", type=int, default=4)
    commands.add_parser("report").add_argument("run", type=pathlib.Path)
    tracing = commands.add_parser("trace")
    tracing.add_argument("model", choices=NAMES)
    tracing.add_argument("folder", type=pathlib.Path)
    for command in measuring, tracing:
        command.add_argument("--yolox", help="a clone of github.com/Megvii-BaseDetection/YOLOX")
    options = parser.parse_args()
    {"measure": measure, "report": report, "trace": trace}[options.command](options)


if __name__ == "__main__":
    main()
