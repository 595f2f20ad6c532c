#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Appends vecdet's postprocessing to an exported YOLOv8 model, and compares it with the same steps
in ONNX's own operators: equal detections, and the time of both.

    append_postprocessing.py <libvecdet_onnxruntime.so> <folder> [<model.onnx>]

Writes head.onnx, vecdet.onnx and standard.onnx to the folder. Without a model, the last layers of
one stand in for it: the sigmoid of the classes' logits, beside the decoded boxes.
"""
import pathlib
import statistics
import sys
import time

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"not installed: {missing}")
    sys.exit(77)
from onnx import TensorProto, compose, helper, numpy_helper

SCORE, IOU = 0.25, 0.7
RAW = helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 84, 8400])
RESULTS = [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [None, 4]),
           helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None]),
           helper.make_tensor_value_info("labels", TensorProto.INT64, [None])]


def model_of(name, nodes, inputs, outputs, constants=()):
    constants = [numpy_helper.from_array(np.asarray(value), key) for key, value in constants]
    return helper.make_model(helper.make_graph(nodes, name, inputs, outputs, constants),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def stand_in():
    """The end of an exported YOLOv8: [1, 84, 8400] with decoded boxes and logits of 80 classes."""
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 84, 8400])
    return model_of("head", [
        helper.make_node("Split", ["images", "parts"], ["decoded", "logits"], axis=1),
        helper.make_node("Sigmoid", ["logits"], ["probabilities"]),
        helper.make_node("Concat", ["decoded", "probabilities"], ["output0"], axis=1),
    ], [images], [RAW], [("parts", np.int64([4, 80]))])


def vecdet_nodes():
    """One node."""
    return model_of("vecdet", [helper.make_node(
        "PostprocessYolo", ["output0"], ["boxes", "scores", "labels", "offsets"],
        domain="ai.vecdet", model="yolov8", multi_label=1, score_threshold=SCORE,
        iou_threshold=IOU)], [RAW], RESULTS)


def standard_nodes():
    """NonMaxSuppression, which takes one score per class and box, and what it needs around it."""
    node = helper.make_node
    return model_of("standard", [
        node("Split", ["output0", "parts"], ["cxcywh", "per_class"], axis=1),
        node("Transpose", ["cxcywh"], ["rows"], perm=[0, 2, 1]),
        node("NonMaxSuppression", ["rows", "per_class", "limit", "iou", "score"], ["selected"],
             center_point_box=1),  # rows of image, class, box
        node("Gather", ["selected", "two"], ["box"], axis=1),
        node("Gather", ["selected", "one"], ["class"], axis=1),
        node("GatherND", ["per_class", "selected"], ["found"]),
        node("Shape", ["found"], ["count"]),
        node("Min", ["count", "limit"], ["kept"]),
        node("TopK", ["found", "kept"], ["scores", "order"]),
        node("Gather", ["class", "order"], ["labels"]),
        node("Gather", ["box", "order"], ["index"]),
        node("Squeeze", ["rows", "zero"], ["all"]),
        node("Gather", ["all", "index"], ["centres"]),
        node("Split", ["centres", "halves"], ["middle", "size"], axis=1),
        node("Mul", ["size", "half"], ["reach"]),
        node("Sub", ["middle", "reach"], ["low"]),
        node("Add", ["middle", "reach"], ["high"]),
        node("Concat", ["low", "high"], ["boxes"], axis=1),
    ], [RAW], RESULTS, [
        ("parts", np.int64([4, 80])), ("halves", np.int64([2, 2])), ("limit", np.int64([300])),
        ("zero", np.int64([0])), ("one", np.int64(1)), ("two", np.int64(2)),
        ("iou", np.float32([IOU])), ("score", np.float32([SCORE])), ("half", np.float32(0.5))])


def scene(objects=100):
    """Raw numbers: every object is found by several boxes."""
    random = np.random.default_rng(0)
    numbers = np.full((84, 8400), -8, np.float32)
    numbers[:2], numbers[2:4] = random.uniform(0, 640, (2, 8400)), random.uniform(8, 200, (2, 8400))
    for first in range(0, objects * 8, 8):
        numbers[:4, first:first + 8] = numbers[:4, first:first + 1] + random.normal(0, 2, (4, 8))
        numbers[4 + random.integers(80), first:first + 8] = random.normal(0, 2, 8)
    return numbers[None]


def main():
    library, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    head = onnx.load(sys.argv[3]) if len(sys.argv) > 3 else stand_in()
    head.opset_import.append(helper.make_opsetid("ai.vecdet", 1))
    onnx.save(head, folder / "head.onnx")
    found, times = {}, {}
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(library)
    # Else the idle threads of one session slow down the others.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    sessions = {"head": onnxruntime.InferenceSession(folder / "head.onnx", options)}
    joint = [(head.graph.output[0].name, "output0")]
    for tail in (vecdet_nodes(), standard_nodes()):
        tail = compose.add_prefix(tail, "post_", rename_inputs=False, rename_outputs=False)
        tail.ir_version = head.ir_version  # merge_models() wants equal versions
        tail.ClearField("opset_import")
        tail.opset_import.extend(head.opset_import)
        path = folder / f"{tail.graph.name.removeprefix('post_')}.onnx"
        onnx.save(compose.merge_models(head, tail, io_map=joint), path)
        sessions[path.stem] = onnxruntime.InferenceSession(path, options)
    given = {sessions["head"].get_inputs()[0].name: scene()}
    for name in list(sessions) * 30:  # interleaved
        start = time.perf_counter()
        found[name] = sessions[name].run(None, given)
        times.setdefault(name, []).append(1e3 * (time.perf_counter() - start))
    for ours, theirs in zip(found["vecdet"], found["standard"]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    print(f"{len(found['vecdet'][1])} equal detections")
    for name, every in times.items():
        print(f"{name:8} {statistics.median(every):6.2f} ms")


if __name__ == "__main__":
    main()
