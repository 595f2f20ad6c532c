// SPDX-License-Identifier: Apache-2.0
// RoIAlign on a feature pyramid: every box from the level that suits its size, into one output in
// the boxes' order.
//
// Lin et al.: "Feature Pyramid Networks for Object Detection", arXiv 1612.03144, equation 1, as
// torchvision's MultiScaleRoIAlign computes it, to the index. With s the square root of the box's
// area in pixels,
//
//   level = floor(canonical_level + log2(s / canonical_size) + 1e-6)
//
// where level k has one location in 2^k pixels, and the pyramid's first or last level where it has
// no such level. The numbers are in the boxes' type, rounded once an operation. A box of negative
// area, or with a NaN, takes the first level, an infinite one the last; what RoIAlign makes of them
// stands in roi_align.hpp, and so do accuracy, threads and errors. Besides, it is an error when
// there are no levels or more than 32, when images, channels or layout differ from level to level,
// when there are not as many scales as levels, the first is no power of two, or another is not half
// of the one before, when canonical_size is no positive finite float, or canonical_level is not
// from -64 to 64.
#pragma once

#include <vecdet/roi_align.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

struct multiscale_roi_align_params {
  /// Locations a pixel, one a level: 1/4, 1/8, 1/16 and 1/32 in most detectors.
  lasting<vector_view<const double>> scales;
  index_t sampling_ratio = 2;   ///< as roi_align_params'
  bool aligned = false;         ///< detectron2's half pixel
  bool add_to_grad = false;     ///< multiscale_roi_align_grad adds to what lies there
  double canonical_size = 224;  ///< side in pixels of a box of level canonical_level
  index_t canonical_level = 4;
};

/// The bins of every box into `out`, whose height and width say how many there are. `levels` are
/// the maps of the pyramid, from the finest on.
template <class T>
void multiscale_roi_align(vector_view<const feature_view<std::add_const_t<T>>> levels,
                          const roi_boxes<compute_type<value_of<T>>>& boxes, feature_view<T> out,
                          const multiscale_roi_align_params& params, roi_align_workspace& workspace,
                          execution policy = execution::parallel);

/// The gradients by all levels into `grads`, which have their shapes.
template <class T>
void multiscale_roi_align_grad(feature_view<T> upstream,
                               const roi_boxes<compute_type<value_of<T>>>& boxes,
                               vector_view<const feature_view<value_of<T>>> grads,
                               const multiscale_roi_align_params& params,
                               roi_align_workspace& workspace,
                               execution policy = execution::parallel);

/// The level of each box, float or double, into `levels`, of a pyramid of `count` levels whose
/// first has `scale` locations a pixel.
template <class Real>
void pyramid_levels(boxes_view<Real> boxes, vector_view<index_t> levels, index_t count,
                    double scale, double canonical_size = 224, index_t canonical_level = 4);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/multiscale_roi_align.hpp>
