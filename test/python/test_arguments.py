# SPDX-License-Identifier: Apache-2.0
"""Arguments that the NumPy functions accept, the errors of others, and calls from many threads and
processes."""
import array
import asyncio
import concurrent.futures
import copy
import ctypes
import decimal
import fractions
import gc
import inspect
import mmap
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import unittest
import warnings

import numpy as np
import vecdet
import vecdet.sahi
import vecdet.supervision
from vecdet import _c
from vecdet._arrays import TYPES
from vecdet._packed import bytes_address, joined, packer
from support import LEVELS, Remote, calls, generator, nms, some_boxes
from threads import run_on_threads

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


class Exported:
    """An object that only has DLPack."""

    def __init__(self, values):
        self._values = values

    def __dlpack__(self, **options):
        return self._values.__dlpack__()

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()


class Changing:
    """A number with a hash that can change, like a tensor."""

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return self.value


class Inputs(unittest.TestCase):
    def setUp(self):
        self.boxes, self.scores = some_boxes(60), generator.random(60).astype(np.float32)
        self.expected = nms(self.boxes, self.scores, 0.3).tolist()

    def check(self, boxes, scores):
        self.assertEqual(vecdet.nms(boxes, scores, 0.3).tolist(), self.expected)

    def test_types(self):
        self.check(self.boxes.astype(np.float64), self.scores.astype(np.float64))
        self.check(self.boxes, self.scores.astype(np.float64))  # promoted
        self.check(self.boxes.astype(">f4"), self.scores.astype(">f8"))
        half = self.boxes.astype(np.float16), self.scores.astype(np.float16)
        self.expected = nms(*(values.astype(np.float32) for values in half), 0.3).tolist()
        self.check(*half)

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not installed")
    def test_bfloat16(self):
        small = [values.astype(ml_dtypes.bfloat16) for values in (self.boxes, self.scores)]
        self.expected = nms(*(values.astype(np.float32) for values in small), 0.3).tolist()
        self.check(*small)
        self.assertEqual(vecdet.box_convert(small[0], "xyxy", "xywh").dtype, ml_dtypes.bfloat16)
        self.check(small[0], small[1].astype(np.float32))

    def test_bits_of_bfloat16(self):
        """The same path without ml_dtypes: uint16 stands for the type."""
        rounded = [values.view(np.uint32) >> 16 for values in (self.boxes, self.scores)]
        self.expected = nms(*((bits << 16).view(np.float32) for bits in rounded), 0.3).tolist()
        bits = np.dtype(np.uint16)
        TYPES[bits] = _c.BFLOAT16
        self.addCleanup(TYPES.pop, bits)
        self.check(*(values.astype(bits) for values in rounded))
        one = np.full((1, 3, 100), 0x3f80, bits)  # 1, and one class
        found, = vecdet.postprocess_yolo(np.concatenate([one, one], 1)[:, :5], "yolov8")
        self.assertEqual(found.boxes.tolist(), [[0.5, 0.5, 1.5, 1.5]])

    def test_layouts(self):
        wide = np.zeros((60, 9), np.float32)
        wide[:, 2:6], wide[:, 7] = self.boxes, self.scores
        self.check(wide[:, 2:6], wide[:, 7])
        self.check(np.asfortranarray(self.boxes), self.scores[::-1].copy()[::-1])
        frozen = self.boxes.copy()
        frozen.flags.writeable = False
        self.check(frozen, self.scores)

    def test_other_containers(self):
        self.check(self.boxes.tolist(), self.scores.tolist())
        if hasattr(np, "from_dlpack"):
            self.check(Exported(self.boxes), Exported(self.scores))
        self.check(memoryview(self.boxes), array.array("f", self.scores.tolist()))

        class Own(np.ndarray):
            pass
        self.check(self.boxes.view(Own), self.scores.view(Own))

    def test_no_boxes(self):
        self.assertEqual(vecdet.nms([], [], 0.5).tolist(), [])
        self.assertEqual(vecdet.nms(np.zeros((0, 4)), np.zeros(0), 0.5).shape, (0,))
        self.assertEqual(vecdet.box_iou(np.zeros((0, 4)), self.boxes).shape, (0, 60))
        self.assertEqual(vecdet.merge_boxes([], []).groups(), [])
        self.assertEqual(vecdet.sigmoid_focal_loss(np.zeros((0, 3)), labels=[]).shape, (0, 3))
        found = vecdet.postprocess_yolo(np.zeros((0, 84, 8400), np.float32), "yolov8")
        self.assertEqual(found, [])
        found, = vecdet.postprocess_yolo(np.zeros((1, 84, 8400), np.float32), "yolov8")
        self.assertEqual(found.boxes.shape, (0, 4))

    def test_arguments_are_not_changed(self):
        before = self.boxes.copy(), self.scores.copy()
        vecdet.nms(self.boxes, self.scores, 0.5)
        vecdet.box_convert(self.boxes, "xyxy", "cxcywh")
        vecdet.clip_boxes_to_image(self.boxes, (20, 20))
        self.assertTrue(np.array_equal(self.boxes, before[0]))
        self.assertTrue(np.array_equal(self.scores, before[1]))


class SmallArguments(unittest.TestCase):
    """Lists of numbers, offsets and structs are packed without NumPy."""

    def test_lists_and_arrays(self):
        expected = vecdet.make_points(np.array([[2, 3], [1, 2]]), np.array([8.0, 16.0]))
        for levels in ([(2, 3), (1, 2)], ([2, 3], [1, 2]), [(2, np.int64(3)), [1, 2]],
                       np.array([[2, 3], [1, 2]], np.int32), [np.array([2, 3]), (1, 2)]):
            for strides in ([8, 16], (8.0, np.float32(16)), np.array([8, 16])):
                self.assertEqual(vecdet.make_points(levels, strides).tolist(), expected.tolist())
        output = np.zeros((2, 6, 100), np.float32)
        output[:, :, 7] = 32, 32, 8, 8, 0.9, 0
        transforms = [vecdet.LetterboxTransform.centred((64, 32), (64, 64)),
                      vecdet.LetterboxTransform.top_left((32, 64), (64, 64))]
        expected = [found.boxes.tolist() for found in vecdet.postprocess_yolo(
            output, "yolov8", np.array(transforms))]
        self.assertEqual(expected, [[[12, 28, 20, 36]], [[28, 28, 36, 32]]])
        for given in (transforms, tuple(map(list, transforms)), [transforms[0], np.array(
                transforms[1])]):
            found = vecdet.postprocess_yolo(output, "yolov8", given)
            self.assertEqual([image.boxes.tolist() for image in found], expected)

    def test_structs(self):
        for struct, fields in ((_c.ground_truth, 8), (_c.features, 6), (_c.byte_image, 4),
                               (_c.roi_boxes, 3), (_c.letterbox_transform, 6)):
            numbers = list(range(1, fields + 1))
            copied = struct.from_buffer_copy(packer(struct)(*numbers))
            self.assertEqual([getattr(copied, name) for name, _ in struct._fields_], numbers)
        layer = _c.set_loss_layer.from_buffer_copy(packer(_c.set_loss_layer)(*range(1, 9)))
        self.assertEqual((layer.outputs.classes, layer.matches, layer.boxes_grad), (4, 5, 8))

    def test_memory(self):
        for text in (b"", b"seven", bytes(range(250))):
            self.assertEqual(ctypes.string_at(bytes_address(text), len(text)), text)
        parts = [some_boxes(3), some_boxes(0), some_boxes(2)]
        address, _memory = joined(parts)
        self.assertEqual(ctypes.string_at(address, 80), np.concatenate(parts).tobytes())


class Mistakes(unittest.TestCase):
    """Each is an error that names the function, the argument and what was expected."""

    def fails(self, kind, text, call, *arguments, **options):
        with self.assertRaisesRegex(kind, text):
            call(*arguments, **options)

    def test_boxes(self):
        boxes, scores = some_boxes(3), np.ones(3, np.float32)
        self.fails(TypeError, r"nms: scores.dtype is uint8, expected float32", vecdet.nms, boxes,
                   np.ones(3, np.uint8), 0.5)
        self.fails(TypeError, r"nms: boxes.dtype is int64", vecdet.nms, boxes.astype(int), scores,
                   0.5)
        self.fails(ValueError, r"nms: boxes.shape is \[4, 3\], expected \[N, 4\]", vecdet.nms,
                   boxes.T, scores, 0.5)
        self.fails(ValueError, r"nms: scores.shape is \[3, 1\], expected \[3\]", vecdet.nms, boxes,
                   scores[:, None], 0.5)
        self.fails(ValueError, r"nms: iou_threshold is 50", vecdet.nms, boxes, scores, 50)
        self.fails(ValueError, r"overlap is 'giou', expected 'iou', 'ios'", vecdet.nms, boxes,
                   scores, 0.5, overlap="giou")
        self.fails(ValueError, r"idxs has 0.5, expected integers", vecdet.batched_nms,
                   boxes, scores, [0.5, 1, 2], 0.5)
        self.fails(ValueError, r"idxs.shape is \[2\], expected \[3\]", vecdet.batched_nms, boxes,
                   scores, [1, 2], 0.5)
        self.fails(ValueError, r"idxs has 18446744073709551615", vecdet.batched_nms, boxes, scores,
                   np.array([2**64 - 1, 0, 1], np.uint64), 0.5)
        self.fails(ValueError, r"in_fmt is 'yxyx'", vecdet.box_convert, boxes, "yxyx", "xyxy")
        if hasattr(np, "from_dlpack"):
            self.fails(TypeError, r"boxes is a Remote whose DLPack", vecdet.nms, Remote(), scores,
                       0.5)
        self.fails(ValueError, r"match_threshold", vecdet.merge_boxes, boxes, scores,
                   match_threshold=0)

    def test_numbers(self):
        boxes = some_boxes(3)
        for levels in (None, "4", b"4", 2.5, [4]):
            self.fails(TypeError, r"pyramid_levels: levels is .* expected an integer",
                       vecdet.pyramid_levels, boxes, levels)
        self.assertEqual(len(vecdet.pyramid_levels(boxes, np.int64(4))), 3)
        self.fails(TypeError, r"nms: boxes is None, expected an array of float32", vecdet.nms, None,
                   np.ones(3), 0.5)
        self.fails(TypeError, r"scores is None", vecdet.bce_loss, np.ones((1, 2)), [0],
                   None)
        self.fails(TypeError, r"level_sizes.dtype is float64, expected integers",
                   vecdet.make_points,
                   [(2.0, 3.0)], [8])
        self.fails(ValueError, r"level_sizes.shape is \[1, 3\]", vecdet.make_points, [(2, 3, 4)],
                   [8])
        self.fails(ValueError, r"strides.shape is \[2\], expected \[1\]", vecdet.make_points,
                   [(2, 3)], [8, 16])
        self.fails(ValueError, r"proposals.shape is \[1, 3, 4\], expected \[N, 4\]",
                   vecdet.postprocess_box_head, np.ones((3, 2)), np.ones((3, 8)), [boxes[None]],
                   [(9, 9)])

    def test_postprocess_yolo(self):
        output = generator.random((1, 84, 8400), np.float32)
        yolo = vecdet.postprocess_yolo
        self.fails(ValueError, r"is it transposed", yolo, output.transpose(0, 2, 1), "yolov8")
        self.fails(ValueError, r"is it transposed", yolo, output, "yolov5")
        self.fails(ValueError, r"expected \[images, boxes, 6\]", yolo, output, "yolov10")
        self.fails(ValueError, r"output.shape is \[84, 8400\]", yolo, output[0], "yolov8")
        self.fails(ValueError, r"model is 'yolov3'", yolo, output, "yolov3")
        self.fails(ValueError, r"with class_count=20", yolo, output, "yolov8", class_count=20)
        self.fails(ValueError, r"expected probabilities, not logits", yolo, output * 9, "yolov8")
        self.fails(TypeError, r"output.dtype is uint8", yolo, output.astype(np.uint8), "yolov8")
        self.fails(ValueError, r"yolo: score_threshold is 25", yolo, output, "yolov8",
                   score_threshold=25)
        self.fails(ValueError, r"transforms.shape is \[2, 6\]", yolo, output, "yolov8",
                   [vecdet.LetterboxTransform.centred((9, 9), (9, 9))] * 2)
        self.fails(ValueError, r"transforms.shape is \[6\]", yolo, output, "yolov8",
                   vecdet.LetterboxTransform.centred((9, 9), (9, 9)))
        self.fails(ValueError, r"transforms.shape is \[\], expected \[1, 6\]", yolo, output,
                   "yolov8", 2.0)
        self.fails(ValueError, r"transforms.shape is \[0, 6\]", yolo, output, "yolov8",
                   np.zeros((0, 6)))
        self.assertEqual(yolo(output[:0], "yolov8", np.zeros((0, 6))), [])
        self.fails(ValueError, r"image_sizes.shape is \[2, 2\]", vecdet.postprocess_detr,
                   output[..., :4], output[..., :4], [(1, 1)] * 2)
        image = np.zeros((8, 8, 3), np.uint8)
        self.fails(ValueError, r"a list of images", vecdet.letterbox, image, (8, 8))
        self.fails(TypeError, r"images\[0\].dtype is float32, expected uint8", vecdet.letterbox,
                   [image.astype(np.float32)], (8, 8))
        self.fails(ValueError, r"\[height, width, 3\]", vecdet.letterbox, [image[..., 0]], (8, 8))
        self.fails(TypeError, r"images\[1\] is None, expected an array of uint8.*imread",
                   vecdet.letterbox, [image, None], (8, 8))
        self.fails(ValueError, r"input_size is 8, expected \(height, width\)", vecdet.letterbox,
                   [image], 8)

    def test_losses(self):
        logits = np.zeros((2, 3), np.float32)
        for targets in ([0, 2], np.array([0, 2]), np.eye(3, dtype=int)[[0, 2]]):
            self.fails((TypeError, ValueError), "loss: targets.* pass class labels as labels=",
                       vecdet.sigmoid_focal_loss, logits, targets)
        self.fails(ValueError, r"labels\[1\] is 3", vecdet.sigmoid_focal_loss, logits,
                   labels=[0, 3])
        self.fails(ValueError, r"either targets or labels", vecdet.sigmoid_focal_loss, logits)
        self.fails(ValueError, r"loss: scale is 1e\+300, expected a finite float",
                   vecdet.smooth_l1_loss, some_boxes(2), some_boxes(2), scale=1e300)
        self.fails(ValueError, r"pass class labels as labels=", vecdet.sigmoid_focal_loss, logits,
                   np.zeros(2))
        self.fails(ValueError, r"reduction is 'none'", vecdet.sigmoid_focal_loss_and_grad, logits,
                   labels=[0, 1], reduction="none")
        self.fails(ValueError, r"target.shape is \[3, 4\]", vecdet.smooth_l1_loss, some_boxes(2),
                   some_boxes(3))
        self.fails(TypeError, r"labels.dtype is float64", vecdet.softmax_cross_entropy_loss, logits,
                   [0.5, 1])


def flat(result):
    """All numbers and texts of a result."""
    if isinstance(result, str):
        return [result]
    if result is None:  # a field that the call does not fill
        return []
    if isinstance(result, (tuple, list)):
        return [x for part in result for x in flat(part)]
    return np.asarray(result, np.float64).ravel().tolist()


class Parameters(unittest.TestCase):
    """Numbers and sizes of every function."""

    def kinds(self, name, given):
        """The parameters of a function that are numbers: their annotation and value."""
        for argument, parameter in inspect.signature(getattr(vecdet, name)).parameters.items():
            kind = str(parameter.annotation).replace(" | None", "")
            value = given.get(argument, parameter.default)
            if kind in ("int", "float", "bool"):
                yield argument, kind, value

    def test_every_function_is_covered(self):
        covered = calls()
        for name in vecdet.__all__:
            found = getattr(vecdet, name)
            if inspect.isfunction(found) and not name.startswith("set_") and name not in covered:
                self.assertEqual(list(self.kinds(name, {})), [], name)

    def test_numbers(self):
        """A text is a TypeError that names function and argument; integers beyond 64 bits are
        errors; an array with one number counts as that number, also after it has changed."""
        checked = 0
        for name, given in calls().items():
            call = getattr(vecdet, name)
            for argument, kind, value in self.kinds(name, given):
                with self.subTest(function=name, argument=argument):
                    family = name.replace("_and_grad", "") + ".*" + argument
                    for bad in ("a", np.complex128(1j)):
                        with self.assertRaisesRegex(TypeError, family):
                            call(**{**given, argument: bad})
                    if kind == "int":
                        for bad in (2**63, 2**64, 2**64 + 1, -2**63 - 1, -2**64, 2**200, -2**200):
                            if argument == "seed" and 0 <= bad < 2**64:
                                continue
                            with self.assertRaisesRegex(ValueError, family):
                                call(**{**given, argument: bad})
                    if value is None or argument == "classes":
                        continue
                    array = np.array(float(value) if kind == "float" else value)
                    expected = flat(call(**{**given, argument: value}))
                    self.assertEqual(flat(call(**{**given, argument: array})), expected)
                    if kind == "float" and value != 0:
                        other = value * (0.5 if argument == "scale" else 0.9)
                        array[...] = other  # in place: the same object
                        self.assertEqual(flat(call(**{**given, argument: array})),
                                         flat(call(**{**given, argument: other})))
                    checked += 1
        self.assertGreater(checked, 100)

    def test_sizes(self):
        sizes = {"clip_boxes_to_image": "size", "decode_boxes": "image_size",
                 "decode_distances": "image_size", "make_anchors": "image_size",
                 "make_ssd_anchors": "image_size", "letterbox": "input_size",
                 "roi_align": "output_size", "multiscale_roi_align": "output_size"}
        given = calls()
        for name, argument in sizes.items():
            for bad in ((), (9,), (9, 9, 9), np.zeros(0), np.ones(1)):
                with self.assertRaisesRegex(ValueError, rf"{name}: {argument} is"):
                    getattr(vecdet, name)(**{**given[name], argument: bad})
        for name, argument in (("letterbox", "input_size"), ("roi_align", "output_size"),
                               ("multiscale_roi_align", "output_size")):
            for bad in ((-1, 9), (9, -1)):
                with self.assertRaisesRegex(ValueError, rf"{name}: {argument} is .*0 or more"):
                    getattr(vecdet, name)(**{**given[name], argument: bad})
        for bad in ((), (9,)):
            for make in (vecdet.LetterboxTransform.centred, vecdet.LetterboxTransform.top_left):
                self.assertRaisesRegex(ValueError, "image_size is", make, bad, (9, 9))
                self.assertRaisesRegex(ValueError, "input_size is", make, (9, 9), bad)
        for name, argument, bad in (
                ("letterbox", "mean", (.5,)), ("letterbox", "deviation", (1, 1)),
                ("decode_boxes", "weights", (1, 1, 1)), ("postprocess", "weights", ()),
                ("roi_align_grad", "input_shape", ()), ("roi_align_grad", "input_shape", (1, 4)),
                ("postprocess", "level_sizes", [[4, 4]]), ("make_points", "strides", [[8]])):
            with self.assertRaisesRegex(ValueError, f"{name}.*{argument}"):
                getattr(vecdet, name)(**{**given[name], argument: bad})
        with self.assertRaisesRegex(TypeError, "postprocess: level_sizes.dtype is float64"):
            vecdet.postprocess(**{**given["postprocess"], "level_sizes": [7.5, 0.5]})
        with self.assertRaisesRegex(ValueError, "level_sizes has 18446744073709551615"):
            vecdet.make_points(np.array([[2**64 - 1, 1]], np.uint64), [8])
        with self.assertRaisesRegex(ValueError, "set_threads: threads is 4294967297"):
            vecdet.set_threads(2**32 + 1)

    def test_deltas_of_a_box_head(self):
        given = calls()["postprocess_box_head"]
        deltas = given["deltas"]
        wide = vecdet.postprocess_box_head(**{**given, "deltas": deltas.reshape(8, 4, 4)})
        self.assertEqual(flat(wide), flat(vecdet.postprocess_box_head(**given)))
        for bad in (deltas.T, deltas.reshape(32, 4), deltas.reshape(4, 8, 4), deltas.reshape(-1)):
            with self.assertRaisesRegex(ValueError, r"deltas.shape is .*expected \[8, 16\]"):
                vecdet.postprocess_box_head(**{**given, "deltas": bad})

    def test_labels_of_losses(self):
        boxes = np.zeros((2, 3, 4), np.float32)
        for name, values in (("labels", np.zeros((3, 2), int)), ("box_weights", np.ones((3, 2)))):
            with self.assertRaisesRegex(ValueError, rf"{name}.shape is \[3, 2\]"):
                vecdet.smooth_l1_loss(boxes, boxes, **{name: values})
            for right in (values.T, values.reshape(-1)):
                self.assertEqual(vecdet.smooth_l1_loss(boxes, boxes, **{name: right}), 0)


class Classes(unittest.TestCase):
    """Classes of boxes may be floats without a fraction, as in torchvision."""

    def test_floats(self):
        boxes, scores = np.tile(some_boxes(1), (6, 1)), generator.random(6).astype(np.float32)
        idxs = np.array([0, 1, 1, -3, 0, 2**24])
        kinds = [np.float64, np.float32, ">f8", list] + ([ml_dtypes.bfloat16] if ml_dtypes else [])
        for call in (lambda given: vecdet.batched_nms(boxes, scores, given, 0.5),
                     lambda given: vecdet.soft_nms(boxes, scores, given, "hard", 0.5),
                     lambda given: vecdet.merge_boxes(boxes, scores, given)):
            expected = flat(call(idxs))
            for kind in kinds:
                given = idxs.astype(float).tolist() if kind is list else idxs.astype(kind)
                self.assertEqual(flat(call(given)), expected)
            for bad in (0.5, np.nan, np.inf, 2.0**63, -2.0**64):
                given = idxs.astype(float)
                given[4] = bad
                text = re.escape(f"idxs has {bad}, expected integers of 64 bits, or floats without")
                self.assertRaisesRegex(ValueError, text, call, given)
        self.assertEqual(vecdet.batched_nms(boxes, scores, -2.0**63 * np.ones(6), 0.5).shape, (1,))


class History(unittest.TestCase):
    """What a call accepts does not depend on earlier calls, though these keep their parameters."""

    def test_equal_values_of_other_types(self):
        given = calls()
        checked = 0
        for name, call in given.items():
            function = getattr(vecdet, name)
            for argument, parameter in inspect.signature(function).parameters.items():
                value = call.get(argument, parameter.default)
                kind = str(parameter.annotation).replace(" | None", "")
                if value is None or kind not in ("int", "float", "bool", "Sequence[float]"):
                    continue
                is_list = isinstance(value, tuple)
                for convert in (float, complex, fractions.Fraction, decimal.Decimal, np.complex128,
                                np.float64, np.timedelta64):
                    try:
                        other = tuple(map(convert, value)) if is_list else convert(value)
                    except (TypeError, ValueError):
                        continue
                    outcomes = []
                    for _ in range(2):  # before and after a call with the value itself
                        try:
                            outcomes.append(flat(function(**{**call, argument: other})))
                        except (TypeError, ValueError) as error:
                            outcomes.append(str(error))
                        function(**{**call, argument: value})
                    self.assertEqual(*outcomes, f"{name}: {argument}")
                    checked += 1
                if kind == "int":
                    with self.assertRaisesRegex(TypeError, f"{name}: {argument} is"):
                        function(**{**call, argument: float(value)})
        self.assertGreater(checked, 500)

    def test_a_tensor_that_changes(self):
        """Neither are arrays and tensors kept, which change in place; test_numbers has arrays."""
        scale = Changing(1.0)
        logits, labels = np.zeros((2, 3), np.float32), [0, 1]
        first = vecdet.sigmoid_focal_loss(logits, labels=labels, reduction="sum", scale=scale)
        scale.value = 100.0
        second = vecdet.sigmoid_focal_loss(logits, labels=labels, reduction="sum", scale=scale)
        self.assertAlmostEqual(second, 100 * first, 4)


class Objects(unittest.TestCase):
    """Copies of objects with memory of the library are objects of their own."""

    def test_copies(self):
        anchors, weight = some_boxes(9), generator.random((3, 2, 3, 3)).astype(np.float32)
        picture = generator.random((1, 2, 5, 5)).astype(np.float32)
        bias = np.ones(3, np.float32)
        made = {lambda: vecdet.AnchorIndex(anchors): lambda x: vecdet.match_anchors(x, anchors[:2]),
                lambda: vecdet.Conv3x3(weight, bias, True, True): lambda x: x(picture)}
        for make, use in made.items():
            expected = flat(use(make()))
            for duplicate in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
                original = make()
                other = duplicate(original)
                self.assertIs(type(other), type(original))
                self.assertNotEqual(other._handle.address, original._handle.address)
                del original
                gc.collect()
                blocks = [make() for _ in range(3)]  # in the memory that was freed
                self.assertEqual(flat(use(other)), expected)
                del blocks
            again = copy.deepcopy([make()])[0]
            self.assertEqual(flat(use(again)), expected)
            self.assertRaises(TypeError, copy.copy, again._handle)
        index = vecdet.AnchorIndex(anchors)
        anchors[:] = 0  # the index has its own anchors
        self.assertEqual(len(copy.copy(index)), 9)
        self.assertNotEqual(flat(copy.copy(index)._anchors), flat(anchors))


class Outputs(unittest.TestCase):
    """Memory for results."""

    def test_every_out_is_covered(self):
        outs = {name for name in vecdet.__all__ if inspect.isfunction(getattr(vecdet, name))
                and "out" in inspect.signature(getattr(vecdet, name)).parameters}
        self.assertEqual(outs, {"letterbox"})

    def test_refused(self):
        image, shape = np.full((8, 8, 3), 9, np.uint8), (1, 3, 8, 8)
        data = bytes(4 * 3 * 8 * 8)
        with mmap.mmap(-1, len(data), prot=mmap.PROT_READ) as mapped:
            read_only = [np.frombuffer(memory, np.float32).reshape(shape)
                         for memory in (data, mapped)]
            for out in read_only:
                with self.assertRaisesRegex(ValueError, "letterbox: out is read-only"):
                    vecdet.letterbox([image], (8, 8), out=out)
            del read_only, out
        self.assertEqual(data, bytes(len(data)))
        odd = np.zeros(len(data) + 1, np.uint8)[1:].view(np.float32).reshape(shape)
        for out in (odd, np.zeros(shape), np.zeros((1, 3, 8, 16), np.float32)[..., ::2],
                    np.zeros((2, *shape[1:]), np.float32)):
            with self.assertRaisesRegex(ValueError, "letterbox: out is .*expected a writeable"):
                vecdet.letterbox([image], (8, 8), out=out)
        with self.assertRaisesRegex(TypeError, "letterbox: out is a list"):
            vecdet.letterbox([image], (8, 8), out=[0])
        out = np.zeros(shape, np.float32)
        self.assertIs(vecdet.letterbox([image], (8, 8), out=out)[0], out)


class Values(unittest.TestCase):
    """Numbers that a conversion would change."""

    def test_large_integers(self):
        one, half = [[100000001, 0, 100000011, 10]], [[100000001, 0, 100000006, 10]]
        for a, b in ((np.array(one), np.array(half)), (one, half), (np.array(one), half)):
            self.assertEqual(vecdet.box_iou(a, b).tolist(), [[0.5]])
        self.assertEqual(vecdet.box_area(np.array(one)).tolist(), [100])
        self.assertEqual(vecdet.box_iou(np.array([[0, 0, 9, 9]]), [[0, 0, 9, 9]]).dtype, np.float32)
        self.assertEqual(vecdet.box_convert(np.array(one), "xyxy", "xywh").tolist(),
                         [[100000001, 0, 10, 10]])
        with self.assertRaisesRegex(ValueError, "box_iou: boxes1 has the integer"):
            vecdet.box_iou(np.array([[0, 0, 2**53 + 1, 1]]), one)
        with self.assertRaisesRegex(ValueError, "match_anchors: boxes has the integer 100000011, "
                                    "expected at most 2\\^24"):
            vecdet.match_anchors(some_boxes(3), np.array(one))

    def test_integers_beyond_float32(self):
        """Functions that compute in float32 refuse them in lists as in arrays, wherever they are;
        uint64 is compared exactly."""
        large, one = [[2**24 + 1, 0, 2**24 + 3, 2]], [[0, 0, 9, 9]]
        features, points = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 2), np.float32)
        logits = np.ones((1, 1, 2), np.float32)
        for given in (large, np.array(large), tuple(large), [[-x for x in large[0]]]):
            for call in (
                    lambda: vecdet.match_anchors(given, one),
                    lambda: vecdet.match_anchors(one, given), lambda: vecdet.AnchorIndex(given),
                    lambda: vecdet.assign_atss(given, [(1, 1)], one),
                    lambda: vecdet.assign_fcos(one, [(1, 1)], given)):
                self.assertRaisesRegex(ValueError, "the integer -?1677721.*expected", call)
        for call in (
                lambda: vecdet.assign_task_aligned(np.ones((1, 1)), large, points, [(1, 1)], one,
                                                   [0]),
                lambda: vecdet.postprocess(logits, logits[:, :, :1] * np.ones(4), large, [(9, 9)]),
                lambda: vecdet.postprocess_box_head(logits[0], np.ones((1, 8)), [large], [(9, 9)]),
                lambda: vecdet.roi_align(features, [large], 1),
                lambda: vecdet.roi_align(features, [[0, *large[0]]], 1),
                lambda: vecdet.filter_topk(large, 0.5, 1)):
            self.assertRaisesRegex(ValueError, "has the integer 1677721.*, expected at most 2\\^24",
                                   call)
        self.assertEqual(vecdet.roi_align(features.astype(float), [large], 1).shape, (1, 1, 1, 1))
        for number in (2**63, 2**63 + 1, 2**63 + 1024, 2**64 - 1):
            with self.assertRaisesRegex(ValueError, f"idxs has {number}, expected"):
                vecdet.batched_nms(some_boxes(1), np.ones(1, np.float32),
                                   np.array([number], np.uint64), 0.5)

    def test_integer_boxes(self):
        anchors, boxes = np.array([[0, 0, 8, 8]]), np.array([[2, 0, 8, 8]])
        for call in (vecdet.encode_boxes, vecdet.decode_boxes, vecdet.encode_distances,
                     vecdet.decode_distances):
            found = call(boxes, anchors)
            self.assertEqual(found.dtype, np.float32)
            self.assertEqual(found.tolist(), call(boxes.astype(np.float32), anchors).tolist())
        self.assertEqual(vecdet.pyramid_levels(boxes, 4).tolist(), [0])
        self.assertEqual(vecdet.match_anchors(anchors, boxes)[2].tolist(), [0.75])

    def test_boxes_of_images(self):
        features = np.ones((2, 1, 8, 8), np.float32)
        for boxes, images, count in (([], 1, 0), ([[]], 1, 0), ([[], []], 2, 0), ((), 1, 0),
                                     ([[], [[0, 0, 4, 4]]], 2, 1), ([[0, 0, 0, 4, 4]], 2, 1)):
            array = features[:images]
            self.assertEqual(vecdet.roi_align(array, boxes, 2).shape, (count, 1, 2, 2))
            self.assertEqual(vecdet.multiscale_roi_align([array], boxes, 2, [1]).shape,
                             (count, 1, 2, 2))
            self.assertEqual(vecdet.roi_align_grad(np.ones((count, 1, 2, 2), np.float32), boxes,
                                                   array.shape).shape, array.shape)
        with self.assertRaisesRegex(ValueError, "boxes has 0 images, expected 2"):
            vecdet.roi_align(features, [], 2)
        with self.assertRaisesRegex(ValueError, "boxes has the image 0.7, expected an integer"):
            vecdet.roi_align(features, [[0.7, 0, 0, 4, 4]], 2)
        for box in ([np.float32(0), 0, 9, 9], [np.int64(0), 0, 9, 9]):
            self.assertEqual(vecdet.match_anchors(some_boxes(3), [box])[0].shape, (3,))

    def test_no_numbers(self):
        """Neither texts nor times nor memory count as numbers; arrays with one element do."""
        boxes = some_boxes(2)
        for bad in (np.array("0.5"), np.array(b"0.5"), memoryview(b"0.5"), np.timedelta64(1),
                    np.array(np.timedelta64(1)), np.complex64(0.25 + 1j), np.array(0.25 + 1j)):
            with self.assertRaisesRegex(TypeError, "iou_threshold is .*expected a number"):
                vecdet.nms(boxes, np.ones(2, np.float32), bad)
            with self.assertRaisesRegex(TypeError, "k is .*expected an integer"):
                vecdet.filter_topk(boxes, 0.5, bad)
        for k in (np.array([2]), np.array([[2]]), np.array(2)):
            self.assertEqual(len(vecdet.filter_topk(boxes, 0.5, k)[0]), 2)
        self.assertRaisesRegex(TypeError, "k is", vecdet.filter_topk, boxes, 0.5, np.array([2, 2]))
        with self.assertRaisesRegex(TypeError, "transforms.dtype is <U1, expected numbers"):
            vecdet.postprocess_yolo(np.zeros((1, 6, 8), np.float32), "yolov8", [("1",) * 6])
        with self.assertRaisesRegex(ValueError, r"level_sizes is \[\(-1, 2\)\], expected 0"):
            vecdet.make_points([(-1, 2)], [8])
        logits, ignored = np.zeros((1, 2), np.float32), [-2]
        for reduction in ("none", "mean", "sum"):
            with self.assertRaisesRegex(TypeError, "scale is 'x', expected a number"):
                vecdet.softmax_cross_entropy_loss(logits, ignored, reduction, scale="x")
        for labels in ([3, -1, -2, -1], (3,)):
            with self.assertRaisesRegex(ValueError, r"labels\[0\] is 3, expected an array"):
                vecdet.sample_balanced(labels)

    def test_nan_predictions(self):
        """Refused on every path: by the kernel, by NumPy and at a threshold of 0."""
        rows = np.array([[0, 0, 9, 9, .5, 1], [0, 0, 9, 9, .4, 1], [5, 5, 5, 5, .3, 2]])
        for column, name in ((4, "score"), (5, "category")):
            bad = rows.copy()
            bad[1, column] = np.nan
            for given in (bad, bad[:2], bad.astype(np.float32)):
                for threshold in (0, 0.5, 1):
                    for call in (
                            vecdet.supervision.box_non_max_suppression,
                            vecdet.supervision.box_non_max_merge,
                            *(lambda rows, at, name=name: getattr(vecdet.sahi, name)(
                                rows, match_threshold=at) for name in (
                                "nms", "batched_nms", "nmm", "batched_nmm", "greedy_nmm",
                                "batched_greedy_nmm"))):
                        with warnings.catch_warnings():
                            warnings.simplefilter("error")
                            with self.assertRaisesRegex(ValueError, f"the {name} nan, expected"):
                                call(given, threshold)

    def test_no_boxes(self):
        """An empty list is one image without boxes; a list of empty lists has several."""
        anchors = vecdet.make_anchors((32, 64), LEVELS, [([16], [1.0])])
        points = vecdet.make_points(LEVELS, [16])
        scores, predicted = np.ones((8, 1), np.float32), anchors
        none = np.zeros((0, 4), np.float32)
        for boxes, shape in (([], (8,)), ((), (8,)), (none, (8,)), ([[]], (1, 8)),
                             ([none, none], (2, 8))):
            self.assertEqual(vecdet.match_anchors(anchors, boxes)[0].shape, shape)
            self.assertEqual(vecdet.assign_atss(anchors, LEVELS, boxes).shape, shape)
            self.assertEqual(vecdet.assign_fcos(anchors, LEVELS, boxes).shape, shape)
            wide = shape[:-1] + (8,)
            classes = [[]] * shape[0] if len(shape) == 2 else []
            found = vecdet.assign_task_aligned(
                np.broadcast_to(scores, (*wide, 1)), np.broadcast_to(predicted, (*wide, 4)), points,
                LEVELS, boxes, classes)
            self.assertEqual([part.shape for part in found], [shape, shape])
        self.assertEqual(vecdet.match_anchors(anchors, [], [])[1].tolist(), [-1] * 8)
        queries = np.zeros((1, 5, 3), np.float32), np.full((1, 5, 4), 0.5, np.float32)
        for images in (0, 1):
            given = [part[:images] for part in queries]
            self.assertEqual(vecdet.match_queries(*given, []).shape, (1, 1, 0))
            losses, grad, _ = vecdet.set_loss_and_grad(*given, np.zeros((1, 1, 0), int), [])
            self.assertEqual((losses.shape, grad.shape), ((1, 3), given[0].shape))
        self.assertEqual(vecdet.assign_task_aligned(
            np.zeros((0, 8, 1)), np.zeros((0, 8, 4)), points, LEVELS, [], [])[0].shape, (0, 8))

    def test_tensors(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        boxes = torch.complex(torch.zeros(1, 4), -torch.from_numpy(some_boxes(1))).conj().imag
        self.assertTrue(boxes.is_neg())
        self.assertEqual(vecdet.box_area(boxes).tolist(),
                         vecdet.box_area(boxes.resolve_neg().numpy()).tolist())
        self.assertGreater(boxes.min(), 0)
        self.assertEqual(vecdet.box_convert(boxes, "xyxy", "xyxy").tolist(), boxes.tolist())
        scale = torch.tensor(1.0)
        logits, labels = np.zeros((2, 3), np.float32), [0, 1]
        first = vecdet.sigmoid_focal_loss(logits, labels=labels, reduction="sum", scale=scale)
        scale.fill_(100)
        second = vecdet.sigmoid_focal_loss(logits, labels=labels, reduction="sum", scale=scale)
        self.assertAlmostEqual(second, 100 * first, 4)


class YoloExtras(unittest.TestCase):
    """Outputs with values after the scores, of which the call says nothing."""

    def output(self, numbers, boxes=200, rows=False):
        array = np.zeros((2, numbers, boxes), np.float32)
        array[:, :4] = np.float32([100, 50, 40, 10])[:, None]
        array[0, 4 + rows, 4] = 0.9
        if rows:
            array[0, 4, 4] = 0.8
        return np.ascontiguousarray(array.transpose(0, 2, 1)) if rows else array

    def test_errors(self):
        for numbers in (6, 20, 37, 56, 116):
            for bad in (-0.3, 1.7, 9, -np.inf, np.inf):
                for box in (0, 4, 63, 64, 150, 198, 199):  # of blocks and of the rest
                    output = self.output(numbers)
                    output[1, -1, box] = bad
                    for multi_label in (False, True):
                        with self.assertRaisesRegex(
                                ValueError, rf"output is {bad:.2g}.* at number {numbers - 1} of box "
                                rf"{box} of image 1.*extras="):
                            vecdet.postprocess_yolo(output, "yolov8", multi_label=multi_label)
                    found = vecdet.postprocess_yolo(output, "yolov8", extras=1)
                    self.assertEqual([len(image.boxes) for image in found], [1, 0])
        output = self.output(38, rows=True)
        output[0, 4, 30] = -0.5
        with self.assertRaisesRegex(ValueError, "number 30 of box 4 of image 0.*extras="):
            vecdet.postprocess_yolo(output, "yolov5")
        output[0, 4, 30] = np.nan  # no number outside [0, 1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vecdet.postprocess_yolo(output, "yolov5")
        for objectness in (-3, 3):  # a logit; its product with the scores may be a probability
            output = self.output(39, rows=True)
            output[0, 60, 4] = objectness
            output[0, 60, 5:] = 0.1
            with self.assertRaisesRegex(ValueError, "number 4 of box 60 of image 0.*extras="):
                vecdet.postprocess_yolo(output, "yolov5")
            vecdet.postprocess_yolo(output, "yolov5", extras=0)
        ends = self.output(6, rows=True)
        ends[0, 7, 4] = -2
        for model in ("yolov10", "yolo26"):
            with self.assertRaisesRegex(ValueError, "number 4 of box 7 of image 0.*extras="):
                vecdet.postprocess_yolo(ends, model)
            vecdet.postprocess_yolo(ends, model, extras=0)

    def test_warnings(self):
        for numbers, extras in ((20, 1), (37, 32), (56, 51), (116, 32)):
            for rows in (False, True):
                output = self.output(numbers + rows, rows=rows)
                model = "yolov5" if rows else "yolo11"
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    vecdet.postprocess_yolo(output, model)
                self.assertEqual(len(caught), 1)
                self.assertIn(f"extras={extras}", str(caught[0].message))
                self.assertEqual(caught[0].filename, __file__)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    for options in ({"extras": 0}, {"class_count": numbers - 4}, {"extras": extras}):
                        vecdet.postprocess_yolo(output, model, **options)
                    vecdet.postprocess_yolo(self.output(numbers - 1 + rows, rows=rows), model)

    def test_reports_of_extras(self):
        """VECDET_CHECK=1 also reports them, and names the arguments that Python has."""
        program = ("import sys, numpy as np, vecdet; vecdet.postprocess_yolo("
                   "np.zeros((1, 37, 60), np.float32), 'yolov8', **eval(sys.argv[1]))")
        for options, reported in (("{}", True), ("{'class_count': 33}", False), ("{'extras': 0}", False),
                                  ("{'extras': 32}", False)):
            ran = subprocess.run([sys.executable, "-W", "ignore", "-c", program, options],
                                 env={**os.environ, "VECDET_CHECK": "1"}, capture_output=True,
                                 text=True, check=True)
            self.assertEqual("pass extras=32, or class_count=33" in ran.stderr, reported, ran.stderr)
            self.assertEqual(bool(ran.stderr), reported)

    def test_options_of_nms(self):
        for model in ("yolov10", "yolo26", "rt-detr"):
            for options in ({"iou_threshold": 0.5}, {"class_agnostic": False},
                            {"class_groups": [0, 1]}):
                with self.assertRaisesRegex(ValueError, f"{next(iter(options))} is .*{model}"):
                    vecdet.postprocess_yolo(self.output(6, rows=True), model, **options)

    def test_rotated(self):
        yolo = vecdet.postprocess_yolo
        output = self.output(4 + 2 + 1)
        output[0, 6, :] = -0.5  # the angle
        ends = np.zeros((1, 9, 7), np.float32)
        for call, text in (
                (lambda: yolo(output, "yolov8"), "number 6 of box 0 of image 0"),
                (lambda: yolo(output, "yolo26-obb"), r"expected \[images, boxes, 6 \+ angle\]"),
                (lambda: yolo(ends, "yolo26"),
                 r"expected \[images, boxes, 6\]; 7 are those of rotated boxes, model='yolo26-obb'"),
                (lambda: yolo(output.transpose(0, 2, 1), "yolov8-obb"),
                 r"expected \[images, 4 \+ classes \+ angle, boxes\], and more boxes"),
                (lambda: yolo(output, "yolov8-obb", class_count=3), "with class_count=3"),
                (lambda: yolo(output, "yolov8-obb", extras=1),
                 "extras is 1, expected none for 'yolov8-obb': the angle is part of the box"),
                (lambda: yolo(output, "yolov8-obb", keypoint_size=2), "keypoint_size is 2"),
                (lambda: yolo(output, "yolov8-obb", result_format="xywhr"), "result_format is 'xywhr'"),
                (lambda: yolo(output, "yolov8", result_format="cxcywhr"), "result_format is 'cxcywhr'"),
                (lambda: yolo(ends, "yolo26-obb", iou_threshold=0.5), "iou_threshold is 0.5"),
                (lambda: yolo(output, "yolov8-obb", [(1, 2, 0, 0, 9, 9)] * 2),
                 "expected the same scale for both axes")):
            with self.assertRaisesRegex(ValueError, text):
                call()
        upright = self.output(84)
        with self.assertWarnsRegex(UserWarning, "upright boxes of COCO.*model='yolov8' is right"):
            yolo(upright, "yolo11-obb")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yolo(upright, "yolo11-obb", class_count=79)
            yolo(self.output(83), "yolo11-obb")
        for image in yolo(output, "yolov8-obb", extras=0):
            self.assertEqual(image.boxes.shape[1], 5)

    def test_names(self):
        output = self.output(6)
        for name in ("yolov11", "yolov12"):
            self.assertEqual(flat(vecdet.postprocess_yolo(output, name)),
                             flat(vecdet.postprocess_yolo(output, "yolo11")))
        for name, spelling in (("yolov8n", "yolov8"), ("YOLOv8", "yolov8"), ("yolo8", "yolov8"),
                               ("yolo11n-seg.pt", "yolo11"), ("yolov10b", "yolov10"),
                               ("yolo-v5s", "yolov5"), ("yolov5nu", "yolov8"),
                               ("yolov5u", "yolov8"), ("yolov5x6u.pt", "yolov8"), ("yolov26", "yolo26"),
                               ("yolox-s", "yolox"), ("RTDETR-l", "rt-detr"),
                               ("yolov8n-obb.pt", "yolov8-obb"), ("yolo11s-obb", "yolo11-obb"),
                               ("yolov26-obb", "yolo26-obb")):
            with self.assertRaisesRegex(ValueError, f"model is '{name}', expected '{spelling}',"):
                vecdet.postprocess_yolo(output, name)
        for name in ("yolov3", "yolov80", 8, None):
            with self.assertRaisesRegex(ValueError, "expected 'yolov5', 'yolov7'"):
                vecdet.postprocess_yolo(output, name)
        with self.assertRaisesRegex(ValueError, "keypoint_size is 3, expected 0 without extras="):
            vecdet.postprocess_yolo(output, "yolov8", keypoint_size=3)
        with self.assertRaisesRegex(ValueError, "extras is -1"):
            vecdet.postprocess_yolo(output, "yolov8", extras=-1)
        with self.assertRaisesRegex(TypeError, r"class_count is \[0\], expected an integer"):
            vecdet.postprocess_yolo(output, "yolov8", class_count=[0])
        self.assertEqual(len(vecdet.postprocess_yolo(output, "yolov8", class_count=np.array(2))), 2)
        for number in (2, np.int64(2), np.array(2), 2.0, True):
            with self.assertRaisesRegex(TypeError, "classes is .*, expected a list of the wanted "
                                                   "classes; the number of classes is class_count="):
                vecdet.postprocess_yolo(output, "yolov8", classes=number)

    def test_lists(self):
        """Options per class, in the functions that have them."""
        output = self.output(6)
        logits, boxes = np.zeros((1, 3, 2)), np.zeros((1, 3, 4))
        anchors = np.array([[0, 0, 9, 9]] * 3, np.float32)
        corners, scores = np.array([[0, 0, 9, 9]] * 2, np.float32), np.ones(2, np.float32)
        rotated = np.array([[5, 5, 2, 2, 0]] * 2, np.float32)
        calls = {
            "postprocess_yolo": lambda **lists: vecdet.postprocess_yolo(output, "yolov8", **lists),
            "postprocess": lambda **lists: vecdet.postprocess(logits, boxes, anchors, [(9, 9)],
                                                              **lists),
            "postprocess_detr": lambda **lists: vecdet.postprocess_detr(logits, boxes, [(9, 9)],
                                                                        **lists),
            "batched_nms": lambda **lists: vecdet.batched_nms(corners, scores, [0, 1], 0.5, **lists),
            "prob_iou_nms": lambda **lists: vecdet.prob_iou_nms(rotated, scores, 0.5, "opencv",
                                                                [0, 1], **lists),
            "rotated_nms": lambda **lists: vecdet.rotated_nms(rotated, scores, 0.5, "opencv", [0, 1],
                                                              **lists)}
        for name, call in calls.items():
            names = ["classes", "class_thresholds", "class_groups"][:2 + (name[-4:] != "detr")]
            for values in ([1, 0], (1, 0), np.array([1, 0]), range(2), np.array([1, 0], np.uint8)):
                call(**{argument: values for argument in names})
            for argument in names:
                for values, error, text in (
                        ([], ValueError, "expected one or more elements, or None"),
                        (["a"], TypeError, "is 'a', expected a"),
                        ([None, 1], TypeError, "is None, expected a"),
                        (object(), TypeError, "expected a list of")):
                    with self.assertRaisesRegex(error, f"vecdet.{name}: {argument}.*{text}"):
                        call(**{argument: values})
            with self.assertRaisesRegex(TypeError, f"vecdet.{name}: classes is 2.0, expected an"):
                call(classes=(1, 2.0))
            with self.assertRaisesRegex(TypeError, f"vecdet.{name}: classes is"):
                call(classes=2)
            if "nms" in name:
                with self.assertRaisesRegex(ValueError, rf"vecdet.{name}: idxs\[1\] is 1, expected 0 "):
                    call(class_thresholds=[0.5])
                wanted = [0]  # a list may change between calls
                self.assertEqual(call(classes=wanted).tolist(), [0])
                wanted[0] = 1
                self.assertEqual(call(classes=wanted).tolist(), [1])
            else:
                with self.assertRaisesRegex(ValueError, f"vecdet.{name}: class_thresholds.*is 3, exp"):
                    call(class_thresholds=[0.5] * 3)
        with self.assertRaisesRegex(ValueError, "rotated_nms: idxs is None, expected one class per "):
            vecdet.rotated_nms(rotated, scores, 0.5, "opencv", classes=[1])
        with self.assertRaisesRegex(ValueError, r"vecdet.postprocess_yolo: classes\[1\] is 2, "
                                                "expected a class from 0 to 1"):
            vecdet.postprocess_yolo(output, "yolov8", classes=[0, 2])
        self.assertEqual(vecdet.batched_nms(corners, scores, [0, 1], 0.5).tolist(), [0, 1])
        self.assertEqual(vecdet.batched_nms(corners, scores, [0, 1], 0.5,
                                            class_groups=[3, 3]).tolist(), [0])
        self.assertEqual(vecdet.batched_nms(corners, scores, [0, 1], 0.5, classes=[1]).tolist(), [1])
        self.assertEqual(vecdet.batched_nms(corners, scores, [0, 1], 0.5,
                                            class_thresholds=[1, 0.5]).tolist(), [1])
        self.assertEqual(vecdet.rotated_nms(rotated, scores, 0.5, "opencv", [0, 1],
                                            class_groups=[3, 3]).tolist(), [0])


class Threads(unittest.TestCase):
    def test_many_threads(self):
        """Each thread has its own workspace; results are equal."""
        problems = [(some_boxes(2000), generator.random(2000).astype(np.float32))
                    for _ in range(8)]
        expected = [vecdet.nms(*problem, 0.5).tolist() for problem in problems]
        for threads in (1, 0, 2):
            vecdet.set_threads(threads)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for _ in range(5):
                    found = pool.map(lambda problem: vecdet.nms(*problem, 0.5).tolist(), problems)
                    self.assertEqual(list(found), expected)
        vecdet.set_threads(0)

    def test_errors_belong_to_their_thread(self):
        def fail(number):
            try:
                vecdet.nms([[0, 0, 1, 1.0]], [1.0], float(number))
            except ValueError as error:
                return str(error)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for number, text in zip(range(2, 200), pool.map(fail, range(2, 200))):
                self.assertIn(f"iou_threshold is {number},", text)

    def test_calls_release_the_gil(self):
        boxes = np.tile(some_boxes(1), (3000, 1)) + generator.uniform(
            0, 1000, (3000, 1)).astype(np.float32)
        vecdet.set_threads(1)
        span = []

        def call():
            begin = time.perf_counter()
            while time.perf_counter() - begin < 0.2:
                vecdet.box_iou(boxes, boxes)
            span.append(begin)

        worker = threading.Thread(target=call)
        worker.start()
        ticks = 0
        while worker.is_alive():
            time.sleep(0.001)
            ticks += 1
        vecdet.set_threads(0)
        self.assertGreater(ticks, 10)

    def test_after_fork(self):
        problem = some_boxes(20000), generator.random(20000).astype(np.float32)
        expected = vecdet.nms(*problem, 0.5).tolist()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.starmap_async(vecdet.nms, [(*problem, 0.5)] * 4).get(60)
        for kept in found:
            self.assertEqual(kept.tolist(), expected)


class Settings(unittest.TestCase):
    def test_isa(self):
        best = vecdet.active_isa()
        vecdet.set_isa("baseline")
        self.assertEqual(vecdet.active_isa(), "baseline")
        vecdet.set_isa(best)
        self.assertIn(vecdet.detected_isa(), ("baseline", "avx2", "avx512"))
        with self.assertRaisesRegex(ValueError, "name is 'sse9'"):
            vecdet.set_isa("sse9")

    def test_profile(self):
        vecdet.profile.enable()
        with vecdet.profile.scope("detect"):
            vecdet.nms(some_boxes(10), np.ones(10), 0.5)
        vecdet.profile.disable()
        names = [row["function"] for row in vecdet.profile.rows()]
        self.assertIn("detect", names)
        self.assertIn("nms", names)
        vecdet.profile.reset()
        self.assertEqual(vecdet.profile.rows(), [])
        with self.assertRaisesRegex(ValueError, "expected a name that ends in"):
            vecdet.profile.write("report.pdf")
        with self.assertRaises(RuntimeError):
            vecdet.profile.write("/nonexistent/report.json")

    def recorded(self, run):
        vecdet.profile.reset()
        vecdet.profile.enable()
        run()
        vecdet.profile.disable()
        report = vecdet.profile.report()
        vecdet.profile.reset()
        return ({row["name"]: row for row in report["entries"]},
                report["processes"][0]["dropped_scopes"])

    def test_a_scope_that_threads_share(self):
        threads, rounds = 8, 20000
        shared, inner = vecdet.profile.scope("shared"), vecdet.profile.scope("inner")

        def work():
            for _ in range(rounds):
                with shared, inner:
                    pass

        rows, dropped = self.recorded(lambda: run_on_threads(threads, work))
        self.assertEqual(rows["shared"]["count"], threads * rounds)
        self.assertEqual(rows["inner"]["count"], threads * rounds)
        self.assertEqual(dropped, 0)

    def test_a_scope_that_tasks_share(self):
        """The first task ends inside the second one's scope: its record is dropped, and the second
        has its own time."""
        shared = vecdet.profile.scope("shared")
        spans = []  # the time inside of the block and that around it

        async def work(before, inside):
            await asyncio.sleep(before)
            begin = time.perf_counter_ns()
            with shared:
                inner = time.perf_counter_ns()
                await asyncio.sleep(inside)
                inner = time.perf_counter_ns() - inner
            spans.append((inner, time.perf_counter_ns() - begin))

        async def both():
            await asyncio.gather(work(0, 0.06), work(0.04, 0.04))

        rows, dropped = self.recorded(lambda: asyncio.run(both()))
        self.assertEqual((rows["shared"]["count"], dropped), (1, 1))
        inner, outer = spans[1]
        self.assertGreater(rows["shared"]["total_ns"], 0.98 * inner)
        self.assertLess(rows["shared"]["total_ns"], 1.02 * outer)

    def test_a_scope_inside_itself_and_ends_in_any_order(self):
        outer, inner = vecdet.profile.scope("outer"), vecdet.profile.scope("inner")

        def run():
            with outer, outer, inner:
                pass
            inner.__enter__()
            moved = threading.Thread(target=inner.__exit__)
            moved.start()
            moved.join()
            outer.__enter__()
            inner.__enter__()
            outer.__exit__()
            inner.__exit__()
            with inner:
                pass

        rows, dropped = self.recorded(run)
        self.assertEqual((rows["outer"]["count"], rows["inner"]["count"], dropped), (2, 3, 2))
        with self.assertRaisesRegex(RuntimeError, "'inner' ends more often than it began"):
            inner.__exit__()

    def test_a_scope_decorates_functions_alone(self):
        @vecdet.profile.scope("function")
        def function(depth):
            return function(depth - 1) if depth > 0 else "result"

        rows, dropped = self.recorded(lambda: self.assertEqual(function(4), "result"))
        self.assertEqual((rows["function"]["count"], dropped), (5, 0))

        async def coroutine():
            pass

        def generator():
            yield

        async def asynchronous_generator():
            yield

        for wrong in (coroutine, generator, asynchronous_generator):
            with self.assertRaisesRegex(TypeError, f"{wrong.__name__} is a.*expected one that"):
                vecdet.profile.scope("lazy")(wrong)

    def test_modules_of_their_own(self):
        # In a new process, which has imported none of them.
        script = ("import vecdet\n"
                  "for name in ('torch', 'sahi', 'supervision', 'gate', 'nsm'):\n"
                  "    try:\n"
                  "        getattr(vecdet, name).accelerate\n"
                  "    except AttributeError as error:\n"
                  "        print(error)\n"
                  "from vecdet import sahi\n"
                  "assert vecdet.sahi is sahi\n")
        printed = subprocess.run([sys.executable, "-c", script], check=True, text=True,
                                 stdout=subprocess.PIPE).stdout.splitlines()
        self.assertEqual(printed[0],
                         "module 'vecdet' has no attribute 'torch': import vecdet.torch")
        self.assertEqual([line.rpartition("import ")[2] for line in printed[1:4]],
                         ["vecdet.sahi", "vecdet.supervision", "vecdet.gate"])
        self.assertEqual(printed[4:], ["module 'vecdet' has no attribute 'nsm'"])

    def test_version(self):
        self.assertRegex(vecdet.__version__, r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
