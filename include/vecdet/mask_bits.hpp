// SPDX-License-Identifier: Apache-2.0
// Operations on masks as rectangles of pixels (masks_view.hpp): areas, boxes and overlaps. They are
// exact: pixels are counted, and a ratio of two numbers of pixels is rounded once, to double.
// run_lengths.hpp has the same functions for COCO's run lengths, with the same results.
//
// Pixels may be bits or bytes; a byte other than 0 is a pixel of the object. Bits in the padding of
// a row are ignored. Rectangles are in the picture's pixels, so the masks of a call may have
// different rectangles. The size of the picture does not matter.
//
// Every function throws std::invalid_argument, and writes nothing, unless 0 <= x1 <= x2 <= 2^31 - 1
// in each rectangle, likewise y; if offsets are not N + 1 that rise from 0 to the number of bytes,
// the bytes of a mask are not those of its rectangle, kind or overlap is no enumerator, the size of
// an output or of is_crowd does not fit, or an output shares memory with an input. Results are the
// same on any number of threads.
#pragma once

#include <vecdet/impl/mask_bits_buffers.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

/// Scratch memory: copies of masks as bits. It grows to the needs of the largest call and is
/// reused. Only one call at a time may use it.
class mask_bits_workspace {
  friend detail::workspace_access;
  detail::mask_bits_buffers buffers_;
};

/// The number of pixels of each object.
/// @param areas N
void mask_areas(const masks_view& masks, vector_view<index_t> areas,
                threading policy = threading::parallel);

/// The smallest rectangle of whole pixels that contains each object, x1 y1 x2 y2; 0 0 0 0 if the
/// object has no pixels.
/// @param boxes N
void mask_boxes(const masks_view& masks, boxes_view<index_t> boxes,
                threading policy = threading::parallel);

/// The overlap of each mask of `a` (rows) and each of `b` (columns): the number of common pixels,
/// divided as `overlap` says; 0 if there are no common pixels. If the mask of `b` is one of COCO's
/// crowds, many objects in one mask, the divisor is the area of the mask of `a`. If `a` and `b` are
/// the same view, each pair is counted once.
/// @param is_crowd one byte per mask of `b`, not 0 for crowds; empty: there are none
/// @param overlaps N x M
void mask_iou(const masks_view& a, const masks_view& b, mask_overlap overlap,
              vector_view<const std::uint8_t> is_crowd, matrix_view<double> overlaps,
              mask_bits_workspace& workspace, threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/mask_bits.hpp>
