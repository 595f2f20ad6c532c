# SPDX-License-Identifier: Apache-2.0
"""Max pooling on vecdet."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor, nn

from ._library import ops as _ops
from ._names import number_pair
from ._parts import replaces
from ._transforms import is_transformed

__all__ = ["max_pool2d"]

_TYPES = (torch.float32, torch.bfloat16, torch.float64)


def max_pool2d(input: Tensor, kernel_size: int | Sequence[int],
               stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0,
               dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> Tensor:
    """The maxima of windows, differentiable in ``input``: torch.nn.functional.max_pool2d, with the
    same numbers, bit by bit. A NaN in a window is its maximum; of equal numbers, the first gets the
    gradient.

    Args:
        input: [N, C, H, W], contiguous or channels_last: neither is copied, and result and gradient
            have the same layout and type.
        kernel_size: the window's height and width, or one number for both; at most 256 positions.
        stride: from one window to the next; the window's size by default.
        padding: beside the map, at most half of a window.
        dilation: from one position of the window to the next.
        ceil_mode: whether windows may reach beyond the padding.

    Raises:
        RuntimeError: numbers out of range, or an input without four dimensions.
    """
    size = number_pair(kernel_size)
    return _ops.max_pool(input, *size, *(size if stride is None else number_pair(stride)),
                         *number_pair(padding), *number_pair(dilation), ceil_mode)


@replaces(nn.MaxPool2d)
class MaxPool2d(nn.MaxPool2d):
    def forward(self, input):
        if not _fits(self, input):
            return super().forward(input)
        return max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation,
                          self.ceil_mode)


def _fits(module: nn.MaxPool2d, input: Tensor) -> bool:
    """Whether max_pool2d() computes what the module would. Ask at every call: users change
    modules."""
    height, width = number_pair(module.kernel_size)
    return (not module.return_indices and 0 < height * width <= 256 and isinstance(input, Tensor)
            and input.dim() == 4 and input.is_cpu and input.dtype in _TYPES
            and input.layout == torch.strided and input.is_contiguous() and input.numel() > 0
            and not is_transformed(input))
