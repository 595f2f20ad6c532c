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
// All are N x 4 of float, bfloat16 or double. An output may be the memory of the first input.
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
// not a positive finite number, or an image's size is negative or not finite.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/rows/box_coding.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace vecdet {

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

/// Width and height in pixels; 0 or more.
struct image_size {
  double width, height;
};

namespace detail {

inline void check_anchor_format(const char* function, box_format format) {
  check(format != box_format::xywh, function, "params.anchors", "xywh", "xyxy or cxcywh");
}

inline void check_coder(const char* function, const coder_params& params) {
  const auto weight = [&](const char* name, double value) {
    check(value > 0 && std::isfinite(value) && std::isfinite(1 / value), function, name, value,
          "a positive finite number");
  };
  weight("params.weight_x", params.weight_x);
  weight("params.weight_y", params.weight_y);
  weight("params.weight_w", params.weight_w);
  weight("params.weight_h", params.weight_h);
  check(params.size_limit >= 0 && std::isfinite(params.size_limit), function, "params.size_limit",
        params.size_limit, "a finite number, 0 or more");
  check_anchor_format(function, params.anchors);
}

inline void check_image(const char* function, const std::string& argument,
                        const image_size& image) {
  check(image.width >= 0 && std::isfinite(image.width), function, (argument + ".width").c_str(),
        image.width, "a finite number, 0 or more");
  check(image.height >= 0 && std::isfinite(image.height), function, (argument + ".height").c_str(),
        image.height, "a finite number, 0 or more");
}

inline void check_size(const char* function, const char* argument, index_t size, index_t expected,
                       const char* what) {
  check(size == expected, function, argument, size, what);
}

inline double low_size(const coder_params& params) {
  return params.clamp == size_clamp::both ? -params.size_limit
                                          : -std::numeric_limits<double>::infinity();
}
inline double high_size(const coder_params& params) {
  return params.clamp == size_clamp::none ? std::numeric_limits<double>::infinity()
                                          : params.size_limit;
}

template <class T>
box_coding_args<T> coding_args(const coder_params& params) {
  box_coding_args<T> args{};
  args.weights[0] = params.weight_x;
  args.weights[1] = params.weight_y;
  args.weights[2] = params.weight_w;
  args.weights[3] = params.weight_h;
  args.low_size = low_size(params);
  args.high_size = high_size(params);
  args.anchor_format = params.anchors;
  return args;
}
template <class T>
box_coding_args<T> coding_args(const distance_params& params) {
  box_coding_args<T> args{};
  args.by_size = params.by_size;
  args.anchor_format = params.anchors;
  return args;
}

template <class T>
void clip_to(box_coding_args<T>& args, const image_size& image) {
  args.clips = true;
  args.width = image.width;
  args.height = image.height;
}

constexpr index_t smallest_coding_chunk = 4096;  // boxes: some microseconds

}  // namespace detail

inline namespace VECDET_ABI {
namespace detail_box_coding {

/// Runs a kernel over `boxes` boxes; `numbers` are read and written a box.
template <class T>
void run(const char* function, const char* variant,
         typename detail::box_coding_row<T>::function detail::box_coding_row<T>::*kernel,
         const detail::box_coding_args<T>& args, index_t boxes, index_t numbers, execution policy) {
  if (boxes == 0) return;
  const detail::kernel_table& table = detail::active_table();
  const profile::scope timing([&]() -> profile::problem {
    return {function,
            variant,
            dtype_name<T>(),
            {boxes},
            isa_name(table.target),
            detail::thread_count(policy),
            numbers * boxes * index_t{sizeof(T)},
            0};
  });
  const auto rows = table.box_coding.template get<T>().*kernel;
  detail::for_each_chunk(policy, detail::chunking(boxes, detail::smallest_coding_chunk),
                         [&](index_t, index_t first, index_t last) { rows(args, first, last); });
}

template <class T>
void run_decode(const char* function, const char* variant, detail::box_coding_args<T> args,
                typename detail::box_coding_row<T>::function detail::box_coding_row<T>::*kernel,
                boxes_view<const T> in, boxes_view<const T> anchors, boxes_view<T> out,
                execution policy) {
  detail::check_size(function, "anchors.size()", anchors.size(), in.size(), "the number of inputs");
  detail::check_size(function, "output size()", out.size(), in.size(), "the number of inputs");
  args.in = in.data();
  args.anchors = anchors.data();
  args.out = out.data();
  run(function, variant, kernel, args, in.size(), 12, policy);
}

}  // namespace detail_box_coding

/// The deltas that decode to `targets` (corners) from `anchors`.
template <class T>
void encode_boxes(boxes_view<T> targets, boxes_view<const std::remove_const_t<T>> anchors,
                  boxes_view<std::remove_const_t<T>> deltas, const coder_params& params = {},
                  execution policy = execution::parallel) {
  using type = std::remove_const_t<T>;
  detail::check_coder("encode_boxes", params);
  detail_box_coding::run_decode<type>("encode_boxes", "boxes", detail::coding_args<type>(params),
                                      &detail::box_coding_row<type>::encode, targets, anchors,
                                      deltas, policy);
}

/// The boxes (corners) that `deltas` mean on `anchors`.
template <class T>
void decode_boxes(boxes_view<T> deltas, boxes_view<const std::remove_const_t<T>> anchors,
                  boxes_view<std::remove_const_t<T>> boxes, const coder_params& params = {},
                  execution policy = execution::parallel) {
  using type = std::remove_const_t<T>;
  detail::check_coder("decode_boxes", params);
  detail_box_coding::run_decode<type>("decode_boxes", "boxes", detail::coding_args<type>(params),
                                      &detail::box_coding_row<type>::decode, deltas, anchors, boxes,
                                      policy);
}

/// The same, clipped into an image: x into [0, width], y into [0, height].
template <class T>
void decode_boxes(boxes_view<T> deltas, boxes_view<const std::remove_const_t<T>> anchors,
                  const image_size& image, boxes_view<std::remove_const_t<T>> boxes,
                  const coder_params& params = {}, execution policy = execution::parallel) {
  using type = std::remove_const_t<T>;
  detail::check_coder("decode_boxes", params);
  detail::check_image("decode_boxes", "image", image);
  auto args = detail::coding_args<type>(params);
  detail::clip_to(args, image);
  detail_box_coding::run_decode<type>("decode_boxes", "clip", args,
                                      &detail::box_coding_row<type>::decode, deltas, anchors, boxes,
                                      policy);
}

/// The same for a batch: `deltas` and `boxes` hold anchors.size() boxes for each of `images`, one
/// image after the other.
template <class T>
void decode_boxes(boxes_view<T> deltas, boxes_view<const std::remove_const_t<T>> anchors,
                  vector_view<const image_size> images, boxes_view<std::remove_const_t<T>> boxes,
                  const coder_params& params = {}, execution policy = execution::parallel) {
  using type = std::remove_const_t<T>;
  const char* const function = "decode_boxes";
  detail::check_coder(function, params);
  for (index_t i = 0; i < images.size(); ++i) {
    detail::check_image(function, "images[" + std::to_string(i) + "]", images[i]);
  }
  const index_t a_image = anchors.size(), total = a_image * images.size();
  detail::check_size(function, "deltas.size()", deltas.size(), total,
                     "anchors.size() times images.size()");
  detail::check_size(function, "boxes.size()", boxes.size(), total,
                     "anchors.size() times images.size()");
  if (total == 0) return;
  const detail::kernel_table& table = detail::active_table();
  const profile::scope timing([&]() -> profile::problem {
    return {function,
            "clip_batch",
            dtype_name<type>(),
            {images.size(), a_image},
            isa_name(table.target),
            detail::thread_count(policy),
            (8 * total + 4 * a_image) * index_t{sizeof(type)},
            0};
  });
  const auto decode = table.box_coding.template get<type>().decode;
  detail::for_each_chunk(policy, detail::chunking(total, detail::smallest_coding_chunk),
                         [&](index_t, index_t first, index_t last) {
                           while (first < last) {  // the parts of the chunk that lie in one image
                             const index_t image = first / a_image, begin = image * a_image;
                             const index_t end = std::min(last, begin + a_image);
                             auto args = detail::coding_args<type>(params);
                             detail::clip_to(args, images[image]);
                             args.in = deltas[begin];
                             args.anchors = anchors.data();
                             args.out = boxes[begin];
                             decode(args, first - begin, end - begin);
                             first = end;
                           }
                         });
}

/// FCOS's distances from the anchors' centres to the sides of `targets` (corners).
template <class T>
void encode_distances(boxes_view<T> targets, boxes_view<const std::remove_const_t<T>> anchors,
                      boxes_view<std::remove_const_t<T>> distances,
                      const distance_params& params = {}, execution policy = execution::parallel) {
  using type = std::remove_const_t<T>;
  detail::check_anchor_format("encode_distances", params.anchors);
  detail_box_coding::run_decode<type>(
      "encode_distances", params.by_size ? "by_size" : "pixels", detail::coding_args<type>(params),
      &detail::box_coding_row<type>::encode_distances, targets, anchors, distances, policy);
}

/// The boxes (corners) that `distances` mean on `anchors`.
template <class T>
void decode_distances(boxes_view<T> distances, boxes_view<const std::remove_const_t<T>> anchors,
                      boxes_view<std::remove_const_t<T>> boxes, const distance_params& params = {},
                      execution policy = execution::parallel) {
  using type = std::remove_const_t<T>;
  detail::check_anchor_format("decode_distances", params.anchors);
  detail_box_coding::run_decode<type>(
      "decode_distances", params.by_size ? "by_size" : "pixels", detail::coding_args<type>(params),
      &detail::box_coding_row<type>::decode_distances, distances, anchors, boxes, policy);
}

/// The same, clipped into an image.
template <class T>
void decode_distances(boxes_view<T> distances, boxes_view<const std::remove_const_t<T>> anchors,
                      const image_size& image, boxes_view<std::remove_const_t<T>> boxes,
                      const distance_params& params = {}, execution policy = execution::parallel) {
  using type = std::remove_const_t<T>;
  detail::check_anchor_format("decode_distances", params.anchors);
  detail::check_image("decode_distances", "image", image);
  auto args = detail::coding_args<type>(params);
  detail::clip_to(args, image);
  detail_box_coding::run_decode<type>("decode_distances", "clip", args,
                                      &detail::box_coding_row<type>::decode_distances, distances,
                                      anchors, boxes, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
