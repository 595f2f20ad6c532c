# SPDX-License-Identifier: Apache-2.0
"""torchvision's detectors on vecdet: matching, losses and postprocessing, replaced in place.

A module changes its class to a subclass of it, and back: parameters, hooks, names and state_dict
stay what they are, and the model may be copied and pickled as before.
"""

from __future__ import annotations

from typing import Iterable, Mapping, TypeVar

from torch import nn
from torchvision.models.detection import fcos, retinanet, roi_heads, rpn, ssd

from . import _fcos, _rcnn, _retinanet, _ssd  # noqa: F401 (fills ORIGINALS)
from ._parts import ORIGINALS, is_a

_Model = TypeVar("_Model", bound=nn.Module)

_REPLACEMENTS = {theirs: ours for ours, theirs in ORIGINALS.items()}
# A model must contain one of these.
_DETECTORS = (fcos.FCOS, retinanet.RetinaNet, roi_heads.RoIHeads, rpn.RegionProposalNetwork,
              ssd.SSD)
_KNOWN = ("FCOS", "FasterRCNN", "KeypointRCNN", "MaskRCNN", "RetinaNet", "SSD")


def _replace(modules: Iterable[nn.Module], classes: Mapping[type, type]) -> None:
    """Changes the classes that have another in ``classes``. Other modules are assigned nothing, not
    even the class that they have: a wrapper's __setattr__ may pass it on to what it wraps."""
    for module in modules:
        other = classes.get(type(module))
        if other is not None:
            module.__class__ = other


def accelerate(model: _Model) -> _Model:
    """Switches every torchvision detector in ``model``, itself included, to vecdet's matching,
    losses and postprocessing, in place. Results are the same within rounding: matches exactly,
    losses within 1e-5, detections box for box except for the order of equal scores.

    Parts may be replaced at any time, before or after: a head, box coder, anchor generator, matcher
    or transform of another class than torchvision's, or with a method of its own, is called in
    training and in evaluation as without vecdet, and the steps that it takes part in are then
    torchvision's. So are heads with hooks.

    RetinaNet in training has one call for matching and both losses, on the levels of its head as
    the convolutions left them; FCOS has one for matching and one for the levels of its classes.

    Faster R-CNN, and models derived from it, use vecdet for the matching, losses and postprocessing
    of the RPN and the box head, and for RoIAlign, that of the ground truth's masks included.
    torchvision's sampler draws the anchors and proposals from torch's generator, so that a seeded
    step learns from the same ones.

    Supported: torchvision.models.detection's RetinaNet, FCOS, SSD, FasterRCNN, MaskRCNN and
    KeypointRCNN, and models with their RegionProposalNetwork or RoIHeads, on the CPU. TorchScript
    compiles a model only after restore().

    Returns:
        The model.

    Raises:
        TypeError: ``model`` contains no supported detector; the message lists them.
    """
    modules = list(model.modules())
    if not any(is_a(module, *_DETECTORS) for module in modules):
        raise TypeError(f"vecdet.accelerate: a {type(model).__name__}, expected one of "
                        f"torchvision.models.detection's {', '.join(_KNOWN)}, or a model that "
                        "contains one")
    _replace(modules, _REPLACEMENTS)
    return model


def restore(model: _Model) -> _Model:
    """Takes back what accelerate() did; a model that it did nothing to stays as it is."""
    _replace(model.modules(), ORIGINALS)
    return model
