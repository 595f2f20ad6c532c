# SPDX-License-Identifier: Apache-2.0
"""Names that stand for numbers in the operators."""

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
OVERLAPS = {"iou": 0, "giou": 1, "diou": 2, "ciou": 3}
BOX_LOSSES = {"smooth_l1": 0, "giou": 1, "diou": 2, "ciou": 3}
DECAYS = {"hard": 0, "linear": 1, "gaussian": 2}
DETECTORS = {"retinanet": 0, "fcos": 1, "ssd": 2}


def number(names: dict, argument: str, name: str) -> int:
    if name not in names:
        raise ValueError(f"Invalid value for argument '{argument}': '{name}'. "
                         f"Supported: {', '.join(names)}")
    return names[name]
