# SPDX-License-Identifier: Apache-2.0
"""Every function of the catalogue of calls is in docs/functions.md and CHANGELOG.md. It has a
function in Python that is in docs/numpy.md, bench/bench_numpy.py and a test of this folder, and an
operator in PyTorch, which a function of vecdet.torch calls. Those that have none are listed below.

    names.py <vecdet_c_coverage> <libvecdet>
"""
import pathlib
import re
import subprocess
import sys

import support  # noqa: F401 (skips without NumPy)
import vecdet

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "packaging")]
import bench_numpy  # noqa: E402 (of the folder above)
import torch_operators  # noqa: E402

KINDS = "generalized", "distance", "complete"
# The names in Python of functions that have others there.
RENAMED = {
    "pairwise_iou": ["box_iou", *(f"{kind}_box_iou" for kind in KINDS)],
    "iou_loss": [f"{kind}_box_iou_loss" for kind in KINDS],
    "iou_loss_and_grad": [f"{kind}_box_iou_loss_and_grad" for kind in KINDS],
    "convert_boxes": ["box_convert"], "clip_boxes": ["clip_boxes_to_image"],
    "box_areas": ["box_area"], "large_boxes": ["remove_small_boxes"], "conv3x3": ["Conv3x3"],
    "pairwise_rotated_iou": ["rotated_box_iou"], "convert_rotated_boxes": ["rotated_box_convert"],
    "rotated_box_areas": ["rotated_box_area"],
}
HEADS = "reads the levels of a head in place, for trainers in C++"
TRAINED = "NumPy trains no networks"
# The functions that have none in Python, with the reason.
WITHOUT = {
    "retinanet_loss_and_grad": HEADS, "fcos_loss_and_grad": HEADS, "ssd_loss_and_grad": HEADS,
    "batch_norm": TRAINED, "batch_norm_grad": TRAINED,
    "batch_norm_inference": "NumPy runs no networks",
    "max_pool": "NumPy runs no networks", "max_pool_grad": TRAINED,
    "grouped_conv3x3_input_grad": TRAINED, "grouped_conv3x3_weight_grad": TRAINED,
    "conv3x3_input_grad": TRAINED, "conv3x3_weight_grad": TRAINED,
    "multiscale_roi_align_grad": TRAINED,
    "sigmoid_focal_loss_grad": "sigmoid_focal_loss_and_grad computes the gradient",
    "large_box_mask": "remove_small_boxes returns indices, as in torchvision",
    "join_boxes": "NumPy slices columns", "split_boxes": "NumPy slices columns",
    "join_detections": "NumPy slices columns", "split_detections": "NumPy slices columns",
}
MASKS = "reads and writes masks in NumPy's memory"
# The functions that are no operators of PyTorch, with the reason. backward() computes gradients.
WITHOUT_OPERATOR = {
    "conv3x3": "its operator is written by hand, in convolution_operators.cpp",
    "fcos_loss_and_grad": HEADS, "ssd_loss_and_grad": HEADS,
    "count_foreground": "PyTorch counts", "make_anchors": "models make anchors once",
    "make_points": "models make anchors once", "pyramid_levels": "multiscale_roi_align has it",
    "large_box_mask": "remove_small_boxes returns indices, as in torchvision",
    "join_boxes": "PyTorch slices columns", "split_boxes": "PyTorch slices columns",
    "join_detections": "PyTorch slices columns", "split_detections": "PyTorch slices columns",
    "ctc_beams": "returns texts", "ctc_greedy": "returns texts",
    "letterbox": "reads pictures in NumPy's memory",
    "postprocess_detr": "is for models that run without PyTorch",
    "postprocess_yolo": "is for models that run without PyTorch",
    "merge_boxes": "is for pictures in slices, which run without PyTorch",
    **dict.fromkeys(["encode_masks", "decode_masks", "group_masks", "mask_areas", "mask_boxes",
                     "mask_iou", "mask_nms", "mask_polygons", "merge_masks",
                     "run_lengths_from_boxes", "run_lengths_from_polygons",
                     "run_lengths_from_strings", "run_lengths_to_strings"], MASKS),
}
# The operators that no function of vecdet.torch calls, with the reason.
NOT_CALLED = {"elementwise_iou": "torchvision has no such function"}


def stem(name):
    """The function whose variant this is; pages say of which variants there are."""
    return re.sub("_(unreduced|and_grad)$", "", name)


def words(path):
    return set(re.findall(r"\w+", (ROOT / path).read_text()))


def failures(functions):
    listed, changes = words("docs/functions.md"), words("CHANGELOG.md")
    numpy_page = words("docs/numpy.md")
    tested = set().union(*map(words, FOLDER.glob("test_*.py")))
    timed = {call.split(",")[0] for call in bench_numpy.problems()}
    operators = {own.name for _, rows in torch_operators.FAMILIES.values() for own in rows}
    for function in functions:
        either = {function, stem(function)}
        if not either & listed:
            yield f"{function} is not in docs/functions.md"
        if not either & changes:
            yield f"{function} is not in CHANGELOG.md"
        if not (either & {*operators, *WITHOUT_OPERATOR} or re.search("(?<!_and)_grad$", function)):
            yield f"{function} has no row in torch_operators.py, and no reason in names.py"
        if function in WITHOUT:
            continue
        name = function.removesuffix("_unreduced")  # reduction="none" in Python
        for own in RENAMED.get(name, [name]):
            if not hasattr(vecdet, own):
                yield f"{function} has no function vecdet.{own}, and no reason in names.py"
            if not {own, stem(own)} & numpy_page:
                yield f"{own} is not in docs/numpy.md"
            if not {own, stem(own)} & tested:
                yield f"{own} is in no test of test/python"
            if own not in timed:
                yield f"{own} is not in bench/bench_numpy.py"
    called = "".join(path.read_text() for path in (ROOT / "python/vecdet/torch").glob("_*.py"))
    for operator in operators:
        if not (re.search(rf"\b_ops\.{operator}\b", called) or operator in NOT_CALLED):
            yield (f"{operator}, an operator, has no row in torch_functions.py, no function in "
                   "python/vecdet/torch, and no reason in names.py")
    for function in {*RENAMED, *WITHOUT, *WITHOUT_OPERATOR} - {*functions, *map(stem, functions)}:
        yield f"{function}, named in names.py, is not in the catalogue"
    for function in NOT_CALLED.keys() - operators:
        yield f"{function}, named in names.py, is no operator"


_, coverage, library = sys.argv
catalogue = subprocess.run([coverage, library, "--list"], check=True, capture_output=True,
                           text=True).stdout.split()
found = list(dict.fromkeys(failures(catalogue)))  # forms of a loss share names in Python
print(*found, f"{len(catalogue)} functions, {len(found)} failures", sep="\n")
sys.exit(bool(found) or len(catalogue) < 40)
