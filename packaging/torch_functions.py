# SPDX-License-Identifier: Apache-2.0
"""Writes python/vecdet/torch/_functions.py: functions on tensors that call an operator and have the
signature and the documentation of the function on arrays of the same name. FUNCTIONS lists them and
says what differs. c_interface.py runs this module.

A function passes its arguments to the operator under their names. Enumerators become numbers,
lists of tensors with one per image are joined, sizes of levels and of images become a flat list,
and detections are split by images."""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import re
import textwrap

import layout
import python_keywords
import torch_operators
from declarations import Enum, Struct


@dataclasses.dataclass
class Function:
    operator: str = ""  # its name if that is not the function's
    source: str = ""  # the function on arrays if its name differs
    # What the operator gets for an argument of another name: a parameter, an expression, or
    # nothing, which is its default.
    given: dict[str, str] = dataclasses.field(default_factory=dict)
    without: tuple[str, ...] = ()  # parameters that only the function on arrays has
    defaults: dict[str, str] = dataclasses.field(default_factory=dict)  # that differ
    result: str = ""  # its annotation if it differs
    has_keywords_only: bool = True  # as on arrays; False: parameters are positional, too
    edits: dict[str, str] = dataclasses.field(default_factory=dict)  # of the documentation
    errors: str = ""  # when RuntimeError is raised, if the documentation says so


_PREDICTIONS = {"logits": "inputs"}
_CLASS_LISTS = ("classes", "class_thresholds", "class_groups")
_PAIRS = {"a": "boxes1", "b": "boxes2"}
_IOU_LOSS = {"predicted": "boxes1", "targets": "boxes2", "epsilon": "eps", "scale": "",
             "box_weights": ""}
_IN_FLOAT32 = {", in float32: one loss per row, or a number; the mean":
               ": one loss per row, or a number, computed in float32; the result has the logits' "
               "type. The mean"}
_IN_BOXES1 = {"The mean of no boxes": "Differentiable in ``boxes1``. The mean of no boxes"}

FUNCTIONS: dict[str, Function] = {
    "match_anchors": Function(edits={", or an AnchorIndex of them": "",
                                     " Integers are converted.": ""}),
    "assign_atss": Function(),
    "assign_fcos": Function(),
    "assign_task_aligned": Function(),
    "assign_rotated_task_aligned": Function(),
    "assign_sim_ota": Function(
        given={"strides": "[float(stride) for stride in strides]"},
        edits={" ``count_foreground(matches)`` is the number of assigned points.": ""}),
    "match_queries": Function(edits={"[layers, groups, M]": "int64 [layers, groups, M]"}),
    "assign_least_cost": Function(),
    "set_loss": Function(source="set_loss_and_grad", result="Tensor", edits={
        ", and the gradients of their sum, in one call.":
        ", in one call. Differentiable in ``logits`` and ``boxes``, once.",
        "[layers, groups, M], as match_queries returns it, or a list with [groups, M] per layer:":
        "one tensor per layer, [groups, M]:",
        "The losses [layers, 3]": "float32 [layers, 3]",
        "; the gradients with respect to ``logits`` and ``boxes``, in their form": ""}),
    "nms": Function(without=("overlap",), edits={
        "in descending score.": "in descending score. The indices equal torchvision's."}),
    "batched_nms": Function(given={"classes": "idxs"}, without=("overlap", *_CLASS_LISTS), edits={
        "integers of any value, or floats without a fraction, as a column of predictions has them":
        "numbers of any type"}),
    "rotated_nms": Function(given={"classes": "idxs"}, without=_CLASS_LISTS),
    "prob_iou_nms": Function(given={"classes": "idxs"}, without=_CLASS_LISTS),
    "soft_nms": Function(given={"classes": "idxs", "decay": "method", "score_floor": "min_score"}),
    "quality_focal_loss": Function(
        given=_PREDICTIONS, errors="different shapes, a label out of range, a negative beta."),
    "varifocal_loss": Function(
        given=_PREDICTIONS, source="varifocal_loss_and_grad", defaults={"reduction": '"none"'},
        result="Tensor",
        edits={"The sum or mean of varifocal_loss, and its gradient with respect to ``inputs``.":
               "Varifocal loss, https://arxiv.org/abs/2008.13367; otherwise like "
               "quality_focal_loss."}),
    "bce_loss": Function(given=_PREDICTIONS),
    "distribution_focal_loss": Function(given=_PREDICTIONS, edits=_IN_FLOAT32),
    "softmax_cross_entropy_loss": Function(given=_PREDICTIONS, edits=_IN_FLOAT32),
    "smooth_l1_loss": Function(given={"predictions": "input", "targets": "target"},
                               errors="different shapes, or a negative beta."),
    "generalized_box_iou_loss": Function(
        "iou_loss", given={**_IOU_LOSS, "kind": 'OVERLAPS["giou"]'}, edits=_IN_BOXES1,
        errors="different shapes."),
    "distance_box_iou_loss": Function("iou_loss", given={**_IOU_LOSS, "kind": 'OVERLAPS["diou"]'}),
    "prob_iou_loss": Function(given={"predicted": "boxes1", "targets": "boxes2"},
                              has_keywords_only=False, edits=_IN_BOXES1,
                              errors="different shapes."),
    "regression_loss": Function(given={"epsilon": "eps"},
                                errors="different shapes, or a match out of range."),
    "encode_boxes": Function(given={"targets": "boxes"}, without=("anchor_format",)),
    "encode_distances": Function(given={"targets": "boxes"}),
    "decode_distances": Function(defaults={"image_size": "()"}),
    "decode_distributions": Function(edits={" float32.": ""}),
    "decode_distribution_boxes": Function(edits={
        "[N, 4], float32": "[..., 4], float32", "[N, 4, bins]": "[..., 4, bins]",
        "[N, 2]": "[..., 2]", "[N].": "[...]."}),
    "postprocess_box_head": Function(edits={
        "detections per image.": "detections: boxes, scores and labels of each image, like "
        "torchvision's postprocess_detections.",
        "[proposals of all images, classes], background first": "[K, classes]; class 0 is "
        "background", "[proposals, classes * 4] or [proposals, classes, 4]": "[K, classes x 4]",
        "corners [N, 4] of each image": "corners [K, 4] of one image, or a list with one tensor "
        "per image"}),
    "roi_align": Function(
        given={"features": "input"}, errors="different shapes, an image index out of range, boxes "
        "that require a gradient.", edits={
            "https://arxiv.org/abs/1703.06870: the features of each box, pooled to "
            "``output_size``: [K, channels, height, width].": "https://arxiv.org/abs/1703.06870, "
            "differentiable in ``input``. The result, [K, C, height, width], has the type of "
            "``input``; bfloat16 is summed in float32.",
            "features [N, channels, H, W].": "features [N, C, H, W], contiguous or channels_last; "
            "neither is copied, and result and gradient have the same layout.",
            "an image index and corners": "an image index and x1, y1, x2, y2 in pixels",
            "the corners [L, 4] of each image.": "the boxes [L, 4] of each image. Any "
            "floating-point type."}),
    "multiscale_roi_align": Function(given={"canonical_size": "canonical_scale"}, edits={
        "is pooled from the level that matches its size, as in torchvision's MultiScaleRoIAlign.":
        "is pooled from the level for its size, by equation 1 of https://arxiv.org/abs/1612.03144, "
        "as in torchvision's MultiScaleRoIAlign. Results are in the order of the boxes.",
        "[N, channels, H, W] per level": "levels [N, C, H, W]",
        "locations per pixel of each level, powers of two.": "locations per pixel, one per level, "
        "each half of the previous one."}),
    "grouped_conv3x3": Function(
        errors="shapes that do not fit each other, other types, groups or strides, or forward "
        "mode.", edits={
            "groups of channels, in float32.": "groups of channels, differentiable in its tensors, "
            "any number of times, in float32. Autocast does not apply.",
            "[N, input channels, H, W].": "[N, input channels, H, W] of float32, contiguous or "
            "channels_last: neither is copied, and result and gradient have the same layout."}),
    "deformable_attention": Function(
        given={"level_points": "list(level_points or ())"}, errors="shapes that differ.", edits={
            "sums samples of the feature maps at its points.":
            "sums samples of the feature maps at its points. Differentiable in value, points and "
            "weights, once.",
            "(height, width) of each level.": "(height, width) of each level: a tensor "
            "[levels, 2], or pairs, which are faster: a tensor is copied to a list."}),
    "filter_topk": Function(without=("kind",), edits={
        "float32 or bfloat16 of any shape; float64 is rounded to float32. Quantised logits are "
        "compared as integers, and the results are dequantised.": "of any shape."}),
    "rotated_box_iou": Function("pairwise_rotated_iou", given=_PAIRS),
    "elementwise_rotated_iou": Function(given=_PAIRS),
    "pairwise_prob_iou": Function(given=_PAIRS),
    "elementwise_prob_iou": Function(given=_PAIRS, edits={
        "ultralytics' probiou.": "ultralytics' probiou. It has no gradient."}),
    "rotated_box_convert": Function("convert_rotated_boxes",
                                    given={"from": "in_fmt", "to": "out_fmt"}),
    "rotated_box_area": Function("rotated_box_areas", edits={
        "``boxes`` [N, 5].": "``boxes`` [N, 5]; float32 for bfloat16 and float16."}),
}

HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
"""Functions with the parameters and the documentation of those on arrays.

Generated by packaging/torch_functions.py from the modules of the NumPy package."""

from __future__ import annotations

from typing import Sequence

from torch import Tensor

from .._boxes import BOX_HEAD_WEIGHTS, SIZE_LIMIT, WEIGHTS
from ._library import ops as _ops
'''


def _unparsed(annotation: ast.expr | None) -> str:
    assert annotation  # mypy asks for one everywhere
    return ast.unparse(annotation)


def _annotation(text: str, kind: str) -> str:
    """An annotation for tensors. `kind` is what Any stands for."""
    text = re.sub(r"ArrayLike|NDArray\[[\w.]+\]", "Tensor", text)
    text = re.sub(r" \| (AnchorIndex|Quantised)", "", text)
    text = text.replace("list[Detections]", "list[tuple[Tensor, Tensor, Tensor]]")
    return re.sub(r"\bAny\b", kind, text)


def _documentation(row: Function, text: str, names: list[str]) -> str:
    """The docstring for tensors, without examples. `names` are the parameters that are names."""
    text = text.partition("\n\n>>>")[0].partition("\n\nRaises:")[0]  # which differ
    for old, new in row.edits.items():
        pattern = r"\s+".join(map(re.escape, old.split(" ")))
        text, count = re.subn(pattern, lambda _: new, text)
        if count != 1:
            raise SystemExit(f"torch_functions.py: {old!r} stands {count} times in the "
                             "documentation, expected once")
    text = re.sub(r"\b([aA])n array\b", r"\1 tensor", text)
    text = re.sub(r"\barray(s?)\b", r"tensor\1", text)
    text = re.sub(r"\bor\s+a\s+number\b", "or a scalar", text)
    if row.errors:
        unknown = " or ".join(f"``{name}``" for name in names)
        text += ("\n\nRaises:\n" + f"    ValueError: an unknown {unknown}.\n" * bool(names)
                 + f"    RuntimeError: {row.errors}")
    written = []
    for k, part in enumerate(re.split(r"\n\n", text)):
        title, _, body = part.partition("\n")
        if title in ("Args:", "Raises:"):
            entries = [_entry(own, row.without) for own in
                       python_keywords.entries_of(textwrap.indent(body, "    "))]
            laid_out = map(python_keywords.laid_out, filter(None, entries))
            written.append("\n".join(["    " + title, *laid_out]))
        elif title == "Returns:":
            written.append("    Returns:\n" + _filled(body, " " * 8))
        else:
            written.append(_filled('"""' * (k == 0) + part, " " * 4))
    lines = "\n\n".join(written)
    has_room = len(written) == 1 and len(lines.split("\n")[-1]) <= 97
    return lines + ('"""' if has_room else '\n    """')


def _entry(text: str, without: tuple[str, ...]) -> str:
    """An entry of Args for the parameters that the function has; empty if there is none."""
    names, _, rest = text.partition(":")
    kept = [name for name in names.split(", ") if name not in without]
    return f"{', '.join(kept)}:{rest}" if kept else ""


def _filled(text: str, indent: str) -> str:
    return textwrap.fill(re.sub(r"\s+", " ", text).strip(), 100, initial_indent=indent,
                         subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


# What converts arguments to the operators' form.
_CONVERTED = {"level_sizes": "flat_sizes", "image_sizes": "sizes_of", "output_size": "number_pair"}


class Written:
    """A function on tensors, and the names of the package that it needs."""

    def __init__(self, name: str, sources: dict[str, tuple[str, ast.FunctionDef]],
                 operator: torch_operators.Function):
        self.name, self.row, self.operator = name, FUNCTIONS[name], operator
        self.needs: set[str] = set()
        self.names: list[str] = []  # the parameters that are names of enumerators
        self.used: set[str] = set()  # the parameters that the operator gets
        text, source = sources[self.row.source or name]
        given = source.args
        defaults = [None] * (len(given.args) - len(given.defaults)) + given.defaults
        self.parameters = [
            (own.arg, _unparsed(own.annotation), value and ast.get_source_segment(text, value))
            for own, value in [*zip(given.args, defaults),
                               *zip(given.kwonlyargs, given.kw_defaults)]
            if own.arg not in self.row.without]
        self.keywords = [own.arg for own in given.kwonlyargs]
        self.counts = next((own.name for own in operator.arguments
                            if own.name in ("box_counts", "proposal_counts")), "")
        self.lists = {self.given(own.name) for own in operator.arguments
                      if own.type == "at::TensorList"}
        self.per_image = [own for own, annotation, _ in self.parameters
                          if self.counts and own not in self.lists
                          and re.match(r"Any|Sequence\[ArrayLike\]", annotation)]
        self.result = self.row.result or _unparsed(source.returns)
        self.text = ast.get_docstring(source) or ""

    def given(self, argument: str) -> str:
        return self.row.given.get(argument, argument)

    def signature(self) -> str:
        listed = []
        for name, annotation, value in self.parameters:
            kind = "PerLayer" if name in self.lists else "PerImage"
            of = "PerImage" if name in self.per_image else _annotation(annotation, kind)
            default = self.row.defaults.get(name, value)
            if name in self.row.defaults:
                of = of.removesuffix(" | None")
            if kind == "PerImage" and default == "None" and not of.endswith("None"):
                of += " | None"
            if kind in of:
                self.needs.add(kind)
            if name in self.keywords and "*" not in listed and self.row.has_keywords_only:
                listed.append("*")
            listed.append(f"{name}: {of}" + f" = {default}" * bool(default))
        result = _annotation(self.result, "Tensor").replace("float", "Tensor")
        line = f"def {self.name}({', '.join(listed)}) -> {result}:"
        if len(line) <= 100:
            return line
        return "\n".join([f"def {self.name}(", *(f"    {own}," for own in listed),
                          f") -> {result}:"])

    def body(self) -> str:
        lines = []
        lists = [name for name in self.per_image[1:] if name != "classes"]
        if len(lists) > 1:
            raise SystemExit(f"torch_functions.py: {self.name} has several lists with a tensor per "
                             f"image, {', '.join(lists)}, expected at most one besides "
                             f"{self.per_image[0]} and classes")
        for name in self.per_image:
            is_first = name == self.per_image[0]
            counts = self.counts if is_first else "_" if name == "classes" else "region_counts"
            join = "joined" if is_first else "joined_if_any"
            self.needs.add(join)
            lines.append(layout.call(f"    all_{name}, {counts} = {join}(",
                                     [f'"{self.name}"', f'"{name}"', name]))
        values = [self.value(own) for own in self.operator.arguments]
        for name, _, _ in self.parameters:
            if name not in self.used:
                raise SystemExit(f"torch_functions.py: {self.name} has a parameter {name}, which "
                                 f"{self.operator.operator.name} has not: given names an argument "
                                 "for it, or without leaves it out")
        while values and not values[-1]:
            values.pop()  # it has a default
        head = f"_ops.{self.operator.operator.name}("
        if "Detections" in self.result:
            self.needs.add("split_detections")
            head, values[-1] = f"split_detections(*{head}", values[-1] + ")"
        return "\n".join([*lines, layout.call(f"    return {head}", values)])

    def value(self, argument: torch_operators.Argument) -> str:
        """What the operator gets for an argument."""
        name = self.given(argument.name)
        self.used |= set(re.findall(r"\w+", name))
        if name in self.per_image:
            return f"all_{name}"
        if name in (self.counts, "region_counts"):
            return name
        if convert := _CONVERTED.get(name):
            self.needs.add(convert)
            return f"{convert}({name})"
        if argument.type == "at::TensorList":
            self.needs.add("layers")
            return f"layers({name})"
        if argument.name in self.row.given and not name.isidentifier():
            self.needs |= {"OVERLAPS"} & set(re.findall(r"\w+", name))
            return name
        if name not in [own for own, _, _ in self.parameters]:
            raise SystemExit(f"torch_functions.py: {self.name} has no parameter {name}, which "
                             f"{self.operator.operator.name} needs")
        table = ("REDUCTIONS" if argument.type == "loss_reduction"
                 else python_keywords.NUMBERS.get(argument.type))
        if not table:
            if argument.type in self.operator.enums:
                raise SystemExit(f"torch_functions.py: {self.name} passes {name}, a "
                                 f"{argument.type}, for which python_keywords.NUMBERS has no table")
            return name
        self.needs |= {table, "number"}
        self.names.append(name)
        return f'number({table}, "{name}", {name})'

    def code(self) -> str:
        signature, body = self.signature(), self.body()
        text = _documentation(self.row, self.text, self.names)
        return f"{signature}\n{text}\n{body}\n"


def written(modules: dict[pathlib.Path, str], structs: dict[str, Struct],
            enums: dict[str, Enum]) -> str:
    """The text of _functions.py, from those of the NumPy package's modules."""
    sources = {}
    for text in modules.values():
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                sources[node.name] = text, node
    operators = torch_operators.public(structs, enums)
    functions = [Written(name, sources, operators[row.operator or name])
                 for name, row in FUNCTIONS.items()]
    code = [function.code() for function in functions]
    needs = set().union(*(function.needs for function in functions))
    return (HEAD + layout.imported("._names", needs) + "\n\n" + layout.exported(FUNCTIONS)
            + "\n\n" + "\n\n".join(code))
