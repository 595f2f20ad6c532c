# SPDX-License-Identifier: Apache-2.0
"""Multi-scale deformable attention on vecdet, also with the signatures of models' own functions."""

from __future__ import annotations

from typing import Sequence, Union

from torch import Tensor

from ._library import ops as _ops

__all__ = [
    "deformable_attention", "deformable_attention_core_func_v2", "ms_deform_attn_core_pytorch",
]

# Height and width of each level, as a tensor or as pairs.
LevelSizes = Union[Tensor, Sequence[Sequence[int]]]


def flat_sizes(level_sizes: LevelSizes) -> list[int]:
    if isinstance(level_sizes, Tensor):
        return [int(size) for size in level_sizes.flatten().tolist()]
    return [int(size) for level in level_sizes for size in level]


def deformable_attention(value: Tensor, level_sizes: LevelSizes, points: Tensor, weights: Tensor,
                         level_points: Sequence[int] | None = None) -> Tensor:
    """Multi-scale deformable attention (arXiv 2010.04159, equation 3, without its linear layers),
    differentiable in value, points and weights, once.

    Samples are bilinear, as of grid_sample with align_corners=False and zeros outside. Points that
    are NaN or infinite sample nothing.

    Args:
        value: [N, locations of all levels, heads, channels], the levels one after the other.
        level_sizes: height and width of each level: a tensor [levels, 2], or pairs. A tensor that
            the caller also has as a list costs a copy.
        points: [N, queries, heads, levels, points, 2] or [N, queries, heads, points of all
            levels, 2]: x and y, 0 to 1 from edge to edge of a level. float32, or float64 for a
            value of float64; others are converted.
        weights: the shape of points without its last dimension.
        level_points: the number of points of each level; None: as many on each.

    Returns:
        [N, queries, heads * channels], of the value's type.

    Raises:
        RuntimeError: shapes that differ.
    """
    return _ops.deformable_attention(value, flat_sizes(level_sizes), points, weights,
                                     list(level_points or ()))


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
