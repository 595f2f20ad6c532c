# SPDX-License-Identifier: Apache-2.0
"""Runs torchvision's detectors and public DETRs on vecdet: replaces matching, losses,
postprocessing and deformable attention in place.

The class of a torchvision module changes to a subclass of it, and back. Parameters, hooks, names
and state_dict do not change, and the model can be copied and pickled as before.
"""

from __future__ import annotations

from typing import Iterable, Mapping, TypeVar

from torch import nn
from torchvision.models.detection import (fcos, retinanet, roi_heads, rpn, ssd,
                                          transform)

from . import _fcos, _rcnn, _retinanet, _ssd  # noqa: F401 (fills ORIGINALS)
from ._convolutions import (SEQUENCES, Conv2d, GroupedConv2d, free_transformed_weights,
                            has_fusible_activation, is_3x3, is_grouped_3x3)
from ._detr import replace_attention, restore_attention
from ._normalization import BatchNorm2d, replace_conv_norm
from ._parts import ORIGINALS, is_a, is_own
from ._pooling import MaxPool2d

_Model = TypeVar("_Model", bound=nn.Module)

# Parts of networks, which accelerate_convolutions() replaces, and parts of detectors.
_CLASSES = {ORIGINALS[part]: part for part in (MaxPool2d, BatchNorm2d)}
_REPLACEMENTS = {theirs: ours for ours, theirs in ORIGINALS.items()
                 if ours not in (Conv2d, GroupedConv2d, *SEQUENCES.values(), *_CLASSES.values())}
# A model must contain one of these, or deformable attention.
_DETECTORS = (fcos.FCOS, retinanet.RetinaNet, roi_heads.RoIHeads, rpn.RegionProposalNetwork,
              ssd.SSD)
_KNOWN = ("FCOS", "FasterRCNN", "KeypointRCNN", "MaskRCNN", "RetinaNet", "SSD")


def _replace(modules: Iterable[nn.Module], classes: Mapping[type, type]) -> None:
    """Changes the class of each module whose class is in ``classes``. It assigns nothing to other
    modules, not even their own class: a wrapper's __setattr__ may forward it to the wrapped
    module."""
    for module in modules:
        other = classes.get(type(module))
        if other is not None:
            module.__class__ = other


def accelerate_convolutions(module: _Model) -> _Model:
    """Switches the 3x3 convolutions in ``module``, itself included, to vecdet, in place: nn.Conv2d
    with stride 1, padding 1, no dilation and one group. Classes derived from nn.Conv2d and objects
    with their own forward() are left unchanged. A ReLU that follows such a convolution in an
    nn.Sequential, or in torchvision's ConvNormActivation or Conv2dNormActivation, is computed in
    the same pass. Every call chooses between vecdet and PyTorch. PyTorch computes types other than
    float32 and bfloat16, tensors that are not on the CPU, forward-mode differentiation and the
    transforms of torch.func, second derivatives, and shapes for which it is faster. In bfloat16,
    also under autocast, this includes all shapes on processors with AMX: docs/pytorch.md has the
    rule.

    3x3 convolutions with padding 1 and several groups, or stride 2, are replaced, too: groups with
    4 or 8 input channels and as many output channels, or with multiples of 16 channels, and stride
    1 or 2. vecdet computes them in float32: larger maps with one group and stride 2 by minimal
    filtering, and others by direct sums. PyTorch computes other types, everything under autocast
    and in the cases above, and shapes for which it is faster.

    nn.MaxPool2d is replaced, too, with the same outputs and positions, bit by bit. PyTorch computes
    maps that are not contiguous, windows of more than 256 positions, return_indices, types other
    than float32, bfloat16 and float64, tensors that are not on the CPU, forward-mode
    differentiation and the transforms of torch.func.

    nn.BatchNorm2d is replaced, too, together with an nn.ReLU or nn.SiLU that directly follows it in
    an nn.Sequential, in torchvision's ConvNormActivation or Conv2dNormActivation, or in a module
    whose forward() is act(bn(conv(x))), as ultralytics' Conv. Running statistics,
    num_batches_tracked, momentum=None and eval() stay as they are. PyTorch computes normalisation
    with running statistics if a gradient is wanted, maps for which it is faster, types other than
    float32 and bfloat16, parameters of another type than the input (float32 ones for bfloat16 are
    vecdet's), maps that are neither contiguous nor channels_last, tensors that are not on the CPU,
    forward-mode differentiation and the transforms of torch.func. Modules with hooks are called one
    by one.

    Outputs in float32 differ from PyTorch's by about 2e-5 of their mean magnitude. Those in
    bfloat16 are computed in float32 and rounded once. restore() undoes this.

    Returns:
        The module.
    """
    _replace((each for each in module.modules() if is_3x3(each)), {nn.Conv2d: Conv2d})
    _replace((each for each in module.modules() if is_grouped_3x3(each)),
             {nn.Conv2d: GroupedConv2d})
    _replace((each for each in module.modules() if is_own(each, *_CLASSES)), _CLASSES)
    _replace((each for each in module.modules() if has_fusible_activation(each)), SEQUENCES)
    for each in module.modules():
        replace_conv_norm(each)
    return module


def accelerate(model: _Model, *, convolutions: bool = True) -> _Model:
    """Switches every torchvision detector in ``model``, itself included, to vecdet's matching,
    losses, postprocessing and convolutions, and every public DETR to vecdet's deformable attention
    and convolutions, in place. Matches are identical, and losses agree with the model's own within
    1e-4. Without convolutions, losses agree within 1e-5, and detections are the same boxes, except
    for the order of ties.

    Parts may be replaced at any time, before or after. A head, box coder, anchor generator, matcher
    or transform that is not of torchvision's class, or has an overridden method, is called as
    without vecdet, in training and in evaluation. The steps that use it then run on torchvision;
    so do those of heads with hooks.

    In training, RetinaNet computes matching and both losses in one call, on its head's levels in
    the convolutions' layout. FCOS has one call for matching and one for the levels of its classes.

    Faster R-CNN, and models derived from it, use vecdet for the matching, losses and postprocessing
    of the RPN and the box head, for RoIAlign, including that of ground-truth masks, and for the
    masks that Mask R-CNN pastes into pictures. Pasted numbers differ from torchvision's by
    rounding: docs/semantics.md says how much.
    torchvision's sampler still draws the anchors and proposals from torch's generator, so a seeded
    step learns from the same ones.

    Convolutions are replaced as accelerate_convolutions() says. The heads of RetinaNet and FCOS,
    and that of an RPN, have one call for all levels. Hooks of a head's convolutions are called once
    for each level, as without vecdet.

    Multi-scale deformable attention is recognised by the names and parameters of its module and
    function: RT-DETR, RT-DETRv2 (except for its method "discrete"), Hugging Face's Deformable DETR,
    RT-DETR and others, and modules whose forward() calls ms_deform_attn_core_pytorch or
    multi_scale_deformable_attn_pytorch. Its matching and losses belong to the trainer: see
    vecdet.torch.ops.HungarianMatcher and SetCriterion.

    Supported: torchvision.models.detection's RetinaNet, FCOS, SSD, FasterRCNN, MaskRCNN and
    KeypointRCNN, models with their RegionProposalNetwork or RoIHeads, and models with deformable
    attention in a form named above, on the CPU. TorchScript compiles a model, and ONNX's exporter
    takes it, only after restore().

    Args:
        convolutions: whether the model's 3x3 convolutions, batch normalisation and max pooling
            are replaced, too.

    Returns:
        The model.

    Raises:
        TypeError: ``model`` contains no supported detector; the message lists them. It is
            unchanged.
    """
    modules = list(model.modules())
    attends = [replace_attention(module) for module in modules]
    if not (any(attends) or any(is_a(module, *_DETECTORS) for module in modules)):
        raise TypeError(f"vecdet.torch.accelerate: a {type(model).__name__}, expected one of "
                        f"torchvision.models.detection's {', '.join(_KNOWN)}, a DETR with "
                        "deformable attention in a known form, or a model that contains one")
    has_masks = any(isinstance(module, roi_heads.RoIHeads) and module.has_mask()
                    for module in modules)
    _replace(modules, {theirs: ours for theirs, ours in _REPLACEMENTS.items()
                       if has_masks or theirs is not transform.GeneralizedRCNNTransform})
    return accelerate_convolutions(model) if convolutions else model


def restore(model: _Model) -> _Model:
    """Undoes accelerate() and accelerate_convolutions(), and frees the transformed weights of
    convolutions. A model that was not accelerated does not change."""
    for module in model.modules():
        restore_attention(module)
        if type(module) is Conv2d:
            free_transformed_weights(module)
    _replace(model.modules(), ORIGINALS)
    return model
