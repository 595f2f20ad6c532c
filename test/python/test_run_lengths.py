# SPDX-License-Identifier: Apache-2.0
"""Run lengths, and vecdet.pycocotools, against golden vectors of COCO's mask API and rules in plain
Python; and their errors."""
import os
import pathlib
import unittest

from support import np, vecdet
import vecdet.pycocotools as coco

generator = np.random.default_rng(2)
DATA = pathlib.Path(os.environ.get(
    "VECDET_TEST_DATA",
    pathlib.Path(__file__).resolve().parents[3] / "shared/data")) / "golden_masks"


def counts_of(mask):
    """The counts of one picture."""
    pixels = np.concatenate([[0], (mask != 0).T.ravel().astype(int)])
    changes = np.nonzero(np.diff(pixels))[0]
    return np.diff([0, *changes, mask.size]).tolist()


def string_of(counts):
    """COCO's compressed string."""
    text = bytearray()
    for k, count in enumerate(counts):
        number = count - counts[k - 2] if k > 2 else count
        while True:
            group, number = number & 31, number >> 5
            is_last = number == (-1 if group & 16 else 0)
            text.append(48 + group + (0 if is_last else 32))
            if is_last:
                break
    return bytes(text)


def some_masks(count, height, width):
    return generator.random((count, height, width)) < generator.random((count, 1, 1))


def iou_of(a, b, crowds):
    result = np.zeros((len(a), len(b)))
    for i, one in enumerate(a):
        for k, other in enumerate(b):
            common = (one & other).sum()
            whole = one.sum() if crowds[k] else (one | other).sum()
            result[i, k] = common / whole if common else 0
    return result


class RunLengths(unittest.TestCase):
    def test_round_trips(self):
        for count, height, width in ((1, 1, 1), (3, 7, 9), (2, 65, 64), (4, 30, 100), (0, 5, 5)):
            masks = some_masks(count, height, width)
            expected = [counts_of(mask) for mask in masks]
            wide = np.zeros((count, 2 * height, 3 * width), np.uint8)
            wide[:, ::2, 1::3] = 200 * masks
            for given in (masks, masks.astype(np.int64), np.asfortranarray(masks),
                          masks.transpose(1, 2, 0).copy().transpose(2, 0, 1),
                          wide[:, ::2, 1::3], masks[:, ::-1].copy()[:, ::-1]):
                runs = vecdet.encode_masks(given)
                self.assertEqual([runs.of(k).tolist() for k in range(count)], expected)
                self.assertEqual(runs.sizes.tolist(), [[height, width]] * count)
            if count:
                np.testing.assert_array_equal(runs.full(), masks)
                np.testing.assert_array_equal(vecdet.encode_masks(masks[0]).counts, expected[0])
            for pixels in ("bits", "bytes"):
                decoded = vecdet.decode_masks(runs, pixels)
                self.assertEqual(decoded.kind, pixels)
                np.testing.assert_array_equal(decoded.full(height, width), masks)
                again = vecdet.encode_masks(decoded, (height, width))
                for a, b in zip(again, runs):
                    np.testing.assert_array_equal(a, b)
            strings = vecdet.run_lengths_to_strings(runs)
            self.assertEqual(strings, [string_of(counts) for counts in expected])
            for given in (strings, [text.decode() for text in strings]):
                again = vecdet.run_lengths_from_strings(given, (height, width))
                self.assertEqual(again.counts.tolist(), runs.counts.tolist())
            np.testing.assert_array_equal(vecdet.mask_areas(runs), masks.sum((1, 2)))
            for mask, box in zip(masks, vecdet.mask_boxes(runs).tolist()):
                y, x = np.nonzero(mask)
                self.assertEqual(box, [x.min(), y.min(), x.max() + 1, y.max() + 1] if len(x)
                                 else [0] * 4)

    def test_rectangles(self):
        maps = generator.random((3, 5, 5)).astype(np.float32)
        boxes = np.array([[2, 3, 20, 30], [-5, -5, 60, 60], [0, 0, 4, 50]], np.float32)
        for pixels in ("bits", "bytes"):
            masks = vecdet.paste_masks(maps, boxes, (50, 40), pixels=pixels)
            runs = vecdet.encode_masks(masks, (50, 40))
            np.testing.assert_array_equal(runs.full(), masks.full(50, 40))
            sizes = vecdet.encode_masks(masks, [(50, 40), (60, 41), (51, 40)]).sizes
            self.assertEqual(sizes.tolist(), [[50, 40], [60, 41], [51, 40]])

    def test_counts_in_any_memory(self):
        counts = np.frombuffer(b"\0" + np.array([1, 3], np.uint32).tobytes(), np.uint32, 2, 1)
        self.assertFalse(counts.flags.aligned)
        for given in (counts, np.array([1, 0, 3, 0], np.uint32)[::2], [1, 3]):
            self.assertEqual(vecdet.mask_areas(([[2, 2]], [0, 2], given)).tolist(), [3])

    def test_overlaps_and_merging(self):
        a, b = some_masks(4, 20, 31), some_masks(3, 20, 31)
        runs, others = vecdet.encode_masks(a), vecdet.encode_masks(b)
        np.testing.assert_array_equal(vecdet.mask_iou(runs, others), iou_of(a, b, [0, 0, 0]))
        for crowds in ([0, 1, 1], [False, True, True], np.array([0, 2, 3], np.uint8)):
            np.testing.assert_array_equal(vecdet.mask_iou(runs, others, crowds),
                                          iou_of(a, b, [0, 1, 1]))
        for one, other in ((runs, others), (runs, None)):
            np.testing.assert_array_equal(vecdet.mask_iou(one, other, overlap="ios"),
                                          vecdet.mask_iou(a, b if other else None, overlap="ios"))
        np.testing.assert_array_equal(vecdet.merge_masks(runs).full()[0], a.any(0))
        np.testing.assert_array_equal(vecdet.merge_masks(runs, "every").full()[0], a.all(0))

    def test_polygons(self):
        for polygon in ([1, 1, 6, 1, 6, 5, 1, 5], [[1, 1], [6, 1], [6, 5], [1, 5]]):
            mask = vecdet.run_lengths_from_polygons([polygon], (8, 9)).full()[0]
            expected = np.zeros((8, 9), bool)
            expected[1:5, 1:6] = True
            np.testing.assert_array_equal(mask, expected)
        np.testing.assert_array_equal(
            vecdet.run_lengths_from_boxes([[1, 1, 6, 5]], (8, 9)).full()[0], expected)
        self.assertEqual(len(vecdet.run_lengths_from_polygons([], (8, 9)).sizes), 0)

    def test_polygons_around_pixels(self):
        pictures = some_masks(4, 12, 17)
        for picture, polygons in zip(pictures, vecdet.mask_polygons(vecdet.encode_masks(pictures))):
            drawn = vecdet.run_lengths_from_polygons(polygons, picture.shape).full()
            np.testing.assert_array_equal(drawn.sum(0) % 2, picture)
            nexts = [np.roll(polygon, -1, 0) for polygon in polygons]
            areas = [(a[:, 0] * (b - a)[:, 1]).sum() for a, b in zip(polygons, nexts)]
            self.assertEqual(sum(areas), picture.sum())
            np.testing.assert_array_equal(np.abs(areas), drawn.sum((1, 2)))
        self.assertEqual(vecdet.mask_polygons(vecdet.encode_masks(np.zeros((2, 3, 4), bool))),
                         [[], []])

    def test_errors(self):
        runs = vecdet.encode_masks(some_masks(2, 4, 5))
        for error, text, call in (
            (TypeError, "masks.dtype is float64, expected truth values or integers",
             lambda: vecdet.encode_masks(np.zeros((3, 4)))),
            (ValueError, r"masks.shape is \[3\], expected \[N, height, width\] or "
             r"\[height, width\]",
             lambda: vecdet.encode_masks([0, 1, 0])),
            (TypeError, "size is .*expected None for pictures",
             lambda: vecdet.encode_masks([[0, 1]], (1, 2))),
            (ValueError, r"masks.shape is \[\], expected \[N, height, width\]",
             lambda: vecdet.mask_areas(3)),
            (ValueError, r"masks\[0\] has the sum of counts 3, expected 4, the number of",
             lambda: vecdet.mask_areas(([[2, 2]], [0, 1], [3]))),
            (ValueError, "masks.counts has -1, expected counts of 0 to",
             lambda: vecdet.mask_areas(([[2, 2]], [0, 2], [-1, 5]))),
            (ValueError, r"masks.counts has 4294967296, expected counts of 0 to",
             lambda: vecdet.mask_areas(([[2, 2]], [0, 1], [2**32]))),
            (ValueError, r"masks.offsets\[1\] is 3, expected 1, the number of counts",
             lambda: vecdet.mask_areas(([[2, 2]], [0, 3], [4]))),
            (ValueError, r"masks.counts.shape is \[1, 1\], expected \[counts\]",
             lambda: vecdet.mask_areas(([[2, 2]], [0, 1], np.array([[4]], np.uint32)))),
            (ValueError, r"is_crowd.shape is \[3\], expected \[2\]",
             lambda: vecdet.mask_iou(runs, runs, [0, 0, 0])),
            (ValueError, "expected 2 x 2, the size of all pictures",
             lambda: vecdet.mask_iou(vecdet.encode_masks([[1, 1], [0, 0]]), runs)),
            (ValueError, "overlap is 'union', expected 'iou', 'ios'",
             lambda: vecdet.mask_iou(runs, runs, overlap="union")),
            (TypeError, "run_lengths_from_strings: strings is '13', expected a list of bytes",
             lambda: vecdet.run_lengths_from_strings("13", (2, 2))),
            (TypeError, "run_lengths_from_strings: strings is b'13', expected a list of bytes",
             lambda: vecdet.run_lengths_from_strings(b"13", (2, 2))),
            (ValueError, "merging is 'all', expected 'any', 'every'",
             lambda: vecdet.merge_masks(runs, "all")),
            (ValueError, "cut off within a number",
             lambda: vecdet.run_lengths_from_strings([b"P"], (1, 1))),
            (ValueError, "expected characters from 48 to 111",
             lambda: vecdet.run_lengths_from_strings(["1 3"], (2, 2))),
            (TypeError, r"strings\[0\] is 3, expected bytes or text",
             lambda: vecdet.run_lengths_from_strings([3], (2, 2))),
            (ValueError, r"size is 3, expected \(height, width\)",
             lambda: vecdet.run_lengths_from_strings([], 3)),
            (ValueError, "size has 2 rows, expected 1, the number of strings",
             lambda: vecdet.run_lengths_from_strings(["4"], [(2, 2), (2, 2)])),
            (ValueError, r"polygons\[0\] has 2 points, expected 3 or more",
             lambda: vecdet.run_lengths_from_polygons([[0, 0, 5, 5]], (9, 9))),
            (ValueError, r"polygons has the coordinate nan, expected a number",
             lambda: vecdet.run_lengths_from_polygons([[0, np.nan, 5, 5, 5, 0]], (9, 9))),
            (ValueError, r"polygons\[0\].shape is \[7\], expected \[points, 2\]",
             lambda: vecdet.run_lengths_from_polygons([[0] * 7], (9, 9))),
            (ValueError, r"boxes\[0\] is inf, expected coordinates",
             lambda: vecdet.run_lengths_from_boxes([[0, 0, np.inf, 9]], (9, 9))),
        ):
            with self.assertRaisesRegex(error, text):
                call()


class Pycocotools(unittest.TestCase):
    def test_masks(self):
        masks = some_masks(4, 13, 17)
        stacked = np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8))
        encoded = coco.encode(stacked)
        self.assertEqual(encoded, [{"size": [13, 17], "counts": string_of(counts_of(mask))}
                                   for mask in masks])
        self.assertEqual(coco.encode(np.asfortranarray(stacked[:, :, 1])), encoded[1])
        self.assertEqual(coco.encode(masks[1]), encoded[1])
        decoded = coco.decode(encoded)
        np.testing.assert_array_equal(decoded, stacked)
        self.assertTrue(decoded.dtype == np.uint8 and decoded.flags.f_contiguous)
        single = coco.decode(encoded[2])
        np.testing.assert_array_equal(single, stacked[:, :, 2])
        self.assertTrue(single.flags.f_contiguous)
        as_text = {**encoded[2], "counts": encoded[2]["counts"].decode()}
        np.testing.assert_array_equal(coco.decode(as_text), single)
        areas = coco.area(encoded)
        self.assertEqual((areas.tolist(), areas.dtype), (masks.sum((1, 2)).tolist(), np.uint32))
        self.assertEqual(coco.area(encoded[0]), masks[0].sum())
        y, x = np.nonzero(masks[3])
        box = [x.min(), y.min(), np.ptp(x) + 1, np.ptp(y) + 1]
        self.assertEqual(coco.toBbox(encoded)[3].tolist(), box)
        self.assertEqual(coco.toBbox(encoded[3]).tolist(), box)
        np.testing.assert_array_equal(coco.decode(coco.merge(encoded)), masks.any(0))
        np.testing.assert_array_equal(coco.decode(coco.merge(encoded, intersect=1)), masks.all(0))
        self.assertEqual(coco.merge([]), {"size": [0, 0], "counts": b""})
        crowds = [0, 1, 0, 1]
        np.testing.assert_array_equal(coco.iou(encoded, encoded, crowds),
                                      iou_of(masks, masks, crowds))
        for given in ([0.5, 1.0, 0.0, 7.9], np.array([0.5, 1, 0, 1]), [False, True, False, True]):
            np.testing.assert_array_equal(coco.iou(encoded, encoded, given),
                                          iou_of(masks, masks, crowds))
        self.assertEqual(coco.iou([], encoded, crowds), [])
        self.assertEqual(coco.iou(encoded, [], []), [])

    def test_boxes(self):
        a = np.concatenate([generator.uniform(0, 50, (6, 2)), generator.uniform(-2, 30, (6, 2))], 1)
        b = np.concatenate([generator.uniform(0, 50, (4, 2)), generator.uniform(-2, 30, (4, 2))], 1)
        crowds = [0, 1, 0, 1]
        expected = np.zeros((6, 4))
        for i, (x, y, w, h) in enumerate(a.tolist()):
            for k, (u, v, s, t) in enumerate(b.tolist()):
                across = min(x + w, u + s) - max(x, u)
                down = min(y + h, v + t) - max(y, v)
                if across > 0 and down > 0:
                    common = across * down
                    expected[i, k] = common / (w * h if crowds[k] else w * h + s * t - common)
        for one, other in ((a, b), (a.tolist(), b.tolist())):
            np.testing.assert_array_equal(coco.iou(one, other, crowds), expected)

    def test_objects(self):
        polygons = [[1, 1, 9, 2, 5, 8], [2.5, 3, 8, 3, 8, 9.2, 1, 7]]
        masks = coco.frPyObjects(polygons, 10, 12)
        self.assertEqual(masks, [coco.frPyObjects(polygon, 10, 12) for polygon in polygons])
        expected = vecdet.run_lengths_from_polygons(polygons, (10, 12))
        np.testing.assert_array_equal(coco.decode(masks), expected.full().transpose(1, 2, 0))
        quadrangle = [2.5, 3, 8, 3, 8, 9.2, 1, 7]
        self.assertEqual(coco.frPyObjects([np.reshape(quadrangle, (4, 2))], 10, 12), masks[1:])
        boxes = [[1, 2, 5, 4], [0, 0, 12, 10]]
        for given in (boxes, np.array(boxes, float)):
            filled = coco.decode(coco.frPyObjects(given, 10, 12))
            self.assertEqual(filled.sum((0, 1)).tolist(), [20, 120])
        self.assertEqual(coco.frPyObjects(boxes[0], 10, 12), coco.frPyObjects(boxes, 10, 12)[0])
        plain = {"size": [2, 3], "counts": [1, 2, 3]}
        self.assertEqual(coco.frPyObjects(plain, 2, 3), {"size": [2, 3], "counts": b"123"})
        self.assertEqual(coco.frPyObjects([plain, plain], 2, 3)[1]["counts"], b"123")

    def test_errors(self):
        mask = coco.encode(some_masks(1, 4, 5)[0])
        for error, text, call in (
            (TypeError, r"pycocotools.area: rleObjs\[0\] is 3, expected a dictionary",
             lambda: coco.area(3)),
            (TypeError, r"rleObjs\[0\]\['counts'\] is .*: compress other counts by frPyObjects",
             lambda: coco.decode({"size": [1, 2], "counts": [1, 1]})),
            (ValueError, r"strings\[0\] has the sum of counts 2, expected 4",
             lambda: coco.decode({"size": [2, 2], "counts": "2"})),
            (ValueError, r"rleObjs\[0\]\['size'\] is 3, expected \[height, width\]",
             lambda: coco.decode({"size": 3, "counts": "2"})),
            (ValueError, r"decode: rleObjs is \[\], expected one or more masks",
             lambda: coco.decode([])),
            (TypeError, "pycocotools.merge: rleObjs is 3, expected a list",
             lambda: coco.merge(3)),
            (TypeError, "pycocotools.iou: gt is 3, expected a list",
             lambda: coco.iou([mask], 3, [0])),
            (TypeError, r"pycocotools.frPyObjects: pyobj\[1\] is .*, expected a dictionary",
             lambda: coco.frPyObjects([{"size": [2, 2], "counts": [4]}, [0, 0, 1, 1]], 2, 2)),
            (TypeError, "dt and gt are boxes and masks",
             lambda: coco.iou([mask], [[0, 0, 1, 1]], [0])),
            (ValueError, r"pyiscrowd.shape is \[0\], expected \[1\]",
             lambda: coco.iou([mask], [mask], [])),
            (TypeError, "pyiscrowd is 'no', expected truth values or numbers",
             lambda: coco.iou([mask], [mask], "no")),
            (ValueError, "3 or more", lambda: coco.frPyObjects([[0, 0]], 4, 4)),
            (ValueError, r"polygons\[0\].shape is \[7\]",
             lambda: coco.frPyObjects([[1, 1, 3, 1, 3, 3, 1]], 4, 4)),
            (TypeError, r"pyobj\[0\]\['counts'\].dtype is float64, expected integers",
             lambda: coco.frPyObjects({"size": [2, 2], "counts": [1.5, 2.5]}, 2, 2)),
            (TypeError, "pyobj is None, expected boxes, polygons",
             lambda: coco.frPyObjects(None, 4, 4)),
            (ValueError, r"runs\[0\] has the sum of counts 3",
             lambda: coco.frPyObjects({"size": [2, 2], "counts": [1, 2]}, 2, 2)),
            (ValueError, "has -1, expected counts of 0",
             lambda: coco.frPyObjects({"size": [2, 2], "counts": [5, -1]}, 2, 2)),
        ):
            with self.assertRaisesRegex(error, text):
                call()

    @unittest.skipUnless(DATA.is_dir(), f"no folder {DATA}")
    def test_golden_vectors(self):
        def load(name):
            return np.load(DATA / f"{name}.npy")

        masks = load("rle_masks")
        encoded = coco.encode(np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8)))
        self.assertEqual([mask["counts"] for mask in encoded],
                         [load(f"rle_string_{k}").tobytes() for k in range(len(masks))])
        np.testing.assert_array_equal(coco.decode(encoded).transpose(2, 0, 1), masks)
        np.testing.assert_array_equal(coco.area(encoded), load("rle_area"))
        np.testing.assert_array_equal(coco.toBbox(encoded), load("rle_box"))
        for crowd in (0, 1):
            np.testing.assert_array_equal(coco.iou(encoded, encoded, [crowd] * len(masks)),
                                          load(f"rle_iou_crowd{crowd}"))
        for k in range(6):
            mask = coco.frPyObjects([load(f"poly_{k}").tolist()], 70, 90)[0]
            self.assertEqual(mask["counts"], string_of(load(f"poly_counts_{k}").tolist()))


if __name__ == "__main__":
    unittest.main()
