# SPDX-License-Identifier: Apache-2.0
"""RoIAlign and 3x3 convolution."""

from __future__ import annotations

from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import _c
from ._arrays import TYPES, address, floats, float32s, optional, wrong_shape
from ._library import check, library

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
                                 f"{images}, as the features")
            parts = [floats(function, "boxes", part) for part in boxes]
            for part in parts:
                if part.size and (part.ndim != 2 or part.shape[1] != 4):
                    raise wrong_shape(function, "boxes", part, "[L, 4]")
            joined = np.concatenate([part.reshape(-1, 4) for part in parts]) if parts else \
                np.empty((0, 4), np.float32)
            self.images = np.repeat(np.arange(images, dtype=np.int64),
                                    [part.size // 4 for part in parts])
        else:
            rows = floats(function, "boxes", boxes)
            if rows.ndim != 2 or rows.shape[1] != 5:
                raise wrong_shape(function, "boxes", rows,
                                  "[K, 5], the image first, or a list of [L, 4]")
            joined, self.images = rows[:, 1:], rows[:, 0].astype(np.int64)
        real = np.float64 if dtype == np.float64 else np.float32
        self.boxes = np.ascontiguousarray(joined, dtype=real)
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
        boxes: [K, 5], the image's index before the corners; or a list with corners [L, 4] per
            image.
        spatial_scale: locations per pixel.
        sampling_ratio: samples per bin and axis; below 1: adaptive.
        aligned: shifts boxes by half a location, as detectron2 does.

    >>> features = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> roi_align(features, [[[0.5, 0.5, 2.5, 2.5]]], 1).tolist()
    [[[[7.5]]]]
    """
    function = "roi_align"
    array, features = _maps(function, "input", input)
    rois = _Rois(function, boxes, len(array), array.dtype)
    out = np.empty((len(rois.boxes), array.shape[1], *_sides(output_size)), array.dtype)
    params = _c.roi_align_params(spatial_scale, sampling_ratio, aligned, False)
    check(library.vecdet_roi_align(TYPES[array.dtype], byref(features), byref(rois.argument),
                                   byref(params), None, byref(_described(out))))
    return out


def roi_align_grad(grad: ArrayLike, boxes: Any, input_shape: Sequence[int],
                   spatial_scale: float = 1.0, sampling_ratio: int = -1,
                   aligned: bool = False) -> NDArray[Any]:
    """The gradient of roi_align with respect to its input, which has ``input_shape``. ``grad`` is
    the gradient with respect to the output."""
    function = "roi_align_grad"
    array, upstream = _maps(function, "grad", grad)
    rois = _Rois(function, boxes, input_shape[0], array.dtype)
    out = np.empty(tuple(input_shape), array.dtype)
    if out.ndim != 4:
        raise ValueError(f"vecdet.{function}: input_shape is {tuple(input_shape)}, expected "
                         "(N, channels, height, width)")
    params = _c.roi_align_params(spatial_scale, sampling_ratio, aligned, False)
    check(library.vecdet_roi_align_grad(TYPES[array.dtype], byref(upstream), byref(rois.argument),
                                        byref(params), None, byref(_described(out))))
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
                            f"{first.dtype}, as the first level")
    steps = np.ascontiguousarray(scales, dtype=np.float64)
    if steps.shape != (len(maps),):
        raise wrong_shape(function, "scales", steps, f"[{len(maps)}], one per level")
    rois = _Rois(function, boxes, len(first), first.dtype)
    out = np.empty((len(rois.boxes), first.shape[1], *_sides(output_size)), first.dtype)
    levels = (_c.features * len(maps))(*(described for _, described in maps))
    params = _c.roi_align_params(1, sampling_ratio, aligned, False)
    check(library.vecdet_multiscale_roi_align(
        TYPES[first.dtype], levels, address(steps), len(maps), byref(rois.argument), byref(params),
        canonical_scale, canonical_level, None, byref(_described(out))))
    return out


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
        out = np.empty((len(array), self.output_channels, *array.shape[2:]), np.float32)
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
    out = np.empty(len(array), np.int64)
    check(library.vecdet_pyramid_levels(TYPES[array.dtype], address(array), len(array), levels,
                                        scale, canonical_scale, canonical_level, address(out)))
    return out
