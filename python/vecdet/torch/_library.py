# SPDX-License-Identifier: Apache-2.0
"""Loads the operators torch.ops.vecdet.*."""

from __future__ import annotations

import ctypes
import os

try:
    import torch
    import torchvision  # noqa: F401 (vecdet.torch.ops needs it)
except ImportError as error:
    raise ImportError("vecdet.torch needs PyTorch and torchvision: install torch and torchvision "
                      f"first ({error}). The functions of vecdet itself need only NumPy"
                      ) from error

try:
    from torch.utils.flop_counter import register_flop_formula
except ImportError:  # older versions of PyTorch
    register_flop_formula = None

try:
    from ._built_for import TORCH_VERSION, VERSION  # noqa: F401 (vecdet.torch.__version__)
except ImportError:
    raise ImportError(
        "vecdet.torch is not built: in vecdet's source tree, run VECDET_TORCH=1 pip install "
        "--no-build-isolation ./python, or build the CMake target vecdet_torch and put its folder "
        "python/ on PYTHONPATH") from None

# Links are not resolved: in a build tree, the modules are links, and the library is next to them.
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libvecdet_torch.so")


def _series(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _load() -> ctypes.CDLL:
    if _series(TORCH_VERSION) != _series(torch.__version__):
        raise ImportError(f"vecdet.torch was built for PyTorch {TORCH_VERSION}, but this is "
                          f"PyTorch {torch.__version__}: build it again")
    try:
        torch.ops.load_library(_FILE)
        return ctypes.CDLL(_FILE)
    except OSError as error:
        raise ImportError(f"vecdet.torch was built for PyTorch {TORCH_VERSION}, and does not load "
                          f"into this PyTorch {torch.__version__}: {error}") from error


def _tell_shapes_to_compilers() -> None:
    """The number of boxes kept depends on the data: for torch.compile, it is a symbolic size."""

    def unknown() -> int:
        return torch.library.get_ctx().new_dynamic_size()

    def detections(like, images):
        kept = unknown()
        return (like.new_empty((kept, 4), dtype=torch.float32),
                like.new_empty(kept, dtype=torch.float32), like.new_empty(kept, dtype=torch.int64),
                like.new_empty(images + 1, dtype=torch.int64))

    @torch.library.register_fake("vecdet::nms")
    def _(boxes, scores, iou_threshold):
        return boxes.new_empty(unknown(), dtype=torch.int64)

    @torch.library.register_fake("vecdet::batched_nms")
    def _(boxes, scores, classes, iou_threshold):
        return boxes.new_empty(unknown(), dtype=torch.int64)

    @torch.library.register_fake("vecdet::rotated_nms")
    def _(boxes, scores, angles, iou_threshold, classes=None):
        return boxes.new_empty(unknown(), dtype=torch.int64)

    @torch.library.register_fake("vecdet::large_boxes")
    def _(boxes, min_size):
        return boxes.new_empty(unknown(), dtype=torch.int64)

    @torch.library.register_fake("vecdet::soft_nms")
    def _(boxes, scores, classes=None, decay=1, iou_threshold=0.3, sigma=0.5, score_floor=1e-3):
        kept = unknown()
        return (boxes.new_empty(kept, dtype=torch.int64),
                boxes.new_empty(kept, dtype=torch.promote_types(boxes.dtype, scores.dtype)))

    @torch.library.register_fake("vecdet::filter_topk")
    def _(logits, score_threshold, k):
        kept = unknown()
        return logits.new_empty(kept), logits.new_empty(kept, dtype=torch.int64)

    @torch.library.register_fake("vecdet::postprocess")
    def _(logits, deltas, anchors, image_sizes, *options, **more_options):
        return detections(logits, logits.shape[0])

    @torch.library.register_fake("vecdet::rpn_postprocess")
    def _(logits, deltas, anchors, image_sizes, *options, **more_options):
        return detections(anchors, logits[0].shape[0])

    @torch.library.register_fake("vecdet::postprocess_box_head")
    def _(logits, deltas, proposals, proposal_counts, image_sizes, *options, **more_options):
        return detections(logits, len(image_sizes) // 2)

    @torch.library.register_fake("vecdet::sample_balanced")
    def _(labels, counts=(), *options, **more_options):
        images = max(1, len(counts))
        return (labels.new_empty(unknown(), dtype=torch.int64),
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


library = _load()
if hasattr(torch.library, "register_fake"):  # PyTorch 2.4 and newer
    _tell_shapes_to_compilers()
if register_flop_formula is not None:
    _tell_flops_to_counters()
