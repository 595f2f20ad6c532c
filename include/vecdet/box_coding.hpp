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
// Deltas of bfloat16 on anchors of float: decode_boxes<float>(), decode_distances<float>().
//
// Accuracy, in float: deltas and distances are within 4 ulp of the exact value, also where
// coordinates cancel. Corners are within 4 ulp of the largest number that they are computed from:
// the centre, the size, the anchor's corners. (Without fused multiply-add, on the x86-64 baseline,
// within 64 where dw or dh is large and no clamp bounds it.) bfloat16 results are such floats
// rounded once.
//
// Degenerate boxes are data: an anchor or target of size 0 or with corners swapped gives the
// infinities and NaN of the formulas; NaN stays NaN, through clamp and clip as well; without a
// clamp exp may overflow to infinity.
//
// Every function throws std::invalid_argument, and writes nothing, when sizes differ, a weight is
// not from 1e-35 to 1e35, or an image's size is negative or not finite.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/box_coding_call.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <limits>
#include <string>
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

namespace detail {

inline void check_anchor_format(const char* function, box_format format) {
  check(format != box_format::xywh, function, "params.anchors", "xywh", "xyxy or cxcywh");
}

inline void check_weight(const char* function, const char* argument, double weight) {
  check(is_within(weight, 1e-35, 1e35), function, argument, weight, "a number from 1e-35 to 1e35");
}

inline void check_size_limit(const char* function, double limit) {
  check(limit >= 0 && is_finite(limit), function, "params.size_limit", limit,
        "a finite number, 0 or more");
}

inline void check_coder(const char* function, const coder_params& params) {
  check_weight(function, "params.weight_x", params.weight_x);
  check_weight(function, "params.weight_y", params.weight_y);
  check_weight(function, "params.weight_w", params.weight_w);
  check_weight(function, "params.weight_h", params.weight_h);
  check_size_limit(function, params.size_limit);
  check_anchor_format(function, params.anchors);
}

inline void check_image(const char* function, const std::string& argument,
                        const image_size& image) {
  check(image.width >= 0 && is_finite(image.width), function, (argument + ".width").c_str(),
        image.width, "a finite number, 0 or more");
  check(image.height >= 0 && is_finite(image.height), function, (argument + ".height").c_str(),
        image.height, "a finite number, 0 or more");
}

inline void check_size(const char* function, const char* argument, index_t size, index_t expected,
                       const char* what) {
  check(size == expected, function, argument, size, what);
}

inline bool all_weights_are_1(const coder_params& params) {
  return params.weight_x == 1 && params.weight_y == 1 && params.weight_w == 1 &&
         params.weight_h == 1;
}

inline double low_size(const coder_params& params) {
  return params.clamp == size_clamp::both ? -params.size_limit
                                          : -std::numeric_limits<double>::infinity();
}
inline double high_size(const coder_params& params) {
  return params.clamp == size_clamp::none ? std::numeric_limits<double>::infinity()
                                          : params.size_limit;
}

template <class S>
box_coding_args<S> coding_args(const coder_params& params) {
  box_coding_args<S> args{};
  args.weights[0] = params.weight_x;
  args.weights[1] = params.weight_y;
  args.weights[2] = params.weight_w;
  args.weights[3] = params.weight_h;
  args.low_size = low_size(params);
  args.high_size = high_size(params);
  args.anchor_format = params.anchors;
  return args;
}
template <class S>
box_coding_args<S> coding_args(const distance_params& params) {
  box_coding_args<S> args{};
  args.by_size = params.by_size;
  args.anchor_format = params.anchors;
  return args;
}

}  // namespace detail

namespace detail_box_coding {

template <class In, class Anchors, class Out>
void check_sizes(const char* function, const In& in, const Anchors& anchors, const char* result,
                 const Out& out) {
  detail::check_size(function, "anchors.size()", anchors.size(), in.size(), "the number of inputs");
  detail::check_size(function, result, out.size(), in.size(), "the number of inputs");
}

/// decode_boxes with or without an image.
template <class View, class Box>
void decode(const detail::inputs_of<View>& deltas, const detail::inputs_of<View, Box>& anchors,
            vector_view<const image_size> image, const detail::outputs_of<View, Box>& boxes,
            const coder_params& params, execution policy) {
  using stored = typename detail::viewed<View, Box>::decoded;
  using kernels = detail_box_coding::coding_kernels<stored>;
  detail::check_coder("decode_boxes", params);
  for (const image_size& size : image) detail::check_image("decode_boxes", "image", size);
  check_sizes("decode_boxes", deltas, anchors, "boxes.size()", boxes);
  const isa target = active_isa();
  run_on_anchors<stored>(
      {"decode_boxes", image.empty() ? kernels::variants.boxes : kernels::variants.clip, target,
       kernels::decode(target), detail::coding_args<stored>(params), 0,
       detail::box_flops::decode + (image.empty() ? 0 : detail::box_flops::clip), 0, image},
      deltas, anchors, boxes, policy);
}
/// decode_distances with or without an image.
template <class View, class Box>
void decode_distances(const detail::inputs_of<View>& distances,
                      const detail::inputs_of<View, Box>& anchors,
                      vector_view<const image_size> image,
                      const detail::outputs_of<View, Box>& boxes, const distance_params& params,
                      execution policy) {
  using stored = typename detail::viewed<View, Box>::decoded;
  detail::check_anchor_format("decode_distances", params.anchors);
  for (const image_size& size : image) detail::check_image("decode_distances", "image", size);
  check_sizes("decode_distances", distances, anchors, "boxes.size()", boxes);
  constexpr detail::coding_variants variants = detail_box_coding::coding_kernels<stored>::variants;
  const char* const variant = params.by_size  ? image.empty() ? variants.by_size : variants.clip
                              : image.empty() ? variants.pixels
                                              : variants.pixels_clip;
  const index_t flops =
      (params.by_size ? detail::box_flops::decode_by_size : detail::box_flops::decode_pixels) +
      (image.empty() ? 0 : detail::box_flops::clip);
  const isa target = active_isa();
  run_on_anchors<stored>({"decode_distances", variant, target,
                          detail_box_coding::coding_kernels<stored>::decode_distances(target),
                          detail::coding_args<stored>(params), 0, flops, 0, image},
                         distances, anchors, boxes, policy);
}

}  // namespace detail_box_coding

/// The deltas that decode to `targets` (corners) from `anchors`.
template <class Boxes>
void encode_boxes(Boxes targets, detail::inputs_of<Boxes> anchors, detail::outputs_of<Boxes> deltas,
                  const coder_params& params = {}, execution policy = execution::parallel) {
  using stored = typename detail::viewed<Boxes, void>::decoded;
  using kernels = detail_box_coding::coding_kernels<stored>;
  detail::check_coder("encode_boxes", params);
  detail_box_coding::check_sizes("encode_boxes", targets, anchors, "deltas.size()", deltas);
  const isa target = active_isa();
  detail_box_coding::run_on_anchors<stored>(
      {"encode_boxes",
       detail::all_weights_are_1(params) ? kernels::variants.weights1 : kernels::variants.boxes,
       target,
       kernels::encode(target),
       detail::coding_args<stored>(params),
       0,
       detail::box_flops::encode,
       0,
       {}},
      detail::inputs_of<Boxes>(targets), anchors, deltas, policy);
}

/// The boxes (corners) that `deltas` mean on `anchors`.
template <class Box = void, class Deltas>
void decode_boxes(Deltas deltas, detail::inputs_of<Deltas, Box> anchors,
                  detail::outputs_of<Deltas, Box> boxes, const coder_params& params = {},
                  execution policy = execution::parallel) {
  detail_box_coding::decode<Deltas, Box>(deltas, anchors, {}, boxes, params, policy);
}

/// The same, clipped into an image: x into [0, width], y into [0, height].
template <class Box = void, class Deltas>
void decode_boxes(Deltas deltas, detail::inputs_of<Deltas, Box> anchors, const image_size& image,
                  detail::outputs_of<Deltas, Box> boxes, const coder_params& params = {},
                  execution policy = execution::parallel) {
  detail_box_coding::decode<Deltas, Box>(deltas, anchors, {&image, 1}, boxes, params, policy);
}

/// The same for a batch: `deltas` and `boxes` hold anchors.size() boxes for each of `images`, one
/// image after the other.
template <class Box = void, class Deltas>
void decode_boxes(Deltas deltas, detail::inputs_of<Deltas, Box> anchors,
                  vector_view<const image_size> images, detail::outputs_of<Deltas, Box> boxes,
                  const coder_params& params = {}, execution policy = execution::parallel) {
  using stored = typename detail::viewed<Deltas, Box>::decoded;
  using kernels = detail_box_coding::coding_kernels<stored>;
  const char* const function = "decode_boxes";
  detail::check_coder(function, params);
  for (index_t i = 0; i < images.size(); ++i) {
    detail::check_image(function, detail::element("images", i), images[i]);
  }
  const index_t total = anchors.size() * images.size();
  detail::check_size(function, "deltas.size()", deltas.size(), total,
                     "anchors.size() times images.size()");
  detail::check_size(function, "boxes.size()", boxes.size(), total,
                     "anchors.size() times images.size()");
  if (total == 0) return;
  const isa target = active_isa();
  detail_box_coding::run_on_anchors<stored>(
      {function, kernels::variants.clip_batch, target, kernels::decode(target),
       detail::coding_args<stored>(params), 0, detail::box_flops::decode + detail::box_flops::clip,
       0, images, true},
      detail::inputs_of<Deltas>(deltas), anchors, boxes, policy);
}

/// FCOS's distances from the anchors' centres to the sides of `targets` (corners).
template <class T>
void encode_distances(boxes_view<T> targets, boxes_view<const std::remove_const_t<T>> anchors,
                      boxes_view<std::remove_const_t<T>> distances,
                      const distance_params& params = {}, execution policy = execution::parallel) {
  using type = std::remove_const_t<T>;
  detail::check_anchor_format("encode_distances", params.anchors);
  detail_box_coding::check_sizes("encode_distances", targets, anchors, "distances.size()",
                                 distances);
  const isa target = active_isa();
  detail_box_coding::run_on_anchors<type>(
      {"encode_distances",
       params.by_size ? "by_size" : "pixels",
       target,
       detail_box_coding::coding_kernels<type>::get(target).encode_distances,
       detail::coding_args<type>(params),
       0,
       params.by_size ? detail::box_flops::encode_by_size : detail::box_flops::encode_pixels,
       0,
       {}},
      targets, anchors, distances, policy);
}

/// The boxes (corners) that `distances` mean on `anchors`.
template <class Box = void, class T>
void decode_distances(boxes_view<T> distances, detail::inputs_of<boxes_view<T>, Box> anchors,
                      detail::outputs_of<boxes_view<T>, Box> boxes,
                      const distance_params& params = {}, execution policy = execution::parallel) {
  detail_box_coding::decode_distances<boxes_view<T>, Box>(distances, anchors, {}, boxes, params,
                                                          policy);
}

/// The same, clipped into an image.
template <class Box = void, class T>
void decode_distances(boxes_view<T> distances, detail::inputs_of<boxes_view<T>, Box> anchors,
                      const image_size& image, detail::outputs_of<boxes_view<T>, Box> boxes,
                      const distance_params& params = {}, execution policy = execution::parallel) {
  detail_box_coding::decode_distances<boxes_view<T>, Box>(distances, anchors, {&image, 1}, boxes,
                                                          params, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
