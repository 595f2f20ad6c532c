# SPDX-License-Identifier: Apache-2.0
"""From a network's output to detections, and from images to its input."""

from __future__ import annotations

import re
import warnings
from ctypes import byref, c_int64
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from . import _c
from ._arrays import (TYPES, address, as_array, box_rows, check_out, choice, empty, float32,
                      float32s, float64, int64, named, optional, result, same_small_floats,
                      shape_error, small_floats, uint8, wrong_shape, wrong_type)
from ._boxes import BOX_HEAD_WEIGHTS, SIZE_LIMIT, coder_params
from ._c import box_format, dense_detector, rotated_format, score_kind
from ._c import mask_pixels as mask_kinds
from ._c import mask_rule as mask_rules
from ._library import check, library
from ._masks import Masks, copied_masks
from ._masks import workspace as masks_workspace
from ._messages import found as said
from ._packed import (doubles, image_sizes_of, integers_of, integers_packed, joined, offsets_of,
                      packed_rows, packer)
from ._parameters import (CLASS_LISTS, class_lists, filled, integer, kept, listed, number,
                          numbers as numbers_of, pair, params_of, set_given)
from ._quantised import MaybeQuantised, Quantised, is_quantised

__all__ = [
    "Detections", "LetterboxTransform", "YoloDetections", "filter_topk", "letterbox",
    "postprocess", "postprocess_box_head", "postprocess_detr", "postprocess_yolo",
]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Detections(NamedTuple):
    """The detections of an image in descending score."""

    boxes: NDArray[np.float32]
    """[N, 4], x1 y1 x2 y2 unless requested otherwise."""
    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    """Classes."""


class YoloDetections(NamedTuple):
    """The detections of an image in descending score."""

    boxes: NDArray[np.float32]
    """[N, 4], x1 y1 x2 y2 unless requested otherwise; rotated boxes [N, 5] or [N, 8]."""
    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    """Classes."""
    sources: NDArray[np.int64]
    """The index of each detection's box or query in the output."""
    extras: NDArray[np.float32]
    """[N, extras]: mask coefficients or key points."""
    masks: Masks | None = None
    """If postprocess_yolo() is given prototypes: the mask of each detection."""


class LetterboxTransform(NamedTuple):
    """The position of an image in the input of a network: a point (x, y) of the image is at
    (x scale_x + pad_x, y scale_y + pad_y) in the input."""

    scale_x: float
    scale_y: float
    pad_x: float
    pad_y: float
    height: float
    """Of the image, in pixels."""
    width: float

    @classmethod
    def centred(cls, image_size: Sequence[float],
                input_size: Sequence[float]) -> LetterboxTransform:
        """ultralytics' letterbox of an image of (height, width) in an input of (height, width).

        >>> LetterboxTransform.centred((1080, 1920), (640, 640)).pad_y
        140.0
        """
        return cls._made("centred", image_size, input_size)

    @classmethod
    def top_left(cls, image_size: Sequence[float],
                 input_size: Sequence[float]) -> LetterboxTransform:
        """YOLOX's letterbox: the image is in the upper left corner."""
        return cls._made("top_left", image_size, input_size)

    @classmethod
    def _made(cls, position: str, image_size: Sequence[float],
              input_size: Sequence[float]) -> LetterboxTransform:
        made = _c.letterbox_transform()
        function = f"LetterboxTransform.{position}"
        make = getattr(library, f"vecdet_letterbox_transform_{position}")
        check(make(_c.image_size(*pair(function, "image_size", image_size)),
                   _c.image_size(*pair(function, "input_size", input_size)), byref(made)), function)
        return cls(*(getattr(made, field) for field in cls._fields))


def filter_topk(logits: ArrayLike | Quantised, score_threshold: float, k: int,
                kind: str = "logits") -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The best ``k`` of the logits whose sigmoid is above the threshold, descending, and their
    positions in the flattened array. Ties are broken by lower position; NaN is never selected.

    Args:
        logits: float32 or bfloat16 of any shape; float64 is rounded to float32. Quantised logits
            are compared as integers, and the results are dequantised.
        score_threshold: a probability, in [0, 1].
        kind: ``"logits"``, or ``"probabilities"`` for numbers that are compared with the threshold
            as they are.

    >>> values, positions = filter_topk([[3, -3], [1, 2]], 0.5, k=2)
    >>> values.tolist(), positions.tolist()
    ([3.0, 2.0], [0, 3])
    """
    matrix: Any
    if is_quantised("filter_topk", "logits", logits):
        quantised = MaybeQuantised("filter_topk", "logits", logits)
        size = quantised.array.size
        search, matrix = library.vecdet_filter_topk_of_matrix, (quantised.matrix(1, size),)
    else:
        array = small_floats("filter_topk", "logits", logits)
        size = array.size
        search = library.vecdet_filter_topk
        matrix = TYPES[array.dtype], address(array), 1, size, size
    count_limit = integer("filter_topk", "k", k)
    most = max(0, min(count_limit, size))
    values, positions = empty(most, float32), empty(most, int64)
    count = c_int64()
    check(search(
        *matrix, number("filter_topk", "score_threshold", score_threshold), count_limit,
        choice(score_kind, "filter_topk", "kind", kind), None, address(values),
        address(positions), byref(count)), "filter_topk")
    values.resize(count.value, refcheck=False)
    positions.resize(count.value, refcheck=False)
    return values, positions


# The results of a batch are in two arrays, because the allocations, addresses and views of arrays
# cost most of a small call: boxes, scores and extras; labels, sources and offsets.
# A view of nothing: old versions of NumPy would allocate memory for an array of this shape.
_NO_EXTRAS = as_strided(empty((1, 0), float32), (1 << 40, 0))


def _detections(floats: Any, numbers: Any, total: int) -> list[Detections]:
    ends = numbers[total:].tolist()
    found, a = [], 0
    for b in ends[1:]:
        found.append(named(Detections, (
            floats[4 * a:4 * b].reshape(b - a, 4), floats[4 * total + a:4 * total + b],
            numbers[a:b])))
        a = b
    return found


def _yolo_detections(floats: Any, numbers: Any, total: int, extras: int) -> list[YoloDetections]:
    ends = numbers[2 * total:].tolist()
    found, a = [], 0
    for b in ends[1:]:
        found.append(named(YoloDetections, (
            floats[4 * a:4 * b].reshape(b - a, 4), floats[4 * total + a:4 * total + b],
            numbers[a:b], numbers[total + a:total + b],
            floats[5 * total + extras * a:5 * total + extras * b].reshape(b - a, extras)
            if extras else _NO_EXTRAS[:b - a], None)))
        a = b
    return found


def _with_masks(found: list[YoloDetections], masks: Masks) -> list[YoloDetections]:
    """The detections of each image, with its part of the masks of all images."""
    parts, a = [], 0
    for image in found:
        b = a + len(image.boxes)
        first, last = masks.offsets.item(a), masks.offsets.item(b)
        parts.append(image._replace(masks=Masks(
            masks.boxes[a:b], masks.offsets[a:b + 1] - first, masks.pixels[first:last],
            masks.kind)))
        a = b
    return parts


_MOST_SCORE = float(np.float32(1.001))  # as in C++; bfloat16 rounds 1 up to no more
_postprocess = library.vecdet_postprocess
_postprocess_yolo = library.vecdet_postprocess_yolo
_postprocess_detr = library.vecdet_postprocess_detr
_postprocess_yolo_of_matrices = library.vecdet_postprocess_yolo_of_matrices
_postprocess_detr_of_matrices = library.vecdet_postprocess_detr_of_matrices
_postprocess_yolo_masks = library.vecdet_postprocess_yolo_masks
_letterbox = library.vecdet_letterbox
_box_head_params = params_of(_c.box_head_params)
_mask_params = params_of(_c.prototype_masks_params)
_detr_params = params_of(_c.postprocess_detr_params)
_pack_image = packer(_c.byte_image)


@kept
def _dense_params(detector: str, weights: Any, size_limit: float, *options: Any) -> Any:
    """Parameters that many calls share, and the greatest number of detections."""
    params = getattr(library, f"vecdet_postprocess_params_{detector}")()
    params.detector = dense_detector.index(detector)
    set_given("postprocess", params, zip(
        ("score_threshold", "max_candidates", "iou_threshold", "max_detections", "min_size",
         *CLASS_LISTS), options))
    if weights is None:
        weights = [getattr(params.coder, f"weight_{axis}") for axis in "xywh"]
    params.coder, _ = coder_params("postprocess", weights, size_limit)
    return byref(params), max(0, params.max_detections)


# Keywords of postprocess_params, without coder, with weights, centerness, size_limit
def postprocess(
    logits: ArrayLike,
    deltas: ArrayLike,
    anchors: ArrayLike,
    image_sizes: Sequence[Sequence[float]],
    level_sizes: Sequence[int] = (),
    detector: str = "retinanet",
    *,
    score_threshold: float | None = None,
    max_candidates: int | None = None,
    iou_threshold: float | None = None,
    max_detections: int | None = None,
    weights: Sequence[float] | None = None,
    centerness: ArrayLike | None = None,
    size_limit: float = SIZE_LIMIT,
    min_size: float | None = None,
    classes: Sequence[int] | None = None,
    class_thresholds: Sequence[float] | None = None,
    class_groups: Sequence[int] | None = None,
) -> list[Detections]:
    """Turns the outputs of a dense detector into detections: boxes, scores and labels per image.
    Options that are not given have the values of torchvision's detector.

    Args:
        logits: [images, anchors, classes]; SSD's with background first. Do not pass probabilities:
            their sigmoids are all between 0.5 and 0.74.
        deltas: [images, anchors, 4].
        anchors: [anchors, 4] corners in pixels, the same for all images.
        image_sizes: (height, width) of each image, to which its boxes are clipped.
        level_sizes: the number of anchors of each level; empty: one level.
        detector: selects the rules for scores and candidates: "retinanet", "fcos", "ssd" or "rpn".
            Default "retinanet".
        score_threshold: in [0, 1]; scores above it count. Default 0.05; torchvision's FCOS: 0.2;
            torchvision's SSD: 0.01; torchvision's RPN in training: 0.
        max_candidates: per level; SSD: per class. Default 1000; torchvision's SSD: 400;
            torchvision's RPN in training: 2000.
        iou_threshold: in [0, 1]. Default 0.5; torchvision's FCOS: 0.6; torchvision's SSD: 0.45;
            torchvision's RPN in training: 0.7.
        max_detections: per image. Default 300; torchvision's FCOS: 100; torchvision's SSD: 200;
            torchvision's RPN in training: 2000.
        min_size: at most 1e35. Boxes with a smaller side are removed; 0 removes none. Default 0;
            torchvision's RPN in training: 1e-3.
        classes: the wanted classes, columns of the logits; None: all. Not for an RPN.
        class_thresholds: a threshold per column of the logits, in [0, 1], instead of
            score_threshold; None: none. SSD's background does not use its own. Not for an RPN.
        class_groups: a group per column of the logits, any integer: boxes of classes with the same
            group suppress each other; None: each class is a group of its own. Not for an RPN.
        centerness: logits [images, anchors]; only for FCOS.

    >>> logits = np.array([[[4.0], [-4.0]]], np.float32)  # one image, two anchors, one class
    >>> anchors = np.array([[0, 0, 10, 10], [5, 5, 15, 15]], np.float32)
    >>> found, = postprocess(logits, np.zeros((1, 2, 4), np.float32), anchors, [(20, 20)])
    >>> found.boxes.tolist(), found.scores.round(3).tolist(), found.labels.tolist()
    ([[0.0, 0.0, 10.0, 10.0]], [0.9819999933242798], [0])
    """
    function = "postprocess"
    choice(dense_detector, function, "detector", detector)
    if centerness is None:
        type_, (logits, deltas) = same_small_floats(function, ("logits", "deltas"),
                                                    (logits, deltas))
    else:
        type_, (logits, deltas, centerness) = same_small_floats(
            function, ("logits", "deltas", "centerness"), (logits, deltas, centerness))
    priors = float32s(function, "anchors", anchors, "[anchors, 4]", 4)
    shape = logits.shape
    if len(shape) != 3 or shape[1] != len(priors):
        raise wrong_shape(function, "logits", logits, f"[images, {len(priors)}, classes]")
    images, count, columns = shape
    if deltas.shape != (images, count, 4):
        raise wrong_shape(function, "deltas", deltas, f"[{images}, {count}, 4]")
    if centerness is not None and centerness.shape != (images, count):
        raise wrong_shape(function, "centerness", centerness, f"[{images}, {count}]")
    if centerness is None and detector == "fcos":
        raise ValueError(f"vecdet.{function}: centerness is None, expected logits of the shape "
                         f"[{images}, {count}], which FCOS has")
    sizes = image_sizes_of(function, image_sizes, images)
    levels, level_count = None, 0
    if type(level_sizes) is not tuple or level_sizes:
        levels, level_count = integers_of(function, "level_sizes", level_sizes)
    if weights is not None:
        weights = numbers_of(function, "weights", weights, 4)
    params, most = _dense_params(detector, weights, size_limit, score_threshold, max_candidates,
                                 iou_threshold, max_detections, min_size,
                                 *class_lists(function, classes, class_thresholds, class_groups))
    total = images * min(most, count * columns)
    found, numbers = empty(total * 5, float32), empty(total + images + 1, int64)
    corners, labels = address(found), address(numbers)
    check(_postprocess(
        type_, address(logits), address(deltas), optional(centerness), images, columns,
        address(priors), count, levels, level_count, sizes, params, None, corners,
        corners + 16 * total, labels, labels + 8 * total), function)
    return _detections(found, numbers, total)


# Keywords of box_head_params, without coder, with weights, size_limit
def postprocess_box_head(
    logits: ArrayLike,
    deltas: ArrayLike,
    proposals: Sequence[ArrayLike],
    image_sizes: Sequence[Sequence[float]],
    *,
    score_threshold: float = 0.05,
    iou_threshold: float = 0.5,
    max_detections: int = 100,
    weights: Sequence[float] = BOX_HEAD_WEIGHTS,
    size_limit: float = SIZE_LIMIT,
    min_size: float = 1e-2,
) -> list[Detections]:
    """Turns the outputs of Faster R-CNN's box head into detections per image.

    Args:
        logits: [proposals of all images, classes], background first.
        deltas: [proposals, classes * 4] or [proposals, classes, 4].
        proposals: corners [N, 4] of each image.
        image_sizes: (height, width) of each image.
        score_threshold: in [0, 1]; scores above it count. Default 0.05.
        iou_threshold: in [0, 1]. Default 0.5.
        max_detections: per image. Default 100.
        min_size: boxes with a smaller side are removed; 0 removes none. Default 1e-2.
    """
    function = "postprocess_box_head"
    type_, (logits, deltas) = same_small_floats(function, ("logits", "deltas"), (logits, deltas))
    parts = [box_rows(function, "proposals", float32s(function, "proposals", part))
             for part in listed(function, "proposals", proposals, "a list of arrays")]
    offsets = offsets_of(parts)
    boxes, _memory = joined(parts)
    count = offsets[-1]
    if logits.ndim != 2 or len(logits) != count:
        raise wrong_shape(function, "logits", logits,
                          f"[{count}, classes], one row per box of proposals")
    classes = logits.shape[1]
    if deltas.shape != (count, classes * 4) and deltas.shape != (count, classes, 4):
        raise wrong_shape(function, "deltas", deltas,
                          f"[{count}, {classes * 4}] or [{count}, {classes}, 4]")
    sizes = image_sizes_of(function, image_sizes, len(parts))
    most = integer(function, "max_detections", max_detections)
    params = _box_head_params(function, score_threshold, iou_threshold, most,
                              coder_params(function, weights, size_limit)[0], min_size)
    total = len(parts) * max(0, min(most, logits.size))
    found, numbers = empty(total * 5, float32), empty(total + len(parts) + 1, int64)
    corners, labels = address(found), address(numbers)
    check(library.vecdet_postprocess_box_head(
        type_, address(logits), address(deltas), classes, boxes, count, integers_packed(*offsets),
        sizes, len(parts), params, None, corners, corners + 16 * total, labels, labels + 8 * total),
        function)
    return _detections(found, numbers, total)


# The presets of each family; models that are not listed have one of these outputs, too.
_PRESETS = {"yolov5": "v5", "yolov7": "v5", "yolox": "v5", "yolov8": "v8", "yolov9": "v8",
            "yolo11": "v8", "yolo12": "v8", "yolov11": "v8", "yolov12": "v8", "yolov10": "v10",
            "yolo26": "v10", "rt-detr": "rt_detr", "yolov8-obb": "v8_obb", "yolo11-obb": "v8_obb",
            "yolo12-obb": "v8_obb", "yolov11-obb": "v8_obb", "yolov12-obb": "v8_obb",
            "yolo26-obb": "v26_obb"}

# The formats of rotated boxes that results may have, with their numbers.
_ROTATED = {"cxcywhr": 5, "xyxyxyxy": 8}

# As in C++: the scores if a detector's last one of 80 is taken for an angle.
_UPRIGHT_COCO_SCORES = 79
# What the numbers of extras are of which vecdet_yolo_likely_extras knows.
_EXTRAS = {1: "rotated boxes", 32: "masks", 51: "key points"}


def _preset_of(model: Any) -> str:
    """The preset of a model's name; an error names the spelling of "yolov8n" and the like."""
    function = "postprocess_yolo"
    if isinstance(model, str) and model not in _PRESETS:
        letters = re.sub("[^a-z0-9]", "", model.lower())
        found = re.match("yolov?(10|11|12|26|5|7|8|9|x)(?![0-9])", letters)
        if found or letters.startswith("rtdetr"):
            version = found[1] if found else ""
            if re.match("yolov?5[nsmlx]?6?u", letters):  # ultralytics' YOLOv5, with YOLOv8's head
                version = "8"
            obb = "-obb" * ("obb" in letters)
            name = next((name for name in _PRESETS if name in (
                f"yolov{version}{obb}", f"yolo{version}{obb}") or not found and name == "rt-detr"),
                        "yolov8-obb")
            raise ValueError(f"vecdet.{function}: model is {model!r}, expected {name!r}, the name "
                             "of all models with this output")
    return tuple(_PRESETS.values())[choice(tuple(_PRESETS), function, "model", model)]


@kept
def _yolo_call(shape: tuple[int, ...], argument: str, model: str, result_format: str | None,
               class_count: int | None, extras: int | None, keypoint_size: int,
               *options: Any) -> Any:
    """What calls with the same shape and options share: the parameters, the greatest number of
    detections of all images, the number of extras or of the numbers of a rotated box, and a warning
    or None."""
    function = "postprocess_yolo"
    params = getattr(library, f"vecdet_postprocess_yolo_params_{_preset_of(model)}")()
    if params.rotated and (result_format is None or
                           isinstance(result_format, str) and result_format in _ROTATED):
        turned = _ROTATED[result_format or "cxcywhr"]
        params.rotated_result_format = rotated_format.index(result_format or "cxcywhr")
    else:
        turned = 0
        formats = (*box_format, *_ROTATED) if params.rotated else box_format
        params.result_format = choice(formats, function, "result_format",
                                      "xyxy" if result_format is None else result_format)
    names = ("score_threshold", "iou_threshold", "max_detections", "max_candidates", "multi_label",
             "class_agnostic", *CLASS_LISTS)
    if not params.suppress:
        for name, value in zip(names, options):
            if value is not None and name in ("iou_threshold", "class_agnostic", "class_groups"):
                raise ValueError(f"vecdet.{function}: {name} is {value!r}, expected None: outputs "
                                 f"of {model!r} need no NMS")
    set_given(function, params, [("extras", extras), ("keypoint_size", keypoint_size),
                                 *zip(names, options)])
    if extras is not None and params.extras < 0:
        raise ValueError(f"vecdet.{function}: extras is {extras}, expected 0 or more, or None")
    if params.rotated and (extras or keypoint_size):
        name, value = ("extras", extras) if extras else ("keypoint_size", keypoint_size)
        raise ValueError(f"vecdet.{function}: {name} is {value!r}, expected none for {model!r}: "
                         "the angle is part of the box")
    count = max(0, params.extras)
    if params.keypoint_size and not count:
        raise ValueError(f"vecdet.{function}: keypoint_size is {keypoint_size}, expected 0 without "
                         "extras=, the number of values after the scores")
    if class_count is not None:
        class_count = integer(function, "class_count", class_count)
        if params.scores != _c.YOLO_SCORE_AND_CLASS and class_count > 0:
            params.class_count = class_count
    _check_yolo_shape(shape, argument, params, class_count, count)
    images, rows, cols = shape
    doubt = None
    if extras is None and class_count is None and params.scores != _c.YOLO_SCORE_AND_CLASS:
        numbers = cols if params.layout == _c.YOLO_ROWS else rows
        found = numbers - 4 - params.scores
        usual = library.vecdet_yolo_likely_extras(found)
        if params.rotated:
            if found - 1 == _UPRIGHT_COCO_SCORES:
                doubt = (f"vecdet.{function}: {argument} has {numbers} numbers per box, as upright "
                         f"boxes of COCO's 80 classes, for which model='yolov8' is right; "
                         f"class_count={found - 1} says that the last number is an angle")
        elif usual and _PRESETS[model] != "rt_detr":
            others = found - usual
            right = f"extras={usual}"
            if usual == 1 and _PRESETS[model] == "v8":
                right = "model='yolov8-obb' (or extras=1, which copies the angles)"
            doubt = (f"vecdet.{function}: {argument} has {numbers} numbers per box, as models with "
                     f"{_EXTRAS[usual]} of {others} class{'es' * (others > 1)}, for which "
                     f"{right} is right; extras=0 or class_count={found} says that it has "
                     f"{found} classes")
    return (byref(params), images * max(0, min(params.max_detections, rows * cols)),
            turned or count, bool(params.rotated), doubt)


def _check_yolo_shape(shape: tuple[int, ...], argument: str, params: Any,
                      class_count: int | None, extras: int) -> None:
    """Refuses a transposed output: it has more numbers per box than boxes."""
    by_rows = params.layout == _c.YOLO_ROWS
    is_scored = params.scores == _c.YOLO_SCORE_AND_CLASS
    if len(shape) == 3:
        boxes, numbers = shape[1:] if by_rows else shape[:0:-1]
        # The objectness, or score and class; the angle.
        found = numbers - 4 - params.scores - extras - params.rotated
        if is_scored:
            is_right = found == 0
        elif class_count is not None:
            is_right = found == class_count
        else:
            is_right = numbers <= boxes or boxes == 0
        if is_right:
            return
    names = ("4 + classes", "5 + classes", "6")[params.scores] + " + extras" * (extras > 0)
    names += " + angle" * params.rotated
    expected = f"[images, boxes, {names}]" if by_rows else f"[images, {names}, boxes]"
    if is_scored and not extras and not params.rotated:
        if len(shape) == 3 and shape[2] == 7:
            expected += "; 7 are those of rotated boxes, model='yolo26-obb'"
        expected += ", or 6 + extras with extras="
    if len(shape) == 3 and not is_scored:
        expected += (", and more boxes than numbers per box: is it transposed? If not, pass "
                     "class_count=" if class_count is None else f" with class_count={class_count}")
        if class_count is not None and not extras and not params.rotated:
            expected += "; pass extras= if other values follow the scores"
    raise shape_error("postprocess_yolo", argument, shape, expected)


def _matrix_of(argument: MaybeQuantised) -> bytes:
    images, rows, cols = argument.array.shape
    return argument.matrix(images * rows, cols)


def _joined_shape(model: str, output: Any, boxes: Any) -> tuple[int, ...]:
    """The shape of an output whose coordinates are in an array of their own."""
    if output.ndim != 3:
        raise wrong_shape("postprocess_yolo", "output", output, "three dimensions")
    images, rows, cols = output.shape
    by_rows = not _preset_of(model).startswith("v8")
    expected = (images, rows, 4) if by_rows else (images, 4, cols)
    if boxes.shape != expected:
        raise wrong_shape("postprocess_yolo", "boxes", boxes, str(list(expected)))
    return (images, rows, cols + 4) if by_rows else (images, rows + 4, cols)


def _prototypes_of(masks: Any, extras: Any, result_format: Any, transforms: Any,
                   input_size: Any) -> Any:
    """The prototypes, after checks of what they require of other arguments."""
    function = "postprocess_yolo"
    maps = small_floats(function, "masks", masks)
    if maps.ndim != 4:
        raise wrong_shape(function, "masks", maps, "[images, prototypes, height, width]")
    if extras is not None and integer(function, "extras", extras) != maps.shape[1]:
        raise ValueError(said(function, "extras", extras) + f", expected {maps.shape[1]}, the "
                         "number of prototypes in masks")
    if result_format is not None and result_format != "xyxy":
        raise ValueError(
            said(function, "result_format", result_format) + ", expected 'xyxy' with masks")
    if (transforms is None) == (input_size is None):
        raise ValueError(
            said(function, "input_size", input_size) + ", expected "
            + ("the (height, width) of the network's input, because there are masks and no "
               "transforms" if input_size is None else "None with transforms"))
    return maps


# Keywords of postprocess_yolo_params,
# without layout, scores, model_format, normalised, suppress, extras, class_count, rotated,
# rotated_result_format, with boxes, masks, mask_rule, mask_pixels, input_size
def postprocess_yolo(
    output: ArrayLike | Quantised,
    model: str,
    transforms: Sequence[Sequence[float]] | None = None,
    *,
    boxes: ArrayLike | Quantised | None = None,
    score_threshold: float | None = None,
    iou_threshold: float | None = None,
    max_detections: int | None = None,
    max_candidates: int | None = None,
    multi_label: bool | None = None,
    class_agnostic: bool | None = None,
    result_format: str | None = None,
    class_count: int | None = None,
    extras: int | None = None,
    classes: Sequence[int] | None = None,
    class_thresholds: Sequence[float] | None = None,
    class_groups: Sequence[int] | None = None,
    keypoint_size: int = 0,
    masks: ArrayLike | None = None,
    mask_rule: str = "native",
    mask_pixels: str = "bits",
    input_size: Sequence[int] | None = None,
) -> list[YoloDetections]:
    """Turns the raw output of a YOLO model into detections per image. Options that are not given
    have the values of ultralytics' predictor.

    Args:
        output: float32 or bfloat16 (float64 and float16 are converted to float32), or Quantised,
            except for models that give a class per box, because its index is no quantised number.
            Scores are probabilities, as models export them.
        model: one of

            ======================================== ===========================================
            ``"yolov5"``, ``"yolov7"``, ``"yolox"``  [images, boxes, 5 + classes]: cx cy w h,
                                                     objectness, scores
            ``"yolov8"``, ``"yolov9"``,              [images, 4 + classes, boxes]: cx cy w h,
            ``"yolo11"``, ``"yolo12"``,              scores
            ``"yolov11"``, ``"yolov12"``
            ``"yolov10"``, ``"yolo26"``              [images, boxes, 6]: x1 y1 x2 y2, score, class;
                                                     end to end, no NMS
            ``"rt-detr"``                            [images, boxes, 4 + classes]: cx cy w h in
                                                     [0, 1], scores; no NMS
            ``"yolov8-obb"``, ``"yolo11-obb"``,      [images, 4 + classes + 1, boxes]: cx cy w h,
            ``"yolo12-obb"``, ``"yolov11-obb"``,     scores, angle; NMS by ProbIoU as in ultralytics
            ``"yolov12-obb"``                        (prob_iou_nms)
            ``"yolo26-obb"``                         [images, boxes, 7]: cx cy w h, score, class,
                                                     angle; end to end, no NMS
            ======================================== ===========================================
        transforms: from letterbox(), one per image: boxes and key points are moved back into the
            image's pixels and clipped to it. None: they stay in the input's pixels.
        result_format: format of the detections: "xyxy" (two corners), "xywh" (top left corner,
            width and height, as in COCO's files) or "cxcywh" (centre, width and height, as in SSD's
            priors). Default "xyxy". Rotated boxes: "cxcywhr" (centre, width, height and angle, in
            radians, clockwise, in [0, pi / 2]), which is their default, "xyxyxyxy" (four corners),
            or the enclosing upright box in one of the formats above. They are not clipped.
        score_threshold: in [0, 1]; scores above it count. Default 0.25. It is applied before
            anything is decoded.
        multi_label: one detection per class above the threshold, not only the best one. An error if
            a box has one score and its class. Default False.
        class_agnostic: boxes of different classes suppress each other, too. Default False. An error
            for models without NMS.
        iou_threshold: in [0, 1]. NMS removes a box if its IoU with a better one is above it.
            Default 0.7; YOLOv5 and YOLOX: 0.45. An error for models without NMS.
        max_candidates: per image: only the best go to NMS. Default 30000.
        max_detections: per image. Default 300.
        classes: the wanted classes; None: all. Without multi_label, a box whose best class of all
            is not wanted gives no detection.
        class_thresholds: a threshold per class, in [0, 1], instead of score_threshold; None: none.
            Without multi_label, the best class of a box is chosen before its threshold is applied.
        class_groups: a group per class, any integer: boxes of classes with the same group suppress
            each other; None: each class is a group of its own.
        keypoint_size: 0: extras are copied. 2 or 3: they are key points, x y or x y visibility, in
            the input's pixels. Default 0.
        boxes: the coordinates, if the model gives them as an array of their own, [images, 4, boxes]
            or [images, boxes, 4]. ``output`` then has all numbers after the coordinates. Either may
            be Quantised.
        class_count: the number of classes of the model. It is only needed if there are fewer boxes
            than numbers per box; else such an output is refused as transposed.
        extras: the number of values after the scores: 32 for masks, 51 for poses, 1 for an angle
            that is to be copied. None: there are none, and an objectness or scores outside [0, 1]
            are an error. With ``masks``, None is the number of prototypes.
        masks: the prototypes of a model for segmentation, [images, P, height, width] of float32 or
            bfloat16. Results have the masks of masks_from_prototypes(), with the extras as
            coefficients. Boxes and masks are in the pixels of the images, or without transforms in
            those of the network's input. Transforms are those of a centred letterbox that the image
            fills in one direction.
        mask_rule: as in masks_from_prototypes(). With transforms, it is "native". Default "native".
        mask_pixels: as in masks_from_prototypes(): "bits" or "bytes". Default "bits".
        input_size: (height, width) of the network's input. For masks without transforms only.

    Raises:
        ValueError: a shape that does not fit the model, detections with scores above 1 (logits),
            without ``extras`` any scores outside [0, 1] that are read, a threshold outside [0, 1],
            or an option of NMS for a model without it.
        TypeError: an output of integers that is not Quantised, or a number for ``classes``.

    Warns:
        UserWarning: neither ``extras`` nor ``class_count`` is given, and there are 16, 33, 52 or
            112 scores per box, which probably are those of a model with extras, or 79 scores of a
            model of rotated boxes, which probably are a detector's of upright ones.

    >>> output = np.zeros((1, 4 + 2, 8400), np.float32)  # YOLOv8 with two classes
    >>> output[0, :, 7] = 100, 50, 20, 10, 0.1, 0.9
    >>> found, = postprocess_yolo(output, "yolov8")
    >>> found.boxes.tolist(), found.labels.tolist(), found.sources.tolist()
    ([[90.0, 45.0, 110.0, 55.0]], [1], [7])
    """
    function = "postprocess_yolo"
    coordinates = matrix = maps = None
    if masks is not None:
        maps = _prototypes_of(masks, extras, result_format, transforms, input_size)
        extras = maps.shape[1]
    elif input_size is not None:
        raise ValueError(said(function, "input_size", input_size) + ", expected None without masks")
    argument = "output"
    if maps is not None or boxes is not None or is_quantised(function, "output", output):
        matrix = MaybeQuantised(function, "output", output)
        array = matrix.array
        shape = array.shape
        if boxes is not None:
            coordinates = MaybeQuantised(function, "boxes", boxes)
            argument = "(boxes and output)"
            shape = _joined_shape(model, array, coordinates.array)
    else:
        array = small_floats(function, "output", output)
        shape = array.shape
    if isinstance(classes, (int, float)) or getattr(classes, "ndim", 1) == 0:
        raise TypeError(f"vecdet.{function}: classes is {classes!r}, expected a list of the wanted "
                        "classes; the number of classes is class_count=")
    params, total, count, is_rotated, doubt = _yolo_call(
        shape, argument, model, result_format, class_count, extras, keypoint_size, score_threshold,
        iou_threshold, max_detections, max_candidates, multi_label, class_agnostic,
        *class_lists(function, classes, class_thresholds, class_groups))
    images, rows, cols = shape
    if maps is not None and len(maps) != images:
        raise wrong_shape(function, "masks", maps,
                          f"[{images}, {maps.shape[1]}, height, width], as the output has images")
    positions = None
    if transforms is not None:
        positions = packed_rows(transforms, 6, "d")
        if positions is None or len(positions) != 48 * images:
            array_of_all = doubles(function, "transforms", transforms)
            if array_of_all.shape != (images, 6):
                raise wrong_shape(function, "transforms", array_of_all,
                                  f"[{images}, 6]: one LetterboxTransform per image")
            positions = array_of_all.tobytes()
    floats = result(function, "extras", extras, total * (5 + count), float32)
    numbers = empty(2 * total + images + 1, int64)
    corners, labels = address(floats), address(numbers)
    outputs = (corners, corners + 16 * total, labels, labels + 8 * total,
               corners + 20 * total if count else None, labels + 16 * total)
    if matrix is None:
        check(_postprocess_yolo(TYPES[array.dtype], address(array), images * rows, cols, cols,
                                images, positions, params, None, *outputs), function)
    else:
        matrices = None if coordinates is None else _matrix_of(coordinates), _matrix_of(matrix)
        if maps is None:
            check(_postprocess_yolo_of_matrices(*matrices, images, positions, params, None,
                                                *outputs), function)
        else:
            size = None if input_size is None else byref(
                _c.grid_size(*pair(function, "input_size", input_size, integer)))
            kind = _mask_params(function, choice(mask_rules, function, "mask_rule", mask_rule),
                                choice(mask_kinds, function, "mask_pixels", mask_pixels))
            made = _c.masks()
            check(_postprocess_yolo_masks(
                *matrices, TYPES[maps.dtype], address(maps), images, *maps.shape[1:], positions,
                size, params, kind, masks_workspace().address, *outputs, byref(made)), function)
    found = _yolo_detections(floats, numbers, total, count)
    if maps is not None:
        found = _with_masks(found, copied_masks(made))
    if is_rotated and count:
        found = [image._replace(boxes=image.extras, extras=_NO_EXTRAS[:len(image.boxes)])
                 for image in found]
    for image in found:
        if len(image[1]) and image[1].item(0) > _MOST_SCORE:
            raise ValueError(f"vecdet.{function}: output has a score of {image.scores[0]}, "
                             "expected probabilities, not logits")
    if doubt is not None:
        warnings.warn(doubt, stacklevel=2)
    return found


# Keywords of postprocess_detr_params
def postprocess_detr(
    logits: ArrayLike | Quantised,
    boxes: ArrayLike | Quantised,
    image_sizes: Sequence[Sequence[float]],
    *,
    softmax: bool = False,
    score_threshold: float = 0.5,
    max_detections: int = 300,
    result_format: str = "xyxy",
    classes: Sequence[int] | None = None,
    class_thresholds: Sequence[float] | None = None,
) -> list[YoloDetections]:
    """Turns the raw output of a DETR into detections per image, without NMS.

    Args:
        logits: [images, queries, classes]. Do not pass probabilities: their sigmoids are all at
            least 0.5.
        boxes: [images, queries, 4]: cx cy w h in fractions of the image. Either array may be
            Quantised.
        image_sizes: (height, width) of each image.
        softmax: softmax, whose last column is "no object", instead of sigmoid. Default False. DETR
            has softmax; RT-DETR, DINO and Deformable DETR have sigmoids.
        score_threshold: in [0, 1]; scores above it count. Default 0.5.
        max_detections: per image. Default 300.
        result_format: the meaning of a box's four numbers: "xyxy" (two corners), "xywh" (top left
            corner, width and height, as in COCO's files) or "cxcywh" (centre, width and height, as
            in SSD's priors). Default "xyxy".
        classes: the wanted classes; None: all. With softmax, a query whose best class is not wanted
            gives no detection.
        class_thresholds: a threshold per class, in [0, 1], instead of score_threshold; None: none.
            Softmax's "no object" has none.

    >>> logits = np.array([[[-5.0, 5.0], [-5.0, -5.0]]], np.float32)
    >>> boxes = np.array([[[0.5, 0.5, 0.5, 0.5], [0.1, 0.1, 0.1, 0.1]]], np.float32)
    >>> found, = postprocess_detr(logits, boxes, [(100, 200)])
    >>> found.boxes.tolist(), found.labels.tolist()
    ([[50.0, 25.0, 150.0, 75.0]], [1])
    """
    function = "postprocess_detr"
    matrices = None
    if is_quantised(function, "logits", logits) or is_quantised(function, "boxes", boxes):
        matrices = (MaybeQuantised(function, "logits", logits),
                    MaybeQuantised(function, "boxes", boxes))
        logits, centres = (matrix.array for matrix in matrices)
    else:
        type_, (logits, centres) = same_small_floats(function, ("logits", "boxes"),
                                                     (logits, boxes))
    if logits.ndim != 3:
        raise wrong_shape(function, "logits", logits, "[images, queries, classes]")
    images, queries, columns = logits.shape
    if centres.shape != (images, queries, 4):
        raise wrong_shape(function, "boxes", centres, f"[{images}, {queries}, 4]")
    sizes = image_sizes_of(function, image_sizes, images)
    most = integer(function, "max_detections", max_detections)
    classes, class_thresholds, _ = class_lists(function, classes, class_thresholds)
    params = _detr_params(
        function, softmax, score_threshold, max_detections,
        choice(box_format, function, "result_format", result_format), classes, class_thresholds)
    total = images * max(0, min(most, queries * columns))
    floats, numbers = empty(total * 5, float32), empty(2 * total + images + 1, int64)
    corners, labels = address(floats), address(numbers)
    outputs = (corners, corners + 16 * total, labels, labels + 8 * total, labels + 16 * total)
    if matrices is None:
        status = _postprocess_detr(type_, address(logits), address(centres), images, queries,
                                   columns, sizes, params, None, *outputs)
    else:
        status = _postprocess_detr_of_matrices(*map(_matrix_of, matrices), images, sizes, params,
                                               None, *outputs)
    check(status, function)
    return _yolo_detections(floats, numbers, total, 0)


@kept
def _letterbox_params(*values: Any) -> Any:
    """The fields before the mean, its length, and the numbers of the mean and the deviation."""
    fields, (count, *numbers) = values[:5], values[5:]
    return byref(filled("letterbox", _c.letterbox_params, (
        *fields, tuple(numbers[:count]), tuple(numbers[count:]))))


# Keywords of letterbox_params, with out
def letterbox(
    images: Sequence[ArrayLike],
    input_size: Sequence[int],
    *,
    swap_channels: bool = True,
    centred: bool = True,
    upscale: bool = True,
    fill: float = 114.0,
    scale: float = 1 / 255.0,
    mean: Sequence[float] = (0, 0, 0),
    deviation: Sequence[float] = (1, 1, 1),
    out: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.float32], list[LetterboxTransform]]:
    """Converts images to the input of a network in one pass: resized to fit, padded, scaled and
    normalised. Pixels are those of OpenCV's INTER_LINEAR.

    Args:
        images: arrays of uint8 [height, width, 3], as cv2.imread returns them.
        input_size: (height, width) of the input.
        swap_channels: swaps the first and last channel: converts BGR images, as OpenCV reads them,
            to RGB, or RGB to BGR. Default True.
        centred: if False, the image is in the upper left corner. Default True. YOLOX has False, and
            also needs ``swap_channels=False, scale=1``.
        upscale: if False, images smaller than the input keep their size. Default True.
        fill: pixel value of the padding. Default 114.
        scale: input = (pixel * scale - mean) / deviation. Default 1 / 255.
        mean, deviation: per channel of the input. Defaults (0, 0, 0), (1, 1, 1).
        out: memory for the batch, [images, 3, height, width] of float32, to reuse.

    Returns:
        The batch, and one transform per image for postprocess_yolo().

    >>> batch, transforms = letterbox([np.zeros((20, 40, 3), np.uint8)], (64, 64))
    >>> batch.shape, transforms[0].scale_x, transforms[0].pad_y
    ((1, 3, 64, 64), 1.6, 16.0)
    """
    function = "letterbox"
    if isinstance(images, np.ndarray) and images.ndim == 3:
        raise wrong_shape(function, "images", images, "a list of images")
    arrays: list[Any] = []
    views = []
    for image in listed(function, "images", images, "a list of images"):
        if image is None:
            raise TypeError(f"vecdet.{function}: images[{len(arrays)}] is None, expected an array "
                            "of uint8 [height, width, 3]; cv2.imread returns None for files that "
                            "it cannot read")
        array = as_array(function, "images", image)
        if array.dtype != uint8:
            raise wrong_type(function, f"images[{len(arrays)}]", image, array, "uint8")
        if array.ndim != 3 or array.shape[2] != 3:
            raise wrong_shape(function, f"images[{len(arrays)}]", array, "[height, width, 3]")
        rows, columns, _ = array.shape
        stride, *steps = array.strides
        if steps != [3, 1] or stride < 3 * columns:
            array, stride = np.ascontiguousarray(array), 3 * columns
        arrays.append(array)  # to which the views point
        views.append(_pack_image(address(array), rows, columns, stride))
    height, width = pair(function, "input_size", input_size, integer)
    if height < 0 or width < 0:
        raise ValueError(f"vecdet.{function}: input_size is {height, width}, expected 0 or more")
    shape = (len(arrays), 3, height, width)
    if out is None:
        out = result(function, "input_size", input_size, shape, float32)
    else:
        check_out(function, out, shape, float32)
    means = listed(function, "mean", mean, "3 numbers")
    params = _letterbox_params(swap_channels, centred, upscale, fill, scale, len(means), *means,
                               *listed(function, "deviation", deviation, "3 numbers"))
    made = empty((len(arrays), 6), float64)
    check(_letterbox(b"".join(views), len(arrays), _c.grid_size(height, width), params, None,
                     address(out), address(made)), function)
    return out, [named(LetterboxTransform, row) for row in made.tolist()]
