# SPDX-License-Identifier: Apache-2.0
"""The results' shapes of the operators on the stable ABI, for torch.compile and tensors without
data. They are those of namespace meta in include/vecdet/impl/torch."""

from __future__ import annotations

import re
from typing import Any

import torch

from ._table import LOSSES, RESULTS

_CHANNELS_LAST = torch.channels_last


def expect(holds: bool, name: str, argument: str, found: Any, expected: str) -> None:
    """Raises the error of an operator unless a condition holds."""
    if not holds:
        raise RuntimeError(f"vecdet::{name}: {argument} is {found}, expected {expected}")


def _formatted(like: Any, shape: Any, is_last: bool, dtype: Any = None) -> Any:
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device,
                       memory_format=_CHANNELS_LAST if is_last else torch.contiguous_format)


def are_channels_last(maps: Any) -> bool:
    """As are_channels_last() of channels_last.hpp."""
    first = last = 0
    for each in maps:
        if each.is_contiguous():
            first += 1
        elif each.is_contiguous(memory_format=_CHANNELS_LAST):
            last += 1
    return last > first


def _like(tensor: Any, dtype: Any = None) -> Any:
    """A new contiguous tensor of this shape."""
    return tensor.new_empty(tensor.shape, dtype=dtype or tensor.dtype)


def _like_rows(tensor: Any, dtype: Any = None) -> Any:
    return tensor.new_empty(tensor.shape[:-1], dtype=dtype or tensor.dtype)


def _set_loss(logits, boxes, *options):
    needs_grad = options[-1]
    grads = [[_like(each) for each in of] if needs_grad else [] for of in (logits, boxes, boxes)]
    return (logits[0].new_empty((len(logits), 3), dtype=torch.float32), *grads)


def _multiscale_roi_align(features, boxes, size, *options):
    dtype = features[0].dtype
    for each in features:
        dtype = torch.promote_types(dtype, each.dtype)
    return _formatted(features[0], (boxes.shape[0], features[0].shape[1], *size),
                      are_channels_last(features), dtype)


def _multiscale_roi_align_grad(upstream, boxes, sizes, *options):
    return [_formatted(upstream, (*sizes[:2], *sizes[i:i + 2]), options[-1])
            for i in range(2, len(sizes), 2)]


def _gradient(tensor: Any, is_needed: bool) -> Any:
    return _like(tensor) if is_needed else tensor.new_empty(0)


def _deformable_attention(value, sizes, points, *options):
    return value.new_empty((value.shape[0], points.shape[1], value.shape[2] * value.shape[3]))


def _deformable_attention_grad(upstream, value, sizes, points, weights, level_points, *needs):
    return tuple(map(_gradient, (value, points, weights), needs))


def _max_pool(given, *options):
    window, stride, padding, dilation = (options[i:i + 2] for i in range(0, 8, 2))
    ceil_mode, has_positions = options[8:]
    size = []
    for i in range(2):
        reach = given.shape[2 + i] + 2 * padding[i] - dilation[i] * (window[i] - 1) - 1
        count = (-(-reach // stride[i]) if ceil_mode else reach // stride[i]) + 1
        # As in PyTorch, the last window begins inside the map or its padding before it.
        if ceil_mode and (count - 1) * stride[i] >= given.shape[2 + i] + padding[i]:
            count -= 1
        size.append(count)
    shape, is_last = (*given.shape[:2], *size), are_channels_last([given])
    return (_formatted(given, shape, is_last),
            _formatted(given, shape, is_last, torch.uint8) if has_positions
            else given.new_empty(0, dtype=torch.uint8))


def _max_pool_grad(upstream, positions, height, width, options, channels_last):
    return _formatted(upstream, (*upstream.shape[:2], height, width), channels_last)


def _is_last_weight(weight):
    return not weight.is_contiguous() and weight.is_contiguous(memory_format=_CHANNELS_LAST)


def _conv3x3(inputs, weight, *options):
    is_last = are_channels_last(inputs)
    return [_formatted(each, (each.shape[0], weight.shape[0], *each.shape[2:]), is_last)
            for each in inputs]


def _conv3x3_grad(upstream, outputs, inputs, weight, needs_inputs, needs_weight, needs_bias):
    is_last = are_channels_last(inputs)
    summed = torch.float32 if weight.dtype == torch.bfloat16 else weight.dtype
    return ([_formatted(each, each.shape, is_last) for each in inputs if needs_inputs],
            _formatted(weight, weight.shape, _is_last_weight(weight)) if needs_weight
            else weight.new_empty(0),
            weight.new_empty(weight.shape[0], dtype=summed) if needs_bias else weight.new_empty(0))


def _grouped_conv3x3(given, weight, bias, groups, stride):
    _check_maps("grouped_conv3x3", given)
    expect(groups >= 1, "grouped_conv3x3", "params.groups", groups, "1 or more")
    expect(stride in (1, 2), "grouped_conv3x3", "params.stride", stride, "1 or 2")
    expect(given.shape[1] == weight.shape[1] * groups, "grouped_conv3x3", "input.shape",
           list(given.shape),
           "[images, params.groups x the weight's input channels, height, width]")
    shape = (given.shape[0], weight.shape[0], *(-(-side // stride) for side in given.shape[2:]))
    return _formatted(given, shape, are_channels_last([given]))


def _grouped_conv3x3_grad(upstream, given, weight, groups, stride, *needs):
    def empty(size):
        return weight.new_empty(size)

    return (_formatted(given, given.shape, are_channels_last([given])) if needs[0] else empty(0),
            _formatted(weight, weight.shape, _is_last_weight(weight)) if needs[1] else empty(0),
            empty(weight.shape[0] if needs[2] else 0))


def _batch_norm(given, *options):
    _check_maps("batch_norm", given)
    return (_formatted(given, given.shape, are_channels_last([given])),
            given.new_empty((2, given.shape[1]), dtype=torch.float64))


def _batch_norm_inference(given, *options):
    _check_maps("batch_norm_inference", given)
    return _formatted(given, given.shape, are_channels_last([given]))


def _check_maps(name, given):
    expect(given.dim() == 4, name, "input.shape", list(given.shape),
           "[images, channels, height, width]")


def _batch_norm_grad(upstream, given, weight, bias, statistics, epsilon, activation, *needs):
    dtype = torch.float64 if given.dtype == torch.float64 else torch.float32
    return (_formatted(given, given.shape, are_channels_last([given])),
            *(given.new_empty(given.shape[1] if each else 0, dtype=dtype) for each in needs))


def _convert_rotated_boxes(boxes, source, target, angles):
    numbers = {2: 8, 3: 4}.get(target, 5)  # xyxyxyxy, xyxy
    return boxes.new_empty((boxes.shape[0], numbers))


_SHAPES = {
    "set_loss": _set_loss,
    "convert_rotated_boxes": _convert_rotated_boxes,
    "paste_soft_masks": lambda maps, boxes, size: maps.new_empty(
        (boxes.shape[0], 1, *size), dtype=torch.float32),
    "multiscale_roi_align": _multiscale_roi_align,
    "multiscale_roi_align_grad": _multiscale_roi_align_grad,
    "deformable_attention": _deformable_attention,
    "deformable_attention_grad": _deformable_attention_grad,
    "batch_norm": _batch_norm,
    "batch_norm_grad": _batch_norm_grad,
    "batch_norm_inference": _batch_norm_inference,
    "max_pool": _max_pool,
    "max_pool_grad": _max_pool_grad,
    "conv3x3": _conv3x3,
    "conv3x3_grad": _conv3x3_grad,
    "grouped_conv3x3": _grouped_conv3x3,
    "grouped_conv3x3_grad": _grouped_conv3x3_grad,
}


def _type(name: str, a: Any, b: Any) -> Any:
    """A type of torch by its name, or what type_of() of result_shapes.hpp returns for the first two
    tensors."""
    if name == "promoted":
        return torch.promote_types(a.dtype, b.dtype)
    if name == "decoded":
        is_widened = a.dtype == torch.bfloat16 and b.dtype != torch.bfloat16
        return torch.float32 if is_widened else a.dtype
    if name == "wide":
        return torch.float64 if a.dtype == torch.float64 else torch.float32
    return a.dtype if name == "own" else getattr(torch, name)


def _of_shape(row: str) -> Any:
    """A function that returns a result of the shape and type that a row of RESULTS names."""
    shape, type_ = row.split()

    def result(a, *others):
        b = others[0] if others and isinstance(others[0], torch.Tensor) else a
        dtype = _type(type_, a, b)
        if shape == "pairs":
            return a.new_empty((a.shape[0], b.shape[0]), dtype=dtype)
        return _like(a, dtype) if shape == "like" else _like_rows(a, dtype)

    return result


def _names_of(name: str) -> list[str]:
    """The names of an operator's arguments."""
    return [each.name for each in getattr(torch.ops.vecdet, name).default._schema.arguments]


def unknown_size() -> Any:
    """A size that depends on the data; torch.compile has a symbol for it."""
    return torch.library.get_ctx().new_dynamic_size()


_SIZE = re.compile(r"(len\()?(\w+)(?:\[(\d)\])?\)?( \+ 1)?(\?)?")


def of_sizes(name: str, row: str) -> Any:
    """A function that returns results of the sizes and types in a row of RESULTS."""
    names = _names_of(name)
    parts = [(_SIZE.findall(sizes), types.split(", "))
             for sizes, _, types in (part.rpartition("] ") for part in row.split("; "))]

    def results(*arguments, **named):
        given = {**dict(zip(names, arguments)), **named}
        first, *others = [each for each in given.values() if isinstance(each, torch.Tensor)]
        if "kept" in row:
            given["kept"] = unknown_size()
        made = []
        for sizes, types in parts:
            shape = []
            for is_length, argument, dimension, is_more, may_be_left_out in sizes:
                value = int(argument) if argument.isdigit() else given[argument]
                if dimension:
                    value = value.shape[int(dimension)]
                elif is_length:
                    value = len(value)
                if not may_be_left_out or value:
                    shape.append(value + 1 if is_more else value)
            made += [first.new_empty(shape, dtype=_type(type_, first, (*others, first)[0]))
                     for type_ in types]
        return tuple(made) if len(made) > 1 else made[0]

    return results


def _of_loss(name: str, shape: str) -> Any:
    schema = getattr(torch.ops.vecdet, name).default._schema
    losses = len(schema.returns)
    names = _names_of(name)
    reduction = names.index("reduction") if "reduction" in names else None

    def results(*arguments):
        *given, needs_grad, float_loss = arguments
        is_reduced = reduction is None or given[reduction] != 0

        def loss(of):
            first = of[0] if isinstance(of, (list, tuple)) else of
            is_wider = float_loss and first.dtype != torch.float64
            dtype = torch.float32 if is_wider else first.dtype
            if is_reduced:
                return first.new_empty((), dtype=dtype)
            if shape == "rows":
                return _like_rows(first, dtype)
            if shape == "samples":
                return first.new_empty(first.shape[1:-1], dtype=dtype)
            return _like(first, dtype)

        def gradient(of):
            if isinstance(of, (list, tuple)):
                return [torch.empty_like(each) for each in of if needs_grad]
            is_formatted = needs_grad and shape in ("matrix", "samples")
            return torch.empty_like(of) if is_formatted else _gradient(of, needs_grad)

        inputs = given[:losses]
        return (*map(loss, inputs), *map(gradient, inputs))

    return results


def register() -> None:
    """Tells PyTorch the shapes of all operators whose results do not depend on the data."""
    shapes = {**_SHAPES,
              **{name: of_sizes("_" + name, row) if row.startswith("[") else _of_shape(row)
                 for name, row in RESULTS.items() if "kept" not in row},
              **{name: _of_loss(name, shape) for name, shape in LOSSES.items()}}
    for name, function in shapes.items():
        torch.library.register_fake(f"vecdet::_{name}", function)
