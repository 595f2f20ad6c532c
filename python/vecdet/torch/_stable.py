# SPDX-License-Identifier: Apache-2.0
"""Operators on PyTorch's stable ABI. libvecdet registers those whose names begin with "_". They
compute on the CPU, without gradients and autocast. This module has the public ones, which add both,
as functions that the package calls and as torch.ops.vecdet.*."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional

from .. import profile
from .._library import library
from . import _shapes
from ._table import CAST, LOSSES

_raw = torch.ops.vecdet
# PyTorch promises nothing about names with an underscore. They are looked up here, before anything
# is registered, so that _library can say that this PyTorch lacks one.
_interpreters = torch._C._functorch.get_interpreter_stack
_is_batched = torch._C._functorch.is_legacy_batchedtensor
_is_grad_tracking = torch._C._functorch.is_gradtrackingtensor
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_level_of = torch._C._functorch.maybe_get_level
_unwrapped = torch._C._functorch.get_unwrapped
_GradInterpreter = torch._C._functorch.CGradInterpreterPtr
_GRAD = torch._C._functorch.TransformType.Grad
operator_names = torch._C._dispatch_get_all_op_names
_are_transforms_active = torch._C._are_functorch_transforms_active
_set_grad_enabled = torch._C._set_grad_enabled
_keeps_graph = torch._C._autograd._get_current_graph_task_keep_graph
_is_grad_enabled = torch.is_grad_enabled
_is_any_autocast_enabled = torch._C._is_any_autocast_enabled
_is_compiling = torch.compiler.is_compiling
_is_tracing = torch._C._is_tracing


def _tensors(value: Any) -> list[Tensor]:
    """The tensors of an argument or a result."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors(each)]
    return []


def _is_tracked(value: Any) -> bool:
    """Whether an argument has a tensor that requires a gradient."""
    if value is None:
        return False
    if isinstance(value, Tensor):
        return value.requires_grad
    if isinstance(value, (list, tuple)):
        for each in value:
            if each.requires_grad:
                return True
    return False


def _may_be_transformed() -> bool:
    return forward_ad._current_level >= 0 or _are_transforms_active()


_may_be_transformed()  # so that a name that is missing is found here


def _is_autocast_enabled() -> bool:
    return _is_any_autocast_enabled() and torch.is_autocast_enabled("cpu")


def _is_transformed(tensor: Tensor) -> bool:
    """Whether the tensor has a tangent or is inside a function that torch.func transforms."""
    if _is_batched(tensor):
        return True
    return _may_be_transformed() and (_is_wrapped(tensor)
                                      or forward_ad.unpack_dual(tensor).tangent is not None)


def _refuse_transforms(name: str, argument: str, tensor: Tensor, has_gradient: bool) -> None:
    """Raises for derivatives that would silently be missing, which means 0: tangents, and, if the
    results have gradients, those of outer transforms of torch.func."""
    reason = ""
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None:
        reason = "has a tangent"
    else:
        has_gradient = has_gradient and _is_grad_enabled()
        interpreters = _interpreters() or []
        while _is_wrapped(tensor) and not reason:
            level = _level_of(tensor)
            if _is_grad_tracking(tensor) and 0 < level <= len(interpreters):
                interpreter = interpreters[level - 1]
                if interpreter.key() == _GRAD:
                    is_enabled_outside = _GradInterpreter(interpreter).prevGradMode()
                    has_gradient = has_gradient and is_enabled_outside
                elif level < len(interpreters):
                    reason = "has a tangent"
            tensor = _unwrapped(tensor)
            if has_gradient and tensor.requires_grad:
                reason = reason or "requires a gradient of an outer transform"
    if reason:
        raise NotImplementedError(
            f"vecdet::{name}: {argument} {reason}, expected a tensor without one: this operator "
            + ("does not support forward AD (torch.func.jvp, torch.autograd.forward_ad), only "
               "backward()" if reason == "has a tangent" else
               "does not support nested transforms of torch.func"))


def _is_plain(tensor: Tensor) -> bool:
    """Whether the tensor is memory on the CPU: not traced, transformed or symbolic."""
    return (type(tensor) is Tensor and tensor.device.type == "cpu"
            and not _may_be_transformed() and not _is_batched(tensor))


class _NotImplemented(Function):
    """Results without a gradient: backward() through them is an error."""

    @staticmethod
    def forward(ctx, name, results, *inputs):
        ctx.name = name
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(each for each in results if not each.is_floating_point()))
        return results

    @staticmethod
    def backward(ctx, *upstreams):
        raise NotImplementedError(f"the derivative for vecdet::{ctx.name} is not implemented")


def _without_gradient(name: str, results: Any, inputs: list[Tensor]) -> Any:
    """Floating-point results with a node that raises in backward()."""
    flat = tuple(_tensors(results))
    remaining = iter(_NotImplemented.apply(name, flat, *inputs))

    def again(value):
        if isinstance(value, Tensor):
            return next(remaining)
        return type(value)(again(each) for each in value)

    return again(results)


def _untracked(operator: Any, *arguments: Any) -> Any:
    """Calls an operator that records nothing for backward(). The caller has gradients enabled; they
    are enabled again afterwards."""
    _set_grad_enabled(False)
    try:
        return operator(*arguments)
    finally:
        _set_grad_enabled(True)


def _as_float(value: Any) -> Any:
    """An argument under autocast: floating-point tensors on the CPU, except float64, as float32."""
    if isinstance(value, Tensor):
        is_narrow = value.dtype in (torch.bfloat16, torch.float16) and value.device.type == "cpu"
        return value.float() if is_narrow else value
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
        return [_as_float(each) for each in value]
    return value


def _is_bfloat16(value: Any) -> bool:
    return all(each.dtype == torch.bfloat16 for each in _tensors(value))


def _called(overload: Any) -> Any:
    """The function that an OpOverload calls. Calling it directly saves a quarter of a
    microsecond."""
    return getattr(overload, "_op", overload)


class _Operator:
    """A public operator."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.public = getattr(_raw, name).default
        self.raw: Any = (_called(getattr(_raw, "_" + name).default)
                         if hasattr(_raw, "_" + name) else None)
        arguments = self.public._schema.arguments
        self.names = [each.name for each in arguments]
        self.count = len(arguments)
        self.defaults = tuple(each.default_value for each in arguments)
        self.tensors = [i for i, each in enumerate(arguments) if "Tensor" in str(each.type)]

    def function(self) -> Callable[..., Any]:
        """What callers in the package get. Compilers, tracers and torch.func see
        torch.ops.vecdet.*."""
        public, count, defaults, compute = self.public, self.count, self.defaults, self.computing()

        def operator(*arguments, **named):
            if _is_compiling() or _is_tracing() or _are_transforms_active():
                return public(*arguments, **named)
            if named:
                arguments = self.bound(arguments, named)
            elif len(arguments) < count:
                arguments += defaults[len(arguments):]
            try:
                return compute(*arguments)
            except (AttributeError, RuntimeError, TypeError) as error:
                raise self.explained(error, arguments) from None

        return operator

    def kernel(self) -> Callable[..., Any]:
        """What torch.ops.vecdet.* calls."""
        def operator(*arguments, **named):
            arguments = self.bound(arguments, named)
            try:
                return self.compute(*arguments)
            except (AttributeError, RuntimeError, TypeError) as error:
                raise self.explained(error, arguments) from None

        return operator

    def computing(self) -> Callable[..., Any]:
        """compute() or, where that is worth it, a faster function for calls without autocast and
        gradients, outside torch.func."""
        return self.compute

    def compute(self, *arguments):
        raise NotImplementedError

    def bound(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments, in their order."""
        if unknown := named.keys() - set(self.names[len(arguments):]):
            raise TypeError(f"vecdet::{self.name}: unexpected or repeated argument "
                            f"{sorted(unknown)[0]}")
        rest = zip(self.names[len(arguments):], self.defaults[len(arguments):])
        return arguments + tuple(named.get(name, default) for name, default in rest)

    def explained(self, error: Exception, arguments: tuple[Any, ...]) -> Exception:
        """The error of a call that failed, with the public operator's name."""
        self.check_types(arguments)
        text = str(error)
        if "autograd.Function with functorch" in text:  # PyTorch's advice is for authors of nodes
            argument = next(self.names[i] for i in self.tensors if _is_tracked(arguments[i]))
            return NotImplementedError(
                f"vecdet::{self.name}: {argument} requires a gradient inside torch.func, expected "
                "a tensor without one: this operator does not support torch.func.grad, vjp and "
                "jacrev")
        is_ours = type(error) in (RuntimeError, NotImplementedError) and "vecdet::_" in text
        return type(error)(text.replace("vecdet::_", "vecdet::")) if is_ours else error

    def check_types(self, arguments: tuple[Any, ...]) -> None:
        """Raises for arguments that are no tensors."""
        for i in self.tensors:
            kind, given = str(self.public._schema.arguments[i].type), arguments[i]
            of = given if kind == "List[Tensor]" and isinstance(given, (list, tuple)) else [given]
            for each in of:
                if not isinstance(each, Tensor) and not (each is None and "Optional" in kind):
                    raise RuntimeError(
                        f"vecdet::{self.name}() Expected a value of type '{kind}' for argument "
                        f"'{self.names[i]}' but instead found type '{type(each).__name__}'")

    def check_transforms(self, arguments: Sequence[Any], has_gradient: bool = True) -> None:
        if _may_be_transformed():
            for i in self.tensors:
                for tensor in _tensors(arguments[i]):
                    _refuse_transforms(self.name, self.names[i], tensor, has_gradient)

    def refuse_gradient(self, arguments: tuple[Any, ...], first: int) -> None:
        """Raises if a tensor from the argument `first` on requires a gradient, because it would
        silently be missing."""
        for i in self.tensors:
            if i >= first and _is_tracked(arguments[i]):
                argument = self.names[i]
                raise RuntimeError(
                    f"vecdet::{self.name}: {argument} requires a gradient, expected a tensor "
                    f"without one: {argument}.detach()")


class _Plain(_Operator):
    """Has no gradient."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.is_cast, self.kept = name in CAST, CAST.get(name, ())

    def computing(self):
        raw, tensors, is_cast = self.raw, self.tensors, self.is_cast

        def compute(*arguments):
            if forward_ad._current_level >= 0 or is_cast and _is_autocast_enabled():
                return self.compute(*arguments)
            if _is_grad_enabled():
                for i in tensors:
                    if _is_tracked(arguments[i]):
                        return self.compute(*arguments)
            return raw(*arguments)

        return compute

    def compute(self, *arguments):
        if self.is_cast and _is_autocast_enabled():
            return self.under_autocast(arguments)
        return self.run(arguments)

    def run(self, arguments):
        is_recorded = _is_grad_enabled() and any(_is_tracked(arguments[i]) for i in self.tensors)
        results = _untracked(self.raw, *arguments) if is_recorded else self.raw(*arguments)
        # Integers have no gradient that could be missing.
        has_gradient = any(each.is_floating_point() for each in _tensors(results))
        self.check_transforms(arguments, has_gradient)
        if not (is_recorded and has_gradient):
            return results
        return _without_gradient(self.name, results, _tensors([arguments[i] for i in self.tensors]))

    def under_autocast(self, arguments):
        if not self.kept or not all(_is_bfloat16(arguments[i]) for i in self.kept):
            return self.run([_as_float(each) for each in arguments])
        results = self.run([each if i in self.kept else _as_float(each)
                            for i, each in enumerate(arguments)])
        if isinstance(results, tuple):
            return tuple(each.float() if _is_bfloat16(each) else each for each in results)
        return results.float() if _is_bfloat16(results) else results


def _scaled(grad: Tensor, factor: Tensor) -> Tensor:
    """The product in the gradient's type, which under autocast is narrower than the loss's."""
    return (grad * factor).to(grad.dtype)


class _Refusing(Function):
    """A gradient that cannot be differentiated again with respect to the loss's inputs."""

    @staticmethod
    def forward(ctx, grad, inputs):
        return grad[0]

    @staticmethod
    def backward(ctx, upstream):
        raise RuntimeError("vecdet: the gradient of a loss cannot be differentiated again")


class _Precomputed(Function):
    """A loss with its gradients, which backward() multiplies by the upstream gradient. The tuples
    hide them from autograd.

    The second result is an empty tensor, which stands for the inputs where the gradients are
    differentiated: in backward(), it depends on them, but does not keep them in memory."""

    @staticmethod
    def forward(ctx, computed, *inputs):
        loss, grads = computed
        for_inputs = loss.new_empty(0)
        ctx.save_for_backward(*grads, for_inputs)
        ctx.set_materialize_grads(False)
        return loss, for_inputs

    @staticmethod
    def backward(ctx, upstream, _):
        *grads, for_inputs = ctx.saved_tensors
        is_again = _is_grad_enabled()
        is_last = not is_again and not _keeps_graph() and _is_plain(upstream)
        # If backward() starts at the loss, the factor is 1, and the pass over memory is skipped.
        is_one = is_last and upstream.dim() == 0 and upstream.item() == 1
        for i, grad in enumerate(grads):
            # The upstream gradient has one element per box, or per sample of steps x samples x
            # classes.
            has_no_last = 0 < upstream.dim() < grad.dim()
            factor = upstream.unsqueeze(-1) if has_no_last else upstream
            if is_again:
                grads[i] = _scaled(_Refusing.apply((grad.detach(),), for_inputs), factor)
            elif not is_last or not _is_plain(grad):
                grads[i] = _scaled(grad, factor)
            elif not is_one:
                grad.mul_(factor)
        return None, *grads


class _Loss(_Operator):
    """The raw operator computes losses and, if needed, their gradients with respect to the first
    arguments, one per loss."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.losses = len(self.public._schema.returns)
        self.reduction = self.names.index("reduction") if "reduction" in self.names else None

    def computing(self):
        raw, losses = self.raw, self.losses
        held = [i for i in self.tensors if i >= losses]
        if losses != 1:
            return self.compute

        def compute(*arguments):
            if forward_ad._current_level >= 0 or _is_any_autocast_enabled():
                return self.compute(*arguments)
            if not _is_grad_enabled():
                return raw(*arguments, False, False)[0]
            for i in held:
                if _is_tracked(arguments[i]):
                    self.refuse_gradient(arguments, 1)
            given = arguments[0]
            if not _is_tracked(given):
                return raw(*arguments, False, False)[0]
            return self.recorded(given, _untracked(raw, *arguments, True, False))

        return compute

    def compute(self, *arguments):
        if _is_autocast_enabled():
            # Inputs, outputs of a head, stay bfloat16 if all of them are and the losses are single
            # numbers: the losses, in float32, are the same.
            is_reduced = self.reduction is None or arguments[self.reduction] != 0
            if not is_reduced or not all(map(_is_bfloat16, arguments[:self.losses])):
                arguments = tuple(map(_as_float, arguments))
            return self.run(arguments, True)
        return self.run(arguments, False)

    def run(self, arguments, float_loss):
        is_needed = False
        if _is_grad_enabled():
            self.refuse_gradient(arguments, self.losses)
            is_needed = any(map(_is_tracked, arguments[:self.losses]))
        self.check_transforms(arguments)
        if not is_needed:
            losses = self.raw(*arguments, False, float_loss)
            return losses[0] if self.losses == 1 else losses[:self.losses]
        computed = _untracked(self.raw, *arguments, True, float_loss)
        if self.losses == 1:
            return self.recorded(arguments[0], computed)
        return tuple(
            _Precomputed.apply((computed[i], computed[self.losses + i]), *given)[0]
            if _is_tracked(given) else computed[i]
            for i, given in enumerate(arguments[:self.losses]))

    @staticmethod
    def recorded(given, computed):
        loss, grads = computed
        if isinstance(given, Tensor):
            return _Precomputed.apply((loss, (grads,)), given)[0]
        return _Precomputed.apply((loss, grads), *given)[0]


class _SetLosses(_Precomputed):
    """The losses of all layers, with the gradients of the class losses, L1 and GIoU."""

    @staticmethod
    def backward(ctx, upstream, _):
        *kept, for_inputs = ctx.saved_tensors
        layers = len(kept) // 3
        is_again = _is_grad_enabled()
        if is_again:
            kept = [_Refusing.apply((each.detach(),), for_inputs) for each in kept]
        is_last = not is_again and not _keeps_graph() and _is_plain(upstream)
        factors = upstream.tolist() if is_last else None

        def times(grad, layer, loss):
            if factors is None or not _is_plain(grad):
                return _scaled(grad, upstream[layer, loss])
            factor = factors[layer][loss]
            return grad if factor == 1 else grad.mul_(factor)

        return (None, *(times(kept[i], i, 0) for i in range(layers)),
                *(times(kept[layers + i], i, 1) + times(kept[2 * layers + i], i, 2)
                  for i in range(layers)))


class _SetLoss(_Operator):
    def compute(self, *arguments):
        logits, boxes = arguments[:2]
        is_recorded = _is_grad_enabled()
        if is_recorded and arguments[3].requires_grad:
            self.refuse_gradient(arguments, 3)
        self.check_transforms(arguments)
        if not (is_recorded and (_is_tracked(logits) or _is_tracked(boxes))):
            return self.raw(*arguments, False)[0]
        losses, *grads = _untracked(self.raw, *arguments, True)
        return _SetLosses.apply((losses, tuple(_tensors(grads))), *logits, *boxes)[0]


def _grads_of(name: str, raw: Any, arguments: tuple[Any, ...]) -> Any:
    """The gradients that an operator computes in backward(). They cannot be differentiated."""
    if not _is_grad_enabled():
        return raw(*arguments)
    return _without_gradient(name, _untracked(raw, *arguments), _tensors(arguments))


class _Pooled(Function):
    """RoIAlign; backward() needs the boxes and the features' sizes, but not the features."""

    @staticmethod
    def forward(ctx, computed, boxes, options, *features):
        ctx.save_for_backward(boxes)
        ctx.shapes = [each.shape for each in features]
        ctx.options = options
        ctx.channels_last = _shapes.are_channels_last(features)
        return computed[0]

    @staticmethod
    def backward(ctx, upstream):
        boxes, = ctx.saved_tensors
        sizes = [*ctx.shapes[0][:2], *(side for shape in ctx.shapes for side in shape[2:])]
        return None, None, None, *_grads_of(
            "_multiscale_roi_align_grad", _raw._multiscale_roi_align_grad.default,
            (upstream, boxes, sizes, *ctx.options, ctx.channels_last))


class _MultiscaleRoIAlign(_Operator):
    def compute(self, features, boxes, output_size, *options):
        if _may_be_transformed():
            self.check_transforms((features, boxes, output_size, *options))
        if _is_grad_enabled():
            if boxes.requires_grad:
                name = "roi_align" if len(features) == 1 else "multiscale_roi_align"
                raise RuntimeError(f"vecdet::{name}: boxes requires a gradient, expected a tensor "
                                   "without one: boxes.detach()")
            if _is_tracked(features):
                out = _untracked(self.raw, features, boxes, output_size, *options)
                return _Pooled.apply((out,), boxes, options, *features)
        return self.raw(features, boxes, output_size, *options)


class _RoIAlign(_Operator):
    """A pyramid of one level."""

    def __init__(self, name: str, pyramid: _MultiscaleRoIAlign) -> None:
        super().__init__(name)
        self.pyramid = pyramid.compute
        # The canonical size and level choose a level for each box. Here there is only one.
        self.choice_of_level = pyramid.defaults[-2:]

    def compute(self, features, boxes, output_size, scale, sampling_ratio, aligned, box_counts):
        return self.pyramid([features], boxes, output_size, [scale], sampling_ratio, aligned,
                            box_counts, *self.choice_of_level)

    def explained(self, error, arguments):
        error = super().explained(error, arguments)
        return type(error)(str(error).replace("multiscale_roi_align", self.name))


class _Attended(Function):
    @staticmethod
    def forward(ctx, computed, value, level_sizes, points, weights, level_points):
        ctx.save_for_backward(value, points, weights)
        ctx.level_sizes, ctx.level_points = level_sizes, level_points
        return computed[0]

    @staticmethod
    def backward(ctx, upstream):
        value, points, weights = ctx.saved_tensors
        needs = [ctx.needs_input_grad[i] for i in (1, 3, 4)]
        grads = _grads_of("_deformable_attention_grad", _raw._deformable_attention_grad.default,
                          (upstream, value, ctx.level_sizes, points, weights, ctx.level_points,
                           *needs))
        value, points, weights = (grad if need else None for grad, need in zip(grads, needs))
        return None, value, None, points, weights, None


class _DeformableAttention(_Operator):
    # Under autocast, the value and the result keep the value's type, because sums are always in
    # float32 and rounded once.
    def compute(self, *arguments):
        self.check_transforms(arguments)
        if not (_is_grad_enabled() and any(_is_tracked(arguments[i]) for i in self.tensors)):
            return self.raw(*arguments)
        return _Attended.apply((_untracked(self.raw, *arguments),), *arguments)


def _aten_max_pool_grad(upstream, positions, size, options):
    """The gradient by PyTorch's operators, which can be differentiated."""
    _, kw, sh, sw, ph, pw, dh, dw, _ = options
    height, width = size
    at = positions.long()
    row = torch.arange(at.shape[2]).unsqueeze(1) * sh - ph + at // kw * dh
    column = torch.arange(at.shape[3]) * sw - pw + at % kw * dw
    is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    index = (row * width + column) * is_inside
    values = torch.where(is_inside, upstream, 0.0)
    images, channels = upstream.shape[:2]
    return upstream.new_zeros(images, channels, height * width).scatter_add(
        2, index.flatten(2), values.flatten(2)).view(images, channels, height, width)


class _MaxPooled(Function):
    @staticmethod
    def forward(ctx, computed, given, options):
        output, positions = computed
        ctx.save_for_backward(positions)
        ctx.size, ctx.options = given.shape[2:], options
        ctx.channels_last = _shapes.are_channels_last([given])
        return output

    @staticmethod
    def backward(ctx, upstream):
        positions, = ctx.saved_tensors
        if _is_grad_enabled() or _is_transformed(upstream):
            grad = _aten_max_pool_grad(upstream, positions, ctx.size, ctx.options)
        else:
            grad = _raw._max_pool_grad.default(upstream, positions, *ctx.size,
                                               [int(each) for each in ctx.options],
                                               ctx.channels_last)
        return None, grad, None


class _MaxPool(_Operator):
    def compute(self, *arguments):
        self.check_transforms(arguments)
        given, *options = arguments
        if not (_is_grad_enabled() and given.requires_grad):
            return self.raw(*arguments, False)[0]
        return _MaxPooled.apply(_untracked(self.raw, *arguments, True), given, options)


def _aten_batch_norm_grad(upstream, given, weight, bias, statistics, epsilon, activation):
    """As aten_batch_norm_grad() of batch_norm_gradient.hpp: by PyTorch's operators, which can be
    differentiated."""
    dtype, sides = torch.promote_types(given.dtype, torch.float32), (0, 2, 3)

    def per_channel(numbers):
        return numbers.to(dtype).view(1, -1, 1, 1)

    def mean_of(numbers):
        return numbers.mean(sides, keepdim=True)

    x = given.to(dtype) - per_channel(statistics[0])
    d = x - mean_of(x)
    inverse = (mean_of(d * d) + epsilon).rsqrt()
    normal = d * inverse
    scale = inverse if weight is None else inverse * per_channel(weight)
    z = normal if weight is None else normal * per_channel(weight)
    if bias is not None:
        z = z + per_channel(bias)
    arriving = upstream.to(dtype)
    if activation == 1:  # ReLU
        arriving = torch.where(z <= 0, 0.0, arriving)
    elif activation == 2:  # SiLU
        s = z.sigmoid()
        arriving = arriving * (s * (z * (1 - s) + 1))
    grad = scale * (arriving - mean_of(arriving) - normal * mean_of(arriving * normal))
    return grad.to(given.dtype), (arriving * normal).sum(sides), arriving.sum(sides)


class _Normalized(Function):
    @staticmethod
    def forward(ctx, computed, options, given, weight, bias):
        output, statistics = computed
        ctx.save_for_backward(given, weight, bias, statistics)
        ctx.mark_non_differentiable(statistics)
        ctx.set_materialize_grads(False)
        ctx.options = options
        return output, statistics

    @staticmethod
    def backward(ctx, upstream, _):
        if upstream is None:
            return (None,) * 5
        given, weight, bias, statistics = ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        arguments = upstream, given, weight, bias, statistics, *ctx.options
        if _is_grad_enabled() or _is_transformed(upstream):
            grads = _aten_batch_norm_grad(*arguments)
        else:
            grads = _raw._batch_norm_grad.default(*arguments, *needs[1:])
        return (None, None, *(grad.to(each.dtype) if is_needed else None for grad, each, is_needed
                              in zip(grads, (given, weight, bias), needs)))


class _BatchNorm(_Operator):
    def compute(self, *arguments):
        self.check_transforms(arguments)
        if not (_is_grad_enabled() and any(map(_is_tracked, arguments[:3]))):
            return self.raw(*arguments)
        return _Normalized.apply(_untracked(self.raw, *arguments), arguments[3:], *arguments[:3])


def _aten_conv3x3(inputs, weight, bias, relu):
    """The convolution by PyTorch's operators."""
    def as_maps(parameter):
        is_wider = inputs[0].dtype == torch.bfloat16 and parameter.dtype == torch.float32
        return parameter.bfloat16() if is_wider else parameter

    weight, bias = as_maps(weight), None if bias is None else as_maps(bias)
    outputs = [functional.conv2d(each, weight, bias, 1, 1) for each in inputs]
    return list(map(torch.relu, outputs)) if relu else outputs


def _aten_conv3x3_grad(upstream, outputs, inputs, weight, *needs):
    """The gradients of _aten_conv3x3(); they can be differentiated."""
    used = weight.to(inputs[0].dtype)
    wide = torch.float32 if weight.dtype == torch.bfloat16 else weight.dtype
    input_grads, weight_grad, bias_grad = [], None, None
    for level, given in enumerate(inputs):
        arriving = upstream[level]
        if outputs:
            arriving = torch.ops.aten.threshold_backward(arriving, outputs[level], 0)
        by_input, by_weight, by_bias = torch.ops.aten.convolution_backward(
            arriving, given, used, [weight.shape[0]], [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
            list(needs))
        input_grads.append(by_input)
        if needs[1]:
            weight_grad = by_weight.to(wide) + (0 if weight_grad is None else weight_grad)
        if needs[2]:
            bias_grad = by_bias.to(wide) + (0 if bias_grad is None else bias_grad)
    return input_grads, None if weight_grad is None else weight_grad.to(weight.dtype), bias_grad


class _Convolved(Function):
    @staticmethod
    def forward(ctx, outputs, relu, weight, bias, *inputs):
        ctx.save_for_backward(weight, *inputs, *(outputs if relu else ()))
        ctx.bias_type = None if bias is None else bias.dtype
        ctx.levels = len(inputs)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *upstreams):
        weight, *saved = ctx.saved_tensors
        inputs, outputs = saved[:ctx.levels], saved[ctx.levels:]
        needs = (any(ctx.needs_input_grad[4:]), ctx.needs_input_grad[2],
                 ctx.bias_type is not None and ctx.needs_input_grad[3])
        # PyTorch's gradients can be differentiated again, and transformed.
        is_atens = _is_grad_enabled() or any(map(_is_transformed, upstreams))
        compute = _aten_conv3x3_grad if is_atens else _raw._conv3x3_grad.default
        grads, by_weight, by_bias = compute(list(upstreams), outputs, inputs, weight, *needs)
        return (None, None, by_weight if needs[1] else None,
                by_bias.to(ctx.bias_type) if needs[2] else None,
                *(grads if needs[0] else [None] * ctx.levels))


def _is_ours(inputs, weight, bias) -> bool:
    """Whether vecdet convolves these tensors: not in forward mode or under a transform of
    torch.func."""
    dtype = inputs[0].dtype

    def fits(tensor):
        return (tensor.layout == torch.strided and tensor.device.type in ("cpu", "meta")
                and not _is_transformed(tensor))

    return (dtype in (torch.float32, torch.bfloat16)
            and all(each.dtype == dtype and fits(each) for each in inputs)
            and all(each.dtype in (torch.float32, dtype) and fits(each)
                    for each in (weight, bias) if each is not None))


def _check_conv3x3(inputs, weight, bias) -> None:
    """As check_conv3x3() of conv3x3_aten.hpp."""
    def expect(holds, *parts):
        _shapes.expect(holds, "conv3x3", *parts)

    expect(inputs, "inputs.size()", 0, "1 or more levels")
    expect(weight.dim() == 4 and weight.shape[2:] == (3, 3), "weight.shape", list(weight.shape),
           "[output channels, input channels, 3, 3]")
    for each in inputs:
        expect(each.dim() == 4 and each.shape[1] == weight.shape[1]
               and each.shape[0] == inputs[0].shape[0], "input.shape", list(each.shape),
               "[images, the weight's input channels, height, width], the same images on all "
               "levels")
    if bias is not None:
        expect(bias.dim() == 1 and bias.shape[0] == weight.shape[0], "bias.shape",
               list(bias.shape), "[the weight's output channels]")


class _GroupConvolved(Function):
    @staticmethod
    def forward(ctx, computed, options, given, weight, bias):
        ctx.save_for_backward(given, weight)
        ctx.options = options
        return computed[0]

    @staticmethod
    def backward(ctx, upstream):
        given, weight = ctx.saved_tensors
        groups, stride = ctx.options
        needs = ctx.needs_input_grad[2:]
        # PyTorch's gradients can be differentiated again, and transformed.
        if _is_grad_enabled() or _is_transformed(upstream):
            grads = torch.ops.aten.convolution_backward(
                upstream, given, weight, [weight.shape[0]], [stride, stride], [1, 1], [1, 1], False,
                [0, 0], groups, needs)
        else:
            grads = _raw._grouped_conv3x3_grad.default(upstream, given, weight, groups, stride,
                                                       *needs)
        return None, None, *(grad if is_needed else None for grad, is_needed in zip(grads, needs))


class _GroupedConv3x3(_Operator):
    def compute(self, *arguments):
        self.check_transforms(arguments)
        if not (_is_grad_enabled() and any(map(_is_tracked, arguments[:3]))):
            return self.raw(*arguments)
        return _GroupConvolved.apply((_untracked(self.raw, *arguments),), arguments[3:],
                                     *arguments[:3])


class _Conv3x3Levels(_Operator):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.raw = _called(_raw._conv3x3.default)

    def compute(self, inputs, weight, bias, relu):
        _check_conv3x3(inputs, weight, bias)
        if _is_autocast_enabled() and weight.device.type in ("cpu", "meta"):
            dtype = torch.get_autocast_dtype("cpu")
            inputs = [each.to(dtype) if each.is_floating_point() and each.dtype != torch.float64
                      and each.device.type == "cpu" else each for each in inputs]
            if not _is_ours(inputs, weight, bias):
                return _aten_conv3x3(inputs, weight, bias, relu)
        elif weight.device.type not in ("cpu", "meta"):
            return _aten_conv3x3(inputs, weight, bias, relu)
        elif not _is_ours(inputs, weight, bias):
            self.check_maps(inputs, weight, bias)
            return _aten_conv3x3(inputs, weight, bias, relu)
        is_recorded = _is_grad_enabled()
        trains_weight = is_recorded and weight.requires_grad
        if not (trains_weight or (is_recorded and (_is_tracked(inputs) or _is_tracked(bias)))):
            return self.raw(inputs, weight, bias, relu, True)
        outputs = _untracked(self.raw, inputs, weight, bias, relu, not trains_weight)
        return list(_Convolved.apply(outputs, relu, weight, bias, *inputs))

    @staticmethod
    def check_maps(inputs, weight, bias) -> None:
        """As check_conv3x3_types() of conv3x3_aten.hpp."""
        dtype = inputs[0].dtype
        for argument, tensor in (*(("input.dtype", each) for each in inputs),
                                 ("weight.dtype", weight), ("bias.dtype", bias)):
            is_input = argument == "input.dtype"
            known = (dtype, torch.float32) if dtype == torch.bfloat16 and not is_input else (dtype,)
            if tensor is not None and tensor.dtype not in known:
                expected = ("one type on all levels" if is_input else
                            "bfloat16 or float32, because the input is bfloat16"
                            if dtype == torch.bfloat16 else "the type of the input")
                name = tensor.type().removeprefix("torch.").removesuffix("Tensor")
                raise RuntimeError(f"vecdet::conv3x3: {argument} is {name}, expected {expected}")


class _Conv3x3(_Operator):
    def __init__(self, name: str, levels: _Conv3x3Levels) -> None:
        super().__init__(name)
        self.levels = levels.compute

    def compute(self, given, weight, bias, relu):
        return self.levels([given], weight, bias, relu)[0]


class _WatchedWeights:
    """Frees transformed weights of tensors that are gone, when other weights are transformed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.memory: dict[int, StorageWeakRef] = {}  # by the address of the tensor's data

    def watch(self, weight: Tensor) -> None:
        with self.lock:
            gone = [address for address, memory in self.memory.items() if memory.expired()]
            for address in gone:
                del self.memory[address]
            self.memory[weight.data_ptr()] = StorageWeakRef(weight.untyped_storage())
        for address in gone:
            library.vecdet_torch_free_transformed_weights(ctypes.c_void_p(address))


class Operators:
    """The public operators by name."""

    def __init__(self, names: list[str]) -> None:
        self.library = torch.library.Library("vecdet", "IMPL")
        self.library.impl("_watch_weight", _WatchedWeights().watch, "CPU")
        for name in names:
            operator = self._made(name)
            setattr(self, name, operator.function())
            self.library.impl(name, operator.kernel(), "CompositeImplicitAutograd")
            if hasattr(_raw, "_" + name):
                self.library.impl("_" + name, _refuse_devices(name), "CUDA")

    def _keep_memory(self) -> bool:
        return bool(library.vecdet_torch_keep_memory())

    def _free_cached_memory(self) -> int:
        free = library.vecdet_torch_free_cached_memory
        free.restype = ctypes.c_int64
        return free()

    def _profile_enable(self, torch_operators: bool, denormals: bool) -> None:
        if denormals and not torch_operators:
            raise RuntimeError("vecdet.torch.profile.enable: torch_operators is False, expected "
                               "True because denormals is True")
        if torch_operators:
            raise RuntimeError(
                "vecdet.torch.profile.enable: torch_operators is True, but PyTorch's own operators "
                "are recorded only by a vecdet.torch that was built for this PyTorch: in vecdet's "
                "source tree, run VECDET_TORCH=1 pip install --no-build-isolation ./python")
        profile.enable()

    _profile_disable = staticmethod(profile.disable)
    _profile_reset = staticmethod(profile.reset)
    _profile_begin = staticmethod(profile.scope._begin)
    _profile_end = staticmethod(profile.scope._end)

    def _profile_json(self) -> str:
        return json.dumps(profile.report())

    def _profile_write(self, path: str) -> None:
        try:
            profile.write(path)
        except ValueError as error:
            raise RuntimeError(str(error)) from None

    def _profile_page_faults(self) -> str:
        return ""  # of PyTorch's operators, which are not recorded

    _profile_denormals = _profile_page_faults

    def _made(self, name: str) -> _Operator:
        if name in LOSSES:
            return _Loss(name)
        if name == "roi_align":
            return _RoIAlign(name, _MultiscaleRoIAlign("multiscale_roi_align"))
        if name == "conv3x3":
            return _Conv3x3(name, _Conv3x3Levels("conv3x3_levels"))
        kinds = {"set_loss": _SetLoss, "multiscale_roi_align": _MultiscaleRoIAlign,
                 "deformable_attention": _DeformableAttention, "max_pool": _MaxPool,
                 "batch_norm": _BatchNorm, "conv3x3_levels": _Conv3x3Levels,
                 "grouped_conv3x3": _GroupedConv3x3}
        return kinds.get(name, _Plain)(name)


def _refuse_devices(name: str) -> Any:
    def refuse(*arguments, **named):
        raise NotImplementedError(f"vecdet::{name}: an argument is a CUDA tensor, but vecdet "
                                  "computes on the CPU: move it there with .cpu()")
    return refuse


def operators() -> Operators:
    """The operators of the registered library."""
    _shapes.register()
    return Operators(sorted(name.partition("::")[2] for name in operator_names()
                            if name.startswith("vecdet::") and not name.startswith("vecdet::_")))
