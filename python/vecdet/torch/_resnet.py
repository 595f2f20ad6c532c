# SPDX-License-Identifier: Apache-2.0
"""Blocks of torchvision's ResNets and ResNeXts whose normalisation has constant statistics and
factors: it is folded into the convolution before it, at each call."""

from __future__ import annotations

from collections import OrderedDict
from typing import Sequence

import torch
from torch import Tensor, nn
from torchvision.models import _utils, resnet
from torchvision.ops import misc

from ._convolutions import Conv2d, conv3x3, is_3x3
from ._parts import are_watched, is_own, replaces
from ._transforms import is_transformed

_TYPES = (torch.float32, torch.bfloat16)


def _is_constant(norm: nn.Module) -> bool:
    """Whether the module multiplies by constants and adds constants."""
    if is_own(norm, misc.FrozenBatchNorm2d):
        return True
    return (is_own(norm, nn.BatchNorm2d) and not norm.training and norm.running_mean is not None
            and norm.affine and not (torch.is_grad_enabled() and
                                     (norm.weight.requires_grad or norm.bias.requires_grad)))


def _folds(conv: nn.Module, norm: nn.Module, input: Tensor) -> bool:
    """Whether the normalisation can be folded. Ask at every call: users change modules.

    Constant weights of a 3x3 convolution are left as they are: their transform is kept from call to
    call."""
    return (is_own(conv, nn.Conv2d) and conv.padding_mode == "zeros" and _is_constant(norm)
            and not are_watched(conv, norm)
            and all(isinstance(x, Tensor) and x.is_cpu and x.dtype in _TYPES
                    and x.layout == torch.strided and not is_transformed(x)
                    for x in (conv.weight, norm.weight, norm.running_var, input))
            and not (is_3x3(conv) and not (torch.is_grad_enabled() and conv.weight.requires_grad)))


def _normalised(conv: nn.Module, norm: nn.Module, input: Tensor,
                relu: nn.Module | None = None) -> Tensor:
    """relu(norm(conv(input))), or without the ReLU. If the normalisation is folded, the result has
    the convolution's type, which under autocast is narrower."""
    if not _folds(conv, norm, input):
        result = norm(conv(input))
        return result if relu is None else relu(result)
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    bias = norm.bias - norm.running_mean * scale
    if conv.bias is not None:
        bias = bias + conv.bias * scale
    weight = conv.weight * scale.reshape(-1, 1, 1, 1)
    if type(conv) is Conv2d:
        fuses = relu is not None and is_own(relu, nn.ReLU) and not are_watched(relu)
        result = conv3x3(input, weight, bias, fuses)
        relu = None if fuses else relu
    else:
        result = nn.functional.conv2d(input, weight, bias, conv.stride, conv.padding, conv.dilation,
                                      conv.groups)
    return result if relu is None else relu(result)


def _type_of(norm: nn.Module, result: Tensor) -> torch.dtype:
    """The type of norm(conv(input)), where `result` is what _normalised() gave."""
    if isinstance(norm, misc.FrozenBatchNorm2d):
        return torch.promote_types(result.dtype, norm.weight.dtype)
    return result.dtype


def _run(block: nn.Module, input: Tensor,
         pairs: Sequence[tuple[nn.Module, nn.Module]]) -> Tensor | None:
    """The block's result; None if nothing can be folded. Inside, tensors have the convolutions'
    type; the sum has the type that it has without vecdet."""
    if not any(_folds(conv, norm, input) for conv, norm in pairs):
        return None
    out = input
    for conv, norm in pairs[:-1]:
        out = _normalised(conv, norm, out, block.relu)
    conv, norm = pairs[-1]
    out = _normalised(conv, norm, out)
    identity, down = input, block.downsample
    if down is not None:
        if is_own(down, nn.Sequential) and len(down) == 2 and not are_watched(down):
            identity = _normalised(down[0], down[1], input)
            identity = identity.to(_type_of(down[1], identity))
        else:
            identity = down(input)
    total = torch.promote_types(_type_of(norm, out), identity.dtype)
    return block.relu(out.add_(identity) if out.dtype == total else identity + out.to(total))


@replaces(resnet.BasicBlock)
class BasicBlock(resnet.BasicBlock):
    def forward(self, x):
        out = _run(self, x, [(self.conv1, self.bn1), (self.conv2, self.bn2)])
        return super().forward(x) if out is None else out


@replaces(resnet.Bottleneck)
class Bottleneck(resnet.Bottleneck):
    def forward(self, x):
        out = _run(self, x, [(self.conv1, self.bn1), (self.conv2, self.bn2),
                             (self.conv3, self.bn3)])
        return super().forward(x) if out is None else out


@replaces(_utils.IntermediateLayerGetter)
class IntermediateLayerGetter(_utils.IntermediateLayerGetter):
    """Folds the normalisation after the first convolution, too."""

    def forward(self, x):
        out, steps = OrderedDict(), list(self.items())
        returned = self.return_layers
        while steps:
            name, module = steps.pop(0)
            if steps and name not in returned and _folds(module, steps[0][1], x):
                name, norm = steps.pop(0)
                relu = None
                if steps and name not in returned and is_own(steps[0][1], nn.ReLU):
                    name, relu = steps.pop(0)
                x = _normalised(module, norm, x, relu)
                if name in returned:
                    x = x.to(_type_of(norm, x))
            else:
                x = module(x)
            if name in returned:
                out[returned[name]] = x
        return out
