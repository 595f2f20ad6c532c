# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation on vecdet, with the activation that follows it."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch import Tensor, fx, nn

from ._library import ops as _ops
from ._names import number
from ._parts import are_watched, forward_of, is_own, replaces, with_forward
from ._transforms import is_transformed

__all__ = ["batch_norm"]

ACTIVATIONS = {"none": 0, "relu": 1, "silu": 2}


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
               weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
               momentum: float = 0.1, eps: float = 1e-5, activation: str = "none") -> Tensor:
    """torch.nn.functional.batch_norm of [N, C, H, W], followed by an activation in the same pass.
    In training it is differentiable in input, weight and bias, any number of times. Statistics are
    computed in float64, results in float32 or float64 and rounded once.

    Args:
        input: [N, C, H, W], contiguous or channels_last: neither is copied, and result and gradient
            have the same layout and type.
        running_mean, running_var: [C]; without training, what the input is normalised with. In
            training, they are moved towards the mean and the unbiased variance of the batch. None:
            they are not kept.
        weight, bias: [C]; None: 1 and 0.
        training: whether the input is normalised with its own statistics.
        momentum: the weight of the batch in the new running statistics, 0 to 1.
        eps: is added to the variance; 0 or more.
        activation: "none", "relu" or "silu".

    Raises:
        RuntimeError: shapes or types that do not fit, fewer than two numbers per channel in
            training, or running statistics missing without training. Without training there is no
            gradient: backward() raises.
    """
    kind = number(ACTIVATIONS, "activation", activation)
    _check_running(input, running_mean, running_var)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("vecdet::batch_norm: running_mean or running_var is None, expected "
                               "tensors, because training is False")
        statistics = torch.stack([running_mean.detach().double(), running_var.detach().double()])
        return _ops.batch_norm_inference(input, statistics, weight, bias, eps, kind)
    output, statistics = _ops.batch_norm(input, weight, bias, eps, kind)
    if running_mean is not None or running_var is not None:
        with torch.no_grad():
            count = input.shape[0] * input.shape[2] * input.shape[3]
            unbiased = statistics[1] * (count / (count - 1))
            for running, batch in ((running_mean, statistics[0]), (running_var, unbiased)):
                if running is not None:
                    running.copy_(torch.lerp(running.double(), batch, momentum))
    return output


def _check_running(input: Tensor, mean: Tensor | None, var: Tensor | None) -> None:
    """Checks running statistics for the channels of an input [N, C, H, W]."""
    for name, running in (("running_mean", mean), ("running_var", var)):
        if running is None or input.dim() != 4:
            continue
        if running.shape != input.shape[1:2]:
            raise RuntimeError(f"vecdet::batch_norm: {name}.shape is {list(running.shape)}, "
                               f"expected {list(input.shape[1:2])}, one number per channel")
        if not running.is_floating_point():
            raise RuntimeError(f"vecdet::batch_norm: {name}.dtype is {running.dtype}, expected "
                               "floating-point numbers")


@replaces(nn.BatchNorm2d)
class BatchNorm2d(nn.BatchNorm2d):
    def forward(self, input):
        if isinstance(input, fx.Proxy):  # a leaf of the graph, as nn.BatchNorm2d is
            path = input.tracer.path_of_module(self)
            return input.tracer.create_proxy("call_module", path, (input,), {})
        if not _fits(self, input, "none"):
            return super().forward(input)
        return _normalize(self, input, "none")


def activation_of(module: object) -> str | None:
    """The name of an activation that may be computed with the normalisation before it."""
    if isinstance(module, nn.Module) and not are_watched(module):
        if is_own(module, nn.ReLU):
            return "relu"
        if is_own(module, nn.SiLU):
            return "silu"
    return None


def run_both(module: Any, after: Any, input: Tensor) -> Tensor:
    """after(module(input)), in one call if these are a replaced normalisation and an activation."""
    activation = activation_of(after)
    if (activation is not None and type(module) is BatchNorm2d and is_own(module, nn.BatchNorm2d)
            and not are_watched(module) and _fits(module, input, activation)):
        return _normalize(module, input, activation)
    return after(module(input))


def _uses_batch(module: nn.BatchNorm2d) -> bool:
    """Whether the module normalises with the statistics of the batch."""
    return module.training or (module.running_mean is None and module.running_var is None)


def _is_faster(input: Tensor, activation: str, in_training: bool) -> bool:
    """Whether batch_norm() takes less time than PyTorch: docs/pytorch.md has the measurements."""
    is_nchw, numbers = input.is_contiguous(), input.numel()
    if not is_nchw and input.shape[1] < 16:
        return False
    if is_nchw and in_training and input.dtype == torch.float32:
        return numbers >= 2 ** 18
    return activation != "none" and numbers >= (2 ** 20 if activation == "silu" else 2 ** 21)


def _fits(module: nn.BatchNorm2d, input: Any, activation: str) -> bool:
    """Whether batch_norm() computes what the module and the activation would, and is faster. Ask at
    every call: users change modules."""
    if not (isinstance(input, Tensor) and input.dim() == 4 and input.is_cpu
            and input.dtype in (torch.float32, torch.bfloat16) and input.layout == torch.strided
            and input.shape[1] == module.num_features
            and (input.is_contiguous()
                 or input.is_contiguous(memory_format=torch.channels_last))
            and input.numel() >= 2 * input.shape[1] > 0 and 0 <= module.eps <= 1e30
            and _is_faster(input, activation, _uses_batch(module)) and not is_transformed(input)):
        return False
    parameters = [module.weight, module.bias]
    buffers = [module.running_mean, module.running_var]
    for tensor in (*parameters, *buffers):
        if tensor is not None and not (
                tensor.is_cpu and tensor.shape == (module.num_features,)
                and tensor.dtype in (input.dtype, torch.float32)
                and not is_transformed(tensor)):
            return False
    if _uses_batch(module):
        return True
    needs_gradient = torch.is_grad_enabled() and any(
        tensor is not None and tensor.requires_grad for tensor in (input, *parameters))
    return not needs_gradient and all(each is not None for each in buffers)


def _normalize(module: nn.BatchNorm2d, input: Tensor, activation: str) -> Tensor:
    """nn.BatchNorm2d.forward(), with its rules of momentum and running statistics."""
    momentum = 0.0 if module.momentum is None else module.momentum
    updates = module.training and module.track_running_stats
    if updates and module.num_batches_tracked is not None:
        module.num_batches_tracked.add_(1)
        if module.momentum is None:
            momentum = 1.0 / float(module.num_batches_tracked)
    keeps = updates or not module.training
    return batch_norm(input, module.running_mean if keeps else None,
                      module.running_var if keeps else None, module.weight, module.bias,
                      _uses_batch(module), momentum, module.eps, activation)


def _template(self, x):
    return self.act(self.bn(self.conv(x)))


def _is_conv_norm(module: nn.Module) -> bool:
    """Whether the class of the module has the forward() of _template: ultralytics' Conv, and
    classes of other projects that are written the same way."""
    forward = forward_of(module)
    return (isinstance(forward, types.FunctionType)
            and all(getattr(forward.__code__, name) == getattr(_template.__code__, name)
                    for name in ("co_code", "co_names", "co_varnames", "co_argcount"))
            and all(isinstance(module._modules.get(name), nn.Module)
                    for name in ("conv", "bn", "act")))


def _forward_of_conv_norm(_: Any) -> Any:
    def forward(self, x):
        return run_both(self.bn, self.act, self.conv(x))

    return forward


def replace_conv_norm(module: nn.Module) -> None:
    """Computes normalisation and activation of a module of that form in one call."""
    if ("forward" not in vars(module) and _is_conv_norm(module)
            and type(module.bn) is BatchNorm2d):
        module.__class__ = with_forward(module.__class__, _forward_of_conv_norm)
