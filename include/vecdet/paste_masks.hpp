// SPDX-License-Identifier: Apache-2.0
// Masks of objects from maps of the objects alone, as Mask R-CNN has them (arXiv 1703.06870): each
// map is enlarged to its object's box and pasted into the picture.
//
// The rule is that of torchvision's paste_masks_in_image. A map of height x width numbers gets a
// border of one location of 0 on every side. The box is enlarged about its centre by (width + 2) /
// width and (height + 2) / height, in float, and the corners of the result are truncated towards 0
// to whole pixels x1 y1 x2 y2. The map with its border, x2 - x1 + 1 by y2 - y1 + 1 pixels large and
// interpolated linearly in x and y with half-pixel centres, covers the columns x1 to x2 and the
// rows y1 to y2. The part within the picture is the mask's rectangle. A pixel of it belongs to the
// object if its number is above the threshold.
//
// The mask is empty, 0 0 0 0, if the map has no locations, if the box is not finite before or after
// it is enlarged, if x2 < x1 or y2 < y1 of the whole pixels, and if these lie outside the picture.
// A box without area thus has a pixel, and one slightly outside may have some.
//
// The threshold t is rounded to float. Pixels are those of exact arithmetic, unless the number is
// within 2^-20 (m + |t|) of t, where m is the greatest magnitude in the map, or a difference of two
// numbers overflows, or a product underflows. A number that is NaN belongs to no object; pixels
// beside numbers that are not finite may be either. Results are bit-identical on any number of
// threads. No picture of numbers is stored.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/masks.hpp>
#include <vecdet/masks_params.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The masks of N objects, in their order. The result is stored in the workspace and is valid until
/// its next use.
/// @param maps N x 1 x height x width of float or bfloat16: probabilities, NCHW or NHWC; sides are
///   0 to 2^20
/// @param boxes N: x1 y1 x2 y2 in pixels of the object's picture
/// @param image_offsets the objects of image k are [image_offsets[k], image_offsets[k + 1]); empty:
///   there is one image
/// @param sizes the size of each image's picture in pixels, or one size for all; sides are 0 to
///   2^20
/// @throws std::invalid_argument if sizes differ, a size is out of range, there are several maps
///   per object, the threshold is not finite in float, or the masks are larger than memory can
///   address
template <class T>
masks_view paste_masks(feature_view<T> maps, boxes_view<const float> boxes,
                       vector_view<const index_t> image_offsets, vector_view<const grid_size> sizes,
                       const paste_masks_params& params, masks_workspace& workspace,
                       threading policy = threading::parallel);

/// The numbers themselves, without a threshold: a whole picture of each object, in which pixels
/// outside the mask's rectangle are 0. Numbers are those of exact arithmetic within 2^-20 m, where
/// m is the greatest magnitude in the map, unless a difference of two numbers overflows or a
/// product underflows. Numbers beside one that is not finite may be anything.
/// @param maps as in paste_masks()
/// @param boxes N: x1 y1 x2 y2 in pixels
/// @param pictures N x 1 x height x width, NCHW or NHWC; sides are 0 to 2^20. All is written. It
///   must not overlap an input.
/// @throws std::invalid_argument if sizes differ or are out of range, there are several maps or
///   pictures per object, or pictures overlap an input
template <class T>
void paste_soft_masks(feature_view<T> maps, boxes_view<const float> boxes,
                      feature_view<float> pictures, masks_workspace& workspace,
                      threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/paste_masks.hpp>
