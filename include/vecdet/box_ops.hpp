// SPDX-License-Identifier: Apache-2.0
// What is done to boxes besides coding them: conversions between formats, clipping into an image,
// areas, and finding those that are too small, as torchvision.ops has them; and rows of detections
// as boxes, scores and classes.
//
// Boxes are N x 4 of float, bfloat16 or double; boxes that are written may be the input's own
// memory, other outputs lie apart from it and from each other. Every number is rounded once an
// operation; NaN stays NaN. Every function throws std::invalid_argument, and writes nothing, when
// sizes differ, an output shares memory otherwise than that, a class is no integer within 2^53, an
// image's size is negative or no finite float, or min_size is not from 0 to 1e35.
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// `boxes` in format `from` written in format `to`.
template <class Boxes>
void convert_boxes(const Boxes& boxes, box_format from, box_format to,
                   boxes_view<coordinate_of<Boxes>> out, execution policy = execution::parallel);

/// The same of boxes whose type says their format: structs of your own by their box_layout,
/// anything else as corners.
template <class Boxes>
void convert_boxes(const Boxes& boxes, box_format to, boxes_view<coordinate_of<Boxes>> out,
                   execution policy = execution::parallel);

/// The parts of `boxes` (corners) that lie in an image: x into [0, width], y into [0, height].
template <class Boxes>
void clip_boxes(const Boxes& boxes, const image_size& image, boxes_view<coordinate_of<Boxes>> out,
                execution policy = execution::parallel);

/// Width times height of `boxes` (corners): negative where one of them is.
template <class Boxes>
void box_areas(const Boxes& boxes, vector_view<coordinate_of<Boxes>> areas,
               execution policy = execution::parallel);

/// 1 into `mask` for each of `boxes` (corners) with both sides `min_size` or more, else 0. Sides
/// are rounded to the type that is computed in, and so is min_size; a NaN side is too small.
template <class Boxes, detail::require_boxes<Boxes> = 0>
void large_box_mask(const Boxes& boxes, double min_size, vector_view<std::uint8_t> mask,
                    execution policy = execution::parallel);

/// The indices of these boxes, ascending, into the front of `indices`, which holds as many;
/// returns how many they are. torchvision's remove_small_boxes.
template <class Boxes, detail::require_boxes<Boxes> = 0>
index_t large_boxes(const Boxes& boxes, double min_size, vector_view<index_t> indices,
                    execution policy = execution::parallel);

/// The columns of `detections`, rows of x1 y1 x2 y2 score and maybe more, as boxes and scores,
/// which NMS takes: one pass over memory, some hundredths of what NMS takes.
template <class T>
void split_detections(matrix_view<T> detections, boxes_view<value_of<T>> boxes,
                      vector_view<value_of<T>> scores, execution policy = execution::parallel);

/// The same with the class after the score: an integer within 2^53, as `classes` of nms_groups.
template <class T>
void split_detections(matrix_view<T> detections, boxes_view<value_of<T>> boxes,
                      vector_view<value_of<T>> scores, vector_view<index_t> classes,
                      execution policy = execution::parallel);

/// The inverse: boxes (corners) and scores as rows of x1 y1 x2 y2 score, with any further columns
/// left as they are.
template <class Boxes>
void join_detections(const Boxes& boxes, vector_view<const coordinate_of<Boxes>> scores,
                     matrix_view<coordinate_of<Boxes>> detections,
                     execution policy = execution::parallel);

/// The same with the class after the score; it has to be a number that the type holds exactly.
template <class Boxes>
void join_detections(const Boxes& boxes, vector_view<const coordinate_of<Boxes>> scores,
                     labels_view classes, matrix_view<coordinate_of<Boxes>> detections,
                     execution policy = execution::parallel);

/// `boxes` with each coordinate in an array of its own, and back.
template <class Boxes>
void split_boxes(const Boxes& boxes, boxes_soa_view<coordinate_of<Boxes>> out,
                 execution policy = execution::parallel);
template <class T>
void join_boxes(boxes_soa_view<T> boxes, boxes_view<value_of<T>> out,
                execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/box_ops.hpp>
