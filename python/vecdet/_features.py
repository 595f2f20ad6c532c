# SPDX-License-Identifier: Apache-2.0
"""RoIAlign, deformable attention and 3x3 convolution."""

from __future__ import annotations

import functools
import math
from ctypes import addressof, byref, c_void_p
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _c
from ._arrays import (TYPES, address, as_array, empty, float32, float32s, float64, floats, int64,
                      integers, joined, kept_params, optional, shape_error, wrong_shape)
from ._library import check, library
from ._targets import grid_sizes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def _maps(function: str, argument: str, value: Any) -> tuple[Any, Any]:
    """Feature maps [N, C, H, W] as an array and its description."""
    array = floats(function, argument, value)
    if array.ndim != 4:
        raise wrong_shape(function, argument, array, "[N, channels, height, width]")
    return array, _described(array)


def _described(array: Any) -> Any:
    return _c.features(address(array), *array.shape, _c.NCHW)


class _Rois:
    """Boxes [K, 5] with their image first, or a list with the boxes [L, 4] of each image, as in
    torchvision."""

    def __init__(self, function: str, boxes: Any, images: int, dtype: Any) -> None:
        if isinstance(boxes, (list, tuple)) and not (len(boxes) and np.ndim(boxes[0]) == 1):
            if len(boxes) != images:
                raise ValueError(f"vecdet.{function}: boxes has {len(boxes)} images, expected "
                                 f"{images}, as in the features")
            parts = [floats(function, "boxes", part) for part in boxes]
            for part in parts:
                if part.size and (part.ndim != 2 or part.shape[1] != 4):
                    raise wrong_shape(function, "boxes", part, "[L, 4]")
            corners = joined([part.reshape(-1, 4) for part in parts], (0, 4), float32)
            self.images = np.repeat(np.arange(images, dtype=np.int64),
                                    [part.size // 4 for part in parts])
        else:
            rows = floats(function, "boxes", boxes)
            if rows.ndim != 2 or rows.shape[1] != 5:
                raise wrong_shape(function, "boxes", rows,
                                  "[K, 5], the image first, or a list of [L, 4]")
            corners, self.images = rows[:, 1:], rows[:, 0].astype(int64)
        self.boxes = np.ascontiguousarray(corners, dtype=float64 if dtype == float64 else float32)
        self.argument = _c.roi_boxes(address(self.boxes), len(self.boxes), address(self.images))


def _sides(output_size: Any) -> tuple[int, int]:
    if isinstance(output_size, int):
        return output_size, output_size
    height, width = output_size
    return height, width


def roi_align(input: ArrayLike, boxes: Any, output_size: int | Sequence[int],
              spatial_scale: float = 1.0, sampling_ratio: int = -1,
              aligned: bool = False) -> NDArray[Any]:
    """RoIAlign, https://arxiv.org/abs/1703.06870: the features of each box, pooled to
    ``output_size``: [K, channels, height, width].

    Args:
        input: features [N, channels, H, W].
        boxes: [K, 5], an image index and corners; or a list with the corners [L, 4] of each image.
        spatial_scale: locations per pixel.
        sampling_ratio: samples per bin along each axis; 0 or less: one per location in the bin.
        aligned: shifts boxes by half a location, as detectron2 does.

    >>> features = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> roi_align(features, [[[0.5, 0.5, 2.5, 2.5]]], 1).tolist()
    [[[[7.5]]]]
    """
    function = "roi_align"
    array, features = _maps(function, "input", input)
    rois = _Rois(function, boxes, len(array), array.dtype)
    out = empty((len(rois.boxes), array.shape[1], *_sides(output_size)), array.dtype)
    params = kept_params(_c.roi_align_params, spatial_scale, sampling_ratio, aligned, False)
    check(library.vecdet_roi_align(TYPES[array.dtype], byref(features), byref(rois.argument),
                                   params, None, byref(_described(out))))
    return out


def roi_align_grad(grad: ArrayLike, boxes: Any, input_shape: Sequence[int],
                   spatial_scale: float = 1.0, sampling_ratio: int = -1,
                   aligned: bool = False) -> NDArray[Any]:
    """The gradient of roi_align with respect to its input, which has ``input_shape``. ``grad`` is
    the gradient with respect to the output."""
    function = "roi_align_grad"
    array, upstream = _maps(function, "grad", grad)
    rois = _Rois(function, boxes, input_shape[0], array.dtype)
    out = empty(tuple(input_shape), array.dtype)
    if out.ndim != 4:
        raise ValueError(f"vecdet.{function}: input_shape is {tuple(input_shape)}, expected "
                         "(N, channels, height, width)")
    params = kept_params(_c.roi_align_params, spatial_scale, sampling_ratio, aligned, False)
    check(library.vecdet_roi_align_grad(TYPES[array.dtype], byref(upstream), byref(rois.argument),
                                        params, None, byref(_described(out))))
    return out


def multiscale_roi_align(features: Sequence[ArrayLike], boxes: Any,
                         output_size: int | Sequence[int], scales: Sequence[float],
                         sampling_ratio: int = 2, aligned: bool = False, *,
                         canonical_scale: float = 224, canonical_level: int = 4) -> NDArray[Any]:
    """RoIAlign on a pyramid: each box is pooled from the level that matches its size, as in
    torchvision's MultiScaleRoIAlign.

    Args:
        features: [N, channels, H, W] per level, finest first.
        boxes, output_size, sampling_ratio, aligned: as in roi_align.
        scales: locations per pixel of each level, powers of two.
    """
    function = "multiscale_roi_align"
    maps = [_maps(function, "features", level) for level in features]
    if not maps:
        raise ValueError(f"vecdet.{function}: features is empty, expected one array per level")
    first = maps[0][0]
    for array, _ in maps:
        if array.dtype != first.dtype:
            raise TypeError(f"vecdet.{function}: features has {array.dtype}, expected "
                            f"{first.dtype}, as in the first level")
    steps = np.ascontiguousarray(scales, dtype=np.float64)
    if steps.shape != (len(maps),):
        raise wrong_shape(function, "scales", steps, f"[{len(maps)}], one per level")
    rois = _Rois(function, boxes, len(first), first.dtype)
    out = empty((len(rois.boxes), first.shape[1], *_sides(output_size)), first.dtype)
    levels = (_c.features * len(maps))(*(described for _, described in maps))
    params = kept_params(_c.roi_align_params, 1, sampling_ratio, aligned, False)
    check(library.vecdet_multiscale_roi_align(
        TYPES[first.dtype], levels, address(steps), len(maps), byref(rois.argument), params,
        canonical_scale, canonical_level, None, byref(_described(out))))
    return out


class _Attention:
    """The inputs of deformable attention as the C functions take them."""

    def __init__(self, function: str, value: Any, level_sizes: Any, points: Any, weights: Any,
                 level_points: Any) -> None:
        self.value = floats(function, "value", value)
        if self.value.ndim != 4:
            raise wrong_shape(function, "value", self.value, "[N, locations, heads, channels]")
        images, locations, heads, channels = self.value.shape
        real: Any = float64 if self.value.dtype == float64 else float32
        self.points = floats(function, "points", points).astype(real, copy=False)
        self.weights = floats(function, "weights", weights).astype(real, copy=False)
        if (self.points.ndim not in (5, 6) or self.points.shape[-1] != 2
                or self.points.shape[0] != images or self.points.shape[2] != heads):
            raise wrong_shape(function, "points", self.points,
                              f"[{images}, queries, {heads}, points, 2] or "
                              f"[{images}, queries, {heads}, levels, points, 2]")
        if self.weights.shape != self.points.shape[:-1]:
            raise wrong_shape(function, "weights", self.weights,
                              f"{list(self.points.shape[:-1])}, points without x and y")
        grids = grid_sizes(function, level_sizes)
        counts = None
        if level_points is not None:
            listed = as_array(function, "level_points", level_points)
            if listed.ndim != 1:
                raise wrong_shape(function, "level_points", listed,
                                  f"[{len(grids)}], one number per level")
            counts = tuple(integers(function, "level_points", listed).tolist())
        self.out_shape = (images, self.points.shape[1], heads, channels)
        self.shape = _attention_shape(function, self.value.shape, grids.tobytes(),
                                      self.points.shape, counts)


@functools.lru_cache(maxsize=256)
def _attention_shape(function: str, value_shape: Any, level_sizes: bytes, points_shape: Any,
                     level_points: Any) -> Any:
    """What calls with the same shapes share: the argument that describes them."""
    images, locations, heads, channels = value_shape
    grids = np.frombuffer(level_sizes, int64).reshape(-1, 2).tolist()
    expected = sum(height * width for height, width in grids)
    if expected != locations:
        raise shape_error(function, "value", value_shape,
                          f"[N, {expected}, heads, channels], the locations of all levels")
    levels = (_c.attention_level * len(grids))(*(
        _c.attention_level(height, width, count) for (height, width), count in zip(
            grids, _level_points(function, len(grids), points_shape, level_points))))
    shape = _c.attention_shape(images, points_shape[1], heads, channels, addressof(levels),
                               len(grids))
    shape.levels_memory = levels  # which the address does not keep
    return byref(shape)


def _level_points(function: str, levels: int, points_shape: Any, level_points: Any) -> Any:
    """The number of points of each level."""
    total = math.prod(points_shape[3:-1])
    if len(points_shape) == 6 and points_shape[3] != levels:
        raise shape_error(function, "points", points_shape,
                          f"[N, queries, heads, {levels}, points, 2], one per level")
    if level_points is None:
        if total % max(1, levels):
            raise shape_error(function, "points", points_shape, "[N, queries, heads, points, 2] "
                              f"with as many points on each of {levels} levels")
        return [total // max(1, levels)] * levels
    if len(level_points) != levels or sum(level_points) != total:
        raise ValueError(f"vecdet.{function}: level_points is {list(level_points)}, expected "
                         f"{levels} numbers, one per level, whose sum is {total}, the points")
    return level_points


def deformable_attention(value: ArrayLike, level_sizes: ArrayLike, points: ArrayLike,
                         weights: ArrayLike,
                         level_points: Sequence[int] | None = None) -> NDArray[Any]:
    """Multi-scale deformable attention, https://arxiv.org/abs/2010.04159, equation 3, without its
    linear layers: each query sums samples of the feature maps at its points. Samples are bilinear,
    as in torch's grid_sample with align_corners=False and zeros outside; points that are NaN or
    infinite contribute 0.

    Args:
        value: [N, locations of all levels, heads, channels], the levels one after the other.
        level_sizes: (height, width) of each level.
        points: [N, queries, heads, levels, points, 2] or [N, queries, heads, points of all
            levels, 2]: x and y, 0 to 1 from edge to edge of a level. Points and weights are
            converted to float32, or to float64 for a value of float64.
        weights: the shape of points without its last dimension.
        level_points: the number of points on each level; None: the same number on each.

    Returns:
        [N, queries, heads * channels], of the value's type.

    >>> value = np.array([1, 3, 10, 30, 100.0]).reshape(1, 5, 1, 1)  # levels of 2 x 2 and 1 x 1
    >>> points = np.array([[0.5, 0.375], [0, 0.5]]).reshape(1, 1, 1, 2, 2)
    >>> weights = np.array([0.5, 2]).reshape(1, 1, 1, 2)
    >>> deformable_attention(value, [(2, 2), (1, 1)], points, weights).tolist()
    [[[103.25]]]
    """
    of = _Attention("deformable_attention", value, level_sizes, points, weights, level_points)
    out = empty(of.out_shape, of.value.dtype)
    check(library.vecdet_deformable_attention(
        TYPES[of.value.dtype], of.shape, address(of.value), address(of.points),
        address(of.weights), None, address(out)))
    return out.reshape(*out.shape[:2], out.shape[2] * out.shape[3])


def deformable_attention_grad(
    grad: ArrayLike,
    value: ArrayLike,
    level_sizes: ArrayLike,
    points: ArrayLike,
    weights: ArrayLike,
    level_points: Sequence[int] | None = None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The gradients of deformable_attention with respect to value, points and weights, in their
    shapes. ``grad`` is the gradient with respect to the output, [N, queries, heads * channels].

    >>> value = np.array([1, 3, 10, 30.0]).reshape(1, 4, 1, 1)
    >>> point = np.array([0.5, 0.375]).reshape(1, 1, 1, 1, 2)
    >>> grads = deformable_attention_grad([[[4.0]]], value, [(2, 2)], point, [[[[0.5]]]])
    >>> grads[0].ravel().tolist(), grads[1].ravel().tolist(), grads[2].ravel().tolist()
    ([0.75, 0.75, 0.25, 0.25], [26.0, 72.0], [26.0])
    """
    function = "deformable_attention_grad"
    of = _Attention(function, value, level_sizes, points, weights, level_points)
    upstream = floats(function, "grad", grad).astype(of.value.dtype, copy=False)
    images, queries, heads, channels = of.out_shape
    if upstream.shape != (images, queries, heads * channels):
        raise wrong_shape(function, "grad", upstream,
                          f"[{images}, {queries}, {heads * channels}], the output's shape")
    grads = np.empty_like(of.value), np.empty_like(of.points), np.empty_like(of.weights)
    check(library.vecdet_deformable_attention_grad(
        TYPES[of.value.dtype], of.shape, address(upstream), address(of.value),
        address(of.points), address(of.weights), None, *map(address, grads)))
    return grads


class Conv3x3:
    """A 3x3 convolution with stride 1 and padding 1, by minimal filtering, in float32. The weights
    are transformed once.

    Args:
        weight: [output channels, input channels, 3, 3].
        bias: [output channels].
        relu: max(output, 0).
        accurate: tiles of 2 x 2 instead of 4 x 4 outputs: more accurate and slower.

    >>> weight = np.zeros((1, 1, 3, 3), np.float32)
    >>> weight[0, 0, 1, 1] = 2
    >>> Conv3x3(weight)(np.ones((1, 1, 2, 2), np.float32)).round(4).tolist()
    [[[[2.0, 2.0], [2.0, 2.0]]]]
    """

    def __init__(self, weight: ArrayLike, bias: ArrayLike | None = None, relu: bool = False,
                 accurate: bool = False) -> None:
        self._handle: int | None = None
        array, described = _maps("Conv3x3", "weight", float32s("Conv3x3", "weight", weight))
        self.output_channels, self.input_channels = array.shape[:2]
        self._bias = None if bias is None else float32s("Conv3x3", "bias", bias).copy()
        if self._bias is not None and self._bias.shape != (self.output_channels,):
            raise wrong_shape("Conv3x3", "bias", self._bias, f"[{self.output_channels}]")
        self._relu = relu
        handle = c_void_p()
        check(library.vecdet_conv3x3_weights_create(
            byref(described), _c.CONV3X3_FORWARD, _c.F2X2 if accurate else _c.F4X4, byref(handle)))
        self._handle = handle.value
        self._free = library.vecdet_conv3x3_weights_free

    def __call__(self, input: ArrayLike) -> NDArray[np.float32]:
        """The convolution of ``input`` [N, input channels, H, W]."""
        array, described = _maps("Conv3x3", "input", float32s("Conv3x3", "input", input))
        out = empty((len(array), self.output_channels, *array.shape[2:]), np.float32)
        check(library.vecdet_conv3x3(byref(described), self._handle, optional(self._bias),
                                     self._relu, None, byref(_described(out))))
        return out

    def __del__(self) -> None:
        if self._handle is not None:
            self._free(self._handle)


def pyramid_levels(boxes: ArrayLike, levels: int, scale: float = 0.25,
                   canonical_scale: float = 224, canonical_level: int = 4) -> NDArray[np.int64]:
    """The level of each of ``boxes`` [N, 4] in a pyramid of ``levels`` levels, whose first has
    ``scale`` locations per pixel.

    >>> pyramid_levels([[0, 0, 32, 32], [0, 0, 500, 500]], 4).tolist()
    [0, 3]
    """
    array = floats("pyramid_levels", "boxes", boxes)
    if TYPES[array.dtype] == _c.BFLOAT16:
        array = array.astype(np.float32)
    if array.ndim != 2 or array.shape[1] != 4:
        raise wrong_shape("pyramid_levels", "boxes", array, "[N, 4]")
    out = empty(len(array), np.int64)
    check(library.vecdet_pyramid_levels(TYPES[array.dtype], address(array), len(array), levels,
                                        scale, canonical_scale, canonical_level, address(out)))
    return out
