# SPDX-License-Identifier: Apache-2.0
# flake8: noqa: F403
"""torchvision's operators on vecdet's kernels: the same names, arguments, defaults and results.

Tensors are on the CPU, of float32, float64, bfloat16 or float16. Losses are differentiable in their
first argument, once; their other arguments must not require a gradient. deformable_attention is
differentiable in value, points and weights, once, conv3x3 and batch_norm in input, weight and bias,
and max_pool2d, any number of times. Overlaps and masks have no gradient. Forward-mode derivatives
and second ones raise where they are not supported. Invalid arguments raise RuntimeError, or
ValueError as in torchvision, before anything is computed.
"""

from . import (_attention, _boxes, _convolutions, _detections, _functions, _losses, _masks,
               _normalization, _pooling, _sequences, _set_loss, _two_stage)
from ._attention import *
from ._boxes import *
from ._convolutions import *
from ._detections import *
from ._functions import *
from ._losses import *
from ._masks import *
from ._normalization import *
from ._pooling import *
from ._sequences import *
from ._set_loss import *
from ._two_stage import *

# Each module lists its functions.
__all__ = []
__all__ += _attention.__all__
__all__ += _boxes.__all__
__all__ += _convolutions.__all__
__all__ += _detections.__all__
__all__ += _functions.__all__
__all__ += _losses.__all__
__all__ += _masks.__all__
__all__ += _normalization.__all__
__all__ += _pooling.__all__
__all__ += _sequences.__all__
__all__ += _set_loss.__all__
__all__ += _two_stage.__all__
