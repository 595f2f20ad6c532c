# SPDX-License-Identifier: Apache-2.0
"""Multi-scale deformable attention with the signatures of models' own functions."""

from __future__ import annotations

from typing import Sequence

from torch import Tensor

from ._library import ops as _ops
from ._names import LevelSizes, flat_sizes

__all__ = ["deformable_attention_core_func_v2", "ms_deform_attn_core_pytorch"]


def ms_deform_attn_core_pytorch(value: Tensor, value_spatial_shapes: LevelSizes,
                                sampling_locations: Tensor, attention_weights: Tensor) -> Tensor:
    """deformable_attention with the signature of Deformable DETR's function for the CPU. RT-DETR's
    deformable_attention_core_func and Hugging Face's multi_scale_deformable_attention have the
    same."""
    return _ops.deformable_attention(value, flat_sizes(value_spatial_shapes), sampling_locations,
                                     attention_weights)


def deformable_attention_core_func_v2(value: Tensor, value_spatial_shapes: LevelSizes,
                                      sampling_locations: Tensor, attention_weights: Tensor,
                                      num_points_list: Sequence[int],
                                      method: str = "default") -> Tensor:
    """deformable_attention with the signature of RT-DETRv2's function, where levels have their own
    numbers of points. Hugging Face's multi_scale_deformable_attention_v2 has the same.

    Raises:
        ValueError: method "discrete", which reads the nearest locations instead.
    """
    if method != "default":
        raise ValueError(f"deformable_attention_core_func_v2: method is {method!r}, expected "
                         "'default'")
    return _ops.deformable_attention(value, flat_sizes(value_spatial_shapes), sampling_locations,
                                     attention_weights, list(num_points_list))
