# SPDX-License-Identifier: Apache-2.0
"""Operations on masks of pixels against plain NumPy, and their errors."""
import unittest

from support import np, vecdet
import vecdet.sahi
import vecdet.supervision as sv

generator = np.random.default_rng(5)


def some_pictures(count, height, width):
    pictures = generator.random((count, height, width)) < generator.random((count, 1, 1))
    for picture in pictures[::2]:  # an object in a part of the picture
        y, x = generator.integers(0, height + 1), generator.integers(0, width + 1)
        picture[:y] = picture[:, :x] = False
    return pictures


def some_masks(count, height, width, pixels):
    """Masks with rectangles of their own."""
    maps = generator.random((count, 5, 5)).astype(np.float32)
    corners = generator.uniform(0, [width, height], (count, 2, 2))
    boxes = np.concatenate([corners.min(1), corners.max(1)], 1)
    return vecdet.paste_masks(maps, boxes, (height, width), pixels=pixels)


def overlaps_of(a, b, crowds=None, overlap="iou"):
    result = np.zeros((len(a), len(b)))
    for i, one in enumerate(a):
        for k, other in enumerate(b):
            common, areas = (one & other).sum(), (one.sum(), other.sum())
            whole = min(areas) if overlap == "ios" else sum(areas) - common
            if crowds is not None and crowds[k]:
                whole = areas[0]
            result[i, k] = common / whole if common else 0
    return result


def kept_of(overlaps, scores, classes, suppresses):
    """Going down the scores, the masks that no kept mask of their class suppresses."""
    kept = []
    for i in np.argsort(-scores, kind="stable").tolist():
        if not any(suppresses(overlaps[k, i]) and classes[k] == classes[i] for k in kept):
            kept.append(i)
    return kept


def sahi_merged(rows, pictures, groups, metric, threshold):
    """SAHI's rule, pair by pair: rows, unions and members of the groups of one of its functions."""
    found, unions, merged = [], [], []
    for keep, others in groups.items():
        own, union, taken = rows[keep].copy(), pictures[keep].copy(), [keep]
        for k in others:
            low, high = np.maximum(own[:2], rows[k, :2]), np.minimum(own[2:4], rows[k, 2:4])
            common = np.prod(np.maximum(high - low, 0))
            areas = [np.prod(box[2:4] - box[:2]) for box in (own, rows[k])]
            whole = min(areas) if metric == "IOS" else sum(areas) - common
            if not (whole > 0 and common / whole > threshold):
                continue
            if not own[4] > rows[k, 4]:
                own[4:] = rows[k, 4:]
            own[:2] = np.minimum(own[:2], rows[k, :2])
            own[2:4] = np.maximum(own[2:4], rows[k, 2:4])
            union |= pictures[k]
            taken.append(k)
        found.append(own)
        unions.append(union)
        merged.append(taken)
    return np.array(found), np.array(unions), merged


def groups_of(pictures, scores, threshold, overlap="iou"):
    """supervision's rule: a group takes what overlaps its union, until none is left that does."""
    order, groups = np.argsort(-scores, kind="stable").tolist(), []
    while order:
        group, order = [order[0]], order[1:]
        whole = pictures[group[0]].copy()
        while True:
            overlaps = overlaps_of(whole[None], pictures, None, overlap)[0]
            taken = [i for i in order if overlaps[i] >= threshold]
            if not taken:
                break
            whole |= pictures[taken].any(0)
            group += taken
            order = [i for i in order if i not in taken]
        groups.append(group)
    return groups


class MaskBits(unittest.TestCase):
    def check(self, a, b, full_a, full_b):
        np.testing.assert_array_equal(vecdet.mask_areas(a), full_a.sum((1, 2)))
        for mask, box in zip(full_a, vecdet.mask_boxes(a).tolist()):
            y, x = np.nonzero(mask)
            self.assertEqual(box, [x.min(), y.min(), x.max() + 1, y.max() + 1] if len(x)
                             else [0] * 4)
        for overlap in ("iou", "ios"):
            np.testing.assert_array_equal(vecdet.mask_iou(a, b, overlap=overlap),
                                          overlaps_of(full_a, full_b, None, overlap))
            np.testing.assert_array_equal(vecdet.mask_iou(a, overlap=overlap),
                                          overlaps_of(full_a, full_a, None, overlap))
        crowds = np.arange(len(full_b)) % 2
        np.testing.assert_array_equal(vecdet.mask_iou(a, b, crowds),
                                      overlaps_of(full_a, full_b, crowds))

    def test_pictures(self):
        for shape in ((3, 7, 9), (5, 30, 64), (4, 20, 130), (0, 5, 5), (2, 0, 4)):
            a, b = some_pictures(*shape), some_pictures(*shape)
            self.check(a, b, a, b)
            self.check(np.asfortranarray(a), b.astype(np.int64) * 7, a, b)

    def test_masks(self):
        for height, width in ((20, 30), (50, 200)):
            for pixels in ("bits", "bytes"):
                a, b = (some_masks(count, height, width, pixels) for count in (6, 4))
                full_a, full_b = a.full(height, width), b.full(height, width)
                self.check(a, b, full_a, full_b)
                self.check(a, full_b, full_a, full_b)
                np.testing.assert_array_equal(
                    vecdet.mask_iou(a), vecdet.mask_iou(vecdet.encode_masks(a, (height, width))))

    def test_nms(self):
        for count, height, width in ((0, 4, 5), (1, 4, 5), (12, 9, 30), (25, 40, 70)):
            pictures = some_pictures(count, height, width)
            scores = generator.integers(0, 9, count) / 8  # with ties
            classes = generator.integers(0, 3, count)
            none = np.zeros(count)
            for threshold in (0.2, 0.5):
                ious = overlaps_of(pictures, pictures)
                for dtype in (np.float32, np.float64):
                    given = scores.astype(dtype)
                    self.assertEqual(
                        vecdet.mask_nms(pictures, given, threshold).tolist(),
                        kept_of(ious, scores, none, lambda x: x > threshold))
                    self.assertEqual(
                        vecdet.mask_nms(pictures, given, threshold, classes).tolist(),
                        kept_of(ious, scores, classes, lambda x: x > threshold))
                    self.assertEqual(
                        vecdet.mask_nms(pictures, given, threshold, overlap="ios").tolist(),
                        kept_of(overlaps_of(pictures, pictures, None, "ios"), scores, none,
                                lambda x: x >= threshold))
        masks = some_masks(9, 40, 60, "bits")
        scores = generator.random(9)
        self.assertEqual(vecdet.mask_nms(masks, scores, 0.3).tolist(),
                         vecdet.mask_nms(masks.full(40, 60), scores, 0.3).tolist())
        chosen = vecdet.mask_nms(masks, scores, 1, [0, 1, 2] * 3, classes=[1],
                                 class_thresholds=[0, -1, 0])
        self.assertEqual(sorted(chosen.tolist()), [1, 4, 7])

    def test_merging(self):
        for count, height, width in ((0, 4, 5), (1, 4, 5), (9, 9, 30), (16, 20, 70)):
            pictures = some_pictures(count, height, width)
            scores = generator.integers(0, 9, count) / 8  # with ties
            classes = generator.integers(0, 2, count)
            for threshold in (0, 0.2, 0.5, 1):
                for overlap in ("iou", "ios"):
                    expected = groups_of(pictures, scores, threshold, overlap)
                    self.assertEqual(vecdet.group_masks(pictures, scores, None, threshold,
                                                        overlap), expected)
                    rows = np.zeros((count, 6))
                    rows[:, 4], rows[:, 5] = scores, classes
                    self.assertEqual(sv.mask_non_max_merge(rows[:, :5], pictures, threshold, None,
                                                           overlap.upper()), expected)
                    expected = []
                    for own in np.unique(classes):
                        chosen = np.nonzero(classes == own)[0]
                        expected += [chosen[group].tolist() for group in groups_of(
                            pictures[chosen], scores[chosen], threshold, overlap)]
                    self.assertEqual(sv.mask_non_max_merge(rows, pictures, threshold, None,
                                                           overlap.upper()), expected)

    def test_supervision_nms(self):
        for count in (0, 1, 20):
            pictures = some_pictures(count, 30, 50)
            rows = np.zeros((count, 6))
            rows[:, 4] = generator.permutation(count) / 32
            rows[:, 5] = generator.integers(0, 3, count)
            for metric in ("IOU", "IOS"):
                overlaps = overlaps_of(pictures, pictures, None, metric.lower())
                for threshold in (0.0, 0.3, 1.0):
                    for columns in (5, 6):
                        mask = sv.mask_non_max_suppression(rows[:, :columns], pictures, threshold,
                                                           metric, None)
                        self.assertEqual(mask.dtype, np.bool_)
                        classes = rows[:, 5] if columns == 6 else np.zeros(count)
                        self.assertEqual(
                            np.nonzero(mask)[0].tolist(),
                            sorted(kept_of(overlaps, rows[:, 4], classes,
                                           lambda x: x > threshold)))

    def test_supervision_resizes(self):
        for height, width in ((30, 50), (9, 4), (700, 20), (1, 3), (64, 64)):
            pictures = some_pictures(8, height, width)
            rows = np.zeros((8, 5))
            rows[:, 4] = generator.permutation(8) / 8
            for side, more in ((640, {}), (16, {"mask_dimension": 16})):
                scale = min(side / height, side / width)
                x = np.linspace(0, width - 1, int(scale * width)).astype(int)
                y = np.linspace(0, height - 1, int(scale * height)).astype(int)
                resized = pictures[:, np.meshgrid(x, y)[1], np.meshgrid(x, y)[0]]
                for given in (pictures, pictures.astype(np.int64), pictures.tolist()):
                    np.testing.assert_array_equal(
                        sv.mask_non_max_suppression(rows, given, 0.3, **more),
                        sv.mask_non_max_suppression(rows, resized, 0.3, mask_dimension=None))
                    self.assertEqual(
                        sv.mask_non_max_merge(rows, given, 0.3, **more),
                        sv.mask_non_max_merge(rows, resized, 0.3, mask_dimension=None))

    def test_types_of_pixels(self):
        for dtype in (np.uint8, np.int64, np.uint16, np.int8):
            bits = vecdet.Masks([[0, 0, 8, 1]], [0, 1], np.array([107], dtype), "bits")
            self.assertEqual(vecdet.mask_areas(bits).tolist(), [5])
            self.assertEqual(vecdet.encode_masks(bits, (1, 8)).counts.tolist(),
                             [0, 2, 1, 1, 1, 2, 1])
            many = vecdet.Masks([[0, 0, 3, 1]], [0, 3], np.array([107, 0, 1], dtype), "bytes")
            self.assertEqual(vecdet.mask_areas(many).tolist(), [2])
        pictures = [[[0, 1], [1, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 7]]]
        self.assertEqual(vecdet.mask_areas(pictures).tolist(), [3, 2, 1])
        self.assertEqual(vecdet.mask_boxes(pictures)[1].tolist(), [0, 0, 1, 2])
        self.assertEqual(vecdet.mask_iou(pictures, np.array(pictures)).tolist(),
                         vecdet.mask_iou(pictures).tolist())
        runs = vecdet.encode_masks(pictures)
        self.assertEqual(vecdet.mask_areas(tuple(runs)).tolist(), [3, 2, 1])

    def test_merging_as_sahi_does(self):
        members = dropped = 0
        for round in range(40):
            count, height, width = 30, 20, 31
            x, y = generator.integers(0, 20, (2, count))
            w, h = generator.integers(1, 12, (2, count))
            pictures = np.zeros((count, height, width), bool)
            for k in range(count):
                pictures[k, y[k]:y[k] + h[k], x[k]:x[k] + w[k]] = generator.random() < 0.9
            rows = np.stack([x, y, x + w, y + h, generator.integers(0, 9, count) / 8,
                             generator.integers(0, 3, count)], 1).astype(np.float64)
            metric, threshold = ("IOU", "IOS")[round % 2], (0.1, 0.3, 0.5, 0)[round % 4]
            kind, by_category = ("GREEDYNMM", "NMM")[round // 2 % 2], round % 3 > 0
            name = ("batched_" if by_category else "") + kind.lower().replace("greedy", "greedy_")
            groups = getattr(vecdet.sahi, name)(rows, metric, threshold)
            expected = sahi_merged(rows, pictures, groups, metric, threshold)
            runs = vecdet.encode_masks(pictures)
            for masks, size in ((pictures, None), (runs, None),
                                (vecdet.decode_masks(runs), (height, width))):
                merged = vecdet.sahi.merge_predictions(rows, masks, kind, metric, threshold,
                                                       not by_category, size)
                np.testing.assert_array_equal(merged.predictions, expected[0])
                np.testing.assert_array_equal(merged.masks.full(), expected[1])
                self.assertEqual(merged.members, expected[2])
            alone = vecdet.sahi.merge_predictions(rows, None, kind, metric, threshold,
                                                  not by_category)
            self.assertIsNone(alone.masks)
            np.testing.assert_array_equal(alone.predictions, expected[0])
            members += sum(map(len, expected[2])) - len(expected[2])
            dropped += count - sum(map(len, expected[2]))
        self.assertGreater(members, 100)
        self.assertGreater(dropped, 10)
        none = vecdet.sahi.merge_predictions(np.zeros((0, 6)), np.zeros((0, 4, 5), bool))
        self.assertEqual((none.predictions.shape, len(none.masks.sizes), none.members),
                         ((0, 6), 0, []))

    def test_run_lengths_that_are_merged_are_checked(self):
        rows = [[0, 0, 2, 2, 0.9, 0], [10, 10, 12, 12, 0.8, 0]]  # apart: each a group of its own
        runs = vecdet.RunLengths(np.full((2, 2), [4, 5]), np.array([0, 3, 5]),
                                 np.array([2, 3, 15, 0, 20], np.uint32))
        for given in (runs, runs._replace(counts=runs.counts.tolist()),
                      runs._replace(counts=runs.counts.astype(np.int64)),
                      runs._replace(sizes=runs.sizes.tolist(), offsets=runs.offsets.tolist()),
                      runs._replace(sizes=runs.sizes.astype(np.int32),
                                    offsets=runs.offsets.astype(np.int16))):
            merged = vecdet.sahi.merge_predictions(rows, given)
            self.assertEqual(merged.members, [[0], [1]])
            for own, expected in zip(merged.masks, runs):
                self.assertEqual(own.dtype, expected.dtype)
                np.testing.assert_array_equal(own, expected)
        for error, text, wrong in (
            (ValueError, r"masks.offsets\[0\] is 1, expected 0", {"offsets": [1, 3, 5]}),
            (ValueError, r"masks.offsets\[2\] is 4, expected 5, the number of counts",
             {"offsets": [0, 3, 4]}),
            (ValueError, r"masks.offsets\[2\] is 5, expected at least 6", {"offsets": [0, 6, 5]}),
            (ValueError, r"masks\[0\] has the sum of counts 5, expected 20",
             {"offsets": [0, 2, 5]}),
            (ValueError, r"masks.offsets.shape is \[2\], expected \[3\]", {"offsets": [0, 5]}),
            (ValueError, "masks.counts has -1, expected counts", {"counts": [2, 3, 15, 21, -1]}),
            (ValueError, r"masks\[1\] has the sum of counts 21, expected 20, the number of pixels",
             {"counts": [2, 3, 15, 1, 20]}),
            (TypeError, "masks.counts.dtype is float64, expected integers",
             {"counts": runs.counts * 1.0}),
            (ValueError, r"masks.sizes\[1\] is -5, expected sides", {"sizes": [[4, 5], [4, -5]]}),
            (ValueError, r"masks.sizes.shape is \[2\], expected \[N, 2\]", {"sizes": [4, 5]}),
        ):
            with self.assertRaisesRegex(error, r"^vecdet\.sahi\.merge_predictions: " + text):
                vecdet.sahi.merge_predictions(rows, runs._replace(**wrong))

    def test_errors(self):
        masks, pictures = some_masks(2, 9, 9, "bits"), some_pictures(2, 4, 5)
        runs = vecdet.encode_masks(pictures)
        for error, text, call in (
            (ValueError, r"mask_areas: masks.shape is \[4, 5\], expected \[N, height, width\]",
             lambda: vecdet.mask_areas(pictures[0])),
            (TypeError, "mask_boxes: masks.dtype is float64, expected truth values or integers",
             lambda: vecdet.mask_boxes(pictures * 0.5)),
            (ValueError, r"masks.boxes\[0\] is -1 0 .*expected a rectangle of whole pixels",
             lambda: vecdet.mask_areas(masks._replace(boxes=[[-1, 0, 1, 1], [0, 0, 1, 1]]))),
            (ValueError, r"a\[1\] has the number of bytes \d+, expected 0, those of its rectangle",
             lambda: vecdet.mask_iou(masks._replace(boxes=[masks.boxes[0], [3, 3, 3, 3]]), masks)),
            (ValueError, "masks.kind is 'pixels', expected 'bits', 'bytes'",
             lambda: vecdet.mask_areas(masks._replace(kind="pixels"))),
            (ValueError, r"b.offsets\[2\] is \d+, expected 1, the number of bytes",
             lambda: vecdet.mask_iou(masks, masks._replace(pixels=np.zeros(1, np.uint8)))),
            (ValueError, "overlap is 'union', expected 'iou', 'ios'",
             lambda: vecdet.mask_iou(masks, overlap="union")),
            (ValueError, "sahi.merge_predictions: predictions has 1 rows, expected 2, the number of",
             lambda: vecdet.sahi.merge_predictions(np.zeros((1, 6)), pictures)),
            (ValueError, "merge_predictions: postprocess_type is 'NMS', expected 'GREEDYNMM', 'NMM'",
             lambda: vecdet.sahi.merge_predictions(np.zeros((1, 6)), None, "NMS")),
            (TypeError, r"merge_predictions: size is \(4, 5\), expected None, unless masks are Masks",
             lambda: vecdet.sahi.merge_predictions(np.zeros((2, 6)), pictures, size=(4, 5))),
            (ValueError, r"merge_predictions: masks.sizes\[2\] is 4 x 6, expected 4 x 5, the size "
             "of all pictures",
             lambda: vecdet.sahi.merge_predictions(
                 np.zeros((4, 6)),
                 vecdet.run_lengths_from_boxes([[0, 0, 1, 1]] * 4,
                                               [(4, 5), (4, 5), (4, 6), (5, 5)]))),
            (ValueError, "mask_iou: b has pictures of 4 x 6, expected 4 x 5, as in a",
             lambda: vecdet.mask_iou(pictures, np.zeros((2, 4, 6), bool))),
            (ValueError, "masks.pixels has 256, expected bytes of 0 to 255",
             lambda: vecdet.mask_areas(vecdet.Masks([[0, 0, 8, 1]], [0, 1], [256], "bits"))),
            (ValueError, "masks.pixels has -1, expected bytes of 0 to 255",
             lambda: vecdet.mask_areas(vecdet.Masks([[0, 0, 8, 1]], [0, 1], [-1], "bits"))),
            (TypeError, "masks.pixels.dtype is bool, expected integers",
             lambda: vecdet.mask_areas(vecdet.Masks([[0, 0, 8, 1]], [0, 1], [True], "bits"))),
            (ValueError, "mask_dimension is 0, expected 1 to 16384, or None",
             lambda: sv.mask_non_max_merge(np.zeros((2, 5)), pictures, mask_dimension=0)),
            (TypeError, "b is RunLengths.*, expected masks of the same kind as a",
             lambda: vecdet.mask_iou(masks, runs)),
            (ValueError, r"mask_nms: scores.shape is \[3\], expected \[2\]",
             lambda: vecdet.mask_nms(masks, np.zeros(3), 0.5)),
            (ValueError, r"mask_nms: iou_threshold is 1.5, expected a number in \[0, 1\]",
             lambda: vecdet.mask_nms(masks, np.zeros(2), 1.5)),
            (ValueError, "mask_nms: idxs is None, expected one class per mask",
             lambda: vecdet.mask_nms(masks, np.zeros(2), 0.5, classes=[1])),
            (ValueError, r"mask_nms: idxs\[1\] is 1, expected 0 to 0",
             lambda: vecdet.mask_nms(masks, np.zeros(2), 0.5, [0, 1], class_thresholds=[0.5])),
            (ValueError, r"group_masks: match_threshold is 1.5, expected a number in \[0, 1\]",
             lambda: vecdet.group_masks(masks, np.zeros(2), match_threshold=1.5)),
            (ValueError, "supervision.mask_non_max_suppression: masks.shape is",
             lambda: sv.mask_non_max_suppression(np.zeros((2, 5)), pictures[0])),
            (ValueError, r"supervision.mask_non_max_suppression: predictions has 3 rows, expected "
             "2, the number of masks",
             lambda: sv.mask_non_max_suppression(np.zeros((3, 5)), pictures)),
            (ValueError, r"is_crowd.shape is \[3\], expected \[2\]",
             lambda: vecdet.mask_iou(masks, masks, [0, 0, 0])),
        ):
            with self.assertRaisesRegex(error, text):
                call()


if __name__ == "__main__":
    unittest.main()
