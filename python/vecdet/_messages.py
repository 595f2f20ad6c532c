# SPDX-License-Identifier: Apache-2.0
"""Messages of errors: `vecdet.<function>: <argument> is <value>, expected <expected>`. Nothing here
runs in a call that succeeds."""

from __future__ import annotations

import re
from typing import Any


def found(function: str, argument: str, value: Any) -> str:
    """The first half of a message: the function, the argument and its value."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # integers of more than 4300 digits have no repr()
        text = f"a {type(value).__name__}"
    return f"vecdet.{function}: {argument} is {text if len(text) < 100 else text[:97] + '...'}"


_LOSSES = r"(?!set_)\w+_loss(_and_grad)?$"
# Functions of run lengths that name the argument `masks`, where the library says `runs`.
_OF_MASKS = r"mask_(areas|boxes)|sahi\.merge_predictions"

# What the library says of an argument, and the same of the argument in Python. The function is that
# of Python; the first pair that matches counts. Other names lose their structs.
_SAID: Any = [(re.compile(function), re.compile(pattern), text) for function, pattern, text in (
    ("", r"params\.(?:coder\.)?weight_([xywh]) is", lambda m: f"weights[{'xywh'.index(m[1])}] is"),
    ("(?!match_queries)", r"params\.epsilon is", "eps is"),
    ("(batched|rotated|prob_iou|mask)_nms", r"groups\.classes\[(\d+)\] is", r"idxs[\1] is"),
    ("(batched|rotated|prob_iou|mask)_nms", r"groups\.classes\.size\(\) is .*", "idxs is None"),
    ("soft_nms", r"params\.score_floor is", "min_score is"),
    ("set_loss", r"params\.boxes is", "num_boxes is"),
    ("set_loss", r"layers\[(\d+)\]\.matches\[(\d+)\] is (.*)",
     r"matches[\1] has the query \3 at position \2"),
    ("match_queries|set_loss", r"layers\[(\d+)\]\.(?:outputs\.)?logits\.cols\(\) is",
     r"logits[\1].shape[2] is"),
    ("match_queries|set_loss", r"truth\.classes\.size\(\) is .*", "classes is None"),
    ("roi_align_grad", r"upstream\.(images|channels)\(\) is",
     lambda m: f"grad.shape[{int(m[1] == 'channels')}] is"),
    ("roi_align$", "the number of images is", "input.shape[0] is"),
    ("roi_align_grad", "the number of images is", "input_shape[0] is"),
    ("multiscale", "the number of images is", "features[0].shape[0] is"),
    ("multiscale", "the number of levels is (.*)", r"features has \1 levels"),
    ("multiscale", r"features\[(\d+)\]\.images\(\) is", r"features[\1].shape[0] is"),
    ("multiscale", r"features\[(\d+)\]\.channels\(\) is", r"features[\1].shape[1] is"),
    ("multiscale", r"the scale of level (\d+) is", r"scales[\1] is"),
    ("roi_align|multiscale", r"boxes\.images\[(\d+)\] is (.*)", r"boxes[\1] has the image \2"),
    ("pyramid", "the number of levels is", "levels is"),
    ("pyramid", "the scale of level 0 is", "scale is"),
    ("", "canonical_size is", "canonical_scale is"),
    (".*[Cc]onv3x3", r"weights\.height\(\) is", "weight.shape[2] is"),
    (".*[Cc]onv3x3", r"weights\.width\(\) is", "weight.shape[3] is"),
    ("grouped_conv3x3", r"(weight|input)s?\.(images|channels)\(\) is",
     lambda m: f"{m[1]}.shape[{int(m[2] == 'channels')}] is"),
    ("Conv3x3", "input's number of channels is", "input.shape[1] is"),
    ("clip_boxes", r"image\.(height|width) is (.*)", r"size has the \1 \2"),
    ("", r"images?(?:\[(\d+)\])?\.(height|width) is (.*)", r"image_size has the \2 \3"),
    ("LetterboxTransform", "(image|input) is", r"\1_size is"),
    ("letterbox", r"input\.(height|width) is (.*)", r"input_size has the \1 \2"),
    ("letterbox", r"(images\[\d+\]) is (.*)", r"\1 has a side of \2 pixels"),
    (".*masks|run_lengths_from", r"sizes\[(\d+)\] is (.*)",
     r"size has a side of \2 pixels for image \1"),
    ("run_lengths_from_polygons", r"points\[\d+\] is (.*)", r"polygons has the coordinate \1"),
    ("run_lengths_from_polygons", r"the number of points of polygon\[(\d+)\] is (.*)",
     r"polygons[\1] has \2 points"),
    (_OF_MASKS, r"the sum of the counts of runs(\[\d+\]) is (.*)",
     r"masks\1 has the sum of counts \2"),
    (_OF_MASKS, r"runs(\..*)", r"masks\1"),
    ("", r"the number of bytes of (\w+\[\d+\]) is (.*)", r"\1 has the number of bytes \2"),
    ("", r"the sum of the counts of (\w+\[\d+\]) is (.*)", r"\1 has the sum of counts \2"),
    ("run_lengths_from_strings", r"the count at strings\.text\[(\d+)\] is (.*)",
     r"strings has the count \2 at character \1"),
    ("run_lengths_from_strings", r"strings\.text\[(\d+)\] is (.*)",
     r"strings has text \2 at character \1"),
    ("run_lengths_from_strings", r"strings\.text is (.*)", r"strings has text \1"),
    (".*masks", r"image_offsets\.size\(\) is 0", "image_offsets is None"),
    (".*masks", r"sizes\.size\(\) is (.*)", r"size has \1 pictures"),
    ("make", r"features\[(\d+)\]\.(height|width) is (.*)", r"level_sizes[\1] has the \2 \3"),
    ("make", r"features\[(\d+)\] is", r"level_sizes[\1] is"),
    ("make", r"features\.size\(\) is (.*)", r"level_sizes has \1 levels"),
    ("make", r"shapes\[(\d+)\]\.(sizes|ratios)\[(\d+)\] is (.*)",
     lambda m: f"shapes[{m[1]}] has the {m[2][:-1]} {m[4]}"),
    ("assign", r"levels\[(\d+)\] is", r"level_sizes[\1] is"),
    ("assign", r"(\w+\[\d+\]) is at (.+), (.+)",
     lambda m: f"{m[1]} is at {float(m[2]):g}, {float(m[3]):g}"),
    ("assign_least_cost", r"costs\((\d+), (\d+)\) is", r"costs[\1, \2] is"),
    ("postprocess$", "the sum of level_sizes is (.*)", r"level_sizes has the sum \1"),
    ("postprocess_yolo",
     r"(number \d+ of box \d+ of image \d+) of outputs\.boxes_and_scores is (.*)",
     r"output is \2 at \1"),
    ("postprocess_yolo",
     r"(number \d+ of box \d+ of image \d+) of outputs\.boxes and scores is (.*)",
     r"(boxes and output) is \2 at \1"),
    ("postprocess_yolo", r"outputs\.(boxes_and_scores|scores) is", "output is"),
    ("postprocess_yolo", r"mask_params\.rule is (\w+)", r"mask_rule is '\1'"),
    ("postprocess_yolo", r"params\.normalised is true", "model is 'rt-detr'"),
    ("postprocess_yolo", r"transforms\[(\d+)\]\.size\.(\w+) is", r"transforms[\1].\2 is"),
    ("postprocess_yolo", r"outputs\.boxes_and_scores\.cols\(\) is", "output.shape[2] is"),
    ("postprocess_yolo", r"outputs\.boxes_and_scores\.rows\(\) / outputs\.images is",
     "output.shape[1] is"),
    ("postprocess_yolo", "boxes of an image is", "output.shape[1] x output.shape[2] is"),
    ("profile.write", 'unknown format of "(.*)"', lambda m: f"path is {m[1]!r}"),
    ("set_isa", "set is", "name is"),
    ("rotated_box_convert", "from is", "in_fmt is"),
    ("rotated_box_convert", "to is", "out_fmt is"),
    ("ctc", r"targets\.classes\[(\d+)\] is (.*)", r"targets has \2 at position \1"),
    ("ctc", r"targets\.classes\.size\(\) is (.*)", r"targets has \1 labels"),
    ("ctc", r"targets\.lengths\[(\d+)\] is", r"target_lengths[\1] is"),
    ("ctc", r"logits\.classes\(\) is", "inputs.shape[-1] is"),
    (_LOSSES, r"logits\.cols\(\) is", "inputs.shape[-1] is"),
    (_LOSSES, r"(?:logits|inputs)(\W.*)", r"inputs\1"),
)]
_STRUCTS = re.compile(r"\b(?:params\.coder|params|truth|outputs|mining|predictions)\.")
_DIMENSIONS = {"rows": 0, "size": 0, "cols": -1}
_TEXT = re.compile(r"vecdet::[\w:]+?: (.*?)(?:, expected (.*))?", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{15,}(?:e[+-]\d+)?(?!\w)")  # all digits of a double


def of_library(function: str, text: str) -> str:
    """A message of the library as the function's user knows its name and arguments."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return f"vecdet.{function}: {text.replace('vecdet: ', '', 1)}"
    said, expected = match.groups()
    for functions, pattern, replacement in _SAID:
        if functions.match(function) and pattern.match(said):
            said = pattern.sub(replacement, said, 1)
            break
    said = re.sub(r"\.(rows|size|cols)\(\)", lambda m: f".shape[{_DIMENSIONS[m[1]]}]",
                  _STRUCTS.sub("", said))
    message = said if expected is None else f"{said}, expected {_STRUCTS.sub('', expected)}"
    message = message.replace("v8_obb()", "'yolov8-obb'").replace(
        "v26_obb()", "'yolo26-obb'").replace(
        "the high threshold", "high_threshold").replace(
        "the image's", "image_size's").replace("the logits' steps", "the steps of inputs")
    return f"vecdet.{function}: " + _NUMBER.sub(lambda m: repr(float(m[0])), message)
