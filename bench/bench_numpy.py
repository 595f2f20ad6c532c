# SPDX-License-Identifier: Apache-2.0
"""Measures what a call from Python costs: the time of each function of the NumPy package on small
arrays, less the time that the profiler records for its kernel.

    PYTHONPATH=<build tree>/python python3 bench/bench_numpy.py [<limit in microseconds>]

Figures are medians of rounds, on one thread. With a limit, it fails if a call costs more. The
profiler records nothing of AnchorIndex, the functions that make anchors and points, pyramid_levels
and count_foreground: their cost includes their work.
"""

import platform
import statistics
import sys
import time

import figures
import numpy as np

import vecdet
import vecdet.sahi
import vecdet.supervision

ROUNDS, CALLS = 21, 500


def public(module, name):
    """The functions of a module."""
    return [f"{name}.{own}" for own, value in vars(module).items()
            if callable(value) and value.__module__ == module.__name__ and own[0] != "_"]


def problems():
    """A call of each function, with arrays of its own types, as users pass them."""
    random = np.random.default_rng(1)

    def floats(*shape):
        return random.random(shape, np.float32)

    corners = floats(8, 2) * 50
    boxes = np.concatenate([corners, corners + 1 + floats(8, 2) * 20], 1)
    others = boxes[::-1].copy()
    scores, labels = floats(8), random.integers(0, 3, 8)
    truth = boxes[:2].copy()
    classes = labels[:2].copy()
    logits = floats(8, 4) * 4 - 2
    bins = floats(8, 4, 9)
    rows = bins[:, 0].copy()
    steps, words = floats(8, 2, 5), random.integers(1, 5, (2, 3))
    places = scores * 8
    points = corners.copy()
    strides = np.full(8, 8, np.float32)
    levels, deltas = [(2, 4)], floats(8, 4)
    grid = vecdet.make_anchors((32, 64), levels, [([16], [1.0])])
    centres_of_grid = vecdet.make_points(levels, [16])
    batch_logits, batch_deltas = logits[None], deltas[None]
    features, rois = floats(1, 4, 4, 4), np.c_[np.zeros(2, np.float32), truth]
    pooled = floats(2, 4, 1, 1)
    value, attention = floats(1, 8, 2, 4), floats(1, 3, 2, 1, 2, 2)
    weights, upstream = floats(1, 3, 2, 1, 2), floats(1, 3, 8)
    queries, centres = floats(1, 8, 4), floats(1, 8, 4) / 4 + 0.25
    targets = [centres[0, :2].copy()]
    matches = vecdet.match_queries(queries, centres, targets, [classes])
    anchors, convolution = vecdet.AnchorIndex(boxes), vecdet.Conv3x3(floats(4, 4, 3, 3))
    filters = floats(4, 4, 3, 3)
    costs = floats(3, 4)
    turned = np.c_[boxes, scores].astype(np.float32)
    image = np.zeros((8, 8, 3), np.uint8)
    _, transforms = vecdet.letterbox([image], (32, 32))
    canvas = np.empty((1, 3, 32, 32), np.float32)
    raw = {"yolov8": floats(1, 7, 100) * 0.2, "yolov5": floats(1, 100, 8) * 0.2,
           "yolov10": floats(1, 100, 6) * 0.2}
    raw["yolov8"][0, :, 7] = 20, 20, 10, 10, 0.1, 0.9, 0.1
    raw["yolov10"][0, :, 5] = 0
    quantised = vecdet.Quantised((raw["yolov8"] * 10).astype(np.uint8), 0.1, 0)
    sizes = [(64, 64)]
    predictions = np.c_[boxes, scores, labels].astype(np.float32)
    v = vecdet
    box_losses = {}
    for kind in ("generalized", "distance", "complete"):
        for form in ("loss", "loss_and_grad"):
            name = f"{kind}_box_iou_{form}"
            box_losses[name] = (lambda f=getattr(v, name): f(boxes, others, "sum"))
    scored = {}
    for kind in ("quality_focal", "varifocal", "bce"):
        for form in ("loss", "loss_and_grad"):
            name = f"{kind}_{form}"
            scored[name] = (lambda f=getattr(v, name): f(logits, labels, scores, reduction="sum"))
    runs = v.encode_masks(np.ones((2, 8, 8), bool))
    strings, corners_64 = v.run_lengths_to_strings(runs), boxes.astype(np.float64)
    run_lengths = {
        "encode_masks": lambda: v.encode_masks(image.transpose(2, 0, 1)),
        "decode_masks": lambda: v.decode_masks(runs),
        "mask_areas": lambda: v.mask_areas(runs),
        "mask_boxes": lambda: v.mask_boxes(runs),
        "mask_iou": lambda: v.mask_iou(runs, runs),
        "group_masks": lambda: v.group_masks(np.ones((2, 8, 8), bool), scores[:2]),
        "mask_nms": lambda: v.mask_nms(np.ones((2, 8, 8), bool), scores[:2], 0.5),
        "merge_masks": lambda: v.merge_masks(runs),
        "mask_polygons": lambda: v.mask_polygons(runs),
        "run_lengths_to_strings": lambda: v.run_lengths_to_strings(runs),
        "run_lengths_from_strings": lambda: v.run_lengths_from_strings(strings, (8, 8)),
        "run_lengths_from_polygons": lambda: v.run_lengths_from_polygons(corners_64[:, [0, 1, 2, 1, 2, 3]],
                                                                         (16, 16)),
        "run_lengths_from_boxes": lambda: v.run_lengths_from_boxes(corners_64, (16, 16))}
    slices = {}
    for name in public(v.sahi, "sahi"):
        slices[name] = (lambda f=getattr(v.sahi, name[5:]): f(predictions))
    return {
        "nms": lambda: v.nms(boxes, scores, 0.5),
        "batched_nms": lambda: v.batched_nms(boxes, scores, labels, 0.5),
        "soft_nms": lambda: v.soft_nms(boxes, scores),
        "merge_boxes": lambda: v.merge_boxes(boxes, scores, labels),
        "filter_topk": lambda: v.filter_topk(logits, 0.5, 5),
        "postprocess_yolo, v8": lambda: v.postprocess_yolo(raw["yolov8"], "yolov8"),
        "postprocess_yolo, v8, with a letterbox": lambda: v.postprocess_yolo(
            raw["yolov8"], "yolov8", transforms),
        "postprocess_yolo, v5": lambda: v.postprocess_yolo(raw["yolov5"], "yolov5"),
        "postprocess_yolo, v8, quantised": lambda: v.postprocess_yolo(quantised, "yolov8"),
        "postprocess_yolo, v10": lambda: v.postprocess_yolo(raw["yolov10"], "yolov10"),
        "postprocess_detr": lambda: v.postprocess_detr(batch_logits, batch_deltas, sizes),
        "postprocess": lambda: v.postprocess(batch_logits, batch_deltas, boxes, sizes),
        "postprocess_box_head": lambda: v.postprocess_box_head(
            logits, np.empty((8, 16), np.float32), [boxes], sizes),
        "letterbox": lambda: v.letterbox([image], (32, 32), out=canvas),
        "box_iou": lambda: v.box_iou(boxes, others),
        "generalized_box_iou": lambda: v.generalized_box_iou(boxes, others),
        "distance_box_iou": lambda: v.distance_box_iou(boxes, others),
        "complete_box_iou": lambda: v.complete_box_iou(boxes, others),
        "elementwise_iou": lambda: v.elementwise_iou(boxes, others),
        "rotated_box_iou": lambda: v.rotated_box_iou(turned, turned, "opencv"),
        "elementwise_rotated_iou": lambda: v.elementwise_rotated_iou(turned, turned, "opencv"),
        "rotated_box_convert": lambda: v.rotated_box_convert(turned, "cxcywhr", "xyxyxyxy",
                                                             "opencv"),
        "pairwise_prob_iou": lambda: v.pairwise_prob_iou(turned, turned, "opencv"),
        "elementwise_prob_iou": lambda: v.elementwise_prob_iou(turned, turned, "opencv"),
        "prob_iou_loss": lambda: v.prob_iou_loss(turned, turned, "opencv"),
        "prob_iou_loss_and_grad": lambda: v.prob_iou_loss_and_grad(turned, turned, "opencv"),
        "prob_iou_nms": lambda: v.prob_iou_nms(turned, scores, 0.5, "opencv"),
        "rotated_nms": lambda: v.rotated_nms(turned, scores, 0.5, "opencv"),
        "rotated_box_area": lambda: v.rotated_box_area(turned),
        "box_convert": lambda: v.box_convert(boxes, "xyxy", "xywh"),
        "clip_boxes_to_image": lambda: v.clip_boxes_to_image(boxes, (50, 50)),
        "box_area": lambda: v.box_area(boxes),
        "remove_small_boxes": lambda: v.remove_small_boxes(boxes, 5),
        "encode_boxes": lambda: v.encode_boxes(boxes, others),
        "decode_boxes": lambda: v.decode_boxes(deltas, boxes),
        "encode_distances": lambda: v.encode_distances(boxes, others),
        "decode_distances": lambda: v.decode_distances(deltas, boxes),
        "decode_distributions": lambda: v.decode_distributions(bins),
        "decode_distribution_boxes": lambda: v.decode_distribution_boxes(bins, points, strides),
        "make_anchors": lambda: v.make_anchors((32, 64), levels, [([16], [1.0])]),
        "make_ssd_anchors": lambda: v.make_ssd_anchors((32, 32), [(2, 2)] * 6),
        "make_points": lambda: v.make_points(levels, [8]),
        "AnchorIndex": lambda: v.AnchorIndex(boxes),
        "match_anchors": lambda: v.match_anchors(anchors, truth, classes),
        "match_anchors, a list of images": lambda: v.match_anchors(
            anchors, [truth, truth], [classes, classes]),
        "assign_atss": lambda: v.assign_atss(grid, levels, truth),
        "assign_fcos": lambda: v.assign_fcos(grid, levels, truth),
        "assign_task_aligned": lambda: v.assign_task_aligned(
            queries[0], boxes, centres_of_grid, levels, truth, classes),
        "assign_rotated_task_aligned": lambda: v.assign_rotated_task_aligned(
            queries[0], turned, centres_of_grid, levels, turned[:2], classes, "opencv"),
        "assign_sim_ota": lambda: v.assign_sim_ota(
            queries[0], scores, boxes, centres_of_grid, levels, [16], truth, classes),
        "sample_balanced": lambda: v.sample_balanced([labels], 4),
        "count_foreground": lambda: v.count_foreground(labels),
        "sigmoid_focal_loss": lambda: v.sigmoid_focal_loss(logits, labels=labels, reduction="sum"),
        "sigmoid_focal_loss_and_grad": lambda: v.sigmoid_focal_loss_and_grad(logits, labels=labels),
        **scored,
        "softmax_cross_entropy_loss": lambda: v.softmax_cross_entropy_loss(logits, labels, "sum"),
        "softmax_cross_entropy_loss_and_grad": lambda: v.softmax_cross_entropy_loss_and_grad(
            logits, labels),
        "ctc_loss": lambda: v.ctc_loss(steps, words, reduction="sum"),
        "ctc_loss_and_grad": lambda: v.ctc_loss_and_grad(steps, words),
        "ctc_beams": lambda: v.ctc_beams(steps),
        "masks_from_prototypes": lambda: v.masks_from_prototypes(features[0], logits, boxes,
                                                                 (16, 16)),
        **run_lengths,
        "paste_masks": lambda: v.paste_masks(logits.reshape(8, 2, 2), boxes, (16, 16)),
        "paste_soft_masks": lambda: v.paste_soft_masks(logits.reshape(8, 2, 2), boxes, (16, 16)),
        "ctc_greedy": lambda: v.ctc_greedy(steps),
        "distribution_focal_loss": lambda: v.distribution_focal_loss(rows, places, "sum"),
        "distribution_focal_loss_and_grad": lambda: v.distribution_focal_loss_and_grad(
            rows, places),
        "smooth_l1_loss": lambda: v.smooth_l1_loss(boxes, others),
        "smooth_l1_loss_and_grad": lambda: v.smooth_l1_loss_and_grad(boxes, others),
        **box_losses,
        "regression_loss": lambda: v.regression_loss(deltas, boxes, others),
        "regression_loss_and_grad": lambda: v.regression_loss_and_grad(deltas, boxes, others),
        "roi_align": lambda: v.roi_align(features, rois, 1),
        "roi_align_grad": lambda: v.roi_align_grad(pooled, rois, features.shape),
        "multiscale_roi_align": lambda: v.multiscale_roi_align([features], rois, 1, [0.25]),
        "pyramid_levels": lambda: v.pyramid_levels(boxes, 4),
        "Conv3x3": lambda: convolution(features),
        "grouped_conv3x3": lambda: vecdet.grouped_conv3x3(features, filters),
        "deformable_attention": lambda: v.deformable_attention(value, levels, attention, weights),
        "deformable_attention_grad": lambda: v.deformable_attention_grad(
            upstream, value, levels, attention, weights),
        "match_queries": lambda: v.match_queries(queries, centres, targets, [classes]),
        "set_loss_and_grad": lambda: v.set_loss_and_grad(
            queries, centres, matches, targets, [classes]),
        "assign_least_cost": lambda: v.assign_least_cost(costs),
        "LetterboxTransform": lambda: v.LetterboxTransform.centred((1080, 1920), (640, 640)),
        **slices,
        "supervision.box_non_max_suppression": lambda: v.supervision.box_non_max_suppression(
            predictions),
        "supervision.box_non_max_merge": lambda: v.supervision.box_non_max_merge(predictions),
        "supervision.mask_non_max_suppression": lambda: v.supervision.mask_non_max_suppression(
            predictions[:2], np.ones((2, 8, 8), bool)),
        "supervision.mask_non_max_merge": lambda: v.supervision.mask_non_max_merge(
            predictions[:2], np.ones((2, 8, 8), bool)),
        "supervision.merged_score": lambda: v.supervision.merged_score(predictions, [0, 1]),
    }


def microseconds(call):
    begin = time.thread_time_ns()
    for _ in range(CALLS):
        call()
    return (time.thread_time_ns() - begin) / CALLS / 1e3


def kernel_microseconds(call):
    vecdet.profile.reset()
    vecdet.profile.enable()
    for _ in range(CALLS):
        call()
    vecdet.profile.disable()
    # The outermost function contains the others. Some record nothing.
    return max((row["total_ns"] for row in vecdet.profile.rows()), default=0) / CALLS / 1e3


def main():
    vecdet.set_threads(1)
    calls = problems()
    names = [name for name in vecdet.__all__ if callable(getattr(vecdet, name))
             and name[0].islower() and not name.endswith(("_isa", "_threads"))]
    names += public(vecdet.sahi, "sahi") + public(vecdet.supervision, "supervision")
    missing = [name for name in names if not any(call.split(",")[0] == name for call in calls)]
    if missing:
        sys.exit(f"not measured: {', '.join(missing)}")
    print(f"{figures.processor()}, Python {platform.python_version()}, NumPy {np.__version__}, {figures.blas()}, "
          f"{time.strftime('%Y-%m-%d')}\n")
    for call in calls.values():  # not timed: makes pages and threads
        call()
    times = {name: ([], []) for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name][0].append(microseconds(call))
            times[name][1].append(kernel_microseconds(call))
    costs = {name: (statistics.median(whole), min(kernel))
             for name, (whole, kernel) in times.items()}
    unsteady = {name for name, (whole, _) in times.items() if figures.is_unsteady(min(whole), statistics.median(whole))}
    print("| function | call, us | kernel, us | cost, us |\n|---|---|---|---|")
    for name, (whole, kernel) in sorted(costs.items(), key=lambda row: row[1][1] - row[1][0]):
        mark = " ~" if name in unsteady else ""
        print(f"| {name} | {whole:.2f}{mark} | {kernel:.2f} | {whole - kernel:.2f} |")
    if unsteady:
        print("\n~: half of the rounds took a third longer than the fastest one.")
    if len(sys.argv) > 1:
        limit = float(sys.argv[1])
        over = [name for name, (whole, kernel) in costs.items() if whole - kernel > limit]
        if over:
            sys.exit(f"above {limit} us: {', '.join(over)}")


if __name__ == "__main__":
    main()
