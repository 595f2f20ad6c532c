// SPDX-License-Identifier: Apache-2.0
// Box operations as in torchvision.ops: conversion between formats, clipping to an image, areas and
// removal of small boxes. Detection rows can be split into boxes, scores and classes, and joined
// again.
//
// Boxes are N x 4 of float, bfloat16 or double. Output boxes may reuse the input's memory. Other
// outputs may not share memory with the input or with each other. Each operation rounds once; NaN
// stays NaN. Every function throws std::invalid_argument, and writes nothing, if sizes differ, an
// output shares memory in another way, a class is not an integer of at most 2^53 in magnitude, an
// image's size is negative or not a finite float, or min_size is outside [0, 1e35].
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// Converts `boxes` from format `from` to format `to`.
template <class Boxes>
void convert_boxes(const Boxes& boxes, box_format from, box_format to,
                   boxes_view<coordinate_of<Boxes>> out, threading policy = threading::parallel);

/// The same with the source format taken from the boxes' type: box_layout's format for your own
/// structs, corners for everything else.
template <class Boxes>
void convert_boxes(const Boxes& boxes, box_format to, boxes_view<coordinate_of<Boxes>> out,
                   threading policy = threading::parallel);

/// Clips `boxes` (corners) to an image: x to [0, width], y to [0, height].
template <class Boxes>
void clip_boxes(const Boxes& boxes, const image_size& image, boxes_view<coordinate_of<Boxes>> out,
                threading policy = threading::parallel);

/// Width times height of `boxes` (corners); negative if exactly one of the two is negative.
template <class Boxes>
void box_areas(const Boxes& boxes, vector_view<coordinate_of<Boxes>> areas,
               threading policy = threading::parallel);

/// Writes 1 to `mask` for each of `boxes` (corners) with both sides at least `min_size`, else 0.
/// Sides and min_size are rounded to the compute type. A NaN side counts as too small.
template <class Boxes, detail::require_boxes<Boxes> = 0>
void large_box_mask(const Boxes& boxes, double min_size, vector_view<std::uint8_t> mask,
                    threading policy = threading::parallel);

/// Writes the indices of the boxes with both sides at least `min_size`, ascending, to the front of
/// `indices`, which has one element per box. Returns their number. torchvision's
/// remove_small_boxes.
template <class Boxes, detail::require_boxes<Boxes> = 0>
index_t large_boxes(const Boxes& boxes, double min_size, vector_view<index_t> indices,
                    threading policy = threading::parallel);

/// Splits `detections`, rows of x1 y1 x2 y2 score and possibly more columns, into boxes and scores
/// for NMS. This takes one pass over memory, a few percent of the time of NMS.
template <class T>
void split_detections(matrix_view<T> detections, boxes_view<value_of<T>> boxes,
                      vector_view<value_of<T>> scores, threading policy = threading::parallel);

/// The same for rows with the class after the score. A class is an integer of at most 2^53 in
/// magnitude, as in nms_groups::classes.
template <class T>
void split_detections(matrix_view<T> detections, boxes_view<value_of<T>> boxes,
                      vector_view<value_of<T>> scores, vector_view<index_t> classes,
                      threading policy = threading::parallel);

/// The inverse: joins boxes (corners) and scores to rows of x1 y1 x2 y2 score. Further columns are
/// left unchanged.
template <class Boxes>
void join_detections(const Boxes& boxes, vector_view<const coordinate_of<Boxes>> scores,
                     matrix_view<coordinate_of<Boxes>> detections,
                     threading policy = threading::parallel);

/// The same with the class after the score. The type must represent the class exactly.
template <class Boxes>
void join_detections(const Boxes& boxes, vector_view<const coordinate_of<Boxes>> scores,
                     labels_view classes, matrix_view<coordinate_of<Boxes>> detections,
                     threading policy = threading::parallel);

/// Splits `boxes` into one array per coordinate. join_boxes() is the inverse.
template <class Boxes>
void split_boxes(const Boxes& boxes, boxes_soa_view<coordinate_of<Boxes>> out,
                 threading policy = threading::parallel);
template <class T>
void join_boxes(boxes_soa_view<T> boxes, boxes_view<value_of<T>> out,
                threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/box_ops.hpp>
