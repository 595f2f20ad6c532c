# SPDX-License-Identifier: Apache-2.0
"""Loads the operators torch.ops.vecdet.*: those that were built for one PyTorch, if they are there,
or those of libvecdet on PyTorch's stable ABI."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from .._library import library as _libvecdet
from ._table import RESULTS

try:
    import torch
    import torchvision  # noqa: F401 (vecdet.torch.ops needs it)
except ImportError as error:
    raise ImportError("vecdet.torch needs PyTorch and torchvision: install torch and torchvision "
                      f"first ({error}). The functions of vecdet itself need only NumPy"
                      ) from error

from ._shapes import of_sizes, unknown_size

try:
    from torch.utils.flop_counter import register_flop_formula
except ImportError:  # older versions of PyTorch
    register_flop_formula = None

try:
    from ._built_for import TORCH_VERSION, VERSION  # noqa: F401 (vecdet.torch.__version__)
except ImportError:
    from .. import __version__ as VERSION  # noqa: F401
    TORCH_VERSION = ""

# How to get operators for a PyTorch for which libvecdet has none.
_BUILD = ("in vecdet's source tree, run VECDET_TORCH=1 pip install --no-build-isolation ./python, "
          "or build the CMake target vecdet_torch and put its folder python/ on PYTHONPATH")

# Links are not resolved: in a build tree, the modules are links, and the library is next to them.
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libvecdet_torch.so")


def _series(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _register() -> ctypes.CDLL:
    """Registers the operators of libvecdet."""
    if not hasattr(_libvecdet, "vecdet_torch_register"):
        raise ImportError(f"vecdet.torch is not built: {_BUILD}")
    numbers = tuple(int(number) for number in _series(torch.__version__).split("."))
    if numbers < (2, 10):
        raise ImportError(f"vecdet.torch needs PyTorch 2.10 or newer, but this is PyTorch "
                          f"{torch.__version__}. For this one, it must be built: {_BUILD}")
    try:
        from . import _stable
    except (AttributeError, ImportError) as error:
        raise ImportError(f"vecdet.torch does not know PyTorch {torch.__version__} ({error}): "
                          f"install a newer vecdet, or build vecdet.torch for it: {_BUILD}"
                          ) from error
    if any(name.startswith("vecdet::") for name in _stable.operator_names()):
        raise ImportError("vecdet.torch does not load: this process has operators torch.ops.vecdet "
                          "already, those of another vecdet or of an import of vecdet.torch that "
                          "failed")
    register = _libvecdet.vecdet_torch_register
    register.restype = ctypes.c_char_p
    if failure := register():
        raise ImportError(f"vecdet.torch does not load into PyTorch {torch.__version__}: "
                          f"{failure.decode(errors='replace')}")
    return _libvecdet


def _load() -> ctypes.CDLL:
    if not TORCH_VERSION:
        return _register()
    if _series(TORCH_VERSION) != _series(torch.__version__):
        raise ImportError(f"vecdet.torch was built for PyTorch {TORCH_VERSION}, but this is "
                          f"PyTorch {torch.__version__}: build it again, or, for PyTorch 2.10 and "
                          "newer, install vecdet without VECDET_TORCH=1")
    try:
        torch.ops.load_library(_FILE)
        return ctypes.CDLL(_FILE)
    except OSError as error:
        raise ImportError(f"vecdet.torch was built for PyTorch {TORCH_VERSION}, and does not load "
                          f"into this PyTorch {torch.__version__}: {error}") from error


def _tell_shapes_to_compilers() -> None:
    """The number of boxes kept depends on the data: for torch.compile, it is a symbolic size."""

    def fake(name: str) -> Any:
        return torch.library.register_fake(_PREFIX + name)

    def detections(like, images):
        kept = unknown_size()
        return (like.new_empty((kept, 4), dtype=torch.float32),
                like.new_empty(kept, dtype=torch.float32), like.new_empty(kept, dtype=torch.int64),
                like.new_empty(images + 1, dtype=torch.int64))

    for name, row in RESULTS.items():
        if "kept" in row:
            fake(name)(of_sizes(_PREFIX.partition("::")[2] + name, row))

    @fake("postprocess")
    def _(logits, deltas, anchors, image_sizes, *options, **more_options):
        return detections(logits, logits.shape[0])

    @fake("rpn_postprocess")
    def _(logits, deltas, anchors, image_sizes, *options, **more_options):
        return detections(anchors, logits[0].shape[0])

    @fake("postprocess_box_head")
    def _(logits, deltas, proposals, proposal_counts, image_sizes, *options, **more_options):
        return detections(logits, len(image_sizes) // 2)

    @fake("sample_balanced")
    def _(labels, counts=(), *options, **more_options):
        images = max(1, len(counts))
        return (labels.new_empty(unknown_size(), dtype=torch.int64),
                labels.new_empty(images + 1, dtype=torch.int64),
                labels.new_empty(images, dtype=torch.int64))


def _tell_flops_to_counters() -> None:
    """torch.utils.flop_counter counts for convolutions what it counts without vecdet. It has no
    formula for what the other operators replace."""

    def flops(inputs, weight):
        images, filters = inputs[0][0], weight[0] * weight[1] * weight[2] * weight[3]
        return sum(2 * images * height * width * filters for _, _, height, width in inputs)

    @register_flop_formula(torch.ops.vecdet._conv3x3)
    def _(inputs, weight, *options, **more_options):
        return flops(inputs, weight)

    @register_flop_formula(torch.ops.vecdet._conv3x3_grad)
    def _(upstream, relu_outputs, inputs, weight, needs_inputs, needs_weight, *options,
          **more_options):
        return flops(inputs, weight) * (needs_inputs + needs_weight)

    def grouped_flops(given, weight, stride):
        images, _, height, width = given
        return flops([(images, 0, -(-height // stride), -(-width // stride))], weight)

    @register_flop_formula(torch.ops.vecdet._grouped_conv3x3)
    def _(given, weight, bias, groups, stride, **more_options):
        return grouped_flops(given, weight, stride)

    @register_flop_formula(torch.ops.vecdet._grouped_conv3x3_grad)
    def _(upstream, given, weight, groups, stride, needs_input, needs_weight, *options,
          **more_options):
        return grouped_flops(given, weight, stride) * (needs_input + needs_weight)


library = _load()
if TORCH_VERSION:
    ops = torch.ops.vecdet
    _PREFIX = "vecdet::"
else:
    from . import _stable
    ops = _stable.operators()
    _PREFIX = "vecdet::_"  # of the operators that compute
if hasattr(torch.library, "register_fake"):  # PyTorch 2.4 and newer
    _tell_shapes_to_compilers()
if register_flop_formula is not None:
    _tell_flops_to_counters()
