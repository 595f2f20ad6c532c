# SPDX-License-Identifier: Apache-2.0
"""Deformable attention in the forms of public DETRs: their names, attributes and parameters around
a formula of our own, by grid_sample."""

import functools

import torch
from test_attention import by_grid_sample
from torch import nn

HEADS, CHANNELS = 4, 32
calls = 0  # of the models' own functions


def _attend(value, sizes, points, weights, counts):
    global calls
    calls += 1
    points, weights = (each.flatten(3, 4) if grouped else each for each, grouped in
                       ((points, points.dim() == 6), (weights, weights.dim() == 5)))
    return by_grid_sample(value, sizes, points, weights, counts)


def _attend_levels(value, sizes, points, weights):
    return _attend(value, sizes, points, weights, [points.shape[4]] * len(sizes))


def deformable_attention_core_func(value, value_spatial_shapes, sampling_locations,
                                   attention_weights):
    return _attend_levels(value, value_spatial_shapes, sampling_locations, attention_weights)


def multi_scale_deformable_attention(value, value_spatial_shapes, sampling_locations,
                                     attention_weights):
    return _attend_levels(value, value_spatial_shapes, sampling_locations, attention_weights)


def ms_deform_attn_core_pytorch(value, value_spatial_shapes, sampling_locations,
                                attention_weights):
    """Some models pass the value as [N, heads, channels, locations] to a function of this name."""
    if value.shape[1] == HEADS:
        value = value.permute(0, 3, 1, 2)
    return _attend_levels(value, value_spatial_shapes, sampling_locations, attention_weights)


def deformable_attention_core_func_v2(value, value_spatial_shapes, sampling_locations,
                                      attention_weights, num_points_list, method="default"):
    if method == "discrete":  # the value of the nearest location
        sizes = torch.tensor([size for size, count in zip(value_spatial_shapes, num_points_list)
                              for _ in range(count)]).flip(1)
        sampling_locations = ((sampling_locations * sizes).floor() + 0.5) / sizes
    return _attend(value, value_spatial_shapes, sampling_locations, attention_weights,
                   num_points_list)


def multi_scale_deformable_attention_v2(value, value_spatial_shapes, sampling_locations,
                                        attention_weights, num_points_list, method="default"):
    return deformable_attention_core_func_v2(value, value_spatial_shapes, sampling_locations,
                                             attention_weights, num_points_list, method)


class _Projections(nn.Module):
    """The linear layers around the attention."""

    def __init__(self, counts):
        super().__init__()
        self.num_heads, self.num_points_list = HEADS, list(counts)
        self.sampling_offsets = nn.Linear(CHANNELS, HEADS * sum(counts) * 2)
        self.attention_weights = nn.Linear(CHANNELS, HEADS * sum(counts))
        self.value_proj = nn.Linear(CHANNELS, CHANNELS)
        self.output_proj = nn.Linear(CHANNELS, CHANNELS)

    def operands(self, query, reference_points, value, value_mask=None):
        """Value, points and weights, without a dimension for levels."""
        value = self.value_proj(value)
        if value_mask is not None:
            value = value * value_mask[..., None].to(value.dtype)
        points = reference_points[:, :, None, None] + 0.1 * self.sampling_offsets(query).unflatten(
            2, (HEADS, -1, 2))
        weights = self.attention_weights(query).unflatten(2, (HEADS, -1)).softmax(-1)
        return value.unflatten(2, (HEADS, -1)), points, weights

    def by_levels(self, *operands):
        """The same with one, for levels of equally many points."""
        value, points, weights = self.operands(*operands)
        levels = len(self.num_points_list)
        return (value, points.unflatten(3, (levels, -1)), weights.unflatten(3, (levels, -1)))


class RtDetr:
    class MSDeformableAttention(_Projections):
        def __init__(self, counts):
            super().__init__(counts)
            self.ms_deformable_attn_core = deformable_attention_core_func

        def forward(self, query, reference_points, value, value_spatial_shapes, value_mask=None):
            value, points, weights = self.by_levels(query, reference_points, value, value_mask)
            return self.output_proj(
                self.ms_deformable_attn_core(value, value_spatial_shapes, points, weights))


class RtDetrV2:
    class MSDeformableAttention(_Projections):
        def __init__(self, counts, method="default"):
            super().__init__(counts)
            self.method = method
            self.ms_deformable_attn_core = functools.partial(deformable_attention_core_func_v2,
                                                             method=method)

        def forward(self, query, reference_points, value, value_spatial_shapes, value_mask=None):
            value, points, weights = self.operands(query, reference_points, value, value_mask)
            return self.output_proj(self.ms_deformable_attn_core(
                value, value_spatial_shapes, points, weights, self.num_points_list))


class DFine:
    class MSDeformableAttention(_Projections):
        """Passes the value as levels: no form that accelerate() knows."""

        def __init__(self, counts):
            super().__init__(counts)
            self.ms_deformable_attn_core = functools.partial(deformable_attention_core_func_v2,
                                                             method="default")

        def forward(self, query, reference_points, value, value_spatial_shapes):
            raise NotImplementedError


# Hugging Face's.
class MultiScaleDeformableAttention(nn.Module):
    def forward(self, value, value_spatial_shapes, value_spatial_shapes_list, level_start_index,
                sampling_locations, attention_weights, im2col_step):
        return _attend_levels(value, value_spatial_shapes_list, sampling_locations,
                              attention_weights)


class WithoutList:
    class MultiScaleDeformableAttention(nn.Module):
        def forward(self, value, value_spatial_shapes, level_start_index, sampling_locations,
                    attention_weights, im2col_step):
            return _attend_levels(value, value_spatial_shapes, sampling_locations,
                                  attention_weights)


class HuggingFaceAttention(_Projections):
    def __init__(self, counts):
        super().__init__(counts)
        self.attn = MultiScaleDeformableAttention()

    def forward(self, query, reference_points, value, value_spatial_shapes, value_mask=None):
        value, points, weights = self.by_levels(query, reference_points, value, value_mask)
        return self.output_proj(self.attn(value, torch.tensor(value_spatial_shapes),
                                          value_spatial_shapes, torch.tensor([0]), points, weights,
                                          64))


class HuggingFaceWithoutList(_Projections):
    def __init__(self, counts):
        super().__init__(counts)
        self.attn = WithoutList.MultiScaleDeformableAttention()

    def forward(self, query, reference_points, value, value_spatial_shapes, value_mask=None):
        value, points, weights = self.by_levels(query, reference_points, value, value_mask)
        return self.output_proj(self.attn(value, torch.tensor(value_spatial_shapes),
                                          torch.tensor([0]), points, attention_weights=weights,
                                          im2col_step=64))


class HuggingFaceRtDetrV2(_Projections):
    def __init__(self, counts, method="default"):
        super().__init__(counts)
        self.method = method

    def forward(self, query, reference_points, value, value_spatial_shapes, value_mask=None):
        value, points, weights = self.operands(query, reference_points, value, value_mask)
        return self.output_proj(multi_scale_deformable_attention_v2(
            value, value_spatial_shapes, points, weights, self.num_points_list, self.method))


class HuggingFaceDFine(_Projections):
    def __init__(self, counts, method="default"):
        super().__init__(counts)
        self.decoder_method = method
        self.ms_deformable_attn_core = multi_scale_deformable_attention_v2

    def forward(self, query, reference_points, value, value_spatial_shapes, value_mask=None):
        value, points, weights = self.operands(query, reference_points, value, value_mask)
        return self.output_proj(self.ms_deformable_attn_core(
            value, value_spatial_shapes, points, weights, self.num_points_list,
            self.decoder_method))


class MSDeformAttn(_Projections):
    """Deformable DETR's and its descendants', with and without the heads before the locations."""

    def __init__(self, counts, heads_first=False):
        super().__init__(counts)
        self.heads_first = heads_first

    def forward(self, query, reference_points, value, value_spatial_shapes, value_mask=None):
        value, points, weights = self.by_levels(query, reference_points, value, value_mask)
        if self.heads_first:
            value = value.permute(0, 2, 3, 1)
        return self.output_proj(
            ms_deform_attn_core_pytorch(value, value_spatial_shapes, points, weights))


class Mask2Former(_Projections):
    def forward(self, query, reference_points, value, value_spatial_shapes, value_mask=None):
        value, points, weights = self.by_levels(query, reference_points, value, value_mask)
        return self.output_proj(
            multi_scale_deformable_attention(value, value_spatial_shapes, points, weights))
