# SPDX-License-Identifier: Apache-2.0
"""Quantised outputs against the same functions on the dequantised arrays, bit for bit, and every
error of their arguments."""
import array as arrays
import unittest

import numpy as np
import vecdet
from support import generator
from vecdet import Quantised


def dequantised(quantised):
    difference = np.int32(quantised.array) - np.int32(quantised.zero_point)
    return difference.astype(np.float32) * np.float32(quantised.scale)


def some_quantised(shape, dtype=np.int8, scale=1 / 255, zero_point=None, share=0.05):
    """Most integers are low; `share` of them are any."""
    least = np.iinfo(dtype).min
    low = generator.integers(0, 50, shape)
    array = np.where(generator.random(shape) < share, generator.integers(0, 256, shape), low)
    return Quantised((array + least).astype(dtype), scale,
                     least if zero_point is None else zero_point)


class Results(unittest.TestCase):
    def same(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for ours, theirs in zip(found, expected):
            for a, b in zip(ours, theirs):
                np.testing.assert_array_equal(a, b)

    def test_yolo(self):
        total = 0
        for dtype in np.int8, np.uint8:
            for model, shape, options in (
                    ("yolov8", (2, 4 + 20, 300), {}), ("yolov8", (1, 4 + 3 + 6, 99), {"extras": 6}),
                    ("yolov5", (2, 300, 5 + 20), {}), ("yolov8-obb", (2, 4 + 20 + 1, 300), {}),
                    ("rt-detr", (2, 300, 4 + 20), {"max_detections": 7})):
                output = some_quantised(shape, dtype)
                for lists in {}, {"classes": [0, 1], "score_threshold": 0.1}:
                    found = vecdet.postprocess_yolo(output, model, **options, **lists)
                    self.same(found, vecdet.postprocess_yolo(dequantised(output), model, **options,
                                                             **lists))
                    total += sum(len(image.scores) for image in found)
        self.assertGreater(total, 1000)

    def test_separate_boxes(self):
        transforms = [vecdet.LetterboxTransform.centred((300, 500), (640, 640))] * 2
        for model, axis, numbers in (("yolo11", 1, 20), ("yolov5", 2, 21), ("rt-detr", 2, 20),
                                     ("yolo11-obb", 1, 21)):
            shapes = [[2, count, 300] if axis == 1 else [2, 300, count] for count in (4, numbers)]
            boxes = some_quantised(shapes[0], np.uint8, 2.5, 3, 1)
            scores = some_quantised(shapes[1], np.int8)
            float_boxes, float_scores = dequantised(boxes), dequantised(scores)
            joined = np.concatenate([float_boxes, float_scores], axis)
            expected = vecdet.postprocess_yolo(joined, model, transforms)
            self.assertGreater(len(expected[1].scores), 5)
            for given, coordinates in ((scores, boxes), (scores, float_boxes),
                                       (float_scores, boxes), (float_scores, float_boxes)):
                self.same(vecdet.postprocess_yolo(given, model, transforms, boxes=coordinates),
                          expected)

    def test_classes_are_floats(self):
        for model, numbers in ("yolov10", 2), ("yolo26-obb", 3):
            boxes = some_quantised((2, 300, 4), np.uint8, 2.5, 3, 1)
            scores = np.float32(generator.random((2, 300, numbers)))
            scores[:, :, 1] = generator.integers(0, 80, (2, 300))
            joined = np.concatenate([dequantised(boxes), scores], 2)
            expected = vecdet.postprocess_yolo(joined, model)
            self.assertGreater(len(expected[1].scores), 5)
            self.same(vecdet.postprocess_yolo(scores, model, boxes=boxes), expected)
            for output, options in ((some_quantised((2, 300, 4 + numbers)), {}),
                                    (some_quantised((2, 300, numbers)), {"boxes": boxes})):
                with self.assertRaisesRegex(ValueError, "postprocess_yolo: output is quantised, "
                                            "expected floats: models with a class index per box"):
                    vecdet.postprocess_yolo(output, model, **options)

    def test_fractions_of_a_letterboxed_input(self):
        """Transforms divided by the input's size take fractions of the input."""
        output = some_quantised((1, 4 + 3, 200))
        floats = dequantised(output)
        floats[:, :4] *= 512
        transform = vecdet.LetterboxTransform.centred((300, 500), (512, 512))
        expected, = vecdet.postprocess_yolo(floats, "yolov8", [transform])
        found, = vecdet.postprocess_yolo(
            output, "yolov8", np.array([transform]) / (512, 512, 512, 512, 1, 1))
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_allclose(found.boxes, expected.boxes, rtol=1e-5)
        self.assertGreater(len(found.boxes), 5)

    def test_detr(self):
        sizes = [(480, 640), (300, 200)]
        for softmax in False, True:
            logits = some_quantised((2, 300, 21), np.uint8, 0.1, 100)
            boxes = some_quantised((2, 300, 4), np.int8, 1 / 255, share=1)
            expected = vecdet.postprocess_detr(dequantised(logits), dequantised(boxes), sizes,
                                               softmax=softmax, score_threshold=0.2)
            self.assertGreater(len(expected[1].scores), 5)
            for given in boxes, dequantised(boxes):
                self.same(vecdet.postprocess_detr(logits, given, sizes, softmax=softmax,
                                                  score_threshold=0.2), expected)

    def test_filter_topk(self):
        for dtype in np.int8, np.uint8:
            logits = some_quantised((30, 91), dtype, 0.05, 17)
            for kind in "logits", "probabilities":
                found = vecdet.filter_topk(logits, 0.6, 100, kind)
                self.same([found], [vecdet.filter_topk(dequantised(logits), 0.6, 100, kind)])
                self.assertGreater(len(found[0]), 10)

    def test_arrays_that_are_not_contiguous(self):
        logits = some_quantised((30, 91), np.int8, 0.05, -100)
        turned = Quantised(logits.array.T, logits.scale, logits.zero_point)
        self.same([vecdet.filter_topk(turned, 0.5, 50)],
                  [vecdet.filter_topk(dequantised(turned), 0.5, 50)])
        self.same([vecdet.filter_topk(Quantised(np.int8([[3], [9]]), np.array(0.5), np.int64(1)),
                                      0.5, 5)],
                  [(np.float32([4, 1]), [1, 0])])


class Errors(unittest.TestCase):
    def fails(self, kind, text, *arguments, **options):
        with self.assertRaisesRegex(kind, text):
            vecdet.postprocess_yolo(*arguments, **options)

    def test_integers_without_a_scale(self):
        for dtype in np.int8, np.uint8:
            array = np.zeros((1, 6, 40), dtype)
            text = f"dtype is {array.dtype}, .* or vecdet.Quantised\\({{}}, scale, zero_point\\)"
            self.fails(TypeError, "postprocess_yolo: output." + text.format("output"), array,
                       "yolov8")
            self.fails(TypeError, "postprocess_yolo: boxes." + text.format("boxes"),
                       np.zeros((1, 2, 40), np.float32), "yolov8", boxes=array[:, :4])
            with self.assertRaisesRegex(TypeError, "filter_topk: logits." + text.format("logits")):
                vecdet.filter_topk(array, 0.5, 3)
            with self.assertRaisesRegex(TypeError,
                                        "postprocess_detr: boxes." + text.format("boxes")):
                vecdet.postprocess_detr(np.zeros((1, 6, 3)), array[:, :, :4], [(9, 9)])
        for value in memoryview(np.zeros((1, 6, 40), np.int8)), arrays.array("b", [0] * 240):
            self.fails(TypeError, "output.dtype is int8, .* or vecdet.Quantised\\(output, ", value,
                       "yolov8")
            with self.assertRaisesRegex(TypeError, "logits.dtype is int8, .* or vecdet.Quantised"):
                vecdet.filter_topk(value, 0.5, 3)
        self.fails(TypeError, "output.dtype is int16, expected float32", np.zeros((1, 6, 40), "h"),
                   "yolov8")

    def test_scale_and_zero_point(self):
        array = np.zeros((1, 6, 40), np.int8)
        for scale in 0, -1.0, np.nan, np.inf, 1e-40:
            self.fails(ValueError,
                       "postprocess_yolo: output.scale is .*, expected a positive number",
                       Quantised(array, scale, 0), "yolov8")
            self.fails(ValueError,
                       "postprocess_yolo: boxes.scale is .*, expected a positive number",
                       Quantised(array[:, 4:], 0.5, 0), "yolov8",
                       boxes=Quantised(array[:, :4], scale, 0))
        for zero_point in -129, 128:
            self.fails(ValueError, f"output.zero_point is {zero_point}, expected -128 to 127",
                       Quantised(array, 0.5, zero_point), "yolov8")
        self.fails(ValueError, "output.zero_point is -1, expected 0 to 255",
                   Quantised(array.astype(np.uint8), 0.5, -1), "yolov8")
        self.fails(TypeError, "output.scale is None, expected a number",
                   Quantised(array, None, 0), "yolov8")
        self.fails(TypeError, "output.zero_point is 0.5, expected an integer",
                   Quantised(array, 0.5, 0.5), "yolov8")
        self.fails(TypeError, "output.array.dtype is float32, expected int8 or uint8",
                   Quantised(array.astype(np.float32), 0.5, 0), "yolov8")

    def test_shapes(self):
        scores = np.zeros((1, 2, 40), np.float32)
        self.fails(ValueError, r"boxes.shape is \[1, 40, 4\], expected \[1, 4, 40\]", scores,
                   "yolov8", boxes=np.zeros((1, 40, 4), np.float32))
        self.fails(ValueError, r"output.shape is \[2, 40\], expected three dimensions", scores[0],
                   "yolov8", boxes=np.zeros((1, 4, 40), np.float32))
        self.fails(ValueError, r"\(boxes and output\).shape is \[1, 84, 40\], .*transposed",
                   np.zeros((1, 80, 40), np.float32), "yolov8",
                   boxes=np.zeros((1, 4, 40), np.float32))
        self.fails(ValueError, r"output.shape is \[6, 40\], expected \[images, 4 \+ classes",
                   Quantised(np.zeros((6, 40), np.int8), 1, 0), "yolov8")

    def test_numbers_that_are_no_probabilities(self):
        output = Quantised(np.full((1, 6, 40), 100, np.uint8), 0.5, 0)
        self.fails(ValueError, "output is 50 at number 4 of box 0 of image 0, expected "
                   "probabilities", output, "yolov8")
        with self.assertRaisesRegex(ValueError, r"\(boxes and output\) is 50 at number 4 of box"):
            vecdet.postprocess_yolo(Quantised(output.array[:, 4:], 0.5, 0), "yolov8",
                                    boxes=Quantised(output.array[:, :4], 0.5, 0))


if __name__ == "__main__":
    unittest.main()
