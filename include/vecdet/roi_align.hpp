// SPDX-License-Identifier: Apache-2.0
// RoIAlign, forward and backward: what a box head sees of a feature map, at one size for every box.
//
// He et al.: "Mask R-CNN", arXiv 1703.06870, section 3, as torchvision.ops.roi_align computes it. A
// box x1 y1 x2 y2 in pixels, times spatial_scale, and less 0.5 where `aligned`, is cut into bins,
// the height and width of the output. In each bin lie s x s samples, evenly spread: with the box
// from (x, y) on and bins of w x h, sample (i, j) of bin (p, q) is at
//
//   (x + q w + (j + 0.5) w / s,  y + p h + (i + 0.5) h / s)
//
// It is the bilinear interpolation of the four locations around it, 0 if it lies beyond -1 or the
// map's size; from -1 to 0 and over the last location it is the border's. The output is the mean of
// the bin's samples. s is sampling_ratio, or adaptive, ceil(h) x ceil(w). Without `aligned` a box
// is at least one location high and wide.
//
// Samples are of rows and columns each, so that a bin is the sum of weights of rows times weights
// of columns times features. These are computed once a box, in double, and serve all channels.
//
//   features  images x channels x height x width, and the output boxes x channels x bins' rows x
//             bins' columns, both NCHW or both NHWC; float, bfloat16 or double
//   boxes     corners; float, and double for features in double; each with its image
//
// NHWC is what vectors like: every operation is on neighbouring channels, and costs what it reads,
// at most 4 s^2 locations a bin. NCHW is transposed on the way, 16 channels of a few rows at a
// time, where boxes are many for their map. Forward, few boxes, and maps of fewer than 8 channels,
// take another way: they read the whole width of a box in every row that samples touch, and then
// pick columns, at about three times the time a box.
//
// Any box is data. Samples outside of the map are 0, so a box outside gives 0. A box without size
// has all its samples in one place when `aligned`, and adaptively none; one turned inside out has
// them in the opposite order, and adaptively none; a bin without samples is 0. A box with a NaN, or
// that is infinite, has none. Infinite features and gradients, and NaN, pass on to what depends on
// them with a weight other than 0. None of this reads or writes outside of the tensors.
//
// Accuracy: in float, outputs are within 4 ulp of the mean of the magnitudes in their bin, for the
// box as given; torchvision's positions, computed in float, are off by more. bfloat16 is such a
// float rounded once. Results are the same bits for any number of threads and in either layout. An
// element of the gradient is the sum over the boxes in their order.
//
// Every function throws std::invalid_argument, and writes nothing, when shapes or layouts differ,
// an output shares memory with an input, there are boxes but no images, both images and
// image_offsets are given, or neither fits the boxes, an image is not in [0, images), spatial_scale
// is not a positive finite float, or sampling_ratio is above 1024.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/impl/roi_align_buffers.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

struct roi_align_params {
  double spatial_scale = 1;    ///< locations a pixel: 1 / stride
  index_t sampling_ratio = 0;  ///< samples of a bin in a row, at most 1024; below 1: adaptive
  bool aligned = false;        ///< detectron2's half pixel
  bool add_to_grad = false;    ///< roi_align_grad adds to what lies there; otherwise it overwrites
};

/// Boxes and the images that they lie in. Where neither `images` nor `image_offsets` is given, all
/// lie in image 0.
template <class Real>
struct roi_boxes {
  lasting<boxes_view<const Real>> boxes;  ///< x1 y1 x2 y2 in pixels
  lasting<labels_view> images;            ///< one a box
  /// Instead, for boxes that lie image by image: image k's boxes are [image_offsets[k],
  /// image_offsets[k + 1]). One more than there are images.
  lasting<vector_view<const index_t>> image_offsets;
};

/// Memory that RoIAlign works in: the boxes' weights, some 1 KiB a box, and a tile of the map,
/// backward of 0.5 MiB, forward in NCHW of 16 channels and as many rows as the highest box has; on
/// several threads 8 tiles a thread. It grows to what the calls need and is reused. One call at a
/// time.
class roi_align_workspace {
  friend detail::workspace_access;
  detail::roi_align_buffers buffers_;
};

/// The bins of every box into `out`, whose height and width say how many there are.
template <class T>
void roi_align(feature_view<T> features, const roi_boxes<compute_type<value_of<T>>>& boxes,
               feature_view<value_of<T>> out, const roi_align_params& params,
               roi_align_workspace& workspace, execution policy = execution::parallel);

/// The gradient by the features into `grad`, which has their shape, of a loss whose gradient by the
/// bins is `upstream`. Sums are in the type that is computed in, float for bfloat16.
template <class T>
void roi_align_grad(feature_view<T> upstream, const roi_boxes<compute_type<value_of<T>>>& boxes,
                    feature_view<value_of<T>> grad, const roi_align_params& params,
                    roi_align_workspace& workspace, execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/roi_align.hpp>
