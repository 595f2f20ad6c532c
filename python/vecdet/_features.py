# SPDX-License-Identifier: Apache-2.0
"""RoIAlign, deformable attention and 3x3 convolutions."""

from __future__ import annotations

import functools
import math
import sys
from ctypes import addressof, byref, c_void_p
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _c
from ._arrays import (TYPES, address, as_array, check_integers, empty, empty_like, float32,
                      float32s, float64, floats, int64, integers, ndarray, optional, real_numbers,
                      result, shape_error, shape_of, wrong_shape)
from ._library import Handle, check, library
from ._messages import found
from ._packed import bytes_address, grid_sizes_of, joined, level_numbers_of, packer
from ._parameters import flag, integer, listed, number, pair, params_of

__all__ = [
    "Conv3x3", "deformable_attention", "deformable_attention_grad", "grouped_conv3x3",
    "multiscale_roi_align", "pyramid_levels", "roi_align", "roi_align_grad",
]

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


_deformable_attention = library.vecdet_deformable_attention
_deformable_attention_grad = library.vecdet_deformable_attention_grad
_CORNERS = (slice(None), slice(1, None))  # of rows with the image first
_IMAGE = (slice(None), 0)
_pack_features = packer(_c.features)
_pack_rois = packer(_c.roi_boxes)
_roi_align_params = params_of(_c.roi_align_params)
_grouped_conv3x3_params = params_of(_c.grouped_conv3x3_params)


def _maps(function: str, argument: str, value: Any) -> Any:
    """Feature maps [N, C, H, W]."""
    array = floats(function, argument, value)
    if array.ndim != 4:
        raise wrong_shape(function, argument, array, "[N, channels, height, width]")
    return array


def _described(array: Any) -> bytes:
    return _pack_features(address(array), *array.shape, _c.NCHW)


class _Rois:
    """Boxes [K, 5] with their image first, or a list with the boxes [L, 4] of each image, as in
    torchvision."""

    def __init__(self, function: str, boxes: Any, images: int, dtype: Any) -> None:
        real: Any = float64 if dtype == float64 else float32
        if (type(boxes) is not ndarray and isinstance(boxes, (list, tuple))
                and not (len(boxes) and len(first := shape_of(boxes[0])) == 1 and first[0])):
            if not boxes and images == 1:
                boxes = [boxes]
            if len(boxes) != images:
                raise ValueError(f"vecdet.{function}: boxes has {len(boxes)} images, expected "
                                 f"{images}, as in the features")
            parts = []
            for part in boxes:
                array = floats(function, "boxes", part)
                if array.size and (array.ndim != 2 or array.shape[1] != 4):
                    raise wrong_shape(function, "boxes", array, "[L, 4]")
                if array.dtype is not real:
                    if real is float32:
                        check_integers(function, "boxes", part)
                    array = array.astype(real, copy=False)
                parts.append(array)
            counts = [part.size // 4 for part in parts]
            self.count = sum(counts)
            corners, *kept = joined(parts)
            # The image of each box, in int64.
            indices = b"".join([image.to_bytes(8, sys.byteorder) * count
                                for image, count in enumerate(counts)])
        else:
            rows = floats(function, "boxes", boxes)
            if rows.ndim != 2 or rows.shape[1] != 5:
                raise wrong_shape(function, "boxes", rows,
                                  "[K, 5], the image first, or a list of [L, 4]")
            if real is float32 and rows.dtype == float64:
                check_integers(function, "boxes", boxes)
            own = rows[_CORNERS].astype(real)
            self.count, corners, kept = len(rows), address(own), [own]
            numbers = rows[_IMAGE]
            whole = numbers.astype(int64)
            if whole.astype(rows.dtype).tobytes() != numbers.tobytes():
                _check_whole(function, numbers)
            indices = whole.tobytes()
        self._memory = indices, kept  # to which the addresses point
        self.argument = _pack_rois(corners, self.count, bytes_address(indices))


def _check_whole(function: str, images: Any) -> None:
    """Refuses an image index with a fraction, or of more than 64 bits."""
    for image in images.tolist():
        if image % 1 != 0 or abs(image) >= 2**63:  # also NaN and infinity
            raise ValueError(f"vecdet.{function}: boxes has the image {image}, expected an integer")


def _sides(function: str, output_size: Any) -> tuple[int, int]:
    if isinstance(output_size, int) or shape_of(output_size) == ():
        try:
            side = integer(function, "output_size", output_size)
        except TypeError as error:
            raise TypeError(found(function, "output_size", output_size) + ", expected an integer, "
                            "or (height, width)") from error
        output_size = side, side
    height, width = pair(function, "output_size", output_size, integer)
    if height < 0 or width < 0:
        raise ValueError(f"vecdet.{function}: output_size is {height, width}, expected 0 or more")
    return height, width


# Keywords of roi_align_params, without sampling_ratio, add_to_grad
def roi_align(
    input: ArrayLike,
    boxes: Any,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> NDArray[Any]:
    """RoIAlign, https://arxiv.org/abs/1703.06870: the features of each box, pooled to
    ``output_size``: [K, channels, height, width].

    Args:
        input: features [N, channels, H, W].
        boxes: [K, 5], an image index and corners; or a list with the corners [L, 4] of each image.
        output_size: (height, width), or one number for both.
        spatial_scale: locations per pixel: 1 / stride. Default 1.
        aligned: shifts boxes by half a location, as detectron2 does. Default False.
        sampling_ratio: samples per bin along each axis; 0 or less: one per location in the bin.

    >>> features = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> roi_align(features, [[[0.5, 0.5, 2.5, 2.5]]], 1).tolist()
    [[[[7.5]]]]
    """
    function = "roi_align"
    array = _maps(function, "input", input)
    rois = _Rois(function, boxes, len(array), array.dtype)
    out = result(function, "output_size", output_size,
                 (rois.count, array.shape[1], *_sides(function, output_size)), array.dtype)
    params = _roi_align_params(function, spatial_scale, sampling_ratio, aligned, False)
    check(library.vecdet_roi_align(TYPES[array.dtype], _described(array), rois.argument, params,
                                   None, _described(out)), function)
    return out


# Keywords of roi_align_params, without sampling_ratio, add_to_grad
def roi_align_grad(
    grad: ArrayLike,
    boxes: Any,
    input_shape: Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> NDArray[Any]:
    """The gradient of roi_align with respect to its input, which has ``input_shape``. ``grad`` is
    the gradient with respect to the output."""
    function = "roi_align_grad"
    array = _maps(function, "grad", grad)
    shape = listed(function, "input_shape", input_shape)
    if len(shape) != 4:
        raise ValueError(found(function, "input_shape", shape)
                         + ", expected (N, channels, height, width)")
    try:
        out = result(function, "input_shape", shape, shape, array.dtype)
    except MemoryError:
        raise
    except Exception as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(found(function, "input_shape", shape) + ", expected integers of 0 or more whose "
                   "product fits into memory") from error
    rois = _Rois(function, boxes, len(out), array.dtype)
    params = _roi_align_params(function, spatial_scale, sampling_ratio, aligned, False)
    check(library.vecdet_roi_align_grad(TYPES[array.dtype], _described(array), rois.argument,
                                        params, None, _described(out)), function)
    return out


# Keywords of multiscale_roi_align_params: canonical_size is canonical_scale,
# without scales, add_to_grad
def multiscale_roi_align(
    features: Sequence[ArrayLike],
    boxes: Any,
    output_size: int | Sequence[int],
    scales: Sequence[float],
    sampling_ratio: int = 2,
    aligned: bool = False,
    *,
    canonical_scale: float = 224.0,
    canonical_level: int = 4,
) -> NDArray[Any]:
    """RoIAlign on a pyramid: each box is pooled from the level that matches its size, as in
    torchvision's MultiScaleRoIAlign.

    Args:
        features: [N, channels, H, W] per level, finest first.
        boxes, output_size: as in roi_align.
        scales: locations per pixel of each level, powers of two.
        sampling_ratio, aligned: as in roi_align. Defaults 2, False.
        canonical_scale: side in pixels of a box on level canonical_level. Default 224.
        canonical_level: in [-64, 64]; 0 is the image, and each level halves it. Default 4.
    """
    function = "multiscale_roi_align"
    maps = [_maps(function, "features", level) for level in listed(
        function, "features", features, "a list with one array per level")]
    if not maps:
        raise ValueError(found(function, "features", features) + ", expected one array per level")
    first = maps[0]
    for array in maps:
        if array.dtype != first.dtype:
            raise TypeError(f"vecdet.{function}: features has {array.dtype}, expected "
                            f"{first.dtype}, as in the first level")
    steps = level_numbers_of(function, "scales", scales, len(maps))
    rois = _Rois(function, boxes, len(first), first.dtype)
    out = result(function, "output_size", output_size,
                 (rois.count, first.shape[1], *_sides(function, output_size)), first.dtype)
    params = _roi_align_params(function, 1, sampling_ratio, aligned, False)
    check(library.vecdet_multiscale_roi_align(
        TYPES[first.dtype], b"".join(map(_described, maps)), steps, len(maps), rois.argument,
        params, number(function, "canonical_scale", canonical_scale),
        integer(function, "canonical_level", canonical_level), None, _described(out)), function)
    return out


def _attention(function: str, value: Any, level_sizes: Any, points: Any, weights: Any,
               level_points: Any) -> Any:
    """The inputs of deformable attention as arrays, the argument that describes them, and the
    output's shape."""
    value = floats(function, "value", value)
    real: Any = float64 if value.dtype == float64 else float32
    points, weights = floats(function, "points", points), floats(function, "weights", weights)
    if points.dtype is not real:
        points = points.astype(real, copy=False)
    if weights.dtype is not real:
        weights = weights.astype(real, copy=False)
    counts = None
    grids, levels = grid_sizes_of(function, level_sizes)
    if level_points is not None:
        listed = as_array(function, "level_points", level_points)
        if listed.ndim != 1:
            raise wrong_shape(function, "level_points", listed, f"[{levels}], one number per level")
        counts = tuple(integers(function, "level_points", listed).tolist())
    shape, out_shape = _attention_shape(function, value.shape, points.shape, weights.shape, grids,
                                        counts)
    return value, points, weights, shape, out_shape


@functools.lru_cache(maxsize=256)
def _attention_shape(function: str, value: tuple[int, ...], points: tuple[int, ...],
                     weights: tuple[int, ...], level_sizes: bytes, level_points: Any) -> Any:
    """What calls with the same shapes share: the argument that describes them, and the output's
    shape."""
    if len(value) != 4:
        raise shape_error(function, "value", value, "[N, locations, heads, channels]")
    images, locations, heads, channels = value
    if (len(points) not in (5, 6) or points[-1] != 2 or points[0] != images
            or points[2] != heads):
        raise shape_error(function, "points", points, f"[{images}, queries, {heads}, points, 2] or "
                          f"[{images}, queries, {heads}, levels, points, 2]")
    if weights != points[:-1]:
        raise shape_error(function, "weights", weights,
                          f"{list(points[:-1])}, points without x and y")
    sides = memoryview(level_sizes).cast("q").tolist()
    grids = list(zip(sides[::2], sides[1::2]))
    expected = sum(height * width for height, width in grids)
    if expected != locations:
        raise shape_error(function, "value", value,
                          f"[N, {expected}, heads, channels], the locations of all levels")
    levels = (_c.attention_level * len(grids))(*(
        _c.attention_level(height, width, count) for (height, width), count in zip(
            grids, _level_points(function, len(grids), points, level_points))))
    shape = _c.attention_shape(images, points[1], heads, channels, addressof(levels), len(grids))
    shape.levels_memory = levels  # which the address does not keep
    return byref(shape), (images, points[1], heads * channels)


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


def deformable_attention(
    value: ArrayLike,
    level_sizes: Sequence[Sequence[int]] | ArrayLike,
    points: ArrayLike,
    weights: ArrayLike,
    level_points: Sequence[int] | None = None,
) -> NDArray[Any]:
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
    inputs, at, factors, shape, out_shape = _attention(
        "deformable_attention", value, level_sizes, points, weights, level_points)
    out = empty(out_shape, inputs.dtype)
    check(_deformable_attention(TYPES[inputs.dtype], shape, address(inputs), address(at),
                                address(factors), None, address(out)), "deformable_attention")
    return out


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
    inputs, at, factors, shape, out_shape = _attention(function, value, level_sizes, points,
                                                       weights, level_points)
    upstream = floats(function, "grad", grad)
    if upstream.dtype is not inputs.dtype:
        upstream = upstream.astype(inputs.dtype, copy=False)
    if upstream.shape != out_shape:
        raise wrong_shape(function, "grad", upstream, f"{list(out_shape)}, the output's shape")
    grads = empty_like(inputs), empty_like(at), empty_like(factors)
    check(_deformable_attention_grad(
        TYPES[inputs.dtype], shape, address(upstream), address(inputs), address(at),
        address(factors), None, *map(address, grads)), function)
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
        array = _maps("Conv3x3", "weight", float32s("Conv3x3", "weight", weight)).copy()
        self.output_channels, self.input_channels = array.shape[:2]
        self._bias = None if bias is None else float32s("Conv3x3", "bias", bias).copy()
        if self._bias is not None and self._bias.shape != (self.output_channels,):
            raise wrong_shape("Conv3x3", "bias", self._bias, f"[{self.output_channels}]")
        self._weight = array
        self._relu = flag("Conv3x3", "relu", relu)
        self._accurate = flag("Conv3x3", "accurate", accurate)
        handle = c_void_p()
        check(library.vecdet_conv3x3_weights_create(
            _described(array), _c.CONV3X3_FORWARD, _c.F2X2 if self._accurate else _c.F4X4,
            byref(handle)), "Conv3x3")
        self._handle = Handle(handle, library.vecdet_conv3x3_weights_free)

    def __reduce__(self) -> Any:
        """Copies and pickles transform the weights again."""
        return type(self), (self._weight, self._bias, bool(self._relu), bool(self._accurate))

    def __call__(self, input: ArrayLike) -> NDArray[np.float32]:
        """The convolution of ``input`` [N, input channels, H, W]."""
        array = _maps("Conv3x3", "input", float32s("Conv3x3", "input", input))
        out = empty((len(array), self.output_channels, *array.shape[2:]), np.float32)
        check(library.vecdet_conv3x3(_described(array), self._handle.address, optional(self._bias),
                                     self._relu, None, _described(out)), "Conv3x3")
        return out


# Keywords of grouped_conv3x3_params
def grouped_conv3x3(
    input: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    groups: int = 1,
    stride: int = 1,
) -> NDArray[np.float32]:
    """The 3x3 convolution with padding 1 in groups of channels, in float32.

    Larger layers with stride 2 and one group are computed by minimal filtering, whose rounding
    differs from that of a direct convolution.

    There may be one group with any numbers of channels, groups with 4 or 8 input channels and as
    many output channels, or groups whose numbers of input and output channels are multiples of 16.

    Args:
        input: [N, input channels, H, W].
        weight: [output channels, input channels of a group, 3, 3].
        bias: [output channels]. Default None: all 0.
        groups: 1 or more; both numbers of channels are multiples of it. Default 1.
        stride: rows and columns of the input from one output to the next, 1 or 2. Default 1.

    Returns:
        [N, output channels, H / stride, W / stride], rounded up.

    >>> weight = np.ones((4, 4, 3, 3), np.float32)
    >>> grouped_conv3x3(np.ones((1, 4, 2, 3), np.float32), weight, stride=2)[0, 3].tolist()
    [[16.0, 16.0]]
    """
    function = "grouped_conv3x3"
    maps = _maps(function, "input", float32s(function, "input", input))
    weights = _maps(function, "weight", float32s(function, "weight", weight))
    numbers = None if bias is None else float32s(function, "bias", bias)
    if numbers is not None and numbers.shape != weights.shape[:1]:
        raise wrong_shape(function, "bias", numbers, f"[{len(weights)}]")
    params = _grouped_conv3x3_params(function, groups, stride)
    step = max(1, integer(function, "stride", stride))
    size = (-(-side // step) for side in maps.shape[2:])
    out = empty((len(maps), len(weights), *size), np.float32)
    check(library.vecdet_grouped_conv3x3(_described(maps), _described(weights), optional(numbers),
                                         params, None, _described(out)), function)
    return out


# Keywords of multiscale_roi_align_params: canonical_size is canonical_scale,
# without scales, sampling_ratio, aligned, add_to_grad
def pyramid_levels(
    boxes: ArrayLike,
    levels: int,
    scale: float = 0.25,
    canonical_scale: float = 224.0,
    canonical_level: int = 4,
) -> NDArray[np.int64]:
    """The level of each of ``boxes`` [N, 4] in a pyramid of ``levels`` levels, whose first has
    ``scale`` locations per pixel.

    >>> pyramid_levels([[0, 0, 32, 32], [0, 0, 500, 500]], 4).tolist()
    [0, 3]
    """
    function = "pyramid_levels"
    array = real_numbers(function, "boxes", boxes)
    if TYPES[array.dtype] == _c.BFLOAT16:
        array = array.astype(np.float32)
    if array.ndim != 2 or array.shape[1] != 4:
        raise wrong_shape(function, "boxes", array, "[N, 4]")
    out = empty(len(array), np.int64)
    check(library.vecdet_pyramid_levels(TYPES[array.dtype], address(array), len(array),
                                        integer(function, "levels", levels),
                                        number(function, "scale", scale),
                                        number(function, "canonical_scale", canonical_scale),
                                        integer(function, "canonical_level", canonical_level),
                                        address(out)), function)
    return out
