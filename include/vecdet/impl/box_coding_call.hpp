// SPDX-License-Identifier: Apache-2.0
// Parameter checks and kernel calls shared by the functions of box_coding.hpp and box_ops.hpp.
#pragma once

#include <vecdet/args/box_coding.hpp>
#include <vecdet/box_coding.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <limits>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/box_coding/box_coding.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class S>
void clip_to(box_coding_args<S>& args, const image_size& image) {
  args.clips = true;
  args.width = image.width;
  args.height = image.height;
}

inline void check_anchor_format(const char* function, box_format format) {
  check(format != box_format::xywh, function, "params.anchors", "xywh", "xyxy or cxcywh");
}

/// `params_name` is the name of the parameters in messages.
inline void check_coder(const char* function, const char* params_name, const coder_params& params) {
  const auto check_weight = [&](const char* member, double weight) {
    check_member(is_within(weight, 1e-35, 1e35), function, params_name, member, weight,
                 "a number from 1e-35 to 1e35");
  };
  check_weight("weight_x", params.weight_x);
  check_weight("weight_y", params.weight_y);
  check_weight("weight_w", params.weight_w);
  check_weight("weight_h", params.weight_h);
  check_member(params.size_limit >= 0 && is_finite(params.size_limit), function, params_name,
               "size_limit", params.size_limit, "a finite number, 0 or more");
  check_member(params.anchors != box_format::xywh, function, params_name, "anchors", "xywh",
               "xyxy or cxcywh");
}

/// The same for functions whose anchors must be corners.
inline void check_corner_coder(const char* function, const char* params_name,
                               const coder_params& params) {
  check_coder(function, params_name, params);
  check_member(params.anchors == box_format::xyxy, function, params_name, "anchors", "cxcywh",
               "xyxy");
}

/// `index` is the image's index in a list, or -1. Names are only built to throw.
inline void check_image(const char* function, const image_size& image, index_t index = -1) {
  for (const double* side : {&image.width, &image.height}) {
    if (*side >= 0 && fits_float(*side)) continue;
    const std::string name = index < 0 ? std::string("image") : element("images", index);
    throw_invalid_argument(function, name + (side == &image.width ? ".width" : ".height"), *side,
                           "a finite float, 0 or more");
  }
}

inline bool all_weights_are_1(const coder_params& params) {
  return is_equal(params.weight_x, 1) && is_equal(params.weight_y, 1) &&
         is_equal(params.weight_w, 1) && is_equal(params.weight_h, 1);
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

/// One call of a kernel.
template <class S>
struct coding_call {
  const char* function;
  const char* variant;
  isa target;
  box_coding_function<S> kernel;
  box_coding_args<S> args;
  index_t flops;                         ///< per box
  vector_view<const image_size> images;  ///< boxes are clipped to their image; empty: no clipping
  bool is_batch = false;                 ///< each image has a box for every anchor
};

/// Variants in the profiler's problem names.
struct coding_variants {
  const char *boxes, *weights1, *clip, *clip_batch, *by_size, *pixels, *pixels_clip;
};

/// Operations per box, as executed by the kernels in float for anchors that are corners. Additions,
/// multiplications, divisions, minima and maxima count one each; a multiply-add counts two.
namespace box_flops {
constexpr index_t encode = 116, decode = 72;
constexpr index_t encode_by_size = 92, encode_pixels = 80;
constexpr index_t decode_by_size = 16, decode_pixels = 14;
constexpr index_t clip = 8, area = 3, large = 2;

constexpr index_t convert(box_format from, box_format to) {
  if (from == to) return 0;
  if (from == box_format::xywh) return to == box_format::xyxy ? 2 : 4;
  if (from == box_format::cxcywh) return to == box_format::xyxy ? 8 : 4;
  return to == box_format::xywh ? 2 : 8;
}
}  // namespace box_flops

/// Operations to decode one box.
inline index_t decode_flops(const coder_params&, bool clips) {
  return box_flops::decode + (clips ? box_flops::clip : 0);
}
inline index_t decode_flops(const distance_params& params, bool clips) {
  return (params.by_size ? box_flops::decode_by_size : box_flops::decode_pixels) +
         (clips ? box_flops::clip : 0);
}

constexpr index_t smallest_coding_chunk = 4096;  // boxes: a few microseconds

/// The kernels for boxes with storage S.
template <class S>
struct coding_kernels {
  static const box_coding_kernels<S>& get(isa target) {
    return kernels<box_coding_kernels<S>>(target);
  }
  static box_coding_function<S> encode(isa target) { return get(target).encode; }
  static box_coding_function<S> decode(isa target) { return get(target).decode; }
  static box_coding_function<S> decode_distances(isa target) {
    return get(target).decode_distances;
  }
  static constexpr coding_variants variants{"boxes",   "weights1", "clip",       "clip_batch",
                                            "by_size", "pixels",   "pixels_clip"};
  using element = S;
};
template <class T>
struct coding_kernels<separate<T>> {
  static box_coding_function<separate<T>> encode(isa target) {
    return coding_kernels<T>::get(target).encode_separate;
  }
  static box_coding_function<separate<T>> decode(isa target) {
    return coding_kernels<T>::get(target).decode_separate;
  }
  static constexpr coding_variants variants{"soa_boxes", "soa_boxes", "soa_clip", "soa_clip_batch",
                                            {},          {},          {}};
  using element = T;
};
template <>
struct coding_kernels<mixed_decoding> {
  static box_coding_function<mixed_decoding> decode(isa target) {
    return kernels<mixed_coding_kernels>(target).decode;
  }
  static box_coding_function<mixed_decoding> decode_distances(isa target) {
    return kernels<mixed_coding_kernels>(target).decode_distances;
  }
  static constexpr coding_variants variants{
      "float_boxes",      {}, "float_clip", "float_clip_batch", "float_by_size", "float_pixels",
      "float_pixels_clip"};
  using element = bfloat16;
};

/// Runs the call. All images have the same anchors.
template <class S, class In, class Anchors, class Out>
void run_coding(const coding_call<S>& call, const In& in, const Anchors& anchors, const Out& out,
                threading policy) {
  const index_t boxes = anchors.size(), images = call.images.empty() ? 1 : call.images.size();
  const index_t total = images * boxes;
  if (total == 0) return;
  const profile::scope timing([&]() -> profile::problem {
    using element = typename coding_kernels<S>::element;
    constexpr index_t read = bytes_per_box<typename stored<S>::in>;
    constexpr index_t written = bytes_per_box<typename stored<S>::out>;
    constexpr index_t anchor_bytes = bytes_per_box<typename stored<S>::boxes>;
    profile::problem problem;
    problem.function = call.function;
    problem.variant = call.variant;
    problem.type = dtype_name<element>();
    problem.shape = {boxes};
    if (call.is_batch) problem.shape = {images, boxes};
    problem.implementation = isa_name(call.target);
    problem.threads = policy.threads();
    problem.bytes = total * (read + written) + boxes * anchor_bytes;
    problem.flops = total * call.flops;
    return problem;
  });
  box_coding_args<S> all_args = call.args;
  all_args.in = boxes_of(in);
  all_args.anchors = boxes_of(anchors);
  all_args.out = boxes_of(out);
  for_each_chunk(policy, chunking(total, smallest_coding_chunk),
                 [&](index_t, index_t first, index_t last) {
                   while (first < last) {  // one iteration per image in the chunk
                     const index_t image = first / boxes, begin = image * boxes;
                     const index_t end = std::min(last, begin + boxes);
                     auto args = all_args;
                     if (!call.images.empty()) clip_to(args, call.images[image]);
                     args.in = advanced(args.in, begin);
                     args.out = advanced(args.out, begin);
                     call.kernel(args, first - begin, end - begin);
                     first = end;
                   }
                 });
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
