# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's operators against the NumPy package, and the runtime's own operators.

    test_operators.py <libvecdet_onnxruntime.so>
"""
import concurrent.futures
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))
try:
    import onnx
    import onnxruntime
except ImportError as error:
    print(f"not installed: {error}")
    sys.exit(77)
import numpy as np
import vecdet
from support import generator, some_boxes

library = sys.argv.pop(1) if len(sys.argv) > 1 else "libvecdet_onnxruntime.so"
TYPES = {"kept": np.int64, "boxes": np.float32, "scores": np.float32, "labels": np.int64,
         "offsets": np.int64, "sources": np.int64, "extras": np.float32}
BFLOAT16 = "bfloat16"


def session(operator, inputs, outputs, attributes, domain="ai.vecdet", threads=0):
    """A graph of one node. Its inputs have the types of the arrays. None omits an input, and a pair
    (array, BFLOAT16) is converted in the graph."""
    helper, given, nodes, names = onnx.helper, [], [], []
    for name, array in inputs.items():
        if array is None:
            names.append("")
            continue
        names.append(name)
        if isinstance(array, tuple):
            array, names[-1] = array[0], name + "_bfloat16"
            nodes.append(helper.make_node("Cast", [name], [names[-1]],
                                          to=onnx.TensorProto.BFLOAT16))
        given.append(helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim))
    nodes.append(helper.make_node(operator, names, [name for name, _ in outputs], domain=domain,
                                  **attributes))
    wanted = []
    for name, dtype in outputs:
        if dtype == BFLOAT16:
            nodes.append(helper.make_node("Cast", [name], [name + "_float"],
                                          to=onnx.TensorProto.FLOAT))
            name, dtype = name + "_float", np.float32
        if name:
            wanted.append(helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None))
    model = helper.make_model(
        helper.make_graph(nodes, "graph", given, wanted), ir_version=10,
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.vecdet", 1)])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.register_custom_ops_library(library)
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def arrays(inputs):
    return {name: array[0] if isinstance(array, tuple) else array
            for name, array in inputs.items() if array is not None}


def run(operator, inputs, outputs, domain="ai.vecdet", threads=0, **attributes):
    outputs = [o if isinstance(o, tuple) else (o, TYPES.get(o)) for o in outputs]
    return session(operator, inputs, outputs, attributes, domain, threads).run(None, arrays(inputs))


def rounded(array):
    """float32 with the precision of bfloat16."""
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).view(np.float32)


class Operators(unittest.TestCase):
    def equal(self, result, expected):
        result, expected = np.asarray(result), np.asarray(expected)
        self.assertEqual(result.shape, expected.shape)
        self.assertEqual(result.tobytes(), expected.astype(result.dtype).tobytes())


class BatchedNms(Operators):
    def kept(self, boxes, scores, classes=None, images=None, **options):
        return run("BatchedNms", {"boxes": boxes, "scores": scores, "classes": classes,
                                  "images": images}, ["kept"], **options)[0]

    def test_one_group(self):
        for count in (0, 1, 2, 300, 5000):
            boxes, scores = some_boxes(count), generator.random(count).astype(np.float32)
            for threshold in (0.0, 0.3, 0.5, 0.7, 1.0):
                expected = vecdet.nms(boxes, scores, threshold)
                self.equal(self.kept(boxes, scores, iou_threshold=threshold), expected)
            self.equal(self.kept(boxes, scores), vecdet.nms(boxes, scores, 0.5))

    def test_groups(self):
        count = 2000
        boxes, scores = some_boxes(count), generator.random(count).astype(np.float32)
        classes = generator.integers(-3, 5, count)
        images = generator.integers(0, 4, count)
        both = classes * 10 + images
        for threads in (1, 2, 4):
            for type_ in (np.int64, np.int32):
                for groups, given in ((classes, (classes.astype(type_), None)),
                                      (images, (None, images.astype(type_))),
                                      (both, (classes.astype(type_), images.astype(type_)))):
                    expected = vecdet.batched_nms(boxes, scores, groups, 0.4)
                    found = self.kept(boxes, scores, *given, iou_threshold=0.4, threads=threads)
                    self.equal(found, expected)

    def test_types(self):
        boxes, scores = some_boxes(500, dtype=np.float64), generator.random(500)
        self.equal(self.kept(boxes, scores), vecdet.nms(boxes, scores, 0.5))
        coarse = rounded(boxes), rounded(scores)
        self.equal(self.kept((coarse[0], BFLOAT16), (coarse[1], BFLOAT16)),
                   vecdet.nms(*coarse, 0.5))

    def test_threshold_is_as_written(self):
        # As floats, the IoU of these boxes is 0.3, and 0.3f is above 0.3.
        boxes = np.array([[0, 0, 10, 1], [0, 0, 3, 1]], np.float32)
        scores = np.array([1, 0.5], np.float32)
        self.assertEqual(self.kept(boxes, scores, iou_threshold=0.3).tolist(), [0])
        self.assertEqual(vecdet.nms(boxes, scores, 0.3).tolist(), [0])

    def test_limits(self):
        boxes, scores = some_boxes(400), generator.random(400).astype(np.float32)
        classes, images = generator.integers(0, 3, 400), generator.integers(0, 3, 400)
        every = vecdet.batched_nms(boxes, scores, classes * 3 + images, 0.5)
        groups = {"max_per_class": classes * 3 + images, "max_per_image": images,
                  "max_total": np.zeros_like(images)}
        for name, group in groups.items():
            counts, expected = {}, []
            for index in every.tolist():
                counts[group[index]] = counts.get(group[index], 0) + 1
                if counts[group[index]] <= 7:
                    expected.append(index)
            self.assertLess(len(expected), len(every))
            self.equal(self.kept(boxes, scores, classes, images, **{name: 7}), expected)
        above = self.kept(boxes, scores, score_threshold=0.9)
        self.equal(above, [i for i in vecdet.nms(boxes, scores, 0.5) if scores[i] > 0.9])
        by_index = self.kept(boxes, scores, order="index")
        self.equal(by_index, np.sort(vecdet.nms(boxes, scores, 0.5)))

    def test_smaller_area(self):
        boxes, scores = some_boxes(400), generator.random(400).astype(np.float32)
        self.equal(self.kept(boxes, scores, overlap="smaller_area", suppress_equal=1,
                             float_threshold=1), vecdet.nms(boxes, scores, 0.5, "ios"))

    def test_as_the_runtimes(self):
        images, classes, count = 2, 3, 400
        boxes = some_boxes(images * count).reshape(images, count, 4)
        scores = generator.random((images, classes, count)).astype(np.float32)
        limit, iou, score = (np.array([n], t) for n, t in
                             ((20, np.int64), (0.5, np.float32), (0.2, np.float32)))
        expected, = run("NonMaxSuppression", {
            "boxes": boxes, "scores": scores, "limit": limit, "iou": iou, "score": score},
            [("selected", np.int64)], domain="")
        flat = np.repeat(boxes[:, None], classes, 1).reshape(-1, 4)
        index = np.indices(scores.shape).reshape(3, -1)
        kept = self.kept(flat, scores.ravel(), index[1], index[0], format="any_corners",
                         overlap="positive_area", order="image_class_score", float_threshold=1,
                         drop_nan_scores=1, score_threshold=0.2, max_per_class=20)
        self.equal(index[:, kept].T, expected)

    def test_one_session_on_many_threads(self):
        boxes, scores = some_boxes(3000), generator.random(3000).astype(np.float32)
        given = {"boxes": boxes, "scores": scores}
        nms = session("BatchedNms", given, [("kept", np.int64)], {})
        expected = vecdet.nms(boxes, scores, 0.5)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: nms.run(None, given)[0], range(64)):
                self.equal(found, expected)


class RoiAlign(Operators):
    def pooled(self, features, boxes, images, dtype=np.float32, **options):
        return run("RoiAlign", {"features": features, "boxes": boxes, "images": images},
                   [("pooled", dtype)], **options)[0]

    def test_numpy(self):
        features = generator.standard_normal((2, 16, 24, 32)).astype(np.float32)
        for count in (0, 1, 40):
            boxes, images = some_boxes(count, 60), generator.integers(0, 2, count)
            rois = np.concatenate([images[:, None].astype(np.float32), boxes], 1)
            for options in ({}, {"aligned": 1, "sampling_ratio": 2}):
                expected = vecdet.roi_align(features, rois, (5, 7), 0.5,
                                            options.get("sampling_ratio", -1), "aligned" in options)
                for threads in (1, 2, 4):
                    self.equal(self.pooled(features, boxes, images, output_height=5, output_width=7,
                                           spatial_scale=0.5, threads=threads, **options), expected)

    def test_double(self):
        features = generator.standard_normal((2, 5, 24, 32))
        boxes, images = some_boxes(40, 60, dtype=np.float64), generator.integers(0, 2, 40)
        rois = np.concatenate([images[:, None], boxes], 1)
        found = self.pooled(features, boxes, images, np.float64, output_height=3, output_width=4,
                            spatial_scale=0.5, sampling_ratio=2, aligned=1)
        self.equal(found, vecdet.roi_align(features, rois, (3, 4), 0.5, 2, True))
        expected, = run("RoiAlign", {"features": features, "boxes": boxes, "images": images},
                        [("pooled", np.float64)], domain="", output_height=3, output_width=4,
                        spatial_scale=0.5, sampling_ratio=2,
                        coordinate_transformation_mode="half_pixel")
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)

    def test_bfloat16(self):
        features = rounded(generator.standard_normal((1, 3, 9, 9)))
        boxes, images = some_boxes(5, 8), np.zeros(5, np.int64)
        rois = np.concatenate([images[:, None].astype(np.float32), boxes], 1)
        self.equal(self.pooled((features, BFLOAT16), boxes, images, BFLOAT16, output_height=2,
                               output_width=2), rounded(vecdet.roi_align(features, rois, 2)))

    def test_as_the_runtimes(self):
        features = generator.standard_normal((2, 8, 20, 20)).astype(np.float32)
        boxes, images = some_boxes(30, 20), generator.integers(0, 2, 30)
        common = {"output_height": 3, "output_width": 3, "spatial_scale": 0.5, "sampling_ratio": 2}
        given = {"features": features, "boxes": boxes, "images": images}
        expected, = run("RoiAlign", given, [("pooled", np.float32)], domain="",
                        coordinate_transformation_mode="half_pixel", **common)
        found = self.pooled(features, boxes, images, aligned=1, **common)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

    def test_inferred_shape(self):
        for type_, name in ((onnx.TensorProto.FLOAT, "tensor(float)"),
                            (onnx.TensorProto.DOUBLE, "tensor(double)")):
            output, = self.inferred(type_).get_outputs()
            self.assertEqual((output.shape, output.type), ([3, 16, 5, 7], name))

    def inferred(self, type_):
        helper, value = onnx.helper, onnx.helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("RoiAlign", ["features", "boxes", "images"], ["pooled"],
                              domain="ai.vecdet", output_height=5, output_width=7)], "graph",
            [value("features", type_, [2, 16, 24, 32]), value("boxes", type_, [3, 4]),
             value("images", onnx.TensorProto.INT64, [3])], [value("pooled", type_, None)])
        model = helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 20), helper.make_opsetid("ai.vecdet", 1)])
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(library)
        return onnxruntime.InferenceSession(model.SerializeToString(), options)


ROWS = ("yolov5", "yolov7", "yolox", "yolov10", "yolo26", "rt-detr")
DETECTIONS = ["boxes", "scores", "labels", "offsets"]


def raw_output(model, images, boxes, classes, extras=0):
    """Boxes of a 640 x 640 input, a few of which have scores above the thresholds."""
    centre = generator.uniform(0, 640, (images, boxes, 2))
    side = generator.uniform(20, 200, (images, boxes, 2))
    scores = generator.random((images, boxes, classes)) ** 6
    parts = [centre, side]
    if model in ("yolov5", "yolov7", "yolox"):
        parts.append(generator.random((images, boxes, 1)))
    elif model in ("yolov10", "yolo26"):
        parts = [centre - side / 2, centre + side / 2]
        scores = np.concatenate([scores[..., :1],
                                 generator.integers(0, classes, (images, boxes, 1))], 2)
    elif model == "rt-detr":
        parts = [centre / 640, side / 640]
    parts += [scores, generator.uniform(0, 640, (images, boxes, extras))]
    output = np.concatenate(parts, 2).astype(np.float32)
    return np.ascontiguousarray(output if model in ROWS else output.transpose(0, 2, 1))


class PostprocessYolo(Operators):
    def check(self, output, model, transforms=None, threads=0, given=None, **options):
        names = DETECTIONS + ["sources", "extras"]
        positions = None if transforms is None else np.asarray(transforms, np.float64)
        boxes, scores, labels, offsets, sources, extras = run(
            "PostprocessYolo", {"output": output if given is None else given,
                                "transforms": positions},
            names, model=model, threads=threads, **options)
        expected = vecdet.postprocess_yolo(output, model, transforms, **options)
        self.equal(offsets, np.cumsum([0] + [len(image.scores) for image in expected]))
        for k, image in enumerate(expected):
            part = slice(offsets[k], offsets[k + 1])
            for found, wanted in zip((boxes, scores, labels, sources, extras),
                                     (image.boxes, image.scores, image.labels, image.sources,
                                      image.extras)):
                self.equal(found[part], wanted)
        return len(scores)

    def test_models(self):
        for model in ("yolov5", "yolov7", "yolox", "yolov8", "yolov9", "yolo11", "yolo12",
                      "yolov11", "yolov12", "yolov10", "yolo26", "rt-detr"):
            for images, boxes in ((1, 500), (3, 200), (1, 0), (0, 200)):
                found = self.check(raw_output(model, images, boxes, 4), model)
                self.assertEqual(found > 0, images * boxes > 0)

    def test_options(self):
        output = raw_output("yolov8", 2, 400, 3, extras=6)
        transforms = [vecdet.LetterboxTransform.centred((480, 640), (640, 640)),
                      vecdet.LetterboxTransform.top_left((1080, 1920), (640, 640))]
        for options in ({"score_threshold": 0.6}, {"iou_threshold": 0.3}, {"max_detections": 3},
                        {"max_candidates": 5}, {"class_agnostic": 1}, {"result_format": "xywh"},
                        {"result_format": "cxcywh", "keypoint_size": 3}, {"score_threshold": 1}):
            for multi_label in (0, 1):
                for positions in (None, transforms):
                    self.check(output, "yolov8", positions, extras=6, multi_label=multi_label,
                               **options)

    def test_extras_without_sources(self):
        output = raw_output("yolov8", 1, 400, 3, extras=2)
        *_, extras = run("PostprocessYolo", {"output": output}, [*DETECTIONS, "", "extras"],
                         model="yolov8", extras=2)
        self.equal(extras, vecdet.postprocess_yolo(output, "yolov8", extras=2)[0].extras)

    def test_no_detections(self):
        output = np.zeros((2, 84, 8400), np.float32)
        self.assertEqual(self.check(output, "yolov8"), 0)

    def test_few_boxes(self):
        output = raw_output("yolov8", 1, 4, 80)
        self.check(output, "yolov8", class_count=80)

    def test_lists(self):
        output = raw_output("yolov8", 2, 300, 4)
        lists = {"classes": [0, 3], "class_thresholds": [0.5, 0.25, 0.5, 0.75],
                 "class_groups": [0, 1, 1, 0]}
        for name, values in lists.items():
            self.check(output, "yolov8", **{name: values})
        self.check(output, "yolov8", **lists)

    def test_bfloat16(self):
        output = rounded(raw_output("yolov8", 2, 300, 4))
        self.check(output, "yolov8", given=(output, BFLOAT16))

    def test_threads(self):
        output = raw_output("yolov8", 1, 8400, 80)
        for threads in (1, 2, 4):
            self.check(output, "yolov8", threads=threads, multi_label=1, score_threshold=0.5)

    def test_fewer_outputs(self):
        output = raw_output("yolov8", 2, 300, 4)
        every = run("PostprocessYolo", {"output": output}, DETECTIONS + ["sources", "extras"],
                    model="yolov8")
        for found, expected in zip(run("PostprocessYolo", {"output": output}, DETECTIONS,
                                       model="yolov8"), every):
            self.equal(found, expected)


class PostprocessDense(Operators):
    def check(self, detector, images=2, levels=(300, 80), classes=5, bfloat16=False, threads=0,
              **options):
        count = sum(levels)
        anchors = some_boxes(count, 200)
        logits = generator.normal(-2, 2, (images, count, classes)).astype(np.float32)
        deltas = generator.normal(0, 0.3, (images, count, 4)).astype(np.float32)
        centers = None
        if detector == "fcos":
            deltas = abs(deltas)
            centers = generator.normal(0, 1, (images, count)).astype(np.float32)
        sizes = generator.uniform(150, 250, (images, 2)).astype(np.float32)
        level_sizes = None if detector == "ssd" or len(levels) == 1 else np.array(levels, np.int64)
        given = {"logits": logits, "deltas": deltas, "anchors": anchors, "image_sizes": sizes,
                 "level_sizes": level_sizes, "centerness": centers}
        if bfloat16:
            logits, deltas = rounded(logits), rounded(deltas)
            given.update(logits=(logits, BFLOAT16), deltas=(deltas, BFLOAT16))
        boxes, scores, labels, offsets = run("PostprocessDense", given, DETECTIONS, threads=threads,
                                             detector=detector, **options)
        expected = vecdet.postprocess(logits, deltas, anchors, sizes.tolist(),
                                      () if level_sizes is None else levels, detector,
                                      centerness=centers, **options)
        self.equal(offsets, np.cumsum([0] + [len(image.scores) for image in expected]))
        for k, image in enumerate(expected):
            part = slice(offsets[k], offsets[k + 1])
            for found, wanted in zip((boxes, scores, labels),
                                     (image.boxes, image.scores, image.labels)):
                self.equal(found[part], wanted)
        return len(scores)

    def test_detectors(self):
        for detector, classes in (("retinanet", 5), ("fcos", 5), ("ssd", 5), ("rpn", 1)):
            for images in (0, 1, 3):
                for threads in (1, 4):
                    found = self.check(detector, images, classes=classes, threads=threads)
                    self.assertEqual(found > 0, images > 0)
            self.check(detector, levels=(150,), classes=classes)

    def test_options(self):
        for options in ({"score_threshold": 0.7}, {"max_candidates": 10}, {"iou_threshold": 0.2},
                        {"max_detections": 4}, {"min_size": 30.0}, {"size_limit": 0.1},
                        {"weights": [10.0, 10.0, 5.0, 5.0]}):
            self.assertGreater(self.check("retinanet", **options), 0)
        self.assertEqual(self.check("retinanet", score_threshold=1), 0)

    def test_bfloat16(self):
        self.assertGreater(self.check("retinanet", bfloat16=True), 0)


class Errors(unittest.TestCase):
    """The text of vecdet is in the runtime's exception."""

    def refuses(self, text, operator, inputs, outputs, **attributes):
        with self.assertRaisesRegex(Exception, re.escape(text)):
            run(operator, inputs, outputs, **attributes)

    def test_nms(self):
        boxes, scores = some_boxes(3), np.ones(3, np.float32)
        good = {"boxes": boxes, "scores": scores}
        for text, options in (
                ("vecdet::nms: params.iou_threshold is 1.5, expected a number in [0, 1]",
                 {"iou_threshold": 1.5}),
                ("vecdet::BatchedNms: order is \"up\", expected score, index, ", {"order": "up"}),
                ("vecdet::BatchedNms: order is an integer, expected a string", {"order": 1}),
                ("vecdet::BatchedNms: max_total is a float, expected an integer",
                 {"max_total": 0.5}),
                ("vecdet::BatchedNms: max_total is a list, expected an integer",
                 {"max_total": [1, 2]}),
                ("vecdet::BatchedNms: iou_threshold is a string, expected a number",
                 {"iou_threshold": "half"}),
                ("vecdet::BatchedNms: plus_one is 2, expected 0 or 1", {"plus_one": 2}),
                ("vecdet::nms: params.max_total is -1, expected 0 or more", {"max_total": -1})):
            self.refuses(text, "BatchedNms", good, ["kept"], **options)
        for text, inputs in (
                ("boxes.shape is [3, 3], expected [boxes, 4]", {"boxes": boxes[:, :3].copy()}),
                ("scores.shape is [2], expected [boxes]", {"scores": scores[:2]}),
                ("scores.type is double, expected the type of boxes",
                 {"scores": scores.astype(np.float64)}),
                ("boxes.type is float16, expected float, double or bfloat16",
                 {"boxes": boxes.astype(np.float16), "scores": scores.astype(np.float16)}),
                ("boxes.type is uint8, expected", {"boxes": boxes.astype(np.uint8),
                                                   "scores": scores.astype(np.uint8)}),
                ("classes.shape is [2], expected [boxes]", {"classes": np.zeros(2, np.int64)}),
                ("images.type is float, expected int64 or int32", {"images": scores})):
            self.refuses("vecdet::BatchedNms: " + text, "BatchedNms",
                         {**good, "classes": None, "images": None, **inputs}, ["kept"])

    def test_roi_align(self):
        good = {"features": np.zeros((1, 2, 4, 4), np.float32), "boxes": some_boxes(3),
                "images": np.zeros(3, np.int64)}
        output, sides = [("pooled", np.float32)], {"output_height": 2, "output_width": 2}
        self.refuses("vecdet::RoiAlign: output_height is missing, expected an integer", "RoiAlign",
                     good, output)
        for text, options in (
                ("vecdet::RoiAlign: output_width is 0, expected 1 or more", {"output_width": 0}),
                ("vecdet::roi_align: params.spatial_scale is 0, expected", {"spatial_scale": 0}),
                ("vecdet::roi_align: params.sampling_ratio is 2000, expected",
                 {"sampling_ratio": 2000})):
            self.refuses(text, "RoiAlign", good, output, **{**sides, **options})
        for text, inputs in (
                ("vecdet::RoiAlign: features.shape is [2, 4, 4], expected [images, channels, "
                 "height, width]", {"features": good["features"][0]}),
                ("vecdet::RoiAlign: boxes.shape is [3, 3], expected [boxes, 4]",
                 {"boxes": np.zeros((3, 3), np.float32)}),
                ("vecdet::RoiAlign: images.shape is [2], expected [boxes]",
                 {"images": np.zeros(2, np.int64)}),
                ("vecdet::roi_align: boxes.images[1] is 1, expected", {"images": np.arange(3)})):
            self.refuses(text, "RoiAlign", {**good, **inputs}, output, **sides)
        for text, inputs in (
                ("tensor(float16)' of input parameter (features)",  # the runtime's own error
                 {"features": good["features"].astype(np.float16)}),
                ("vecdet::RoiAlign: boxes.type is double, expected float",
                 {"boxes": good["boxes"].astype(np.float64)})):
            self.refuses(text, "RoiAlign", {**good, **inputs}, output, **sides)

    def test_yolo(self):
        good = raw_output("yolov8", 1, 100, 4)
        ends = raw_output("yolov10", 1, 100, 4)
        self.refuses("vecdet::PostprocessYolo: model is missing, expected yolov5, yolov7, ",
                     "PostprocessYolo", {"output": good}, DETECTIONS)
        for text, output, options in (
                ("PostprocessYolo: model is \"yolo\", expected yolov5, ", good, {"model": "yolo"}),
                ("postprocess_yolo: params.score_threshold is 2, expected", good,
                 {"score_threshold": 2}),
                ("PostprocessYolo: output.shape is [100, 8], expected [images, 4 + classes, boxes]",
                 good[0].T.copy(), {}),
                ("PostprocessYolo: output.shape is [1, 100, 8], expected [images, 4 + classes, "
                 "boxes], and more boxes than numbers per box: is it transposed?",
                 good.transpose(0, 2, 1).copy(), {}),
                ("PostprocessYolo: output.shape is [1, 8, 100], expected [images, 4 + classes, "
                 "boxes] with 80 classes", good, {"class_count": 80}),
                ("PostprocessYolo: classes is 80, expected a list of integers", good,
                 {"classes": 80}),
                ("PostprocessYolo: class_thresholds is 0.5, expected a list of floats", good,
                 {"class_thresholds": 0.5}),
                ("PostprocessYolo: output.shape is [1, 8, 100], expected [images, boxes, 6]", good,
                 {"model": "yolov10"}),
                ("postprocess_yolo: number 4 of box 0 of image 0 of outputs.boxes_and_scores is ",
                 good + 2, {}),
                ("postprocess_yolo: number 4 of box 0 of image 0 of outputs.boxes_and_scores is ",
                 good - 2, {}),
                ("PostprocessYolo: a score of output is ", good + 2, {"extras": 0}),
                ("PostprocessYolo: extras is -1, expected 0 to 2^31 - 1", good, {"extras": -1}),
                ("PostprocessYolo: iou_threshold is set, expected no value", ends,
                 {"model": "yolov10", "iou_threshold": 0.5}),
                ("PostprocessYolo: class_agnostic is set, expected no value", ends,
                 {"model": "yolo26", "class_agnostic": 0}),
                ("PostprocessYolo: output.type is float16, expected float or bfloat16",
                 good.astype(np.float16), {})):
            self.refuses("vecdet::" + text, "PostprocessYolo", {"output": output}, DETECTIONS,
                         **{"model": "yolov8", **options})
        self.refuses("vecdet::PostprocessYolo: transforms.shape is [2, 6], expected [images, 6]",
                     "PostprocessYolo", {"output": good, "transforms": np.ones((2, 6))}, DETECTIONS,
                     model="yolov8")

    def test_dense(self):
        good = {"logits": np.zeros((1, 9, 2), np.float32),
                "deltas": np.zeros((1, 9, 4), np.float32),
                "anchors": some_boxes(9), "image_sizes": np.full((1, 2), 50, np.int64)}
        for text, options in (
                ("PostprocessDense: detector is missing, expected retinanet, fcos, ssd, rpn", {}),
                ("PostprocessDense: weights.size() is 3, expected 4",
                 {"detector": "ssd", "weights": [1.0, 1.0, 1.0]}),
                ("postprocess: params.iou_threshold is -1, expected a number in [0, 1]",
                 {"detector": "ssd", "iou_threshold": -1})):
            self.refuses("vecdet::" + text, "PostprocessDense", good, DETECTIONS, **options)
        for text, inputs in (
                ("PostprocessDense: logits.shape is [9, 2], expected [images, anchors, classes]",
                 {"logits": good["logits"][0]}),
                ("PostprocessDense: deltas.shape is [1, 8, 4], expected [images, anchors, 4]",
                 {"deltas": good["deltas"][:, :8]}),
                ("PostprocessDense: anchors.type is double, expected float",
                 {"anchors": good["anchors"].astype(np.float64)}),
                ("PostprocessDense: image_sizes.shape is [2], expected [images, 2]: height and",
                 {"image_sizes": good["image_sizes"][0]}),
                ("postprocess: the sum of level_sizes is 8, expected 9",
                 {"level_sizes": np.array([4, 4])}),
                ("postprocess: outputs.centerness.size() is 9, expected",
                 {"level_sizes": None, "centerness": np.zeros((1, 9), np.float32)})):
            self.refuses("vecdet::" + text, "PostprocessDense", {**good, **inputs}, DETECTIONS,
                         detector="retinanet")


if __name__ == "__main__":
    print("ONNX Runtime", onnxruntime.__version__)
    unittest.main()
