# SPDX-License-Identifier: Apache-2.0
"""Every function of the catalogue of calls is in docs/functions.md. It has a function in Python that
is in docs/numpy.md and bench/bench_numpy.py, or is listed below.

    names.py <vecdet_c_coverage> <libvecdet>
"""
import pathlib
import re
import subprocess
import sys

import support  # noqa: F401 (skips without NumPy)
import vecdet

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import bench_numpy  # noqa: E402 (of the folder above)

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


def stem(name):
    """The function whose variant this is; pages say of which variants there are."""
    return re.sub("_(unreduced|and_grad)$", "", name)


def words(path):
    return set(re.findall(r"\w+", (ROOT / path).read_text()))


def failures(functions):
    listed, numpy_page = words("docs/functions.md"), words("docs/numpy.md")
    timed = {call.split(",")[0] for call in bench_numpy.problems()}
    for function in functions:
        if not {function, stem(function)} & listed:
            yield f"{function} is not in docs/functions.md"
        if function in WITHOUT:
            continue
        name = function.removesuffix("_unreduced")  # reduction="none" in Python
        for own in RENAMED.get(name, [name]):
            if not hasattr(vecdet, own):
                yield f"{function} has no function vecdet.{own}, and no reason in names.py"
            if not {own, stem(own)} & numpy_page:
                yield f"{own} is not in docs/numpy.md"
            if own not in timed:
                yield f"{own} is not in bench/bench_numpy.py"
    for function in {*RENAMED, *WITHOUT} - set(functions):
        yield f"{function}, named in names.py, is not in the catalogue"


_, coverage, library = sys.argv
catalogue = subprocess.run([coverage, library, "--list"], check=True, capture_output=True,
                           text=True).stdout.split()
found = list(failures(catalogue))
print(*found, f"{len(catalogue)} functions, {len(found)} failures", sep="\n")
sys.exit(bool(found) or len(catalogue) < 40)
