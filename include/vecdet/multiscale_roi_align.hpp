// SPDX-License-Identifier: Apache-2.0
// RoIAlign on a feature pyramid: pools each box from the level that matches its size, into one
// output in the order of the boxes.
//
// Lin et al.: "Feature Pyramid Networks for Object Detection", arXiv 1612.03144, equation 1. The
// levels are identical to those of torchvision's MultiScaleRoIAlign. With s the square root of the
// box's area in pixels,
//
//   level = floor(canonical_level + log2(s / canonical_size) + 1e-6)
//
// clamped to the pyramid's levels. Level k has one location per 2^k pixels. The level is computed
// in the type of the boxes, with one rounding per operation. Boxes with a negative area or a NaN
// use the first level, infinite boxes the last. Results, accuracy, threads and errors are as in
// roi_align.hpp. It is also an error if there are no levels or more than 32; images, channels or
// layout differ between levels; the number of scales differs from the number of levels, the first
// scale is not a power of two, or a later scale is not half of the previous one; canonical_size is
// not a positive finite float; or canonical_level is outside [-64, 64].
#pragma once

#include <vecdet/roi_align.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

struct multiscale_roi_align_params {
  /// Locations per pixel, one per level: 1/4, 1/8, 1/16 and 1/32 in most detectors.
  lasting<vector_view<const double>> scales;
  index_t sampling_ratio = 2;   ///< as in roi_align_params
  bool aligned = false;         ///< as in roi_align_params
  bool add_to_grad = false;     ///< multiscale_roi_align_grad adds to `grads`
  double canonical_size = 224;  ///< side in pixels of a box on level canonical_level
  index_t canonical_level = 4;  ///< in [-64, 64]; 0 is the image, and each level halves it
};

/// Writes the bins of every box to `out`, whose height and width are the numbers of bins. `levels`
/// are the maps of the pyramid, finest first.
template <class T>
void multiscale_roi_align(vector_view<const feature_view<std::add_const_t<T>>> levels,
                          const roi_boxes<compute_type<value_of<T>>>& boxes, feature_view<T> out,
                          const multiscale_roi_align_params& params, roi_align_workspace& workspace,
                          threading policy = threading::parallel);

/// Writes the gradients with respect to all levels to `grads`, which have their shapes.
template <class T>
void multiscale_roi_align_grad(feature_view<T> upstream,
                               const roi_boxes<compute_type<value_of<T>>>& boxes,
                               vector_view<const feature_view<value_of<T>>> grads,
                               const multiscale_roi_align_params& params,
                               roi_align_workspace& workspace,
                               threading policy = threading::parallel);

/// Writes the level of each box (float or double) to `levels`, for a pyramid of `count` levels
/// whose first has `scale` locations per pixel.
template <class Real>
void pyramid_levels(boxes_view<Real> boxes, vector_view<index_t> levels, index_t count,
                    double scale, double canonical_size = 224, index_t canonical_level = 4);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/multiscale_roi_align.hpp>
