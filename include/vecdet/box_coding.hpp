// SPDX-License-Identifier: Apache-2.0
// Box coding: deltas that regress anchors to boxes, and the boxes that deltas mean.
//
// Girshick et al.: "Rich feature hierarchies for accurate object detection", arXiv 1311.2524,
// appendix C, with weights as in torchvision's and detectron2's coders. With centres (x, y) and
// sizes (w, h), no + 1:
//
//   dx = wx (gx - ax) / aw      gx = ax + aw dx / wx
//   dy = wy (gy - ay) / ah      gy = ay + ah dy / wy
//   dw = ww log(gw / aw)        gw = aw exp(clamp(dw / ww))
//   dh = wh log(gh / ah)        gh = ah exp(clamp(dh / wh))
//
// FCOS, arXiv 1904.01355, has the distances (left, top, right, bottom) from the anchor's centre to
// the box's sides instead, divided by the anchor's size in torchvision. SSD, arXiv 1512.02325, has
// priors as centre and size, and variances, which are weights under another name: coder_params::
// ssd().
//
// All are N x 4 of float, bfloat16 or double. An output may be the memory of the first input, if of
// its type. encode_boxes and decode_boxes also take the coordinates in four arrays, boxes_soa_view.
// decode_boxes and decode_distances also take deltas of bfloat16 on anchors of float.
//
// Accuracy, in float, with weights that are floats: deltas and distances are within 4 ulp of the
// exact value, also where coordinates cancel. Corners are within 4 ulp of the largest number that
// they are computed from: the centre, the size, the anchor's corners. (Without fused multiply-add,
// on the x86-64 baseline, corners are within 6, and 64 where dw or dh is large and no clamp bounds
// it.) Other weights are rounded to float, which adds an ulp. bfloat16 results are such floats
// rounded once.
//
// Degenerate boxes are data: an anchor or target of size 0 or with corners swapped gives the
// infinities and NaN of the formulas; NaN stays NaN, through clamp and clip as well; without a
// clamp exp may overflow to infinity.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, an output
// shares memory with an input otherwise than said, a weight is not from 1e-35 to 1e35, the size
// limit is negative or not finite, anchors are said to be xywh, or an image's size is negative or
// no finite float.
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// What bounds dw and dh, divided by their weights, before exp.
enum class size_clamp {
  above,  ///< at most size_limit: torchvision, detectron2
  both,   ///< within +-size_limit: mmdetection
  none    ///< unbounded: SSD
};

struct coder_params {
  double weight_x = 1, weight_y = 1, weight_w = 1, weight_h = 1;  ///< positive
  size_clamp clamp = size_clamp::above;
  double size_limit = 4.135166556742356;  ///< log(1000 / 16); 0 or more
  box_format anchors = box_format::xyxy;  ///< or cxcywh

  /// The coder of a second stage, and of torchvision's SSD: weights 10, 10, 5, 5.
  static coder_params roi() {
    coder_params params;
    params.weight_x = params.weight_y = 10;
    params.weight_w = params.weight_h = 5;
    return params;
  }
  /// SSD's coder: priors as centre and size, one variance for the centre and one for the size, no
  /// clamp.
  static coder_params ssd(double centre_variance = 0.1, double size_variance = 0.2) {
    coder_params params;
    params.weight_x = params.weight_y = 1 / centre_variance;
    params.weight_w = params.weight_h = 1 / size_variance;
    params.clamp = size_clamp::none;
    params.anchors = box_format::cxcywh;
    return params;
  }
};

/// FCOS's distances.
struct distance_params {
  bool by_size = true;                    ///< divided by the anchor's width and height
  box_format anchors = box_format::xyxy;  ///< or cxcywh
};

/// The deltas that decode to `targets` (corners) from `anchors`.
template <class Boxes>
void encode_boxes(const Boxes& targets, boxes_view<const coordinate_of<Boxes>> anchors,
                  boxes_view<coordinate_of<Boxes>> deltas, const coder_params& params = {},
                  execution policy = execution::parallel);

/// The same of boxes whose coordinates lie in four arrays.
template <class T>
void encode_boxes(boxes_soa_view<T> targets, boxes_soa_view<const value_of<T>> anchors,
                  boxes_soa_view<value_of<T>> deltas, const coder_params& params = {},
                  execution policy = execution::parallel);

/// The boxes (corners) that `deltas` mean on `anchors`.
template <class Boxes>
void decode_boxes(const Boxes& deltas, boxes_view<const coordinate_of<Boxes>> anchors,
                  boxes_view<coordinate_of<Boxes>> boxes, const coder_params& params = {},
                  execution policy = execution::parallel);

/// The same, clipped into an image: x into [0, width], y into [0, height].
template <class Boxes>
void decode_boxes(const Boxes& deltas, boxes_view<const coordinate_of<Boxes>> anchors,
                  const image_size& image, boxes_view<coordinate_of<Boxes>> boxes,
                  const coder_params& params = {}, execution policy = execution::parallel);

/// The same for a batch: `deltas` and `boxes` hold anchors.size() boxes for each of `images`, one
/// image after the other.
template <class Boxes>
void decode_boxes(const Boxes& deltas, boxes_view<const coordinate_of<Boxes>> anchors,
                  vector_view<const image_size> images, boxes_view<coordinate_of<Boxes>> boxes,
                  const coder_params& params = {}, execution policy = execution::parallel);

/// The same three of boxes whose coordinates lie in four arrays.
template <class T>
void decode_boxes(boxes_soa_view<T> deltas, boxes_soa_view<const value_of<T>> anchors,
                  boxes_soa_view<value_of<T>> boxes, const coder_params& params = {},
                  execution policy = execution::parallel);
template <class T>
void decode_boxes(boxes_soa_view<T> deltas, boxes_soa_view<const value_of<T>> anchors,
                  const image_size& image, boxes_soa_view<value_of<T>> boxes,
                  const coder_params& params = {}, execution policy = execution::parallel);
template <class T>
void decode_boxes(boxes_soa_view<T> deltas, boxes_soa_view<const value_of<T>> anchors,
                  vector_view<const image_size> images, boxes_soa_view<value_of<T>> boxes,
                  const coder_params& params = {}, execution policy = execution::parallel);

/// The same three of bfloat16 deltas on anchors in float.
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
void decode_boxes(const Boxes& deltas, boxes_view<const float> anchors, boxes_view<float> boxes,
                  const coder_params& params = {}, execution policy = execution::parallel);
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
void decode_boxes(const Boxes& deltas, boxes_view<const float> anchors, const image_size& image,
                  boxes_view<float> boxes, const coder_params& params = {},
                  execution policy = execution::parallel);
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
void decode_boxes(const Boxes& deltas, boxes_view<const float> anchors,
                  vector_view<const image_size> images, boxes_view<float> boxes,
                  const coder_params& params = {}, execution policy = execution::parallel);

/// The same of a head's levels as they lie in memory, float or bfloat16, for all images at once:
/// N x A*4 x H x W, or channels last. `anchors` are those of one image, in the order of
/// head_levels.hpp; `boxes` become those of all images, in that order. `images` has an element an
/// image, to which its boxes are clipped; empty: they are not. The bits are those of deltas in one
/// array. What decode_boxes() does by coder_params, decode_distances() does by distance_params.
template <class T>
void decode_boxes(const head_view<T>& deltas, boxes_view<const float> anchors,
                  vector_view<const image_size> images, boxes_view<float> boxes,
                  const coder_params& params = {}, execution policy = execution::parallel);
template <class T>
void decode_distances(const head_view<T>& distances, boxes_view<const float> anchors,
                      vector_view<const image_size> images, boxes_view<float> boxes,
                      const distance_params& params = {}, execution policy = execution::parallel);

/// FCOS's distances from the anchors' centres to the sides of `targets` (corners).
template <class Boxes>
void encode_distances(const Boxes& targets, boxes_view<const coordinate_of<Boxes>> anchors,
                      boxes_view<coordinate_of<Boxes>> distances,
                      const distance_params& params = {}, execution policy = execution::parallel);

/// The boxes (corners) that `distances` mean on `anchors`.
template <class Boxes>
void decode_distances(const Boxes& distances, boxes_view<const coordinate_of<Boxes>> anchors,
                      boxes_view<coordinate_of<Boxes>> boxes, const distance_params& params = {},
                      execution policy = execution::parallel);

/// The same, clipped into an image.
template <class Boxes>
void decode_distances(const Boxes& distances, boxes_view<const coordinate_of<Boxes>> anchors,
                      const image_size& image, boxes_view<coordinate_of<Boxes>> boxes,
                      const distance_params& params = {}, execution policy = execution::parallel);

/// The same two of bfloat16 distances on anchors in float.
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
void decode_distances(const Boxes& distances, boxes_view<const float> anchors,
                      boxes_view<float> boxes, const distance_params& params = {},
                      execution policy = execution::parallel);
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
void decode_distances(const Boxes& distances, boxes_view<const float> anchors,
                      const image_size& image, boxes_view<float> boxes,
                      const distance_params& params = {}, execution policy = execution::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/box_coding.hpp>
