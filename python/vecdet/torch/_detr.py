# SPDX-License-Identifier: Apache-2.0
"""Recognises the deformable attention of public DETRs by its form, without importing their
packages, and runs it on vecdet.

Parameters, hooks, names and state_dict of a module do not change, and the model can be copied and
pickled as before. Each call asks again whether vecdet computes what the model's function would.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Callable, Sequence

from torch import Tensor, nn

from ._library import ops as _ops
from ._names import LevelSizes, flat_sizes
from ._parts import forward_of, with_forward
from ._transforms import is_transformed

_ARGUMENTS = ("value", "value_spatial_shapes", "sampling_locations", "attention_weights")
_ARGUMENTS_V2 = (*_ARGUMENTS, "num_points_list", "method")
# Functions for the CPU in public models, and their parameters.
_FUNCTIONS = {
    "ms_deform_attn_core_pytorch": _ARGUMENTS,  # Deformable DETR, DINO, Mask2Former
    "multi_scale_deformable_attn_pytorch": _ARGUMENTS,  # mmcv, Grounding DINO
    "multi_scale_deformable_attention": _ARGUMENTS,  # Hugging Face: Mask2Former, OneFormer
    "multi_scale_deformable_attention_v2": _ARGUMENTS_V2,  # Hugging Face: RT-DETRv2, D-FINE
    "deformable_attention_core_func": _ARGUMENTS,  # RT-DETR
    "deformable_attention_core_func_v2": _ARGUMENTS_V2,  # RT-DETRv2
}
# Where RT-DETR and Hugging Face's D-FINE keep the function.
_ATTRIBUTE = "ms_deformable_attn_core"
# D-FINE's own module has RT-DETR's names, but no value_mask: its value is a list of levels.
_OF_RT_DETR = ("self", "query", "reference_points", "value", "value_spatial_shapes", "value_mask")
# Hugging Face's module has no parameters, and computes only the attention.
_OF_HUGGING_FACE = tuple(
    ("self", "value", "value_spatial_shapes", *sizes, "level_start_index", "sampling_locations",
     "attention_weights", "im2col_step") for sizes in ((), ("value_spatial_shapes_list",)))


def _parameters(function: Any) -> tuple[str, ...]:
    """The names of a Python function's parameters, without evaluating their annotations."""
    if not isinstance(function, types.FunctionType):
        return ()
    code = function.__code__
    return code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]


def _is_core(function: Any) -> bool:
    """Whether this is a function of _FUNCTIONS, also with its method bound."""
    if isinstance(function, functools.partial):
        return (not function.args and function.keywords in ({}, {"method": "default"})
                and _is_core(function.func))
    parameters = _parameters(function)
    return bool(parameters) and _FUNCTIONS.get(function.__name__) == parameters


def _attend(value: Any, level_sizes: LevelSizes, points: Tensor, weights: Tensor,
            level_points: Sequence[int] | None = None, method: str = "default") -> Tensor | None:
    """deformable_attention, or None for a call that only the model's function takes: another
    method, another device, a value in another order, as in some models' functions of the same name,
    or a transform of torch.func."""
    if not (method == "default" and isinstance(value, Tensor) and value.is_cpu
            and value.is_floating_point() and value.dim() == 4 and points.dim() in (5, 6)
            and value.shape[2] == points.shape[2]
            and not any(is_transformed(tensor) for tensor in (value, points, weights))):
        return None
    sizes = flat_sizes(level_sizes)
    if value.shape[1] != sum(h * w for h, w in zip(sizes[::2], sizes[1::2])):
        return None
    return _ops.deformable_attention(value, sizes, points, weights, list(level_points or ()))


class _Core:
    """Takes the place of a model's function."""

    def __init__(self, theirs: Callable[..., Tensor]) -> None:
        self.theirs = theirs

    def __call__(self, value, value_spatial_shapes, sampling_locations, attention_weights,
                 num_points_list=None, method="default"):
        arguments = value, value_spatial_shapes, sampling_locations, attention_weights
        out = _attend(*arguments, num_points_list, method)
        if out is not None:
            return out
        if num_points_list is None:
            return self.theirs(*arguments)
        return self.theirs(*arguments, num_points_list, method=method)


def _with_attention(theirs: Any) -> Any:
    """Hugging Face's forward(), with deformable_attention for its function."""
    parameters = _parameters(theirs.forward)[1:]

    def forward(self, *args, **kwargs):
        given = {**dict(zip(parameters, args)), **kwargs}
        sizes = given.get("value_spatial_shapes_list", given["value_spatial_shapes"])
        out = _attend(given["value"], sizes, given["sampling_locations"],
                      given["attention_weights"])
        return theirs.forward(self, *args, **kwargs) if out is None else out

    return forward


def _cores_in(forward: Any) -> dict[str, Callable[..., Tensor]]:
    """The functions of _FUNCTIONS that a method calls, by their names in its file."""
    if not isinstance(forward, types.FunctionType):
        return {}
    return {name: forward.__globals__[name] for name in forward.__code__.co_names
            if _is_core(forward.__globals__.get(name))}


def _with_core(theirs: Any) -> Any:
    """A copy of the class's forward() that finds vecdet under the name of the model's function. The
    model's file keeps its function, so that other models do not change."""
    forward = theirs.forward
    cores = {name: _Core(core) for name, core in _cores_in(forward).items()}
    copy = types.FunctionType(forward.__code__, {**forward.__globals__, **cores}, forward.__name__,
                              forward.__defaults__, forward.__closure__)
    copy.__kwdefaults__ = forward.__kwdefaults__
    return copy


def _keeps_core(module: nn.Module) -> bool:
    """Whether the module keeps a function of _FUNCTIONS in an attribute: RT-DETR and RT-DETRv2 of
    github.com/lyuwenyu/RT-DETR, and D-FINE of Hugging Face's transformers."""
    core = vars(module).get(_ATTRIBUTE)
    if not _is_core(core):
        return False
    name = getattr(core, "func", core).__name__
    return name == "multi_scale_deformable_attention_v2" or (
        type(module).__name__ == "MSDeformableAttention"
        and _parameters(forward_of(module)) == _OF_RT_DETR)


def _is_hugging_face(module: nn.Module) -> bool:
    """Deformable DETR, RT-DETR, Grounding DINO and others of Hugging Face's transformers."""
    return (type(module).__name__ == "MultiScaleDeformableAttention"
            and _parameters(forward_of(module)) in _OF_HUGGING_FACE)


def _is_replaced(module: nn.Module) -> bool:
    return (getattr(type(module), "made_by", None) in (_with_attention, _with_core)
            or isinstance(vars(module).get(_ATTRIBUTE), _Core))


def _is_bilinear(module: nn.Module) -> bool:
    """Whether the module interpolates: RT-DETRv2's method "discrete" reads the nearest location."""
    return all(vars(module).get(name, "default") == "default"
               for name in ("method", "decoder_method"))


def replace_attention(module: nn.Module) -> bool:
    """Switches the deformable attention that the module computes itself to vecdet. Returns whether
    it has one in a known form, replaced now or before."""
    if _is_replaced(module):
        return True
    if "forward" in vars(module) or not _is_bilinear(module):  # a forward() of the user's
        return False
    if _keeps_core(module):
        setattr(module, _ATTRIBUTE, _Core(vars(module)[_ATTRIBUTE]))
    elif _is_hugging_face(module):
        module.__class__ = with_forward(module.__class__, _with_attention)
    elif _cores_in(forward_of(module)):
        module.__class__ = with_forward(module.__class__, _with_core)
    else:
        return False
    return True


def restore_attention(module: nn.Module) -> None:
    """Undoes replace_attention(), except for the class: ORIGINALS has the module's own."""
    core = vars(module).get(_ATTRIBUTE)
    if isinstance(core, _Core):
        setattr(module, _ATTRIBUTE, core.theirs)
