# SPDX-License-Identifier: Apache-2.0
"""Raw outputs, merging and letterboxes against the published rules in plain NumPy, and OpenCV's
resize."""
import enum
import sys

import numpy as np
import vecdet
import vecdet.sahi
import vecdet.supervision
from support import generator

try:
    import cv2
except ImportError:
    cv2 = None


def overlap(boxes, others, smaller_area=False):
    """float32 as the frameworks compute it; 0 where an area is 0."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    side = np.maximum(high - low, np.float32(0))
    inter = side[..., 0] * side[..., 1]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    other = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    if smaller_area:
        whole = np.minimum(area[:, None], other[None])
    else:
        whole = area[:, None] + other[None] - inter
    return np.divide(inter, whole, out=np.zeros_like(inter), where=whole > 0)


def suppress(boxes, scores, threshold):
    order = np.argsort(-scores, kind="stable")
    kept = []
    while order.size:
        first, rest = order[0], order[1:]
        kept.append(first)
        iou = overlap(boxes[first][None], boxes[rest])[0]
        order = rest[~(iou.astype(np.float64) > threshold)]
    return np.array(kept, dtype=np.int64)


# ---- YOLO: rows of numbers, by the rules of ultralytics and YOLOv5


def limits_of(classes, confidence, lists):
    """The least score of each class; infinite for those that are not wanted."""
    limits = np.full(classes, confidence, np.float32)
    if lists.get("class_thresholds") is not None:
        limits[:] = lists["class_thresholds"]
    if lists.get("classes") is not None:
        limits[np.setdiff1d(np.arange(classes), lists["classes"])] = np.inf
    return limits


def detections(rows, model, confidence, iou, multi_label, agnostic, extras, keypoint, image, size,
               classes, lists):
    rows = rows.copy()
    limits = limits_of(classes, confidence, lists)
    end = rows.shape[1] - extras
    if model == "10":
        rows = rows[rows[:, 4] > limits[rows[:, 5].astype(int)]]
        rows = rows[np.argsort(-rows[:, 4], kind="stable")][:300]
        return undo(rows, keypoint, image, size)
    first = 4
    if model == "5":
        rows = rows[rows[:, 4] > limits.min()]
        rows[:, 5:end] *= rows[:, 4:5]
        first = 5
    half = rows[:, 2:4] / np.float32(2)
    corners = np.concatenate([rows[:, :2] - half, rows[:, :2] + half], 1)
    scores = rows[:, first:end]
    if multi_label:
        box, label = np.nonzero(scores > limits)
    else:
        label = scores.argmax(1) if len(rows) else np.zeros(0, np.int64)
        box = np.nonzero(scores[np.arange(len(rows)), label] > limits[label])[0]
        label = label[box]
    score = scores[box, label]
    order = np.argsort(-score, kind="stable")[:30000]
    box, label, score = box[order], label[order], score[order]
    kept = []
    groups = np.zeros(classes) if agnostic else np.array(lists.get("class_groups", range(classes)))
    for group in np.unique(groups[label]):
        part = np.nonzero(groups[label] == group)[0]
        kept.extend(part[suppress(corners[box[part]], score[part], iou)])
    kept = np.sort(np.array(kept, dtype=np.int64))[:300]  # places in descending score
    found = np.concatenate([corners[box[kept]], score[kept, None],
                            label[kept, None].astype(np.float32), rows[box[kept], end:]], 1)
    return undo(found, keypoint, image, size)


def undo(found, keypoint, image, size):
    gain = min(size[0] / image[0], size[1] / image[1])
    pad = [round((size[1] - round(image[1] * gain)) / 2 - 0.1),
           round((size[0] - round(image[0] * gain)) / 2 - 0.1)]
    columns = [0, 1, 2, 3]
    if keypoint:
        columns += [k for k in range(6, found.shape[1]) if (k - 6) % keypoint < 2]
    for k in columns:
        axis = k % 2 if k < 4 else (k - 6) % keypoint
        x = (found[:, k] - np.float32(pad[axis])) / np.float32(gain)
        found[:, k] = np.clip(x, np.float32(0), np.float32(image[1 - axis]))
    return found


def some_lists(classes, groups=True):
    """Options per class, each in a third of the cases or more."""
    lists = {}
    if generator.random() < 0.4:
        lists["classes"] = generator.integers(0, classes, 1 + classes // 2).tolist()
    if generator.random() < 0.4:
        lists["class_thresholds"] = generator.uniform(0.05, 0.6, classes).tolist()
    if groups and generator.random() < 0.4:
        lists["class_groups"] = generator.integers(-1, 2, classes).tolist()
    return lists


def check_yolo(model, boxes, classes, confidence, iou, multi_label, agnostic, extras, keypoint):
    lists = some_lists(classes, model != "10" and not agnostic)
    center = generator.uniform(0, 640, (boxes, 2))
    sides = generator.uniform(10, 200, (boxes, 2))
    scores = generator.random((boxes, classes)) ** 6
    parts = [center, sides, scores]
    if model == "5":
        parts.insert(2, generator.random((boxes, 1)))
    if model == "10":
        parts = [center, center + sides, generator.random((boxes, 1)),
                 generator.integers(0, classes, (boxes, 1))]
    rows = np.concatenate(parts + [generator.uniform(0, 640, (boxes, extras))], 1)
    rows = rows.astype(np.float32)
    image, size = generator.integers(100, 2000, 2).tolist(), (640, 512)
    expected = detections(rows, model, confidence, iou, multi_label, agnostic, extras, keypoint,
                          image, size, classes, lists)
    output = (rows.T if model == "8" else rows)[None]
    names = {"5": ("yolov5", "yolox"), "8": ("yolov8", "yolo11", "yolov12"),
             "10": ("yolov10", "yolo26")}
    options = {} if model == "10" else {"iou_threshold": iou, "class_agnostic": agnostic,
                                        "class_count": classes}
    given, = vecdet.postprocess_yolo(
        output, str(generator.choice(names[model])),
        [vecdet.LetterboxTransform.centred(image, size)], score_threshold=confidence,
        multi_label=multi_label, extras=extras, keypoint_size=keypoint, **options, **lists)
    found = np.concatenate([given.boxes, given.scores[:, None], given.labels[:, None],
                            given.extras], 1)
    what = (model, boxes, classes, confidence, iou, multi_label, agnostic, extras, keypoint, lists)
    assert len(found) == len(expected), (what, len(found), len(expected))
    assert np.array_equal(found, expected), what
    return len(found)


total = 0
for model in ("5", "8", "10"):
    for boxes, classes in ((1, 1), (300, 80), (1000, 3), (8400, 80)):
        for confidence, iou in ((0.25, 0.45), (0.6, 0.7), (0.9, 0.3)):
            for multi_label in (False, True) if model != "10" else (False,):
                total += check_yolo(model, boxes, classes, confidence, iou, multi_label,
                                    bool(generator.integers(2)), 0, 0)
    total += check_yolo(model, 500, 1, 0.3, 0.6, False, False, 51, 3)
    total += check_yolo(model, 500, 4, 0.3, 0.6, False, False, 8, 2)
    total += check_yolo(model, 500, 4, 0.3, 0.6, False, False, 32, 0)
assert total > 1000
print(total, "detections of YOLO models are equal")

# ---- Rotated boxes, by the rules of ultralytics


def prob_iou(boxes):
    """Of all pairs, as batch_probiou computes it, in float64."""
    x, y, w, h, angle = boxes.astype(np.float64).T
    p, q, c, s = w ** 2 / 12, h ** 2 / 12, np.cos(angle), np.sin(angle)
    a, b, c = (np.add.outer(each, each)
               for each in (p * c * c + q * s * s, p * s * s + q * c * c, (p - q) * c * s))
    dx, dy, det = np.subtract.outer(x, x), np.subtract.outer(y, y), a * b - c * c
    power = ((a * dy ** 2 + b * dx ** 2 - 2 * c * dx * dy) / (4 * (det + 1e-7))
             + np.log(det / (np.outer(w * h, w * h) / 36 + 1e-7) + 1e-7) / 2).clip(1e-7, 100)
    return 1 - np.sqrt(1 - np.exp(-power) + 1e-7)


def regular(boxes):
    """regularize_rboxes."""
    boxes, pi = boxes.copy(), np.float32(np.pi)
    swapped = boxes[:, 4] % pi >= pi / 2
    boxes[swapped, 2:4] = boxes[swapped, 3:1:-1]
    boxes[:, 4] %= pi / 2
    return boxes


def check_rotated(model, boxes, classes, threshold, iou, agnostic):
    numbers = np.concatenate([generator.uniform(0, 640, (boxes, 2)),
                              generator.uniform(10, 120, (boxes, 2)),
                              generator.uniform(-np.pi / 4, 3 * np.pi / 4, (boxes, 1))], 1)
    numbers = numbers.astype(np.float32)
    scores = (generator.random((boxes, classes)) ** 6).astype(np.float32)
    label = scores.argmax(1)
    score = scores[np.arange(boxes), label]
    if model == "yolo26-obb":
        output = np.concatenate([numbers[:, :4], score[:, None], label[:, None], numbers[:, 4:]], 1)
        output, options = output.astype(np.float32)[None], {}
    else:
        output = np.concatenate([numbers[:, :4], scores, numbers[:, 4:]], 1).T[None]
        options = {"iou_threshold": iou, "class_agnostic": agnostic, "class_count": classes}
    order = np.argsort(-score, kind="stable")
    order = order[score[order] > np.float32(threshold)]
    if options:
        overlaps = prob_iou(numbers[order])
        if not agnostic:
            overlaps[label[order][:, None] != label[order]] = 0
        order = order[(np.triu(overlaps, 1) >= iou).sum(0) == 0]
    order = order[:300]
    image, size = generator.integers(100, 2000, 2).tolist(), (640, 512)
    transform = vecdet.LetterboxTransform.centred(image, size)
    expected = regular(numbers[order])
    for k, pad in enumerate((transform.pad_x, transform.pad_y, 0, 0)):
        expected[:, k] = (expected[:, k] - np.float32(pad)) / np.float32(transform.scale_x)
    given, = vecdet.postprocess_yolo(output, model, [transform], score_threshold=threshold,
                                     **options)
    assert given.boxes.shape == (len(order), 5) and given.extras.shape == (len(order), 0)
    assert np.array_equal(given.boxes, expected), (model, boxes, classes, threshold, iou, agnostic)
    assert np.array_equal(given.scores, score[order]) and np.array_equal(given.sources, order)
    assert np.array_equal(given.labels, label[order])
    for name in ("xyxyxyxy", "xyxy"):
        found, = vecdet.postprocess_yolo(output, model, [transform], score_threshold=threshold,
                                         result_format=name, **options)
        assert np.array_equal(found.boxes, vecdet.rotated_box_convert(expected, "cxcywhr", name,
                                                                      "ultralytics"))
    return len(order)


total = 0
for boxes, classes in ((1, 1), (300, 15), (1000, 3), (2000, 15)):
    for threshold, iou in ((0.25, 0.45), (0.6, 0.7), (0.9, 0.3)):
        for agnostic in (False, True):
            total += check_rotated("yolov8-obb", boxes, classes, threshold, iou, agnostic)
        total += check_rotated("yolo26-obb", boxes, classes, threshold, 1, False)
assert total > 1000
print(total, "rotated detections of YOLO models are equal")

# ---- supervision 0.27: intersections in float32, areas in the predictions' type, and the overlap
# rounded to float32. NMS compares it in double, merging in float32.


def supervision_overlap(box, boxes, smaller_area):
    low = np.maximum(box[:2], boxes[:, :2]).astype(np.float32)
    high = np.minimum(box[2:4], boxes[:, 2:4]).astype(np.float32)
    sides = np.clip(high - low, 0, None)
    inter = sides[:, 0] * sides[:, 1]
    area, areas = ((b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1]) for b in (box, boxes))
    whole = np.minimum(area, areas) if smaller_area else area + areas - inter
    found = np.zeros(len(boxes), np.float32)
    np.divide(inter, whole, out=found, where=whole > 0)
    return found


def supervision_nms(rows, threshold, smaller_area):
    if rows.shape[1] == 5:
        rows = np.c_[rows, np.zeros(len(rows))]
    keep = np.ones(len(rows), bool)
    order = np.argsort(-rows[:, 4], kind="stable")
    for place, k in enumerate(order):
        if keep[k]:
            rest = order[place + 1:]
            found = supervision_overlap(rows[k], rows[rest], smaller_area).astype(np.float64)
            keep[rest[(found > threshold) & (rows[rest, 5] == rows[k, 5])]] = False
    return keep


def supervision_merge(rows, threshold, smaller_area):
    category = rows[:, 5] if rows.shape[1] == 6 else np.zeros(len(rows))
    groups = []
    for own in np.unique(category):
        part = np.nonzero(category == own)[0]
        order = part[np.argsort(-rows[part, 4], kind="stable")]
        while len(order):
            first, order = order[0], order[1:]
            found = supervision_overlap(rows[first], rows[order], smaller_area)
            taken = found >= np.float32(threshold)
            groups.append([int(first), *order[taken].tolist()])
            order = order[~taken]
    return groups


class OverlapMetric(enum.Enum):
    IOU = "IOU"
    IOS = "IOS"


def check_supervision(rows, threshold, smaller_area):
    metric = ("IOU", "IOS", "iou", OverlapMetric.IOU, OverlapMetric.IOS)[
        1 + 3 * smaller_area if threshold > 0.5 and smaller_area else smaller_area]
    what = (rows.dtype, rows.shape, threshold, metric)
    assert np.array_equal(vecdet.supervision.box_non_max_suppression(rows, threshold, metric),
                          supervision_nms(rows, threshold, smaller_area)), what
    assert vecdet.supervision.box_non_max_merge(rows, threshold, metric) == supervision_merge(
        rows, threshold, smaller_area), what


def predictions(count, kind):
    if kind == "whole":  # many overlaps are at a threshold
        corner, sides = generator.integers(0, 12, (count, 2)), generator.integers(1, 11, (count, 2))
    elif kind == "tenths":
        corner = generator.uniform(0, 30, (count, 2)).round(1)
        sides = generator.uniform(1, 20, (count, 2)).round(1)
    else:
        corner, sides = generator.uniform(0, 999, (count, 2)), generator.uniform(5, 900, (count, 2))
    score = generator.permutation(count) / count + 0.001
    return np.c_[corner, corner + sides, score, generator.integers(0, 3, count) / 4]


for threshold in (0.1, 0.2, 0.3, 0.4, 0.6, 0.8):  # IoU and IoS are exactly at the threshold
    at = np.array([[0, 0, 10, 10, 0.9], [0, 0, 10, round(10 * threshold), 0.8]])
    assert vecdet.supervision.box_non_max_suppression(at, threshold).tolist() == [True, False]
    assert vecdet.supervision.box_non_max_merge(at, threshold) == [[0, 1]]
apart = np.array([[0, 0, 10, 10, 0.9], [50, 0, 60, 10, 0.8]])
assert vecdet.supervision.box_non_max_merge(apart, 0) == [[0, 1]]
assert vecdet.supervision.box_non_max_suppression(apart, 0).all()
for kind in ("whole", "tenths", "any"):
    for dtype in (np.float64, np.float32):
        for columns in (5, 6):
            rows = predictions(40, kind).astype(dtype)[:, :columns]
            for threshold in (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999):
                check_supervision(rows, threshold, False)
                check_supervision(rows, threshold, True)
print("masks and groups equal supervision's")

# ---- Merging, as in SAHI


def matched(boxes, scores, smaller_area, transitive, threshold):
    """Members of each kept box, in SAHI's order."""
    order = np.lexsort((boxes[:, 3], boxes[:, 2], boxes[:, 1], boxes[:, 0], -scores))
    metric = overlap(boxes, boxes, smaller_area) >= np.float32(threshold)
    groups, owner = {}, np.full(len(boxes), -1)
    for current in order:
        if owner[current] < 0:
            owner[current] = current
            groups[current] = []
        elif not transitive:
            continue
        candidates = metric[current] & (owner < 0)
        if transitive:
            same = (boxes == boxes[current]).all(1)
            candidates &= (scores < scores[current]) | same
            members = np.nonzero(candidates)[0]
        else:
            members = order[candidates[order]]
        for member in members:
            owner[member] = owner[current]
            groups[owner[current]].append(member)
    return groups


def merged(boxes, keep, members, smaller_area, threshold):
    box = boxes[keep].astype(np.float64)
    for member in members:
        other = boxes[member].astype(np.float64)
        if overlap(box[None], other[None], smaller_area)[0, 0] > threshold:
            box = np.concatenate([np.minimum(box[:2], other[:2]), np.maximum(box[2:], other[2:])])
    return box.astype(np.float32)


def check_merging(count, classes, smaller_area, transitive, threshold, ties):
    corner = generator.uniform(0, 300, (count, 2)).round(1)
    boxes = np.concatenate([corner, corner + generator.uniform(1, 80, (count, 2)).round(1)], 1)
    boxes = boxes.astype(np.float32)
    boxes[count // 2:count // 2 + count // 10] = boxes[:count // 10]
    scores = generator.random(count).astype(np.float32)
    if ties:
        scores = np.round(scores * 8) / np.float32(8)
    labels = generator.integers(0, classes, count)
    expected = {}
    for label in np.unique(labels):
        part = np.nonzero(labels == label)[0]
        for keep, members in matched(boxes[part], scores[part], smaller_area, transitive,
                                     threshold).items():
            expected[part[keep]] = part[np.array(members, dtype=np.int64)]
    found = vecdet.merge_boxes(boxes, scores, labels, threshold, "ios" if smaller_area else "iou",
                               transitive=transitive)
    what = (count, classes, smaller_area, transitive, threshold, ties)
    assert len(found.boxes) == len(expected), (what, len(found.boxes), len(expected))
    for box, (keep, *others) in zip(found.boxes, found.groups()):
        assert np.array_equal(others, expected[keep]), (what, keep)
        expected_box = merged(boxes, keep, others, smaller_area, threshold)
        assert np.array_equal(box, expected_box), (what, keep)
    # The drop-in functions have the dictionaries and lists of SAHI and supervision.
    rows = np.concatenate([boxes, scores[:, None], labels[:, None]], 1)
    drop_in = vecdet.sahi.batched_nmm if transitive else vecdet.sahi.batched_greedy_nmm
    metric = "IOS" if smaller_area else "IOU"
    assert drop_in(rows, metric, threshold) == {
        int(keep): others.tolist() for keep, others in expected.items()}, what
    if not transitive and not ties:
        groups = vecdet.supervision.box_non_max_merge(rows, threshold, metric)
        assert groups == [[keep, *expected[keep].tolist()] for keep in sorted(
            expected, key=lambda keep: (labels[keep], -scores[keep]))], what
        kept = vecdet.sahi.batched_nms(rows, metric, threshold)
        assert kept == sorted(kept, key=lambda k: -scores[k]) and set(kept) == set(
            int(keep) for keep in expected), what
    return len(found.boxes)


total = 0
for smaller_area in (False, True):
    for transitive in (False, True):
        for threshold in (0.1, 0.5, 0.8):
            for ties in (False, True):
                total += check_merging(400, 1, smaller_area, transitive, threshold, ties)
                total += check_merging(900, 5, smaller_area, transitive, threshold, ties)
assert total > 1000
print(total, "groups of merged boxes are equal")


# ---- SAHI 0.12: ties of scores by x1, y1, x2, y2; across categories, the lower one first. At a
# threshold of 0 all predictions match.


def sahi_order(rows):
    return np.lexsort((rows[:, 3], rows[:, 2], rows[:, 1], rows[:, 0], -rows[:, 4]))


def sahi_nms(rows, smaller_area, threshold):
    metric = overlap(rows[:, :4], rows[:, :4], smaller_area)
    kept, dropped = [], np.zeros(len(rows), bool)
    for k in sahi_order(rows):
        if not dropped[k]:
            kept.append(int(k))
            dropped |= metric[k] >= np.float32(threshold)
    return kept


def by_category(rows, function):
    found = []
    for category in np.unique(rows[:, 5]):
        part = np.nonzero(rows[:, 5] == category)[0]
        found.append((part, function(rows[part])))
    return found


ties = 0
for round_number in range(60):
    rows = predictions(int(generator.integers(1, 40)), ("whole", "tenths")[round_number % 2])
    rows[:, 4] = np.round(rows[:, 4] * 6) / 8
    rows = rows.astype(np.float32)
    ties += len(rows) - len(np.unique(rows[:, 4]))
    for threshold in (0, 0.1, 0.5, 0.8):
        for metric in ("IOU", "IOS"):
            expected = sahi_nms(rows, metric == "IOS", threshold)
            assert vecdet.sahi.nms(rows, metric, threshold) == expected
            kept = [int(k) for part, own in by_category(
                rows, lambda own: sahi_nms(own, metric == "IOS", threshold)) for k in part[own]]
            kept.sort(key=lambda k: rows[k, 4], reverse=True)  # stable
            assert vecdet.sahi.batched_nms(rows, metric, threshold) == kept
    order = sahi_order(rows).tolist()
    assert vecdet.sahi.greedy_nmm(rows, "IOU", 0) == {order[0]: order[1:]}
    best = rows[order[0]]
    taken = (rows[:, 4] < best[4]) | (rows[:, :5] == best[:5]).all(1)
    taken[order[0]] = False
    expected = {order[0]: np.nonzero(taken)[0].tolist()}
    expected.update({k: [] for k in order[1:] if not taken[k]})
    assert vecdet.sahi.nmm(rows, "IOU", 0) == expected
assert ties > 100


# Without ties, the kernel of NMS alone has the results of greedy merging, also for degenerate boxes.
has_ties, fast = vecdet.sahi._has_ties, 0
for round_number in range(120):
    count = int(generator.integers(0, 80))
    rows = predictions(count, ("whole", "tenths")[round_number % 2]).astype(np.float32)
    rows[:, 4] = generator.permutation(count) / np.float32(max(count, 1))
    for bad in (np.nan, np.inf, -np.inf, 0):
        if count and round_number % 3 == 0:
            rows[generator.integers(count), generator.integers(4)] = bad
    if count > 2 and round_number % 5 == 0:
        rows[generator.integers(count), 4] = rows[0, 4]
    fast += not has_ties(rows[:, 4])
    assert has_ties(rows[:, 4]) == (len(np.unique(rows[:, 4])) < count)
    for threshold in (0.1, 0.3, 0.5, 1):
        for metric in ("IOU", "IOS"):
            for function in (vecdet.sahi.nms, vecdet.sahi.batched_nms):
                found = function(rows, metric, threshold)
                vecdet.sahi._has_ties = lambda scores: True
                assert function(rows, metric, threshold) == found, (rows, metric, threshold)
                vecdet.sahi._has_ties = has_ties
assert 80 < fast < 120
assert vecdet.sahi.nms([[7, 1, 10, 8, .5, 0], [2, 6, 2, 10, .5, 0]]) == [1, 0]
assert vecdet.sahi.batched_greedy_nmm([[0, 0, 9, 9, .5, 1], [20, 0, 29, 9, .4, 1],
                                       [40, 0, 49, 9, .3, 2]], "IOU", 0) == {0: [1], 2: []}
print("kept predictions equal SAHI's")

# ---- Letterbox, with OpenCV's pixels


def boxed(image, height, width):
    scale = min(height / image.shape[0], width / image.shape[1])
    rows, cols = max(1, round(image.shape[0] * scale)), max(1, round(image.shape[1] * scale))
    top, left = round((height - rows) / 2 - 0.1), round((width - cols) / 2 - 0.1)
    out = np.full((height, width, 3), 114, np.uint8)
    out[top:top + rows, left:left + cols] = cv2.resize(image, (cols, rows),
                                                       interpolation=cv2.INTER_LINEAR)
    return out[..., ::-1].transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 255)


if cv2 is None:
    print("OpenCV is not installed: letterbox is not compared")
    sys.exit(0)
for round_number in range(120):
    height, width, rows, cols = generator.integers(1, 500, 4).tolist()
    if round_number % 5 == 0:
        height, width = 2 * rows, 2 * cols
    if round_number % 7 == 0:
        height, width = rows, cols
    image = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
    batch, _ = vecdet.letterbox([image], (rows, cols))
    assert np.array_equal(batch[0], boxed(image, rows, cols)), (height, width, rows, cols)
print("120 letterboxes are equal")
