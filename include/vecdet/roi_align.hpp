// SPDX-License-Identifier: Apache-2.0
// RoIAlign, forward and backward: pools the features of each box to a fixed size for a box head.
//
// He et al.: "Mask R-CNN", arXiv 1703.06870, section 3, as in torchvision.ops.roi_align. A box
// x1 y1 x2 y2 in pixels is multiplied by spatial_scale, shifted by -0.5 if `aligned`, and divided
// into as many bins as the output has rows and columns. Each bin has s x s evenly spaced samples.
// If the box starts at (x, y) and its bins are w x h, sample (i, j) of bin (p, q) is at
//
//   (x + q w + (j + 0.5) w / s,  y + p h + (i + 0.5) h / s)
//
// A sample is the bilinear interpolation of the four locations around it. A sample below -1 or
// above the map's size is 0. Between -1 and 0, and beyond the last location, it takes the value of
// the border. The output is the mean of the bin's samples. s is sampling_ratio; if adaptive, a bin
// has ceil(h) x ceil(w) samples. Unless `aligned`, a box is enlarged to at least one location in
// height and width.
//
// Sampling is separable: a bin is the sum of features times row weights times column weights. The
// weights are computed once per box, in double, and used for all channels.
//
//   features  images x channels x height x width; the output is boxes x channels x rows of bins x
//             columns of bins; both NCHW or both NHWC; float, bfloat16 or double
//   boxes     corners of float (double for features of double), each with its image
//
// NHWC suits vector instructions: every operation is on neighbouring channels, and a bin reads at
// most 4 s^2 locations. With many boxes for the size of the map, NCHW is transposed on the fly, 16
// channels of a few rows at a time. With few boxes, or fewer than 8 channels, the forward pass in
// NCHW reads the whole width of a box in every row that samples touch and then selects columns,
// which takes about three times as long per box.
//
// Any box is data. Samples outside the map are 0, so a box outside the map gives 0. If `aligned`, a
// box of size 0 has all its samples at one point, and a box with swapped corners has its samples in
// reverse order; with adaptive sampling, neither has samples. A bin without samples is 0. A box
// with NaN or infinite coordinates has no samples. Infinite and NaN features and gradients
// propagate to every result that depends on them with a weight other than 0. No box causes accesses
// outside the tensors.
//
// Accuracy: in float, the error of an output is within 4 ulp of the mean of the magnitudes in its
// bin. torchvision's error is larger, because it computes sample positions in float. bfloat16
// results are these floats, rounded once. Results are bit-identical on any number of threads and in
// both layouts. Gradients are summed over the boxes in their order.
//
// Every function throws std::invalid_argument, and writes nothing, if shapes or layouts differ, an
// output shares memory with an input, there are boxes but no images, both images and image_offsets
// are given, either does not match the boxes, an image is not in [0, images), spatial_scale is not
// a positive finite float, or sampling_ratio is above 1024.
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

/// The defaults are torchvision's.
struct roi_align_params {
  double spatial_scale = 1;    ///< locations per pixel: 1 / stride
  index_t sampling_ratio = 0;  ///< samples per bin and axis, at most 1024; below 1: adaptive
  bool aligned = false;        ///< shifts boxes by half a location, as detectron2 does
  bool add_to_grad = false;    ///< roi_align_grad adds to `grad` instead of overwriting it
};

/// Boxes and their images. If neither `images` nor `image_offsets` is given, all boxes belong to
/// image 0.
template <class Real>
struct roi_boxes {
  lasting<boxes_view<const Real>> boxes{};  ///< x1 y1 x2 y2 in pixels
  lasting<labels_view> images{};            ///< one per box
  /// An alternative to `images` if boxes are stored image by image: the boxes of image k are
  /// [image_offsets[k], image_offsets[k + 1]). Has one element more than there are images.
  lasting<vector_view<const index_t>> image_offsets{};
};

/// Scratch memory for RoIAlign: about 1 KiB per box for its weights, and tiles of the map. A
/// backward tile takes 0.5 MiB; a forward tile in NCHW has 16 channels and the rows of the tallest
/// box. There is one tile on one thread, and 8 per thread on several. The memory grows to the needs
/// of the largest call and is reused. Only one call at a time may use it.
class roi_align_workspace {
  friend detail::workspace_access;
  detail::roi_align_buffers buffers_;
};

/// Writes the bins of every box to `out`, whose height and width are the numbers of bins.
template <class T>
void roi_align(feature_view<T> features, const roi_boxes<compute_type<value_of<T>>>& boxes,
               feature_view<value_of<T>> out, const roi_align_params& params,
               roi_align_workspace& workspace, threading policy = threading::parallel);

/// Writes the gradient with respect to the features to `grad`, which has their shape. `upstream` is
/// the gradient with respect to the bins. Sums are in the compute type, float for bfloat16.
template <class T>
void roi_align_grad(feature_view<T> upstream, const roi_boxes<compute_type<value_of<T>>>& boxes,
                    feature_view<value_of<T>> grad, const roi_align_params& params,
                    roi_align_workspace& workspace, threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/roi_align.hpp>
