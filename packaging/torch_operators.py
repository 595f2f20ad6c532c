# SPDX-License-Identifier: Apache-2.0
"""Writes operators of PyTorch from the functions that compute them, in namespace cpu of
include/vecdet/impl/torch, and the structs of parameters in the public headers. A function takes its
parameters as a struct; the operator has one argument for each field. Written are, per family:

    include/vecdet/torch/generated/F.hpp        the public declarations, with defaults and comments
    include/vecdet/torch/generated/F.cpp        their definitions and the operators, with schemas
    include/vecdet/impl/torch/generated/F.hpp   what converts between arguments and structs, if a
                                                function takes a struct
    include/vecdet/torch/stable/generated/F.cpp  the same operators on PyTorch's stable ABI, for
                                                which the Python package adds gradients and autocast

Written is also python/vecdet/torch/_table.py, what the package must know of the operators there.

The comment before a function in namespace cpu, or before that in namespace differentiable, becomes
the comment of the declaration, followed by those of the fields. Fields that are views or structs,
and the reduction, are no arguments: the function takes tensors and lists for them. Tensors that may
be omitted and lists have a default if only arguments with defaults follow. c_interface.py runs this
module."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import textwrap

import layout
from declarations import INCLUDE, Enum, Field, Struct, one_line, split

TORCH = INCLUDE / "impl/torch"


@dataclasses.dataclass
class Operator:
    """An operator, computed by the function of the same name in namespace cpu."""
    name: str
    autocast: tuple[int, ...] | None = ()  # the arguments that stay bfloat16; None: no autocast
    # The shapes and the types of the results, in one of two forms. "like own" has names of
    # result_shapes.hpp, for one result whose shape and type follow from the first tensors.
    # "[sizes] type, type" has one result of these sizes for each type. A size is an integer
    # argument, the size x[0] of a tensor or the length len(x) of a list; len(x)? is left out if the
    # list is empty. The types are int64 and float32.
    # The size kept depends on the data. A row that has it is read by Python only, and may also have
    # several parts, "[sizes] type; [sizes] type", numbers as sizes, x[0] + 1 for one more than a
    # size, and other types: torch's, "own" for that of the first tensor, and "promoted" for that to
    # which the first two are promoted.
    result: str = ""
    has_shapes: bool = True  # without a result: a function in namespace meta gives the shapes
    is_differentiable: bool = False  # namespace differentiable has the public function
    # Of the operator that computes the gradient: its function in namespaces cpu and meta, and the
    # schema.
    gradient: tuple[str, str] | None = None
    is_computed: bool = True  # differentiable: the function calls an operator of its own
    loss: str = ""  # the shape of unreduced losses: loss_operator.hpp makes the operators of a loss
    preset: str = ""  # of the struct; it has the defaults
    nested: tuple[str, ...] = ()  # fields of fields that are arguments, too
    renamed: dict[str, str] = dataclasses.field(default_factory=dict)  # fields
    without: tuple[str, ...] = ()  # fields that are no arguments
    flags: dict[str, str] = dataclasses.field(default_factory=dict)  # fields given as bool: true is
    order: str = ""  # of all arguments, if the fields do not stand together in their order
    required: tuple[str, ...] = ()  # lists without a default
    defaults: dict[str, str] = dataclasses.field(default_factory=dict)  # that differ
    in_schema: dict[str, str] = dataclasses.field(default_factory=dict)  # names that differ there


def declared(header: str, names: str) -> dict[str, str]:
    """The defaults of parameters that are not in a struct X_params, from a public header."""
    text = (INCLUDE / header).read_text()
    found = dict(re.findall(r"\bindex_t (\w+) = (-?\d+)", text))
    return {name: found[name] for name in names.split()}


_MATCHES = "[len(box_counts)?, anchors[0]] int64"
_MASKS = "[boxes[0], 4] int64; [boxes[0] + 1] int64; [kept] uint8"
_TARGETS = "[len(box_counts)?, points[0]] int64, float32"

FAMILIES: dict[str, tuple[list[str], list[Operator]]] = {
    "queries": (["queries.hpp", "set_loss_gradient.hpp"], [
        Operator("match_queries", autocast=(0, 1),
                 result="[len(logits), groups, targets[0]] int64"),
        Operator("assign_least_cost", autocast=(0,), result="[costs[0]] int64"),
        Operator("set_loss", autocast=None, is_differentiable=True, renamed={"boxes": "num_boxes"}),
    ]),
    "assignment": (["assignment.hpp"], [
        Operator("match_anchors", renamed={"empty": "empty_iou_is_zero"},
                 result=_MATCHES + ", int64, float32", flags={"empty": "zero"},
                 order="anchors boxes classes box_counts high_threshold low_threshold "
                       "allow_low_quality force_best skip_untouched empty_iou_is_zero regions "
                       "region_counts region_threshold ignore_matched background ignore"),
        Operator("assign_atss", result=_MATCHES, order=(
            "anchors level_sizes boxes box_counts candidates region_threshold regions "
            "region_counts")),
        Operator("assign_fcos", result=_MATCHES, order=(
            "anchors level_sizes boxes box_counts radius region_threshold regions region_counts")),
        Operator("assign_task_aligned", result=_TARGETS, order=(
            "scores predicted points level_sizes boxes classes box_counts top alpha beta "
            "least_side grown_side final_top regions region_counts")),
        Operator("assign_rotated_task_aligned", result=_TARGETS, order=(
            "scores predicted points level_sizes boxes classes box_counts angles top alpha beta "
            "least_side grown_side final_top regions region_counts")),
        Operator("assign_sim_ota", result=_TARGETS, order=(
            "logits objectness predicted points level_sizes strides boxes classes box_counts "
            "candidates radius iou_weight regions region_counts")),
    ]),
    "class_losses": (["class_losses.hpp", "loss_tensors.hpp"], [
        Operator("sigmoid_focal_loss", loss="matrix", order=(
            "logits targets alpha gamma reduction scale row_weights background ignore")),
        Operator("quality_focal_loss", loss="matrix", order=(
            "logits labels scores beta reduction scale row_weights background ignore")),
        Operator("varifocal_loss", loss="matrix", order=(
            "logits labels scores alpha gamma grad_through_factor reduction scale row_weights "
            "background ignore")),
        Operator("bce_loss", loss="matrix", order=(
            "logits labels scores reduction scale row_weights background ignore")),
    ]),
    "softmax_losses": (["softmax_losses.hpp", "loss_tensors.hpp"], [
        Operator("distribution_focal_loss", loss="rows"),
        Operator("decode_distributions", result="rows own"),
        Operator("decode_distribution_boxes", result="rows float32"),
        Operator("softmax_cross_entropy_loss", loss="rows"),
        Operator("mined_cross_entropy_loss", loss="rows",
                 defaults=declared("softmax_cross_entropy.hpp",
                                   "negatives_per_foreground background")),
    ]),
    "ctc_loss": (["ctc_loss.hpp", "loss_tensors.hpp"], [
        Operator("ctc_loss", loss="samples", order=(
            "logits targets input_lengths target_lengths blank reduction zero_infinity scale "
            "sample_weights")),
    ]),
    "box_losses": (["box_losses.hpp", "rotated_losses.hpp", "loss_tensors.hpp"], [
        Operator("smooth_l1_loss", loss="elements", order=(
            "predictions targets beta reduction labels scale box_weights background ignore"),
                 defaults=declared("box_selection.hpp", "background ignore")),
        Operator("iou_loss", loss="rows", order=(
            "predicted targets kind reduction epsilon scale box_weights")),
        Operator("prob_iou_loss", loss="rows", order=(
            "predicted targets angles reduction scale box_weights")),
        Operator("regression_loss", loss="elements", nested=("coder.size_limit",), order=(
            "deltas anchors targets matches labels loss beta epsilon weights size_limit scale "
            "box_weights background ignore"),
                 defaults=declared("box_selection.hpp", "background ignore")),
    ]),
    "head_losses": (["head_losses.hpp"], [
        Operator("sigmoid_focal_loss_levels", loss="matrix", order=(
            "logits labels alpha gamma scale image_scales background ignore")),
        Operator("retinanet_loss", loss="matrix", nested=(
            "matcher.high_threshold", "matcher.low_threshold", "matcher.allow_low_quality",
            "matcher.coder.size_limit"), order=(
            "logits deltas anchors boxes classes box_counts high_threshold low_threshold "
            "allow_low_quality alpha gamma loss beta weights size_limit scale regions "
            "region_counts")),
    ]),
    "boxes": (["boxes.hpp", "box_formats.hpp", "rotated_boxes.hpp", "prob_iou.hpp"], [
        Operator("encode_boxes", result="like promoted"),
        Operator("decode_boxes", result="like decoded", autocast=(0,), without=(
            "weight_x", "weight_y", "weight_w", "weight_h", "clamp", "anchors")),
        Operator("encode_distances", result="like promoted", without=("anchors",)),
        Operator("decode_distances", result="like decoded", autocast=(0,), without=("anchors",)),
        Operator("pairwise_iou", result="pairs promoted", without=("empty",)),
        Operator("elementwise_iou", result="rows promoted", without=("empty",)),
        Operator("convert_boxes", result="like own", autocast=None,
                 in_schema={"from": "in_fmt", "to": "out_fmt"}),
        Operator("clip_boxes", result="like own", autocast=None, required=("image_size",)),
        Operator("box_areas", result="rows wide", autocast=None),
        Operator("large_boxes", result="[kept] int64", autocast=None),
        Operator("pairwise_rotated_iou", result="pairs promoted"),
        Operator("elementwise_rotated_iou", result="rows promoted"),
        Operator("pairwise_prob_iou", result="pairs promoted"),
        Operator("elementwise_prob_iou", result="rows promoted"),
        Operator("convert_rotated_boxes", autocast=None,
                 in_schema={"from": "in_fmt", "to": "out_fmt"}),
        Operator("rotated_box_areas", result="rows wide", autocast=None),
    ]),
    # The number of the results' boxes depends on the data, so shapes are not known. The Python
    # package registers functions for torch.compile.
    "detections": (["detections.hpp", "rotated_nms.hpp"], [
        Operator("nms", result="[kept] int64"),
        Operator("batched_nms", result="[kept] int64"),
        Operator("rotated_nms", result="[kept] int64"),
        Operator("prob_iou_nms", result="[kept] int64"),
        Operator("soft_nms", result="[kept] int64; [kept] promoted", renamed={"method": "decay"},
                 without=("plus_one",)),
        Operator("filter_topk", result="[kept] own; [kept] int64", autocast=(0,)),
        Operator("postprocess", autocast=(0, 1, 11), has_shapes=False,
                 renamed={"detector": "kind"}, nested=("coder.size_limit",), order=(
                     "logits deltas anchors image_sizes level_sizes kind score_threshold "
                     "max_candidates iou_threshold max_detections weights centerness size_limit "
                     "min_size classes class_thresholds class_groups"), required=("image_sizes",)),
    ]),
    "two_stage": (["two_stage.hpp", "detections.hpp"], [
        # Outputs of heads keep their type under autocast: they are computed in float32.
        Operator("rpn_postprocess", autocast=None, has_shapes=False, preset="rpn",
                 renamed={"max_detections": "max_proposals"}, without=("detector",),
                 nested=("coder.size_limit",), order=(
                     "logits deltas anchors image_sizes max_candidates iou_threshold max_proposals "
                     "score_threshold weights size_limit min_size"), required=("image_sizes",)),
        Operator("postprocess_box_head", autocast=None, has_shapes=False,
                 nested=("coder.size_limit",), order=(
                     "logits deltas proposals proposal_counts image_sizes score_threshold "
                     "iou_threshold max_detections weights size_limit min_size"),
                 required=("proposal_counts", "image_sizes")),
        Operator("sample_balanced", autocast=None, has_shapes=False),
    ]),
    # Sizes are lists of integers, which have no default in the schema.
    "masks": (["masks.hpp"], [
        Operator("masks_from_prototypes", result=_MASKS, autocast=(0,), required=("sizes",)),
        Operator("paste_masks", result=_MASKS, autocast=(0,), required=("sizes",)),
        Operator("paste_soft_masks", autocast=(0,), required=("size",)),
    ]),
    "attention": (["deformable_attention.hpp", "deformable_attention_gradient.hpp"], [
        Operator("deformable_attention", autocast=None, is_differentiable=True, gradient=(
            "deformable_attention_grad",
            "_deformable_attention_grad(Tensor upstream, Tensor value, int[] level_sizes, "
            "Tensor points, Tensor weights, int[] level_points, bool needs_value, "
            "bool needs_points, bool needs_weights) -> (Tensor, Tensor, Tensor)")),
    ]),
    "pooling": (["max_pool.hpp", "max_pool_gradient.hpp"], [
        Operator("max_pool", is_differentiable=True, gradient=("max_pool_grad_of_list", (
            "_max_pool_grad(Tensor upstream, Tensor positions, int height, int width, "
            "int[] params, bool channels_last) -> Tensor"))),
    ]),
    "grouped_convolution": (["grouped_conv3x3.hpp", "grouped_conv3x3_gradient.hpp"], [
        Operator("grouped_conv3x3", autocast=None, is_differentiable=True, gradient=(
            "grouped_conv3x3_grad",
            "_grouped_conv3x3_grad(Tensor upstream, Tensor input, Tensor weight, int groups, "
            "int stride, bool needs_input, bool needs_weight, bool needs_bias) -> "
            "(Tensor, Tensor, Tensor)")),
    ]),
    "normalization": (["batch_norm.hpp", "batch_norm_gradient.hpp"], [
        Operator("batch_norm", is_differentiable=True, gradient=("flat_batch_norm_grad", (
            "_batch_norm_grad(Tensor upstream, Tensor input, Tensor? weight, Tensor? bias, "
            "Tensor statistics, float epsilon, int activation, bool needs_weight, "
            "bool needs_bias) -> (Tensor, Tensor, Tensor)"))),
        Operator("batch_norm_inference", autocast=None),
    ]),
    "roi_align": (["roi_align.hpp", "roi_align_gradient.hpp"], [
        Operator("roi_align", is_differentiable=True, is_computed=False, without=("add_to_grad",),
                 required=("output_size",), defaults={"sampling_ratio": "-1"}),
        Operator("multiscale_roi_align", is_differentiable=True, without=("add_to_grad",), order=(
            "features boxes output_size scales sampling_ratio aligned box_counts canonical_size "
            "canonical_level"), required=("output_size", "scales"), gradient=(
                "multiscale_roi_align_grad",
                "_multiscale_roi_align_grad(Tensor upstream, Tensor boxes, SymInt[] sizes, "
                "float[] scales, int sampling_ratio, bool aligned, int[] box_counts, "
                "float canonical_size, int canonical_level, bool channels_last) -> Tensor[]")),
    ]),
}

# Types of arguments: in the schema, and in the public declaration.
TYPES = {"const at::Tensor&": ("Tensor", "const at::Tensor&"),
         "const optional_tensor&": ("Tensor?", "const at::Tensor&"),
         "at::TensorList": ("Tensor[]", "at::TensorList"),
         "at::IntArrayRef": ("int[]", "at::IntArrayRef"),
         "at::ArrayRef<double>": ("float[]", "at::ArrayRef<double>"),
         "double": ("float", "double"), "bool": ("bool", "bool"),
         "std::int64_t": ("int", "std::int64_t"), "loss_reduction": ("int", "std::int64_t")}
# Their defaults: in the schema, and in the public declaration.
DEFAULTS = {"const optional_tensor&": ("None", "{}"), "at::IntArrayRef": ("[]", "{}"),
            "at::ArrayRef<double>": ("[]", "{}"), "loss_reduction": ("0", "at::Reduction::None")}
RESULTS = {"at::Tensor": "Tensor", "std::vector<at::Tensor>": "Tensor[]"}
FIELDS = {"index_t": "std::int64_t", "std::uint64_t": "std::int64_t"}


@dataclasses.dataclass
class Argument:
    type: str  # of the function in namespace cpu
    name: str
    field: Field | None = None
    flag: str = ""  # the enumerator that true is


class Function:
    """A function that computes an operator."""

    def __init__(self, operator: Operator, namespace: str, text: str, structs: dict[str, Struct],
                 enums: dict[str, Enum]):
        self.operator, self.structs, self.enums = operator, structs, enums
        inside = "".join(re.findall(rf"^namespace {namespace} \{{(.*?)^\}}  // namespace "
                                    rf"{namespace}$", text, re.M | re.S))
        found = re.search(rf"((?:^//[^\n]*\n)*)^inline ([\w:<>, ]+?)\s{operator.name}\((.*?)\) \{{",
                          inside, re.M | re.S)
        if not found:
            raise SystemExit(f"no function {operator.name} in namespace {namespace}")
        self.comment = "".join(line + "\n" for line in found[1].splitlines() if "///" in line)
        self.result = found[2]
        if own := re.search(rf"using {self.result} =\s(.*?);", text, re.S):
            self.result = one_line(own[1])
        self.given: list[Argument] = []
        self.struct: Struct | None = None
        arguments: list[Argument] = []
        for part in split(one_line(found[3])):
            of, _, name = part.rpartition(" ")
            name = name.removesuffix("_")
            if struct := re.fullmatch(r"const (\w+_params)&", of):
                self.struct = structs[struct[1]]
                self.given.append(Argument(of, "params"))
                arguments += self.fields()
            else:
                if of not in TYPES and of not in enums:
                    raise SystemExit(f"{operator.name}: {name} has an unknown type: {of}")
                self.given.append(Argument(of, name))
                arguments.append(self.given[-1])
        self.hidden: list[Argument] = []  # not of the public operator
        if operator.loss:
            arguments, self.hidden = arguments[:-2], arguments[-2:]
        if operator.order:
            names = operator.order.split()
            if sorted(names) != sorted(own.name for own in arguments):
                raise SystemExit(f"{operator.name}: order does not list the arguments")
            arguments.sort(key=lambda own: names.index(own.name))
        self.arguments = arguments

    def fields(self) -> list[Argument]:
        operator, struct = self.operator, self.struct
        assert struct
        known = {field.name for field in struct.fields}
        for name in [*operator.renamed, *operator.without, *operator.flags]:
            if name not in known:
                raise SystemExit(f"{operator.name}: {struct.name} has no field {name}")
        result = []
        for field in [*struct.fields, *map(self.nested, operator.nested)]:
            if (field.name in operator.without or field.type.startswith("lasting")
                    or field.type in self.structs or field.type == "reduction"):
                continue
            flag = operator.flags.get(field.name, "")
            of = "bool" if flag else FIELDS.get(field.type, field.type)
            if of not in TYPES and of not in self.enums:
                raise SystemExit(f"{operator.name}: {field.name} has an unknown type: {of}")
            name = operator.renamed.get(field.name, field.name.split(".")[-1])
            result.append(Argument(of, name, field, flag))
        return result

    def nested(self, path: str) -> Field:
        """A field of a field, with the default that the struct gives it."""
        assert self.struct
        struct, default = self.struct, ""
        for name in path.split("."):
            found = [own for own in struct.fields if own.name == name]
            if not found:
                raise SystemExit(f"{self.operator.name}: {struct.name} has no field {name}")
            field = found[0]
            for preset in struct.presets:
                if default == f"{struct.name}::{preset.name}()" and name in preset.values:
                    field = dataclasses.replace(field, default=preset.values[name])
            struct, default = self.structs.get(field.type, struct), field.default
        return dataclasses.replace(field, name=path)

    def default(self, argument: Argument, in_schema: bool) -> str:
        """The default of an argument; empty: it has none."""
        field, operator = argument.field, self.operator
        if argument.name in operator.required or argument.name in operator.defaults:
            return operator.defaults.get(argument.name, "")
        if not field:
            return DEFAULTS.get(argument.type, ("", ""))[0 if in_schema else 1]
        assert self.struct
        value = self.struct.constants.get(field.default, field.default)
        for preset in self.struct.presets:
            if preset.name == operator.preset:
                value = preset.values.get(field.name, value)
        if argument.flag:
            value = "true" if value.split("::")[-1] == argument.flag else "false"
        if not in_schema:
            return value
        if argument.type in self.enums:
            return str(list(self.enums[argument.type].values).index(value.split("::")[-1]))
        if argument.type == "bool":
            return value.capitalize()
        if argument.type == "double":
            value, _, divisor = value.partition(" / ")
            return repr(float(value) / float(divisor or 1))
        return value

    def defaults(self, in_schema: bool) -> list[str]:
        values = [self.default(own, in_schema) for own in self.arguments]
        for k in reversed(range(len(values) - 1)):
            if not values[k + 1]:
                values[k] = ""
        return values

    def schema(self, name: str, has_defaults: bool = True) -> str:
        def of(result: str) -> str:
            return RESULTS.get(result) or "(" + ", ".join(
                map(of, split(result.removeprefix("std::tuple<").removesuffix(">")))) + ")"

        values = self.defaults(True) if has_defaults else [""] * len(self.arguments)
        arguments = [f"{'int' if own.type in self.enums else TYPES[own.type][0]} "
                     f"{self.operator.in_schema.get(own.name, own.name)}"
                     + f"={value}" * bool(value) for own, value in zip(self.arguments, values)]
        return f"{name}({', '.join(arguments)}) -> {of(self.public_result())}"

    def computing_schema(self) -> str:
        """The schema of the operator that computes a loss and its gradients."""
        text = self.schema("_" + self.operator.name, False)
        losses = text[text.index(" -> ") + 4:].strip("()").split(", ")
        inputs = [TYPES[own.type][0] for own in self.arguments[:len(losses)]]
        return (text[:text.index(") -> ")] + ", bool needs_grad, bool float_loss) -> ("
                + ", ".join(losses + inputs) + ")")

    def public_result(self) -> str:
        """The result of the public operator: that of a loss has no gradients."""
        if not self.operator.loss:
            return self.result
        losses = len(split(self.result.removeprefix("std::tuple<").removesuffix(">"))) // 2
        return "at::Tensor" if losses == 1 else "std::tuple<at::Tensor, at::Tensor>"

    def parameters(self, is_public: bool, has_defaults: bool = False) -> str:
        arguments = self.arguments if is_public else self.arguments + self.hidden
        values = self.defaults(False) if has_defaults else [""] * len(arguments)
        return ", ".join(f"{TYPES[own.type][1] if is_public and own.type in TYPES else own.type} "
                         f"{own.name}" + f" = {value}" * bool(value)
                         for own, value in zip(arguments, values))

    def names(self) -> str:
        return ", ".join(own.name for own in self.arguments)

    def documentation(self) -> str:
        """The comment of the public declaration."""
        groups: list[tuple[list[str], str]] = []
        for own in self.arguments:
            text = own.field.comment if own.field else ""
            if not text:
                continue
            text = re.sub(r"^[A-Z](?=[a-z]*\b)", lambda found: found[0].lower(), text)
            if re.search(rf"^/// @param {own.name} ", self.comment, re.M):
                continue  # the function has a comment of its own for it
            if groups and groups[-1][1] == text:
                groups[-1][0].append(own.name)
            else:
                groups.append(([own.name], text))
        lines = self.comment.splitlines()
        for names, text in groups:
            lines += textwrap.wrap(f"@param {', '.join(names)} {text.removesuffix('.')}", 100,
                                   initial_indent="/// ", subsequent_indent="///     ",
                                   break_long_words=False, break_on_hyphens=False)
        return "".join(line + "\n" for line in lines)

    def declaration(self) -> str:
        return (f"{self.documentation()}{self.public_result()} {self.operator.name}("
                f"{self.parameters(True, True)});\n")

    def adapter(self, name: str) -> str:
        """A template that calls a function with a struct."""
        given = ", ".join(own.name for own in self.given)
        if not self.struct:
            return ""
        lines = []
        for own in self.arguments:
            if not own.field:
                continue
            value = own.name
            if own.flag:
                others = [each for each in self.enums[own.field.type].values if each != own.flag]
                value += f" ? {own.field.type}::{own.flag} : {own.field.type}::{others[0]}"
                assert len(others) == 1
            elif own.field.type == "std::uint64_t":
                value = f"static_cast<std::uint64_t>({value})"
            lines.append(f"  params.{own.field.name} = {value};\n")
        made = f" = {self.struct.name}::{self.operator.preset}()" * bool(self.operator.preset)
        return (f"template <auto Function>\n{self.result} {name}({self.parameters(False)}) {{\n"
                f"  {self.struct.name} params{made};\n{''.join(lines)}"
                f"  return Function({given});\n}}\n")

    def meta(self) -> str:
        """The function on tensors without data, if the row has the sizes of the results."""
        row = re.fullmatch(r"\[(.*)\] (.*)", self.operator.result)
        if not row or "kept" in row[0]:
            return ""
        like, used, lines = "", set(), []
        for text in split(row[1]):
            size = re.fullmatch(r"(\w+)|(\w+)\[(\d)\]|len\((\w+)\)(\??)", text)
            name = size and (size[1] or size[2] or size[4])
            if not size or name not in [own.name for own in self.arguments]:
                raise SystemExit(f"{self.operator.name}: result has an unknown size: {text}")
            used.add(name)
            like = like or size[2] or ""
            value = (f"{name}.sym_size({size[3]})" if size[2] else name if size[1]
                     else f"static_cast<std::int64_t>({name}.size())")
            lines.append(f"  if (!{name}.empty()) " * bool(size[5]) + "  " * (not size[5])
                         + f"sizes.emplace_back({value});\n")
        parameters = ", ".join(own.type + f" {own.name}" * (own.name in used)
                               for own in self.arguments)
        types = row[2].split(", ")
        if unknown := [own for own in types if own not in _SCALARS]:
            raise SystemExit(f"{self.operator.name}: result has an unknown type: {unknown[0]}")
        made = [f"new_result({like}, sizes, {_SCALARS[own]})" for own in types]
        value = made[0] if len(made) == 1 else f"std::make_tuple({', '.join(made)})"
        return (f"inline {self.result} {self.operator.name}({parameters}) {{\n"
                f"  std::vector<c10::SymInt> sizes;\n{''.join(lines)}  return {value};\n}}\n")

    def call_with_struct(self, name: str) -> str:
        """A function that calls an operator with the fields of a struct."""
        if not self.struct:
            return ""
        given = ", ".join(f"{own.type} {own.name}" for own in self.given)
        values = []
        for own in self.arguments:
            value = f"params.{own.field.name}" if own.field else own.name
            values.append(f"static_cast<std::int64_t>({value})" if own.type in self.enums
                          else value)
        return (f"template <class Operator>\n{self.result} {name}(const Operator& op, {given}) {{\n"
                f"  return op.call({', '.join(values)});\n}}\n")


_SCALARS = {"int64": "at::kLong", "float32": "at::kFloat"}

HEAD = """\
// SPDX-License-Identifier: Apache-2.0
// {about}
//
// Generated by packaging/torch_operators.py from include/vecdet/impl/torch and the public headers.
// clang-format off
"""


def _literal(schema: str) -> str:
    """The schema as string literals."""
    return "\n".join(f'      "{line}"' for line in textwrap.wrap(
        schema, 88, drop_whitespace=False, break_long_words=False, break_on_hyphens=False))


def _namespaces(code: str, names: str) -> str:
    inner = names.split()
    opened = "".join(f"namespace {name} {{\n" for name in inner)
    closed = "".join(f"}}  // namespace {name}\n" for name in reversed(inner))
    return (f"namespace vecdet {{\ninline namespace VECDET_ABI {{\n{opened}\n{code}\n{closed}"
            "}  // namespace VECDET_ABI\n}  // namespace vecdet\n")


def _public(operator: Operator, text: str, structs: dict[str, Struct],
            enums: dict[str, Enum]) -> Function:
    """The public function of an operator. `text` is that of the headers that may define it."""
    namespace = "differentiable" if operator.is_differentiable else "cpu"
    return Function(operator, namespace, text, structs, enums)


def _family(family: str, structs: dict[str, Struct],
            enums: dict[str, Enum]) -> list[tuple[pathlib.Path, str]]:
    sources, operators = FAMILIES[family]
    text = "".join((TORCH / source).read_text() for source in sources)
    declared, adapters, types, metas, defined, registered = [], [], [], [], [], []
    kernels: dict[str, list[str]] = {"CPU": [], "Meta": [], "Autograd": []}
    stable: list[str] = []

    def define(schema: str, function: str = "") -> None:
        stable.append(f"  library.define(\n{_literal(schema)}"
                      + f",\n      &boxed<{function}>::call" * bool(function) + ");\n")

    headers: set[str] = set()
    for operator in operators:
        name = operator.name
        if operator.gradient and not (operator.is_differentiable and operator.is_computed):
            raise SystemExit(f"{name}: its row has a gradient, which only an operator that is "
                             "differentiable and computed can have")
        public = _public(operator, text, structs, enums)
        cpu = Function(operator, "cpu", text, structs, enums) if operator.is_computed else public
        declared.append(public.declaration())
        headers |= {enums[own.type].header for own in public.arguments if own.type in enums}
        adapters.append(public.adapter(name))

        def flat(function: str, adapter: str) -> str:
            return f"&flat::{adapter}<&{function}>" if cpu.struct else f"&{function}"

        head = f"{public.public_result()} {name}({public.parameters(True)}) {{\n"
        if operator.is_differentiable:
            values = ", ".join(f"to_argument<optional_tensor>({own.name})"
                               if own.type == "const optional_tensor&"
                               else f"static_cast<std::int64_t>({own.name})"
                               if own.type in enums else own.name for own in public.arguments)
            kernel = f"kernel<{flat(f'differentiable::{name}', name)}>::call"
            defined.append(f"{head}  using namespace detail::aten;\n"
                           f"  static const auto op = find_operator(\"vecdet::{name}\", &{kernel});"
                           f"\n  return op.call({values});\n}}\n")
            registered.append(f"  m.def(\n{_literal(public.schema(name))},\n      &{kernel});\n")
            define(public.schema(name))
            if not operator.is_computed:
                continue
            adapters += [cpu.adapter(f"compute_{name}"), cpu.call_with_struct(f"call_{name}")]
            registered.append(f"  m.def(\n{_literal(cpu.schema('_' + name, False))});\n")
            compute = flat(f"cpu::{name}", "compute_" + name)
            define(cpu.schema("_" + name, False), compute)
            kernels["CPU"].append(f"  m.impl(\"_{name}\", &kernel<{compute}>::call);\n")
            shapes = flat(f"meta::{name}", "compute_" + name)
            kernels["Meta"].append(f"  m.impl(\"_{name}\", &kernel<{shapes}>::call);\n")
            kernels["Autograd"].append(f"  backward_only<{compute}>::define(m, \"_{name}\");\n")
            if operator.gradient:
                function, schema = operator.gradient
                gradient = schema.partition("(")[0]
                registered.append(f"  m.def(\n{_literal(schema)});\n")
                define(schema, f"&cpu::{function}")
                kernels["CPU"].append(f"  m.impl(\"{gradient}\", &cpu::{function});\n")
                kernels["Meta"].append(f"  m.impl(\"{gradient}\", &meta::{function});\n")
                kernels["Autograd"].append(
                    f"  m.impl(\"{gradient}\", torch::autograd::autogradNotImplementedFallback());"
                    "\n")
            continue
        compute = flat(f"cpu::{name}", name)
        define(public.schema(name))
        define(cpu.computing_schema() if operator.loss else cpu.schema("_" + name, False), compute)
        types.append(f"using {name} = " + (
            f"loss_operator<{compute}, loss_shape::{operator.loss}>;\n" if operator.loss
            else f"plain_operator<{compute}>;\n"))
        defined.append(f"{head}  return operators::{name}::call({public.names()});\n}}\n")
        row = f"  operators::{name}::define(\n      m,\n{_literal(public.schema(name))});\n"
        if meta := cpu.meta():
            metas.append(meta)
            row += f"  operators::{name}::define_shapes<&meta::{name}>(m);\n"
        elif operator.result and operator.result[0] != "[":
            shape, type_ = operator.result.split()
            row += (f"  operators::{name}::define_shapes<\n      &result_of<{compute}, "
                    f"result_shape::{shape}, result_type::{type_}>::call>(m);\n")
        elif operator.has_shapes and not operator.result and not operator.loss:
            row += f"  operators::{name}::define_shapes<{flat(f'meta::{name}', name)}>(m);\n"
        if operator.autocast is not None and not operator.loss:
            numbers = ", ".join(map(str, operator.autocast))
            row += f"  operators::{name}::define_autocast<{numbers}>(m);\n"
        registered.append(row)

    def about(what: str) -> str:
        return HEAD.format(about=what)

    includes = "".join(f"#include <vecdet/{header}>\n" for header in sorted(headers))
    declarations = (about(f"The operators of impl/torch/{sources[0]}; torch.hpp includes them.")
                    + f"#pragma once\n\n#include <vecdet/detail/target.hpp>\n{includes}\n"
                    "#include <cstdint>\n#include <tuple>\n\n#include <ATen/core/Reduction.h>\n"
                    "#include <ATen/core/Tensor.h>\n\n"
                    + _namespaces("\n".join(declared), "ops"))
    bodies = "".join(f"#include <vecdet/impl/torch/{source}>\n" for source in sources
                     if not source.endswith("_gradient.hpp"))
    conversions = (about("Converts between the arguments of operators and structs of parameters.")
                   + f"#pragma once\n\n{bodies}\n"
                   "#include <cstdint>\n#include <tuple>\n#include <vector>\n\n"
                   + _namespaces("\n".join(filter(None, adapters)), "detail aten flat"))
    has_conversions = any(adapters)
    conversions_included = (f"#include <vecdet/impl/torch/generated/{family}.hpp>\n"
                            * has_conversions)
    includes = "".join(f"#include <vecdet/impl/torch/{source}>\n" for source in sources)
    implementations = "".join(
        f"\nTORCH_LIBRARY_IMPL(vecdet, {key}, m) {{\n  using namespace vecdet::detail::aten;\n"
        f"{''.join(rows)}}}\n" for key, rows in kernels.items() if rows)
    cpp = (about(f"The operators of impl/torch/{sources[0]}, and the functions that call them.")
           + conversions_included + includes
           + "#include <vecdet/impl/torch/loss_operator.hpp>\n" * any(own.loss for own in operators)
           + "#include <vecdet/impl/torch/operator.hpp>\n"
           + "#include <vecdet/impl/torch/result_shapes.hpp>\n"
           * any(own.result and "kept" not in own.result for own in operators)
           + "#include <vecdet/torch.hpp>\n\n"
           "#include <cstdint>\n#include <tuple>\n\n"
           + "#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>\n"
           * any(own.gradient for own in operators)
           + "#include <torch/library.h>\n\n"
           + (_namespaces("".join(types), "detail aten operators") + "\n") * bool(types)
           + (_namespaces("\n".join(metas), "detail aten meta") + "\n") * bool(metas)
           + _namespaces("namespace operators = detail::aten::operators;\n\n" * bool(types)
                         + "\n".join(defined), "ops")
           + "\nnamespace {\n\nTORCH_LIBRARY_FRAGMENT(vecdet, m) {\n"
           "  using namespace vecdet::detail::aten;\n" + "".join(registered) + "}\n"
           + implementations + "\n}  // namespace\n")
    on_stable_abi = (about(f"The operators of impl/torch/{sources[0]} on PyTorch's stable ABI.")
                     + conversions_included + bodies
                     + "#include <vecdet/impl/torch/stable/kernel.hpp>\n\n"
                     + _namespaces(f"void define_{family}(library& library) {{\n"
                                   "  using namespace aten;\n" + "".join(stable) + "}\n",
                                   "detail stable"))
    return [(INCLUDE / f"torch/stable/generated/{family}.cpp", layout.cpp(on_stable_abi)),
            (INCLUDE / f"torch/generated/{family}.hpp", layout.cpp(declarations)),
            (INCLUDE / f"torch/generated/{family}.cpp", layout.cpp(cpp)),
            *[(TORCH / f"generated/{family}.hpp", layout.cpp(conversions))] * has_conversions]


TABLE = """\
# SPDX-License-Identifier: Apache-2.0
\"\"\"What the stable ABI's part of the package must know of the operators.

Generated by packaging/torch_operators.py.\"\"\"

"""


def _table() -> str:
    operators = [operator for _, listed in FAMILIES.values() for operator in listed]
    losses = [f'    "{own.name}": "{own.loss}",\n' for own in operators if own.loss]
    cast = [f'    "{own.name}": {own.autocast},\n' for own in operators
            if not own.loss and not own.is_differentiable and own.autocast is not None]
    results = [f'    "{own.name}": "{own.result}",\n' for own in operators if own.result]
    return (TABLE + "# Losses, and the shape of unreduced ones: loss_shape of loss_tensors.hpp.\n"
            "LOSSES = {\n" + "".join(losses) + "}\n"
            "# Operators that compute in float32 under autocast, and the arguments, outputs of a "
            "head, that stay\n# bfloat16 if all of them are.\n"
            "CAST = {\n" + "".join(cast) + "}\n"
            "# Shape and type of results, as result_shapes.hpp names them, or sizes and types.\n"
            "RESULTS = {\n" + "".join(results) + "}\n")


def _check_shapes() -> None:
    """Raises if the Python package does not know the shape of an operator's results."""
    package = INCLUDE.parents[1] / "python/vecdet/torch"
    known = "".join((package / name).read_text() for name in ("_shapes.py", "_library.py"))
    for operator in (own for _, listed in FAMILIES.values() for own in listed):
        if (operator.is_computed and not operator.loss and not operator.result
                and f'"{operator.name}"' not in known):
            raise ValueError(f"{operator.name}: give its row a result, or add the shapes of its "
                             "results to python/vecdet/torch/_shapes.py, or to _library.py there "
                             "if they depend on the data")


def public(structs: dict[str, Struct], enums: dict[str, Enum]) -> dict[str, Function]:
    """The public functions of the operators by name."""
    result = {}
    for sources, operators in FAMILIES.values():
        text = "".join((TORCH / source).read_text() for source in sources)
        for own in operators:
            result[own.name] = _public(own, text, structs, enums)
    return result


def files(structs: dict[str, Struct], enums: dict[str, Enum]) -> list[tuple[pathlib.Path, str]]:
    """The generated files and their contents."""
    _check_shapes()
    return ([file for family in FAMILIES for file in _family(family, structs, enums)]
            + [(INCLUDE.parents[1] / "python/vecdet/torch/_table.py", _table())])
