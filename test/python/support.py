# SPDX-License-Identifier: Apache-2.0
"""Helpers of the NumPy package's tests. Importing this skips the test if NumPy is not installed."""
import sys

try:
    import numpy as np
except ImportError:
    print("NumPy is not installed")
    sys.exit(77)
import vecdet

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


class Remote:
    """An object with DLPack, on another device."""

    def __dlpack__(self, **options):
        raise BufferError("it is on another device")

    def __dlpack_device__(self):
        return (2, 0)


LEVELS, SSD_LEVELS = [(2, 4)], [(38, 38), (19, 19), (10, 10), (5, 5), (3, 3), (1, 1)]


def run_length_calls():
    runs = vecdet.RunLengths(np.array([[4, 5], [4, 5]]), np.array([0, 3, 4]),
                             np.array([3, 4, 13, 20], np.uint32))
    boxes = np.array([[1.0, 1, 3, 3]])
    return {
        "encode_masks": {"masks": np.ones((2, 4, 5), np.uint8)}, "decode_masks": {"runs": runs},
        "mask_areas": {"masks": runs}, "mask_boxes": {"masks": runs},
        "mask_iou": {"a": runs}, "merge_masks": {"runs": runs},
        "mask_polygons": {"runs": runs},
        "group_masks": {"masks": np.ones((2, 4, 5), np.uint8), "scores": np.array([0.5, 0.9])},
        "mask_nms": {"masks": np.ones((2, 4, 5), np.uint8), "scores": np.array([0.5, 0.9]),
                     "iou_threshold": 0.5},
        "run_lengths_to_strings": {"runs": runs},
        "run_lengths_from_strings": {"strings": [b"13"], "size": (2, 2)},
        "run_lengths_from_polygons": {"polygons": [boxes[0].repeat(2)], "size": (4, 4)},
        "run_lengths_from_boxes": {"boxes": boxes, "size": (4, 4)}}


def calls():
    """A call of each function of the package: its arguments without defaults."""
    boxes, others = some_boxes(8), some_boxes(8)
    scores, labels = generator.random(8).astype(np.float32), generator.integers(0, 3, 8)
    logits = generator.normal(0, 1, (8, 4)).astype(np.float32)
    deltas = generator.normal(0, 1, (8, 4)).astype(np.float32)
    maps = generator.random((1, 4, 4, 4)).astype(np.float32)
    rois = np.c_[np.zeros(2), boxes[:2] / 40].astype(np.float32)
    grid = vecdet.make_anchors((32, 64), LEVELS, [([16], [1.0])])
    points = vecdet.make_points(LEVELS, [16])
    centres = generator.uniform(0.2, 0.6, (1, 8, 4)).astype(np.float32)
    targets = [centres[0, :2].copy()]
    yolo = np.zeros((1, 7, 100), np.float32)
    yolo[0, :, 7] = 20, 20, 10, 10, 0.1, 0.9, 0.1
    image = np.full((8, 8, 3), 9, np.uint8)
    bins = generator.random((8, 4, 5)).astype(np.float32)
    scored = {"inputs": logits, "labels": labels, "scores": scores}
    plain = {"inputs": logits, "labels": labels}
    pair = {"boxes1": boxes, "boxes2": others}
    turned = {"boxes1": np.c_[boxes, scores], "boxes2": np.c_[boxes, scores],
              "angles": "ultralytics"}
    losses = {"quality_focal_loss": scored, "varifocal_loss": scored, "bce_loss": scored,
              "sigmoid_focal_loss": plain, "softmax_cross_entropy_loss": plain,
              "distribution_focal_loss": {"inputs": logits, "targets": scores},
              "ctc_loss": {"inputs": bins, "targets": labels[:4, None] % 4 + 1},
              "smooth_l1_loss": {"input": boxes, "target": others, "labels": labels},
              "regression_loss": {"deltas": deltas, "anchors": boxes, "targets": others,
                                  "labels": labels},
              "generalized_box_iou_loss": pair, "distance_box_iou_loss": pair,
              "complete_box_iou_loss": pair, "prob_iou_loss": turned}
    mined = {"inputs": logits[None], "labels": labels[None],
             "negatives_per_foreground": 1}
    both = {name + form: given for name, given in losses.items() for form in ("", "_and_grad")}
    coded = {"anchors": boxes}
    sampled = {"value": generator.random((1, 8, 2, 4)).astype(np.float32), "level_sizes": LEVELS,
               "points": generator.random((1, 3, 2, 1, 2, 2)).astype(np.float32),
               "weights": generator.random((1, 3, 2, 1, 2)).astype(np.float32)}
    return {
        **both, "softmax_cross_entropy_loss_and_grad": mined,
        "ctc_greedy": {"inputs": bins}, "ctc_beams": {"inputs": bins},
        "masks_from_prototypes": {"prototypes": maps[0], "coefficients": logits, "boxes": boxes,
                                  "size": (16, 16)},
        **run_length_calls(),
        "paste_soft_masks": {"maps": np.full((8, 2, 2), 0.9), "boxes": boxes, "size": (16, 16)},
        "paste_masks": {"maps": np.full((8, 2, 2), 0.9), "boxes": boxes, "size": (16, 16)},
        "nms": {"boxes": boxes, "scores": scores, "iou_threshold": 0.5},
        "batched_nms": {"boxes": boxes, "scores": scores, "idxs": labels, "iou_threshold": 0.5},
        "soft_nms": {"boxes": boxes, "scores": scores},
        "merge_boxes": {"boxes": boxes, "scores": scores},
        "filter_topk": {"logits": logits, "score_threshold": 0.5, "k": 5},
        "postprocess": {"logits": logits[None], "deltas": deltas[None], "anchors": boxes,
                        "image_sizes": [(64, 64)]},
        "postprocess_box_head": {"logits": logits, "deltas": np.zeros((8, 16), np.float32),
                                 "proposals": [boxes], "image_sizes": [(64, 64)]},
        "postprocess_yolo": {"output": yolo, "model": "yolov8"},
        "postprocess_detr": {"logits": logits[None], "boxes": centres, "image_sizes": [(64, 64)]},
        "letterbox": {"images": [image], "input_size": (32, 32)},
        "clip_boxes_to_image": {"boxes": boxes, "size": (50, 50)},
        "remove_small_boxes": {"boxes": boxes, "min_size": 5},
        "encode_boxes": {"boxes": others, **coded}, "decode_boxes": {"deltas": deltas, **coded},
        "encode_distances": {"boxes": others, **coded},
        "decode_distances": {"distances": deltas, **coded},
        "make_anchors": {"image_size": (32, 64), "level_sizes": LEVELS,
                         "shapes": [([16], [1.0])]},
        "make_ssd_anchors": {"image_size": (300, 300), "level_sizes": SSD_LEVELS},
        "make_points": {"level_sizes": LEVELS, "strides": [8]},
        "match_anchors": {"anchors": boxes, "boxes": boxes[:2]},
        "assign_atss": {"anchors": grid, "level_sizes": LEVELS, "boxes": boxes[:2]},
        "assign_fcos": {"anchors": grid, "level_sizes": LEVELS, "boxes": boxes[:2]},
        "assign_task_aligned": {"scores": scores[:, None], "predicted": boxes, "points": points,
                                "level_sizes": LEVELS, "boxes": boxes[:2], "classes": [0, 0]},
        "assign_rotated_task_aligned": {
            "scores": scores[:, None], "predicted": turned["boxes1"], "points": points,
            "level_sizes": LEVELS, "boxes": turned["boxes1"][:2], "classes": [0, 0],
            "angles": "opencv"},
        "assign_sim_ota": {"logits": scores[:, None], "objectness": scores, "predicted": boxes,
                           "points": points, "level_sizes": LEVELS, "strides": [16],
                           "boxes": boxes[:2], "classes": [0, 0]},
        "sample_balanced": {"labels": [labels]}, "count_foreground": {"labels": labels},
        "grouped_conv3x3": {"input": maps, "weight": generator.random((4, 4, 3, 3))},
        "roi_align": {"input": maps, "boxes": rois, "output_size": 1},
        "roi_align_grad": {"grad": maps[:, :, :1, :1].repeat(2, 0), "boxes": rois,
                           "input_shape": (1, 4, 4, 4)},
        "multiscale_roi_align": {"features": [maps], "boxes": rois, "output_size": 1,
                                 "scales": [0.25]},
        "pyramid_levels": {"boxes": boxes, "levels": 4},
        "match_queries": {"logits": logits[None], "boxes": centres, "targets": targets},
        "set_loss_and_grad": {"logits": logits[None], "boxes": centres, "matches": [[[0, 1]]],
                              "targets": targets},
        "assign_least_cost": {"costs": logits},
        "box_iou": pair, "generalized_box_iou": pair, "distance_box_iou": pair,
        "complete_box_iou": pair, "elementwise_iou": pair, "box_area": {"boxes": boxes},
        "box_convert": {"boxes": boxes, "in_fmt": "xyxy", "out_fmt": "xywh"},
        "rotated_box_iou": turned, "elementwise_rotated_iou": turned,
        "pairwise_prob_iou": turned, "elementwise_prob_iou": turned,
        "rotated_box_convert": {"boxes": turned["boxes1"], "in_fmt": "cxcywhr",
                                "out_fmt": "xyxyxyxy", "angles": "opencv"},
        "rotated_box_area": {"boxes": turned["boxes1"]},
        "rotated_nms": {"boxes": turned["boxes1"], "scores": scores, "iou_threshold": 0.5,
                        "angles": "opencv"},
        "prob_iou_nms": {"boxes": turned["boxes1"], "scores": scores, "iou_threshold": 0.5,
                         "angles": "opencv"},
        "decode_distributions": {"logits": logits},
        "decode_distribution_boxes": {"logits": bins, "points": bins[:, 0, :2].copy(),
                                      "strides": scores},
        "deformable_attention": sampled,
        "deformable_attention_grad": {"grad": np.ones((1, 3, 8), np.float32), **sampled},
    }
