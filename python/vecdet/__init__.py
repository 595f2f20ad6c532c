# SPDX-License-Identifier: Apache-2.0
# flake8: noqa: F403
"""vecdet: kernels of object detectors for CPUs, on NumPy arrays.

    vecdet.letterbox, vecdet.postprocess_yolo, ...   from images to detections
    vecdet.nms, vecdet.merge_boxes, ...              NMS and its relatives
    vecdet.match_anchors, vecdet.sigmoid_focal_loss  targets and losses, with gradients
    vecdet.match_queries, vecdet.set_loss_and_grad   the same for DETRs
    vecdet.set_threads(1)                            the calling thread alone
    vecdet.profile                                   where the time goes
    vecdet.torch                                     torchvision's detectors on vecdet

Names and defaults are torchvision's where it has the function. Arrays are float32 or float64, or
bfloat16 with ml_dtypes; float16 is converted to float32. Anything with DLPack (from NumPy 1.22 on)
or the buffer protocol works; arrays that are not contiguous are copied. Calls release the GIL and
may come from any number of threads. Invalid arguments raise ValueError or TypeError before anything
is computed.
"""

import sys as _sys
import typing as _typing

# python -m vecdet.gate imports this package first, though the gate needs nothing of it. If that
# failed, Python's exit code 1 would mean there that a function is slower.
if _sys.argv[:1] == ["-m"]:
    # The module's name and its arguments; from Python 3.10 on.
    _command = getattr(_sys, "orig_argv", [])[-len(_sys.argv):]
    if _command[:1] in (["vecdet.gate"], ["-mvecdet.gate"]):
        from .gate import main as _gate
        _gate(_sys.argv[1:])
        _sys.exit()

try:
    import numpy as _numpy  # noqa: F401 (for its message)
except ImportError as error:
    raise ImportError(f"vecdet needs NumPy 1.19 or newer ({error}): pip install numpy, or "
                      "apt install python3-numpy on Debian and Ubuntu") from error

from . import (_boxes, _detections, _features, _gradients, _losses, _masks, _nms, _quantised,
               _queries, _rotated, _run_lengths, _sequences, _settings, _targets, profile)
from ._boxes import *
from ._detections import *
from ._features import *
from ._gradients import *
from ._losses import *
from ._masks import *
from ._nms import *
from ._quantised import *
from ._queries import *
from ._rotated import *
from ._run_lengths import *
from ._sequences import *
from ._settings import *
from ._targets import *
from ._library import library as _library

__version__: str = _library.vecdet_version().decode()

if not _typing.TYPE_CHECKING:
    def __getattr__(name):
        """Called for names that are not there, such as a module that is not imported yet."""
        modules = "gate", "pycocotools", "sahi", "supervision", "torch"
        hint = f": import vecdet.{name}" if name in modules else ""
        raise AttributeError(f"module 'vecdet' has no attribute '{name}'{hint}")

# Each module lists its functions.
__all__ = ["__version__", "profile"]
__all__ += _boxes.__all__
__all__ += _detections.__all__
__all__ += _features.__all__
__all__ += _gradients.__all__
__all__ += _losses.__all__
__all__ += _masks.__all__
__all__ += _nms.__all__
__all__ += _quantised.__all__
__all__ += _queries.__all__
__all__ += _rotated.__all__
__all__ += _run_lengths.__all__
__all__ += _sequences.__all__
__all__ += _settings.__all__
__all__ += _targets.__all__
