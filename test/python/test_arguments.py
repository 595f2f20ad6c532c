# SPDX-License-Identifier: Apache-2.0
"""Arguments that the NumPy functions accept, the errors of others, and calls from many threads and
processes."""
import array
import asyncio
import concurrent.futures
import ctypes
import multiprocessing
import subprocess
import sys
import threading
import time
import unittest

import numpy as np
import vecdet
from vecdet import _c
from vecdet._arrays import TYPES
from vecdet._packed import bytes_address, joined, packer
from support import generator, nms, some_boxes

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


class Unreadable:
    def __dlpack__(self, **options):
        raise BufferError("it is on another device")

    def __dlpack_device__(self):
        return (2, 0)


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
        self.fails(ValueError, r"nms: params.iou_threshold is 50", vecdet.nms, boxes, scores, 50)
        self.fails(ValueError, r"overlap is 'giou', expected 'iou', 'ios'", vecdet.nms, boxes,
                   scores, 0.5, overlap="giou")
        self.fails(TypeError, r"idxs.dtype is float64, expected integers", vecdet.batched_nms,
                   boxes, scores, [0.5, 1, 2], 0.5)
        self.fails(ValueError, r"idxs.shape is \[2\], expected \[3\]", vecdet.batched_nms, boxes,
                   scores, [1, 2], 0.5)
        self.fails(ValueError, r"idxs has 18446744073709551615", vecdet.batched_nms, boxes, scores,
                   np.array([2**64 - 1, 0, 1], np.uint64), 0.5)
        self.fails(ValueError, r"in_fmt is 'yxyx'", vecdet.box_convert, boxes, "yxyx", "xyxy")
        self.fails(TypeError, r"boxes is a Unreadable whose DLPack", vecdet.nms, Unreadable(),
                   scores, 0.5)
        self.fails(ValueError, r"match_threshold", vecdet.merge_boxes, boxes, scores,
                   match_threshold=0)

    def test_numbers(self):
        boxes = some_boxes(3)
        for levels in (None, "4", b"4", 2.5, [4]):
            self.fails(TypeError, r"cannot be interpreted as an integer", vecdet.pyramid_levels,
                       boxes, levels)
        self.assertEqual(len(vecdet.pyramid_levels(boxes, np.int64(4))), 3)
        self.fails(TypeError, r"nms: boxes.dtype is object", vecdet.nms, None, np.ones(3), 0.5)
        self.fails(TypeError, r"scores.dtype is object", vecdet.bce_loss, np.ones((1, 2)), [0],
                   None)
        self.fails(TypeError, r"level_sizes has float64, expected integers", vecdet.make_points,
                   [(2.0, 3.0)], [8])
        self.fails(ValueError, r"level_sizes.shape is \[1, 3\]", vecdet.make_points, [(2, 3, 4)],
                   [8])
        self.fails(ValueError, r"strides.shape is \[2\], expected \[1\]", vecdet.make_points,
                   [(2, 3)], [8, 16])
        self.fails(ValueError, r"proposals.shape is \[1, 3, 4\], expected \[N, 4\]",
                   vecdet.postprocess_box_head, np.ones((3, 2)), np.ones((3, 8)), [boxes[None]],
                   [(9, 9)])

    def test_raw_outputs(self):
        output = generator.random((1, 84, 8400), np.float32)
        yolo = vecdet.postprocess_yolo
        self.fails(ValueError, r"is it transposed", yolo, output.transpose(0, 2, 1), "yolov8")
        self.fails(ValueError, r"is it transposed", yolo, output, "yolov5")
        self.fails(ValueError, r"expected \[images, boxes, 6\]", yolo, output, "yolov10")
        self.fails(ValueError, r"output.shape is \[84, 8400\]", yolo, output[0], "yolov8")
        self.fails(ValueError, r"model is 'yolov3'", yolo, output, "yolov3")
        self.fails(ValueError, r"with 20 classes", yolo, output, "yolov8", classes=20)
        self.fails(ValueError, r"expected probabilities, not logits", yolo, output * 9, "yolov8")
        self.fails(TypeError, r"output.dtype is uint8", yolo, output.astype(np.uint8), "yolov8")
        self.fails(ValueError, r"params.score_threshold is 25", yolo, output, "yolov8",
                   score_threshold=25)
        self.fails(ValueError, r"transforms.shape is \[2, 6\]", yolo, output, "yolov8",
                   [vecdet.LetterboxTransform.centred((9, 9), (9, 9))] * 2)
        self.fails(ValueError, r"transforms.shape is \[6\]", yolo, output, "yolov8",
                   vecdet.LetterboxTransform.centred((9, 9), (9, 9)))
        self.fails(ValueError, r"transforms.shape is \[1\], expected \[1, 6\]", yolo, output,
                   "yolov8", 2.0)
        self.fails(ValueError, r"transforms.shape is \[0, 6\]", yolo, output, "yolov8",
                   np.zeros((0, 6)))
        self.assertEqual(yolo(output[:0], "yolov8", np.zeros((0, 6))), [])
        self.fails(ValueError, r"image_sizes.shape is \[2, 2\]", vecdet.postprocess_detr,
                   output[..., :4], output[..., :4], [(1, 1)] * 2)
        image = np.zeros((8, 8, 3), np.uint8)
        self.fails(ValueError, r"a list of images", vecdet.letterbox, image, (8, 8))
        self.fails(TypeError, r"an image of float32", vecdet.letterbox,
                   [image.astype(np.float32)], (8, 8))
        self.fails(ValueError, r"\[height, width, 3\]", vecdet.letterbox, [image[..., 0]], (8, 8))
        self.fails(ValueError, r"input_size is 8, expected \(height, width\)", vecdet.letterbox,
                   [image], 8)

    def test_losses(self):
        logits = np.zeros((2, 3), np.float32)
        self.fails(ValueError, r"labels\[1\] is 3", vecdet.sigmoid_focal_loss, logits,
                   labels=[0, 3])
        self.fails(ValueError, r"either targets or labels", vecdet.sigmoid_focal_loss, logits)
        self.fails(ValueError, r"pass class labels as labels=", vecdet.sigmoid_focal_loss, logits,
                   np.zeros(2))
        self.fails(ValueError, r"reduction is 'none'", vecdet.sigmoid_focal_loss_and_grad, logits,
                   labels=[0, 1], reduction="none")
        self.fails(ValueError, r"target.shape is \[3, 4\]", vecdet.smooth_l1_loss, some_boxes(2),
                   some_boxes(3))
        self.fails(TypeError, r"labels.dtype is float64", vecdet.softmax_cross_entropy_loss, logits,
                   [0.5, 1])


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
        together = threading.Barrier(threads)

        def work():
            together.wait()
            for _ in range(rounds):
                with shared, inner:
                    pass

        def run():
            interval = sys.getswitchinterval()
            sys.setswitchinterval(1e-6)
            workers = [threading.Thread(target=work) for _ in range(threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            sys.setswitchinterval(interval)

        rows, dropped = self.recorded(run)
        self.assertEqual(rows["shared"]["count"], threads * rounds)
        self.assertEqual(rows["inner"]["count"], threads * rounds)
        self.assertEqual(dropped, 0)

    def test_a_scope_that_tasks_share(self):
        """The first task ends inside the second one's scope: its record is dropped, and the second
        has its own time."""
        shared = vecdet.profile.scope("shared")

        async def work(before, inside):
            await asyncio.sleep(before)
            with shared:
                await asyncio.sleep(inside)

        async def both():
            await asyncio.gather(work(0, 0.06), work(0.04, 0.04))

        rows, dropped = self.recorded(lambda: asyncio.run(both()))
        self.assertEqual((rows["shared"]["count"], dropped), (1, 1))
        self.assertLess(rows["shared"]["total_ns"], 0.055e9)

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
