// SPDX-License-Identifier: Apache-2.0
// Rotated boxes: conversion between formats, areas, and the exact IoU of all pairs or of
// corresponding boxes.
//
// Boxes are rows of float or double, at any distance. A box has five numbers: centre, width, height
// and angle; angle_convention says in which unit and direction. bfloat16 is not offered: its angles
// would be half a degree wrong.
//
// A box is not a number if one of its numbers is not finite, a side is negative, or its angle
// exceeds 1e6 degrees or radians in magnitude: every IoU with it is NaN. Conversions and areas
// compute with the numbers as they are; without a direction, corners are NaN. The IoU of two boxes
// without area is 0/0, which is NaN; empty_iou::zero turns every NaN IoU into 0.
//
// IoUs are between 0 and 1. They are within 1e-5 of the exact value in float and within 1e-12 in
// double, for sides in a ratio of at most 40 : 1, wherever the boxes are, and equal boxes with area
// have 1. Exact is the IoU of the boxes that the numbers describe. For longer boxes of ratio r, the
// bound grows by r / 40.
//
// If both angles are multiples of 90 degrees, the IoU is instead that of pairwise_iou() for the
// corners that convert_boxes() gives, bit for bit, unless a side or coordinate of a float box
// exceeds 2^60 or its area is below 2^-100. Far from the origin, the rounding of corners moves the
// IoU by more than the bound, and a box may lose its area. Floats of any size are computed without
// overflow; doubles over- or underflow for sides of 1e150 and more or below 1e-150.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ or the output
// shares memory with an input.
#pragma once

#include <vecdet/angle_convention.hpp>
#include <vecdet/iou_kind.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/value_of.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Converts `boxes` from format `from` to format `to`. Angles computed from corners are in
/// [-180, 180] degrees; a box without width gets the angle 0. An upright box gets the angle 0.
/// rotated_format::xywhr is refused for frameworks that do not use the name.
template <class T>
void convert_rotated_boxes(matrix_view<T> boxes, rotated_format from, rotated_format to,
                           angle_convention angles, matrix_view<value_of<T>> out,
                           threading policy = threading::parallel);

/// Writes width times height of `boxes`, which are cxcywhr or xywhr.
template <class T>
void rotated_box_areas(matrix_view<T> boxes, vector_view<value_of<T>> areas,
                       threading policy = threading::parallel);

/// Writes the IoU of box i of `a` and box j of `b`, both cxcywhr, to element (i, j) of `out`.
template <class T>
void pairwise_rotated_iou(matrix_view<T> a, matrix_view<const value_of<T>> b,
                          angle_convention angles, matrix_view<value_of<T>> out,
                          empty_iou empty = empty_iou::nan, threading policy = threading::parallel);

/// Writes the IoU of box i of `a` and box i of `b`, both cxcywhr, to out[i].
template <class T>
void elementwise_rotated_iou(matrix_view<T> a, matrix_view<const value_of<T>> b,
                             angle_convention angles, vector_view<value_of<T>> out,
                             empty_iou empty = empty_iou::nan,
                             threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/rotated_boxes.hpp>
