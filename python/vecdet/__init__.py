# SPDX-License-Identifier: Apache-2.0
"""vecdet: losses, matching and postprocessing of object detectors on CPUs, for PyTorch.

    vecdet.ops                    torchvision's functions: its names, arguments and defaults
    vecdet.accelerate(model)      switches a torchvision detector to vecdet
    vecdet.restore(model)         switches it back
    with vecdet.patched(): ...    torchvision.ops runs on vecdet inside
    vecdet.profile                where the time goes

Tensors are on the CPU; see vecdet.ops for their types.
"""

# First, because it loads the operators.
from ._library import VERSION as __version__

from . import ops, profile
from ._accelerate import accelerate, restore
from ._patch import patched

__all__ = ["__version__", "accelerate", "ops", "patched", "profile", "restore"]
