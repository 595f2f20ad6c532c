// SPDX-License-Identifier: Apache-2.0
// Box coding: encodes boxes as deltas from anchors, and decodes deltas to boxes.
//
// Girshick et al.: "Rich feature hierarchies for accurate object detection", arXiv 1311.2524,
// appendix C, with weights as in torchvision's and detectron2's coders. With centres (x, y) and
// sizes (w, h), where w = x2 - x1:
//
//   dx = wx (gx - ax) / aw      gx = ax + aw dx / wx
//   dy = wy (gy - ay) / ah      gy = ay + ah dy / wy
//   dw = ww log(gw / aw)        gw = aw exp(clamp(dw / ww))
//   dh = wh log(gh / ah)        gh = ah exp(clamp(dh / wh))
//
// FCOS, arXiv 1904.01355, uses the distances (left, top, right, bottom) from the anchor's centre to
// the box's sides instead; torchvision divides them by the anchor's size. SSD, arXiv 1512.02325,
// stores priors as centre and size. Its variances are reciprocal weights; see coder_params::ssd().
//
// All arrays are N x 4 of float, bfloat16 or double. An output may reuse the memory of the first
// input if both have the same type. encode_boxes and decode_boxes also take one array per
// coordinate (boxes_soa_view). decode_boxes and decode_distances also take deltas of bfloat16 with
// anchors of float.
//
// Accuracy in float, if the weights are floats: deltas and distances are within 4 ulp of the exact
// value, even if coordinates cancel. The error of a corner is within 4 ulp of the largest number in
// its computation: the centre, the size or the anchor's corners. (On the x86-64 baseline, which has
// no fused multiply-add, corners are within 6 ulp, or 64 if dw or dh is large and not clamped.)
// Other weights are rounded to float, which adds one ulp. bfloat16 results are these floats,
// rounded once.
//
// Degenerate boxes are data: an anchor or target with size 0 or swapped corners gives the
// infinities and NaN of the formulas. NaN stays NaN through clamping and clipping. Without a clamp,
// exp may overflow to infinity.
//
// Every function throws std::invalid_argument, and writes nothing, if sizes differ, an output
// shares memory with an input in a way not allowed above, a weight is outside [1e-35, 1e35], the
// size limit is negative or not finite, the anchors' format is xywh, or an image's size is negative
// or not a finite float.
#pragma once

#include <vecdet/box_format.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/image_sizes_view.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

/// How dw and dh, divided by their weights, are clamped before exp.
enum class size_clamp {
  above,  ///< at most size_limit: torchvision, detectron2
  both,   ///< within +-size_limit: mmdetection
  none    ///< unbounded: SSD
};

/// The coder of boxes: dx = weight_x (gx - ax) / aw, dw = weight_w log(gw / aw), and so on. The
/// defaults are those of dense detectors.
struct coder_params {
  double weight_x = 1, weight_y = 1, weight_w = 1, weight_h = 1;  ///< positive
  size_clamp clamp = size_clamp::above;
  double size_limit = 4.135166556742356;  ///< log(1000 / 16); 0 or more
  box_format anchors = box_format::xyxy;  ///< or cxcywh

  /// The coder of two-stage detectors' box heads and of torchvision's SSD: weights 10, 10, 5, 5.
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

  /// As in torchvision's FCOS.
  static distance_params fcos() { return {}; }

  /// Distances in pixels, as in the paper, arXiv 1904.01355.
  static distance_params pixels() {
    distance_params params;
    params.by_size = false;
    return params;
  }
};

/// The deltas that decode to `targets` (corners) from `anchors`.
template <class Boxes>
void encode_boxes(const Boxes& targets, boxes_view<const coordinate_of<Boxes>> anchors,
                  boxes_view<coordinate_of<Boxes>> deltas, const coder_params& params = {},
                  threading policy = threading::parallel);

/// The same for boxes with one array per coordinate.
template <class T>
void encode_boxes(boxes_soa_view<T> targets, boxes_soa_view<const value_of<T>> anchors,
                  boxes_soa_view<value_of<T>> deltas, const coder_params& params = {},
                  threading policy = threading::parallel);

/// Decodes `deltas` relative to `anchors` to boxes (corners).
template <class Boxes>
void decode_boxes(const Boxes& deltas, boxes_view<const coordinate_of<Boxes>> anchors,
                  boxes_view<coordinate_of<Boxes>> boxes, const coder_params& params = {},
                  threading policy = threading::parallel);

/// The same, clipped to an image: x to [0, width], y to [0, height].
template <class Boxes>
void decode_boxes(const Boxes& deltas, boxes_view<const coordinate_of<Boxes>> anchors,
                  const image_size& image, boxes_view<coordinate_of<Boxes>> boxes,
                  const coder_params& params = {}, threading policy = threading::parallel);

/// The same for a batch: `deltas` and `boxes` hold anchors.size() boxes for each of `images`, image
/// after image.
template <class Boxes>
void decode_boxes(const Boxes& deltas, boxes_view<const coordinate_of<Boxes>> anchors,
                  vector_view<const image_size> images, boxes_view<coordinate_of<Boxes>> boxes,
                  const coder_params& params = {}, threading policy = threading::parallel);

/// The same three functions for boxes with one array per coordinate.
template <class T>
void decode_boxes(boxes_soa_view<T> deltas, boxes_soa_view<const value_of<T>> anchors,
                  boxes_soa_view<value_of<T>> boxes, const coder_params& params = {},
                  threading policy = threading::parallel);
template <class T>
void decode_boxes(boxes_soa_view<T> deltas, boxes_soa_view<const value_of<T>> anchors,
                  const image_size& image, boxes_soa_view<value_of<T>> boxes,
                  const coder_params& params = {}, threading policy = threading::parallel);
template <class T>
void decode_boxes(boxes_soa_view<T> deltas, boxes_soa_view<const value_of<T>> anchors,
                  vector_view<const image_size> images, boxes_soa_view<value_of<T>> boxes,
                  const coder_params& params = {}, threading policy = threading::parallel);

/// The same three functions for bfloat16 deltas with anchors of float.
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
void decode_boxes(const Boxes& deltas, boxes_view<const float> anchors, boxes_view<float> boxes,
                  const coder_params& params = {}, threading policy = threading::parallel);
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
void decode_boxes(const Boxes& deltas, boxes_view<const float> anchors, const image_size& image,
                  boxes_view<float> boxes, const coder_params& params = {},
                  threading policy = threading::parallel);
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
void decode_boxes(const Boxes& deltas, boxes_view<const float> anchors,
                  vector_view<const image_size> images, boxes_view<float> boxes,
                  const coder_params& params = {}, threading policy = threading::parallel);

/// The same for a head's levels in place, float or bfloat16, for all images at once: N x A*4 x H x
/// W, or channels last. `anchors` are those of one image, in the order of head_levels.hpp; `boxes`
/// receives the boxes of all images in that order. `images` holds the sizes to clip to, one per
/// image or one for all; empty: no clipping. Results are bit-identical to those of deltas in one
/// array. decode_distances() does the same with distances and distance_params.
template <class T>
void decode_boxes(const head_view<T>& deltas, boxes_view<const float> anchors,
                  const image_sizes_view& images, boxes_view<float> boxes,
                  const coder_params& params = {}, threading policy = threading::parallel);
template <class T>
void decode_distances(const head_view<T>& distances, boxes_view<const float> anchors,
                      const image_sizes_view& images, boxes_view<float> boxes,
                      const distance_params& params = {}, threading policy = threading::parallel);

/// FCOS's distances from the anchors' centres to the sides of `targets` (corners).
template <class Boxes>
void encode_distances(const Boxes& targets, boxes_view<const coordinate_of<Boxes>> anchors,
                      boxes_view<coordinate_of<Boxes>> distances,
                      const distance_params& params = {}, threading policy = threading::parallel);

/// Decodes `distances` from the centres of `anchors` to boxes (corners).
template <class Boxes>
void decode_distances(const Boxes& distances, boxes_view<const coordinate_of<Boxes>> anchors,
                      boxes_view<coordinate_of<Boxes>> boxes, const distance_params& params = {},
                      threading policy = threading::parallel);

/// The same, clipped to an image.
template <class Boxes>
void decode_distances(const Boxes& distances, boxes_view<const coordinate_of<Boxes>> anchors,
                      const image_size& image, boxes_view<coordinate_of<Boxes>> boxes,
                      const distance_params& params = {}, threading policy = threading::parallel);

/// The same two functions for bfloat16 distances with anchors of float.
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
void decode_distances(const Boxes& distances, boxes_view<const float> anchors,
                      boxes_view<float> boxes, const distance_params& params = {},
                      threading policy = threading::parallel);
template <class Boxes, if_bfloat16<coordinate_of<Boxes>> = 0>
void decode_distances(const Boxes& distances, boxes_view<const float> anchors,
                      const image_size& image, boxes_view<float> boxes,
                      const distance_params& params = {}, threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/box_coding.hpp>
