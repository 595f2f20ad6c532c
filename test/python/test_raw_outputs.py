# SPDX-License-Identifier: Apache-2.0
"""Raw outputs, merging and letterboxes against the published rules in plain NumPy, and OpenCV's
resize."""
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


def detections(rows, model, confidence, iou, multi_label, agnostic, extras, keypoint, image, size):
    rows = rows.copy()
    confidence = np.float32(confidence)
    end = rows.shape[1] - extras
    if model == "10":
        rows = rows[rows[:, 4] > confidence]
        rows = rows[np.argsort(-rows[:, 4], kind="stable")][:300]
        return undo(rows, keypoint, image, size)
    first = 4
    if model == "5":
        rows = rows[rows[:, 4] > confidence]
        rows[:, 5:end] *= rows[:, 4:5]
        first = 5
    half = rows[:, 2:4] / np.float32(2)
    corners = np.concatenate([rows[:, :2] - half, rows[:, :2] + half], 1)
    scores = rows[:, first:end]
    if multi_label:
        box, label = np.nonzero(scores > confidence)
    else:
        label = scores.argmax(1) if len(rows) else np.zeros(0, np.int64)
        box = np.nonzero(scores[np.arange(len(rows)), label] > confidence)[0]
        label = label[box]
    score = scores[box, label]
    order = np.argsort(-score, kind="stable")[:30000]
    box, label, score = box[order], label[order], score[order]
    kept = []
    for group in [None] if agnostic else np.unique(label):
        part = np.arange(len(label)) if group is None else np.nonzero(label == group)[0]
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


def check_yolo(model, boxes, classes, confidence, iou, multi_label, agnostic, extras, keypoint):
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
                          image, size)
    output = (rows.T if model == "8" else rows)[None]
    names = {"5": ("yolov5", "yolox"), "8": ("yolov8", "yolo11"), "10": ("yolov10", "yolo26")}
    given, = vecdet.postprocess_yolo(
        output, str(generator.choice(names[model])),
        [vecdet.LetterboxTransform.centred(image, size)], score_threshold=confidence,
        iou_threshold=iou, multi_label=multi_label, class_agnostic=agnostic, extras=extras,
        keypoint_size=keypoint, classes=None if model == "10" else classes)
    found = np.concatenate([given.boxes, given.scores[:, None], given.labels[:, None],
                            given.extras], 1)
    what = (model, boxes, classes, confidence, iou, multi_label, agnostic, extras, keypoint)
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
