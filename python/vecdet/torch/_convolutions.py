# SPDX-License-Identifier: Apache-2.0
"""3x3 convolutions on vecdet, alone and for all levels of a head."""

from __future__ import annotations

import sys
from ctypes import c_void_p
from typing import Any, Sequence

import torch
from torch import Tensor, nn
from torchvision.ops import misc

from ._functions import grouped_conv3x3
from ._library import library
from ._library import ops as _ops
from ._normalization import BatchNorm2d, activation_of, run_both
from ._parts import are_watched, is_own, replaces, with_forward
from ._transforms import is_transformed

__all__ = ["conv3x3", "conv3x3_levels"]

# What the operators compute. They, and autocast, choose between combinations.
_TYPES = (torch.float32, torch.bfloat16)


def conv3x3(input: Tensor, weight: Tensor, bias: Tensor | None = None,
            relu: bool = False) -> Tensor:
    """The 3x3 convolution with stride 1 and padding 1, differentiable in its tensors.

    float32 and bfloat16 are computed by Winograd's minimal filtering if that is faster, which for
    bfloat16 depends on the processor: docs/pytorch.md has the rule. Products and sums are float32,
    and results are rounded once. Autocast to bfloat16 converts the input and leaves weight and bias
    in float32. PyTorch computes other types, forward mode and the transforms of torch.func, and
    gradients that are differentiated again.

    Args:
        input: [N, C, H, W], contiguous or channels_last: neither is copied, and result and gradient
            have the same layout and type.
        weight: [K, C, 3, 3], of the input's type, or float32 for bfloat16. Its gradient has its
            type.
        bias: [K]. Its type may be those of weight.
        relu: whether the result is max(convolution, 0), in the same pass.

    Raises:
        RuntimeError: shapes or types that differ.
    """
    return _ops.conv3x3(input, weight, bias, relu)


def conv3x3_levels(inputs: Sequence[Tensor], weight: Tensor, bias: Tensor | None = None,
                   relu: bool = False) -> list[Tensor]:
    """conv3x3 for all levels of a pyramid, which share the weights. One call is faster than one per
    level.

    Args:
        inputs: levels [N, C, H, W]; sizes may differ in H and W.
        weight, bias, relu: as in conv3x3.
    """
    return _ops.conv3x3_levels(list(inputs), weight, bias, relu)


def _is_padded_3x3(module: nn.Module) -> bool:
    """Whether the module is an nn.Conv2d, replaced or not, of 3x3 with padding 1 and without
    dilation."""
    return (is_own(module, nn.Conv2d) and module.kernel_size == (3, 3)
            and module.dilation == (1, 1) and module.padding in ((1, 1), "same")
            and module.padding_mode == "zeros")


def is_3x3(module: nn.Module) -> bool:
    """Whether the module is an nn.Conv2d, replaced or not, that conv3x3 can compute."""
    return _is_padded_3x3(module) and module.stride == (1, 1) and module.groups == 1


def is_grouped_3x3(module: nn.Module) -> bool:
    """Whether the module is an nn.Conv2d, replaced or not, that has several groups or stride 2 and
    that grouped_conv3x3 can compute."""
    if not _is_padded_3x3(module) or module.stride not in ((1, 1), (2, 2)):
        return False
    groups, is_strided = module.groups, module.stride == (2, 2)
    if is_strided and module.padding == "same":  # an error in PyTorch
        return False
    if groups == 1:
        return is_strided
    inputs, outputs = module.in_channels // groups, module.out_channels // groups
    return inputs == outputs in (4, 8) or inputs % 16 == 0 and outputs % 16 == 0


def _is_autocast_enabled() -> bool:
    try:
        return torch.is_autocast_enabled("cpu")
    except TypeError:  # PyTorch before 2.4
        return torch.is_autocast_cpu_enabled()


def _is_grouped_faster(input: Tensor, weight: Tensor, module: nn.Conv2d) -> bool:
    """Whether grouped_conv3x3 takes less time than PyTorch: docs/pytorch.md has the measurements.
    """
    inputs, is_strided = weight.shape[1], module.stride == (2, 2)
    if module.groups > 1:
        return inputs <= 8 or inputs <= 32 and (is_strided or not input.is_contiguous())
    outputs = weight.shape[0]
    locations = input.shape[0] * -(-input.shape[2] // 2) * -(-input.shape[3] // 2)
    if inputs < 32:
        return False
    if outputs >= 16 and locations >= 640:
        return True
    return outputs <= 256 and (inputs <= 64 or inputs <= 128 and locations >= 400)


def _fits_grouped(module: nn.Module, input: Any) -> bool:
    """Whether grouped_conv3x3 computes what the module would, and is faster. Ask at every call:
    users change modules."""
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    given = [each for each in (input, weight, bias) if each is not None]
    return (is_grouped_3x3(module) and input is not None and weight is not None
            and all(isinstance(each, Tensor) and each.is_cpu and each.dtype == torch.float32
                    and each.layout == torch.strided for each in given)
            and input.dim() == 4 and weight.shape == (module.out_channels,
                                                      module.in_channels // module.groups, 3, 3)
            and input.shape[1] == module.in_channels and input.numel() > 0
            and (bias is None or bias.shape == (module.out_channels,))
            and not _is_autocast_enabled() and _is_grouped_faster(input, weight, module)
            and not any(map(is_transformed, given)))


@replaces(nn.Conv2d)
class GroupedConv2d(nn.Conv2d):
    def forward(self, input):
        if not _fits_grouped(self, input):
            return super().forward(input)
        return grouped_conv3x3(input, self.weight, self.bias, self.groups, self.stride[0])


def _fits(module: nn.Module, inputs: Sequence[Tensor]) -> bool:
    """Whether conv3x3 computes what the module would. Ask at every call: users change modules."""
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    return (is_3x3(module) and isinstance(weight, Tensor) and weight.dim() == 4
            and weight.shape[2:] == (3, 3) and weight.is_cpu and weight.dtype in _TYPES
            and all(isinstance(x, Tensor) and x.dim() == 4 and x.is_cpu
                    and x.dtype in _TYPES and x.shape[1] == weight.shape[1]
                    for x in inputs)
            and not any(is_transformed(x) for x in (weight, bias, *inputs) if x is not None))


@replaces(nn.Conv2d)
class Conv2d(nn.Conv2d):
    def forward(self, input):
        if not _fits(self, [input]):
            return super().forward(input)
        return _ops.conv3x3(input, self.weight, self.bias)

    def __del__(self, is_finalizing=sys.is_finalizing):
        if not is_finalizing():
            free_transformed_weights(self)


def free_transformed_weights(convolution: nn.Module) -> None:
    """Frees what the operators keep for the module. Another module that has the same weight
    transforms it again."""
    weight = convolution._parameters.get("weight") if "_parameters" in vars(convolution) else None
    if type(weight) in (Tensor, nn.Parameter) and weight.device.type == "cpu":
        library.vecdet_torch_free_transformed_weights(c_void_p(weight.data_ptr()))


@replaces(nn.Sequential)
class Sequential(nn.Sequential):
    """Computes an activation that follows a replaced convolution or normalisation in the same
    pass."""

    def forward(self, input):
        return _run([step for child in self for step in _steps(child)], [input])[0]


# The replacements of containers. Those of torchvision that normalise are derived from
# nn.Sequential, and differ between versions.
SEQUENCES: dict[type, type] = {nn.Sequential: Sequential}


def _forward_of_sequence(_: type) -> Any:
    return Sequential.forward


for _theirs in ("ConvNormActivation", "Conv2dNormActivation"):
    if hasattr(misc, _theirs):
        SEQUENCES[getattr(misc, _theirs)] = with_forward(getattr(misc, _theirs),
                                                         _forward_of_sequence)


def has_fusible_activation(module: nn.Module) -> bool:
    """Whether the module is an nn.Sequential or one of torchvision's containers, replaced or not,
    in which a ReLU follows a replaced convolution, or a ReLU or SiLU a replaced normalisation."""
    steps = list(module) if is_own(module, *SEQUENCES) else []
    return any(type(step) is Conv2d and is_own(after, nn.ReLU)
               or type(step) is BatchNorm2d and is_own(after, nn.ReLU, nn.SiLU)
               for step, after in zip(steps, steps[1:]))


def has_replaced(*modules: nn.Module) -> bool:
    """Whether a convolution among the modules' parts was replaced."""
    return any(type(part) is Conv2d for module in modules for part in module.modules())


def _steps(module: nn.Module) -> list[nn.Module]:
    """The modules that a container calls, in order."""
    if is_own(module, *SEQUENCES) and not are_watched(module):
        return [step for child in module for step in _steps(child)]
    return [module]


def over_levels(module: nn.Module, levels: Sequence[Tensor], relu: bool = False) -> list[Tensor]:
    """[module(level) for level in levels], optionally followed by a ReLU. Replaced convolutions
    take all levels in one call, together with a ReLU that follows."""
    return _run([*_steps(module), *([None] if relu else [])], levels)


def _run(steps: Sequence[nn.Module | None], levels: Sequence[Tensor]) -> list[Tensor]:
    """Calls the steps in order; None is a ReLU."""
    results, i = list(levels), 0
    while i < len(steps):
        step, i = steps[i], i + 1
        if step is None:
            results = [nn.functional.relu(level) for level in results]
        elif type(step) is Conv2d and not are_watched(step) and _fits(step, results):
            follows = i < len(steps) and _is_relu(steps[i])
            results = _ops.conv3x3_levels(results, step.weight, step.bias, follows)
            i += follows
        elif type(step) is BatchNorm2d and i < len(steps) and activation_of(steps[i]):
            results = [run_both(step, steps[i], level) for level in results]
            i += 1
        else:
            results = [step(level) for level in results]
    return results


def _is_relu(step: nn.Module | None) -> bool:
    return step is None or is_own(step, nn.ReLU) and not are_watched(step)
