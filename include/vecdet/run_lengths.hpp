// SPDX-License-Identifier: Apache-2.0
// Masks as COCO's run lengths: encoding and decoding, areas, bounding boxes, overlaps, unions and
// intersections, compressed strings, masks from polygons and back. Results equal those of COCO's
// mask API (github.com/cocodataset/cocoapi) if no count but the first of a mask is 0. If another
// one is 0, boxes and merged masks here follow from the pixels.
//
// Every function throws std::invalid_argument, and writes nothing, if the counts of a mask do not
// add up to the pixels of its picture, offsets do not ascend from 0 to the number of elements,
// there are more or fewer sizes than masks, a side is negative, a picture has 2^32 pixels or more,
// or an output shares memory with an input. Results of a workspace are valid until a function that
// returns the same kind of result uses the workspace again. Inputs of a function that returns run
// lengths, such as `sizes`, must not be in earlier run lengths of the same workspace: this is an
// error, too.
//
// Run lengths that the functions return have no count of 0 but the first. A picture without pixels
// has the one count 0. Results are the same on any number of threads.
#pragma once

#include <vecdet/grid_size.hpp>
#include <vecdet/impl/run_lengths_buffers.hpp>
#include <vecdet/masks.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/run_lengths_view.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

/// Scratch memory and results. It grows to the needs of the largest call and is reused. Only one
/// call at a time may use it.
class run_lengths_workspace {
  friend detail::workspace_access;
  detail::run_lengths_buffers buffers_;
};

/// Which pixels merged masks have.
enum class mask_merging {
  any,   ///< those of any mask: the union
  every  ///< those of every mask: the intersection
};

/// The run lengths of masks.
/// @param sizes the size of each mask's picture in pixels, or one size for all
/// @throws std::invalid_argument if a mask's rectangle does not lie in its picture, or its pixels
///   do not have the size of the rectangle
run_lengths_view encode_masks(const masks_view& masks, vector_view<const grid_size> sizes,
                              run_lengths_workspace& workspace,
                              threading policy = threading::parallel);

/// The same for whole pictures, where a byte other than 0 is a pixel of the object. Bytes of a
/// column or of a row that follow each other in memory are encoded fastest.
run_lengths_view encode_masks(const byte_pictures<const std::uint8_t>& pictures,
                              run_lengths_workspace& workspace,
                              threading policy = threading::parallel);

/// The masks as rectangles that are whole pictures. The result is stored in the workspace and is
/// valid until its next use.
masks_view decode_masks(const run_lengths_view& runs, mask_pixels pixels,
                        masks_workspace& workspace, threading policy = threading::parallel);

/// Writes the masks into pictures of their size: 1 for pixels of the object, else 0.
/// @throws std::invalid_argument if the number or the size of the pictures differs, or strides make
///   pixels share a byte
void decode_masks(const run_lengths_view& runs, const byte_pictures<std::uint8_t>& pictures,
                  threading policy = threading::parallel);

/// The number of pixels of each object.
void mask_areas(const run_lengths_view& runs, vector_view<index_t> areas);

/// The smallest rectangle of whole pixels that contains each object, x1 y1 x2 y2; 0 0 0 0 if the
/// object has no pixels. COCO's toBbox has x1, y1, x2 - x1 and y2 - y1.
void mask_boxes(const run_lengths_view& runs, boxes_view<index_t> boxes);

/// The overlap of each mask of `a` (rows) and each of `b` (columns): the number of common pixels,
/// divided as `overlap` says; 0 if there are no common pixels. If the mask of `b` is one of COCO's
/// crowds, many objects in one mask, the divisor is the area of the mask of `a`.
/// @param is_crowd one byte per mask of `b`, not 0 for crowds; empty: there are none
/// @throws std::invalid_argument if not all pictures have the same size, or overlap is no
///   enumerator
void mask_iou(const run_lengths_view& a, const run_lengths_view& b, mask_overlap overlap,
              vector_view<const std::uint8_t> is_crowd, matrix_view<double> ious,
              run_lengths_workspace& workspace, threading policy = threading::parallel);

/// The union or intersection of all masks, of which there is one or more, as one mask.
/// @throws std::invalid_argument if not all pictures have the same size
run_lengths_view merge_masks(const run_lengths_view& runs, mask_merging merging,
                             run_lengths_workspace& workspace);

/// COCO's compressed strings. From the fourth count on, the difference to the count two before it
/// is written. A number is written in groups of 5 bits, the lowest first, until the rest repeats
/// the sign. A group is the character 48 plus the bits, plus 32 if another group follows.
run_length_strings run_lengths_to_strings(const run_lengths_view& runs,
                                          run_lengths_workspace& workspace);

/// The run lengths in compressed strings.
/// @param sizes the size of each mask's picture
/// @throws std::invalid_argument if a string has other characters than those from 48 to 111, ends
///   within a number, or has a number of more than 7 characters or a count outside [0, 2^32)
run_lengths_view run_lengths_from_strings(const run_length_strings& strings,
                                          vector_view<const grid_size> sizes,
                                          run_lengths_workspace& workspace);

/// The masks of polygons, by COCO's rule. Points are multiplied by 5, and 0.5 is added and the
/// fraction dropped. Edges are drawn through them in whole steps of the longer side, the other
/// coordinate rounded likewise. Where an edge passes from 5 x + 2 to 5 x + 3, column x changes in
/// row y, 0 to the picture's height: the first whose 5 y + 2 is not above the upper one of the two
/// points. A pixel belongs to the object if the changes at and before it, counted column by column,
/// are odd.
/// @param points x y of all polygons, in pixels; at most 2^27 in magnitude
/// @param offsets polygon i has the points [offsets[i], offsets[i + 1]), at least 3
/// @param sizes the size of each polygon's picture in pixels, or one size for all
run_lengths_view run_lengths_from_polygons(vector_view<const double> points,
                                           vector_view<const index_t> offsets,
                                           vector_view<const grid_size> sizes,
                                           run_lengths_workspace& workspace);

/// The polygons around the pixels of each mask, along the borders of pixels. Pixel (x, y) is the
/// square from (x, y) to (x + 1, y + 1). Horizontal and vertical edges alternate, so a polygon has
/// 4 points or more. Those around an object go clockwise, as seen in a picture (x to the right, y
/// down), and those around its holes the other way: their areas, by the sum of x dy, are positive
/// and negative, and add up to the number of pixels. Pixels that touch only at a corner are apart,
/// and holes that touch only there are one. Polygons are in the order of their first columns, then
/// rows.
///
/// run_lengths_from_polygons() draws each polygon exactly in pictures with sides of up to 2^27, the
/// greatest coordinate that it takes. A pixel belongs to the mask if an odd number of the mask's
/// polygons contain it. Without holes, the union of the polygons is the mask.
mask_polygons_view mask_polygons(const run_lengths_view& runs, run_lengths_workspace& workspace);

/// The masks of boxes, x1 y1 x2 y2: those of the polygons of their corners.
run_lengths_view run_lengths_from_boxes(boxes_view<const double> boxes,
                                        vector_view<const grid_size> sizes,
                                        run_lengths_workspace& workspace);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/run_lengths.hpp>
#include <vecdet/impl/run_lengths_decoding.hpp>
#include <vecdet/impl/run_lengths_encoding.hpp>
#include <vecdet/impl/run_lengths_outlines.hpp>
#include <vecdet/impl/run_lengths_polygons.hpp>
#include <vecdet/impl/run_lengths_strings.hpp>
