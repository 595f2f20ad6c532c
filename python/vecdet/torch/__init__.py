# SPDX-License-Identifier: Apache-2.0
"""vecdet for PyTorch: torchvision's operators and detectors on vecdet's kernels.

    vecdet.torch.ops                torchvision's functions: its names, arguments and defaults
    vecdet.torch.accelerate(model)  switches a torchvision detector or a public DETR to vecdet
    vecdet.torch.accelerate_convolutions(module)  switches the 3x3 convolutions of any module
    vecdet.torch.restore(model)     switches it back
    with vecdet.torch.patched():    torchvision.ops and torch's CTC run on vecdet inside
    vecdet.torch.keep_memory()      keeps freed memory in the process: fewer page faults
    vecdet.torch.profile            where the time goes

Tensors are on the CPU; see vecdet.torch.ops for their types.
"""

# First, because it loads the operators.
from ._library import VERSION as __version__

from . import ops, profile
from ._accelerate import accelerate, accelerate_convolutions, restore
from ._memory import free_cached_memory, keep_memory
from ._patch import patched

__all__ = ["__version__", "accelerate", "accelerate_convolutions", "free_cached_memory",
           "keep_memory", "ops", "patched", "profile", "restore"]
