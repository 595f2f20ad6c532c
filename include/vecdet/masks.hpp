// SPDX-License-Identifier: Apache-2.0
// Masks of objects from a network's prototypes, as in YOLACT (arXiv 1904.02689) and the YOLO models
// for segmentation.
//
// The network gives P prototypes, maps of height x width numbers, and P coefficients for each
// object. The object's logit at a location is
//
//   l[y, x] = sum over p of coefficients[p] * prototypes[p, y, x]
//
// Between locations, it is interpolated linearly in x and y. Pixels and locations have half-pixel
// centres: the centre of pixel i of n is at (i + 0.5) m / n - 0.5 of m locations, but not before
// the first and not after the last location, as torch's interpolate(mode="bilinear") has it. A
// pixel belongs to the object if it lies in the object's box and its logit is above 0, which is a
// probability above 0.5. mask_rule says what comes first.
//
// A pixel i lies in a box if x1 <= i and i < x2, and rows likewise, in float. Boxes that are NaN,
// inverted, outside or without a pixel have an empty mask, 0 0 0 0. With the rule native, boxes are
// in the picture. The picture was scaled to fit the network's input and centred: rows and columns
// of prototypes that have only padding are left out, by ultralytics' rounding; at least one
// remains. With the other rules, the picture is the network's input. Boxes are multiplied by
// locations / pixels, in float, and logits outside are 0.
//
// The logits are computed in float, also for prototypes of bfloat16. Pixels are those of exact
// arithmetic, unless the logit is within (P + 16) 2^-24 times the sum of the products' magnitudes
// of 0. This holds if no product, sum or difference of neighbouring logits overflows or underflows.
// A logit that is NaN belongs to no object; pixels between infinite logits may be either. Results
// are bit-identical on any number of threads.
//
// No map of logits is stored: a call needs memory for some rows of prototypes, and for the results.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/impl/masks_buffers.hpp>
#include <vecdet/masks_params.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/value_of.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Scratch memory and results of masks. It grows to the needs of the largest call and is reused.
/// Only one call at a time may use it.
class masks_workspace {
  friend detail::workspace_access;
  detail::masks_buffers buffers_;
};

/// The masks of N objects, in their order. The result is stored in the workspace and is valid until
/// its next use.
/// @param prototypes images x P x height x width of float or bfloat16, NCHW
/// @param coefficients N x P
/// @param boxes N: x1 y1 x2 y2 in pixels of the object's picture
/// @param image_offsets the objects of image k are [image_offsets[k], image_offsets[k + 1]); empty:
///   there is one image
/// @param sizes the size of each image's picture in pixels, or one size for all; sides are 0 to
///   2^20
/// @throws std::invalid_argument if sizes differ, a size is out of range, the prototypes are NHWC,
///   or the masks are larger than memory can address
template <class T>
masks_view masks_from_prototypes(feature_view<T> prototypes, matrix_view<const float> coefficients,
                                 boxes_view<const float> boxes,
                                 vector_view<const index_t> image_offsets,
                                 vector_view<const grid_size> sizes,
                                 const prototype_masks_params& params, masks_workspace& workspace,
                                 threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/masks.hpp>
