# SPDX-License-Identifier: Apache-2.0
"""Helpers of the NumPy package's tests. Importing this skips the test if NumPy is not installed."""
import sys

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)

generator = np.random.default_rng(1)


def some_boxes(count, side=100, dtype=np.float32):
    corner = generator.uniform(0, side, (count, 2))
    return np.concatenate([corner, corner + generator.uniform(1, side / 3, (count, 2))],
                          1).astype(dtype)


def iou(a, b):
    """The IoU of all pairs, in the boxes' type, one rounding per operation."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    side = np.maximum(high - low, a.dtype.type(0))
    inter = side[..., 0] * side[..., 1]
    areas = [(x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b)]
    with np.errstate(invalid="ignore"):  # boxes that float16 made empty
        return inter / (areas[0][:, None] + areas[1][None] - inter)


def nms(boxes, scores, threshold, classes=None):
    order = np.argsort(-scores, kind="stable")
    kept = []
    while order.size:
        first, rest = order[0], order[1:]
        kept.append(first)
        dropped = iou(boxes[first][None], boxes[rest])[0].astype(np.float64) > threshold
        if classes is not None:
            dropped &= classes[rest] == classes[first]
        order = rest[~dropped]
    return np.array(kept, np.int64)


def numerical_grad(loss, array, step=1e-6):
    grad = np.zeros(array.shape)
    for index in np.ndindex(*array.shape):
        ends = []
        for sign in (1, -1):
            moved = array.copy()
            moved[index] += sign * step
            ends.append(loss(moved))
        grad[index] = (ends[0] - ends[1]) / (2 * step)
    return grad
