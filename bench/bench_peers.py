# SPDX-License-Identifier: Apache-2.0
"""Compares vecdet with torchvision's operators, torch.compile of them, and ONNX Runtime's
NonMaxSuppression, in alternating calls in one process. Writes a run file for bench/plot_peers.py.

    PYTHONPATH=<build tree>/python python3 bench/bench_peers.py [--json FILE] [--threads 1 2]
        [--allocator installed tuned] [--rounds N]
        [--families operators queries attention convolutions sequences normalization masks]

Needs PyTorch, torchvision, onnx and onnxruntime (Debian's newest suite: python3-torchvision python3-onnx
python3-onnxruntime); bench/peers.sh creates such a root directory, builds there, and runs this.

Each number of threads and each allocator setting has its own process. With glibc's defaults ("installed"), large
tensors get new pages at each call, which cost more on one machine than on another; "tuned", glibc keeps freed
memory (vecdet.torch.keep_memory). The run file names the BLAS, of which PyTorch's matrix products are part.
Figures are the minimum over the rounds, because other work on a machine only adds time; medians are stored
as well. One thread is timed by the CPU time of the process, several by the clock. torch.compile has loss
and gradient in one graph, with formulas that suit it (loss_formulas.py) or else torchvision's function.
Differing results are an error.
"""

import argparse
import functools
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import figures


def milliseconds(call, clock):
    begin = clock()
    call()
    return (clock() - begin) * 1e3


def alternate(calls, rounds, clock):
    """The minimum and the median over rounds of alternating calls, without the first round."""
    times = {name: [] for name in calls}
    for round_ in range(rounds + 1):
        for name, call in calls.items():
            elapsed = milliseconds(call, clock)
            if round_:
                times[name].append(elapsed)
    return ({name: min(t) for name, t in times.items()},
            {name: statistics.median(t) for name, t in times.items()})


def gradient_step(torch, loss, values):
    def call():
        values.grad = None
        loss(values).backward()
        return values.grad

    return call


def add_compiled(torch, calls, function, check):
    """The torch.compile version, if it finds a compiler; `check` receives its result."""
    compiled = torch.compile(function)
    try:
        result = compiled()
    except Exception as error:
        print(f"torch.compile: {type(error).__name__}: {str(error).strip().splitlines()[:1]}", file=sys.stderr)
        return
    check(result)
    calls["torch.compile"] = compiled


def onnx_nms(threads, iou_threshold):
    """ONNX Runtime's NonMaxSuppression as a function of boxes [1, N, 4] and scores [1, classes, N]."""
    import onnxruntime
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, None, 4]),
              helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, None, None])]
    output = helper.make_tensor_value_info("kept", TensorProto.INT64, [None, 3])
    constants = [helper.make_tensor("most", TensorProto.INT64, [1], [2 ** 31 - 1]),
                 helper.make_tensor("iou", TensorProto.FLOAT, [1], [iou_threshold])]
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou"], ["kept"])
    model = helper.make_model(helper.make_graph([node], "nms", inputs, [output], constants),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return lambda boxes, scores: session.run(None, {"boxes": boxes, "scores": scores})[0]


def retinanet_anchors(torch):
    from torchvision.models.detection.image_list import ImageList
    from torchvision.models.detection.retinanet import _default_anchorgen

    maps = [torch.empty(1, 1, side, side) for side in (100, 50, 25, 13, 7)]
    return _default_anchorgen()(ImageList(torch.empty(1, 3, 800, 800), [(800, 800)]), maps)[0]


def check_same(torch, a, b, tolerance=1e-4, least=1e-6, exceptions=0):
    same = torch.isclose(a.double(), b.double(), rtol=tolerance, atol=least, equal_nan=True)
    if same.numel() - same.sum() > exceptions:
        raise SystemExit(f"results differ: {same.numel() - same.sum()} of {same.numel()} numbers")


def operator_problems(torch, threads):
    """Yields names and calls by implementation, vecdet first, after checking that the results agree."""
    import loss_formulas as formulas
    from torchvision import ops as theirs
    from torchvision.models.detection._utils import BoxCoder, Matcher
    from vecdet.torch import ops as ours

    same = functools.partial(check_same, torch)
    rows, classes = 120087, 91
    logits = (torch.randn(rows, classes) - 4).requires_grad_()
    labels = torch.full((rows,), -1)
    labels[::1000] = 3
    one_hot = torch.zeros(rows, classes)
    one_hot[labels >= 0, 3] = 1

    def focal(x):
        return theirs.sigmoid_focal_loss(x, one_hot, reduction="sum")

    calls = {
        "vecdet": gradient_step(torch, lambda x: ours.sigmoid_focal_loss(x, labels=labels, reduction="sum"), logits),
        "torchvision": gradient_step(torch, focal, logits),
    }
    expected = calls["torchvision"]().clone()
    same(calls["vecdet"](), expected)
    values = logits.detach()
    add_compiled(torch, calls, lambda: formulas.focal_loss_and_grad(values, labels),
                 lambda found: same(found[1], expected))
    yield "focal loss and gradient, 120087 x 91", calls

    corner = torch.rand(rows, 2) * 800
    boxes = torch.cat([corner, corner + torch.rand(rows, 2) * 100 + 1], 1)
    predicted = (boxes + torch.randn(rows, 4)).requires_grad_()
    for kind, short in (("generalized", "GIoU"), ("complete", "CIoU")):
        def loss_of(module, name=f"{kind}_box_iou_loss"):
            return lambda b: getattr(module, name)(b, boxes, "sum")

        def in_one_graph(values=predicted.detach(), kind=kind):
            return torch.func.grad_and_value(lambda b: formulas.iou_loss(b, boxes, kind))(values)

        calls = {"vecdet": gradient_step(torch, loss_of(ours), predicted),
                 "torchvision": gradient_step(torch, loss_of(theirs), predicted)}
        expected = calls["torchvision"]().clone()
        same(calls["vecdet"](), expected, 1e-3)
        add_compiled(torch, calls, in_one_graph, lambda found: same(found[0], expected, 1e-3))
        yield f"{short} loss and gradient, 120087", calls

    # RetinaNet's anchors of an 800 x 800 picture, which trainers reuse for the next one.
    anchors = retinanet_anchors(torch)
    for count in (32, 300):
        corner = torch.rand(count, 2) * 650
        truth = torch.cat([corner, corner + torch.rand(count, 2) * 130 + 16], 1)
        matcher = Matcher(0.5, 0.4, allow_low_quality_matches=True)
        calls = {"vecdet": lambda: ours.match_anchors(anchors, truth)[0],
                 "torchvision": lambda: matcher(theirs.box_iou(truth, anchors))}
        expected = calls["torchvision"]()
        same(calls["vecdet"](), expected, 0)
        add_compiled(torch, calls, calls["torchvision"], lambda found: same(found, expected, 0))
        yield f"matching, {count} boxes x 120087", calls

    coder = BoxCoder((1.0, 1.0, 1.0, 1.0))
    deltas = torch.randn(rows, 4) * 0.2
    calls = {"vecdet": lambda: ours.decode_boxes(deltas, boxes, image_size=(800, 800)),
             "torchvision": lambda: theirs.clip_boxes_to_image(coder.decode_single(deltas, boxes), (800, 800))}
    expected = calls["torchvision"]()
    same(calls["vecdet"](), expected, 1e-3)
    add_compiled(torch, calls, calls["torchvision"], lambda found: same(found, expected, 1e-3))
    yield "decode and clip, 120087", calls
    calls = {"vecdet": lambda: ours.box_iou(boxes[:32], boxes),
             "torchvision": lambda: theirs.box_iou(boxes[:32], boxes)}
    expected = calls["torchvision"]()
    same(calls["vecdet"](), expected, 0)
    add_compiled(torch, calls, calls["torchvision"], lambda found: same(found, expected))
    yield "IoU, 32 x 120087", calls

    corner = torch.rand(1000, 2) * 600
    rois = [torch.cat([corner, corner + torch.rand(1000, 2) * 180 + 16], 1)]
    features = torch.randn(1, 256, 200, 200).requires_grad_()
    upstream = torch.randn(1000, 256, 7, 7)

    def pooled(module):
        def call():
            features.grad = None
            module.roi_align(features, rois, 7, 0.25, 2).backward(upstream)
            return features.grad
        return call

    calls = {"vecdet": pooled(ours), "torchvision": pooled(theirs)}
    expected = calls["torchvision"]().clone()
    same(calls["vecdet"](), expected, 1e-4, 1e-4)
    yield "RoIAlign and gradient, 1000 x 256 x 7 x 7", calls

    # Clusters of boxes around objects, as in a detector before NMS.
    for count in (1000, 5000):
        objects = torch.rand(count // 20, 4) * torch.tensor([700.0, 700, 80, 80])
        chosen = objects[torch.randint(len(objects), (count,))] + torch.randn(count, 4) * 4
        few = torch.cat([chosen[:, :2], chosen[:, :2] + chosen[:, 2:].abs() + 8], 1)
        scores = torch.rand(count)
        run_onnx = onnx_nms(threads, 0.5)
        array, rows_of_scores = few[None].numpy(), scores[None, None].numpy()
        calls = {"vecdet": lambda: ours.nms(few, scores, 0.5), "torchvision": lambda: theirs.nms(few, scores, 0.5),
                 "ONNX Runtime": lambda: run_onnx(array, rows_of_scores)}
        kept = calls["vecdet"]()
        if not torch.equal(kept, calls["torchvision"]()):
            raise SystemExit("NMS: other boxes than torchvision's")
        if len(set(kept.tolist()) ^ set(calls["ONNX Runtime"]()[:, 2].tolist())) > count // 100:
            raise SystemExit("NMS: far from ONNX Runtime's boxes")
        yield f"NMS, {count} boxes", calls

    groups, count = 80, 8000
    objects = torch.rand(400, 4) * torch.tensor([700.0, 700, 80, 80])
    which = torch.randint(len(objects), (count,))
    chosen = objects[which] + torch.randn(count, 4) * 4
    many = torch.cat([chosen[:, :2], chosen[:, :2] + chosen[:, 2:].abs() + 8], 1)
    scores, ids = torch.rand(count), which % groups
    calls = {"vecdet": lambda: ours.batched_nms(many, scores, ids, 0.5),
             "torchvision": lambda: theirs.batched_nms(many, scores, ids, 0.5)}
    if len(set(calls["vecdet"]().tolist()) ^ set(calls["torchvision"]().tolist())) > 8:  # theirs rounds them
        raise SystemExit("batched NMS: far from torchvision's boxes")
    yield "NMS of 80 classes, 8000 boxes", calls


def query_problems(torch, threads):
    """The matching of RT-DETR's queries, as its matcher does: one cost matrix for the batch, then SciPy."""
    from loss_formulas import query_costs
    from scipy.optimize import linear_sum_assignment
    from vecdet.torch import ops as ours

    matcher = ours.HungarianMatcher(2, 5, 2)
    for images, queries, count in ((16, 300, 7), (16, 300, 50), (8, 3900, 7)):
        outputs = {"pred_logits": torch.randn(images, queries, 80) - 4, "pred_boxes": torch.rand(images, queries, 4)}
        targets = [{"labels": torch.randint(0, 80, (count,)), "boxes": torch.rand(count, 4) * 0.4 + 0.1}
                   for _ in range(images)]

        def published():
            costs = query_costs(outputs["pred_logits"].flatten(0, 1), outputs["pred_boxes"].flatten(0, 1),
                                torch.cat([each["labels"] for each in targets]),
                                torch.cat([each["boxes"] for each in targets])).view(images, queries, -1)
            return [linear_sum_assignment(part[i]) for i, part in enumerate(costs.split(count, -1))]

        def agree():
            return sum((queries == torch.as_tensor(rows)).all() and (boxes == torch.as_tensor(columns)).all()
                       for (queries, boxes), (rows, columns) in zip(matcher(outputs, targets), published()))

        if agree() < images - 1:  # one image may have two assignments of nearly the same cost
            raise SystemExit("other matches than SciPy's")
        yield f"matching of {images} x {queries} queries, {count} boxes", {
            "vecdet": lambda: matcher(outputs, targets), "PyTorch and SciPy": published}


def attention_problems(torch, threads):
    """Deformable attention of 8 heads of 32 channels: an encoder's layer for a picture of 800 x 1066, and a decoder's
    of 300 queries for one of 640 x 640."""
    from loss_formulas import deformable_attention
    from vecdet.torch import ops as ours

    encoder, decoder = [(100, 134), (50, 67), (25, 34), (13, 17)], [(80, 80), (40, 40), (20, 20)]
    for what, sizes in (("encoder, 17821", encoder), ("decoder, 300", decoder)):
        locations = sum(height * width for height, width in sizes)
        value = torch.rand(1, locations, 8, 32) * 2 - 1
        if sizes is encoder:  # around each query's own location
            around = torch.cat([torch.stack(torch.meshgrid((torch.arange(height) + 0.5) / height,
                                                           (torch.arange(width) + 0.5) / width, indexing="ij"), -1)
                                .flip(-1).view(-1, 2) for height, width in sizes])
            widths = torch.tensor(sizes).flip(-1)[:, None]
        else:
            around, widths = torch.rand(300, 2), torch.tensor([5.0, 5.0])
        points = around[None, :, None, None, None] + torch.randn(1, len(around), 8, len(sizes), 4, 2) * 2 / widths
        weights = torch.rand(points.shape[:-1]).flatten(3).softmax(-1).view(points.shape[:-1])
        tensors = [value.requires_grad_(), points.requires_grad_(), weights.requires_grad_()]
        upstream = torch.randn(1, len(around), 256)

        def forward(function):
            def call():
                with torch.no_grad():
                    return function(*tensors)
            return call

        def backward(function):
            return lambda: torch.autograd.grad(function(*tensors), tensors, upstream)

        def by_vecdet(v, p, w, sizes=sizes):
            return ours.ms_deform_attn_core_pytorch(v, sizes, p, w)

        def by_torch(v, p, w, sizes=sizes):
            return deformable_attention(v, sizes, p, w)

        for name, kind in (("", forward), (" and gradients", backward)):
            calls = {"vecdet": kind(by_vecdet), "PyTorch": kind(by_torch)}
            for found, expected in zip(calls["vecdet"](), calls["PyTorch"]()):
                # The gradient of a location jumps where a sample passes a pixel's centre: rounding decides there.
                exceptions = 1e-5 * expected.numel() if expected.shape == points.shape else 0
                check_same(torch, found, expected, 1e-3, 1e-4 * expected.abs().max().item(), exceptions)
            yield f"deformable attention{name}, {what} queries", calls


def convolution_problems(torch, threads):
    """A 3x3 convolution of a RetinaNet's towers on the largest level of an 800 x 800 picture, and on all levels.
    PyTorch calls oneDNN."""
    from torch.nn import functional
    from vecdet.torch import ops as ours

    levels = [torch.rand(1, 256, side, side, requires_grad=True) for side in (100, 50, 25, 13, 7)]
    weight = (torch.randn(256, 256, 3, 3) * 0.03).requires_grad_()
    bias = torch.randn(256, requires_grad=True)
    upstream = [torch.randn_like(level) for level in levels]

    def backward(function, inputs):
        return lambda: torch.autograd.grad(function(inputs), [*inputs, weight, bias], upstream[:len(inputs)])

    def by_vecdet(inputs):
        return ours.conv3x3_levels(inputs, weight, bias)

    def by_torch(inputs):
        return [functional.conv2d(level, weight, bias, padding=1) for level in inputs]

    for what, inputs in (("100 x 100", levels[:1]), ("5 levels", levels)):
        calls = {"vecdet": backward(by_vecdet, inputs), "PyTorch": backward(by_torch, inputs)}
        for found, expected in zip(calls["vecdet"](), calls["PyTorch"]()):
            check_same(torch, found, expected, 1e-4, 1e-4 * expected.abs().max().item())
        yield f"3x3 convolution and gradients, {what} x 256", calls


def sequence_problems(torch, threads):
    """CTC of text and speech recognisers: log_softmax, ctc_loss and their gradient in PyTorch."""
    from torch.nn import functional
    from vecdet.torch import ops as ours

    for steps, samples, classes, labels in ((26, 64, 97, 12), (40, 64, 6625, 20), (40, 32, 18385, 20),
                                            (500, 16, 29, 120), (400, 16, 1024, 60)):
        logits = (torch.rand(steps, samples, classes) * 6 - 3).requires_grad_()
        targets = torch.randint(1, classes, (samples, labels))
        lengths = torch.full((samples,), steps), torch.full((samples,), labels)

        def by_vecdet(x, targets=targets, lengths=lengths):
            return ours.ctc_loss(x, targets, *lengths, reduction="sum")

        def by_torch(x, targets=targets, lengths=lengths):
            return functional.ctc_loss(x.log_softmax(2), targets, *lengths, reduction="sum")

        calls = {"vecdet": gradient_step(torch, by_vecdet, logits), "PyTorch": gradient_step(torch, by_torch, logits)}
        # PyTorch's gradient in float32 is wrong by up to 3e-3.
        exact = gradient_step(torch, by_torch, logits.detach().double().requires_grad_())
        check_same(torch, calls["vecdet"]().double(), exact(), 1e-5, 2e-6)
        yield f"CTC and gradient, {steps} x {samples} x {classes}, {labels} labels", calls


def normalization_problems(torch, threads):
    """Batch normalisation in training and the activation after it, in a ResNet and in a YOLO."""
    from torch.nn import functional
    from vecdet.torch import ops as ours

    for shape, activation, after in (((2, 256, 100, 100), "relu", functional.relu),
                                     ((4, 128, 80, 80), "silu", functional.silu)):
        upstream, weight, bias = torch.randn(shape), torch.rand(shape[1]) + 0.5, torch.randn(shape[1])
        tensors = [each.requires_grad_() for each in (torch.randn(shape), weight, bias)]

        def by_vecdet(x, w, b, activation=activation):
            return ours.batch_norm(x, None, None, w, b, training=True, activation=activation)

        def by_torch(x, w, b, after=after):
            return after(functional.batch_norm(x, None, None, w, b, training=True))

        def backward(function, tensors=tensors, upstream=upstream):
            return lambda: torch.autograd.grad(function(*tensors), tensors, upstream)

        calls = {"vecdet": backward(by_vecdet), "PyTorch": backward(by_torch)}
        for found, expected in zip(calls["vecdet"](), calls["PyTorch"]()):
            # A number within rounding of 0 passes a gradient in one of the two.
            check_same(torch, found, expected, 1e-3, 1e-3 * expected.abs().max().item(), 2)
        yield f"batch normalisation, {activation} and gradients, {' x '.join(map(str, shape))}", calls


def mask_problems(torch, threads):
    """Mask R-CNN's maps pasted into a picture, as numbers and as pixels above 0.5, and the masks of a YOLO model from
    its prototypes, by the rule of ultralytics' process_mask_native."""
    from torch.nn import functional
    from torchvision.models.detection import roi_heads
    from vecdet.torch import ops as ours

    def boxes_in(count, height, width, least, most):
        sides = least + (most - least) * torch.rand(count, 2)
        corner = torch.rand(count, 2) * (torch.tensor([width, height]) - sides - 2) + 1
        return torch.cat([corner, corner + sides], 1)

    height, width = 800, 1066
    boxes = boxes_in(100, height, width, 20, 250)
    # Blobs, as heads give them.
    x, y = torch.arange(28.0), torch.arange(28.0)[:, None]
    centres, radius = 10 + 8 * torch.rand(2, 100, 1, 1), 8 + 5 * torch.rand(100, 1, 1)
    maps = (radius - ((x - centres[0]) ** 2 + (y - centres[1]) ** 2).sqrt()).sigmoid()[:, None]

    def numbers():
        return roi_heads.paste_masks_in_image(maps, boxes, (height, width))

    def pixels():
        return ours.paste_masks(maps, boxes, (height, width))

    check_same(torch, ours.paste_soft_masks(maps, boxes, (height, width)), numbers(), 1e-5, 1e-5)
    check_same(torch, pixels().full(height, width)[:, None].float(), (numbers() > 0.5).float(), exceptions=100)
    yield "pasting of 100 masks, 800 x 1066, as numbers", {
        "vecdet": lambda: ours.paste_soft_masks(maps, boxes, (height, width)), "torchvision": numbers}
    yield "pasting of 100 masks, 800 x 1066, above 0.5", {"vecdet": pixels, "torchvision": lambda: numbers() > 0.5}

    side, objects = 640, 50
    prototypes, coefficients = torch.randn(32, 160, 160), torch.randn(objects, 32)
    boxes = boxes_in(objects, side, side, 30, 400)

    def by_torch():
        logits = (coefficients @ prototypes.reshape(32, -1)).reshape(objects, 160, 160)
        logits = functional.interpolate(logits[None], (side, side), mode="bilinear", align_corners=False)[0]
        x1, y1, x2, y2 = boxes[:, :, None, None].unbind(1)
        x, y = torch.arange(side)[None, None], torch.arange(side)[None, :, None]
        return (logits * ((x >= x1) & (x < x2) & (y >= y1) & (y < y2))) > 0

    def by_vecdet():
        return ours.masks_from_prototypes(prototypes[None], coefficients, boxes, (side, side))

    check_same(torch, by_vecdet().full(side, side).float(), by_torch().float(), exceptions=100)
    yield "masks of 50 objects from 32 prototypes, 640 x 640", {"vecdet": by_vecdet, "PyTorch": by_torch}


FAMILIES = {"operators": operator_problems, "queries": query_problems, "attention": attention_problems,
            "convolutions": convolution_problems, "sequences": sequence_problems,
            "normalization": normalization_problems, "masks": mask_problems}


def measure(threads, allocator, rounds, families):
    import torch
    import vecdet.torch

    if allocator == "tuned" and not vecdet.torch.keep_memory():
        raise SystemExit("malloc does not keep memory here")
    torch.set_num_threads(threads)
    # One thread: CPU time, which does not include the time of other programs.
    clock = time.process_time if threads == 1 else time.perf_counter
    rows = []
    for family in families:
        torch.manual_seed(0)
        for name, calls in FAMILIES[family](torch, threads):
            least, median = alternate(calls, rounds, clock)
            rows.append({"problem": name, "threads": threads, "allocator": allocator, "ms": least,
                         "median_ms": median})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--allocator", nargs="+", default=["installed", "tuned"], choices=["installed", "tuned"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:  # a separate process, because of the allocator
        print(json.dumps(measure(given.threads[0], given.allocator[0], given.rounds, given.families)))
        return

    import onnxruntime
    import torch
    import torchvision
    from torch._inductor.cpu_vec_isa import pick_vec_isa
    run = {"date": time.strftime("%Y-%m-%d"), "processor": figures.processor(), "processors": os.cpu_count(),
           "system": platform.freedesktop_os_release()["PRETTY_NAME"],
           "versions": {"torch": torch.__version__, "torchvision": torchvision.__version__,
                        "onnxruntime": onnxruntime.__version__},
           "blas": figures.blas(), "torch.compile": str(pick_vec_isa()), "rounds": given.rounds, "results": []}
    for allocator in given.allocator:
        for threads in given.threads:
            environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
            done = subprocess.run([sys.executable, __file__, "--one", "1", "--threads", str(threads), "--allocator",
                                   allocator, "--rounds", str(given.rounds), "--families", *given.families],
                                  env=environment, check=True, stdout=subprocess.PIPE, text=True)
            run["results"] += json.loads(done.stdout.splitlines()[-1])
    print("| problem | threads | allocator | implementation | ms | vecdet ms | ratio |\n|---|--:|---|---|--:|--:|--:|")
    for row in run["results"]:
        for name, ms in row["ms"].items():
            if name != "vecdet":
                print(f"| {row['problem']} | {row['threads']} | {row['allocator']} | {name} | {ms:.3f} | "
                      f"{row['ms']['vecdet']:.3f} | {ms / row['ms']['vecdet']:.1f}x |")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(run, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
