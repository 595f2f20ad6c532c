// SPDX-License-Identifier: Apache-2.0
// The functions of box_coding.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/box_coding.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/box_coding_call.hpp>
#include <vecdet/impl/box_coding_levels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <limits>
#include <string>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// The output may be the first input's memory if both have the same type.
template <class In, class Anchors, class Out>
void check_memory(const char* function, const char* input, const In& in, const Anchors& anchors,
                  const char* output, const Out& out) {
  if constexpr (std::is_convertible<Out, In>::value) {
    check_apart_or_same(function, output, out, input, in);
  } else {
    check_apart(function, output, out, input, in);
  }
  check_apart(function, output, out, "anchors", anchors);
  check_coordinates_apart(function, output, out);
}

template <class In, class Anchors, class Out>
void check_boxes(const char* function, const char* input, const In& in, const Anchors& anchors,
                 const char* output, const char* output_size, const Out& out) {
  check_size(function, "anchors.size()", anchors.size(), in.size(), "the number of inputs");
  check_size(function, output_size, out.size(), in.size(), "the number of inputs");
  check_memory(function, input, in, anchors, output, out);
}

/// S is the storage of the boxes.
template <class S, class Boxes, class Deltas>
void run_encode_boxes(const Boxes& targets, const Boxes& anchors, const Deltas& deltas,
                      const coder_params& params, threading policy) {
  using kernels = coding_kernels<S>;
  check_coder("encode_boxes", "params", params);
  check_boxes("encode_boxes", "targets", targets, anchors, "deltas", "deltas.size()", deltas);
  coding_call<S> call{};
  call.function = "encode_boxes";
  call.variant = all_weights_are_1(params) ? kernels::variants.weights1 : kernels::variants.boxes;
  call.target = active_isa();
  call.kernel = kernels::encode(call.target);
  call.args = coding_args<S>(params);
  call.flops = box_flops::encode;
  run_coding(call, targets, anchors, deltas, policy);
}

/// Clips to the image if one is given.
template <class S, class Deltas, class Anchors, class Boxes>
void run_decode_boxes(const Deltas& deltas, const Anchors& anchors,
                      vector_view<const image_size> image, const Boxes& boxes,
                      const coder_params& params, threading policy) {
  using kernels = coding_kernels<S>;
  check_coder("decode_boxes", "params", params);
  for (const image_size& size : image) check_image("decode_boxes", size);
  check_boxes("decode_boxes", "deltas", deltas, anchors, "boxes", "boxes.size()", boxes);
  coding_call<S> call{};
  call.function = "decode_boxes";
  call.variant = image.empty() ? kernels::variants.boxes : kernels::variants.clip;
  call.target = active_isa();
  call.kernel = kernels::decode(call.target);
  call.args = coding_args<S>(params);
  call.flops = decode_flops(params, !image.empty());
  call.images = image;
  run_coding(call, deltas, anchors, boxes, policy);
}

/// Decodes all images of a batch, which share the same anchors.
template <class S, class Deltas, class Anchors, class Boxes>
void run_decode_batch(const Deltas& deltas, const Anchors& anchors,
                      vector_view<const image_size> images, const Boxes& boxes,
                      const coder_params& params, threading policy) {
  using kernels = coding_kernels<S>;
  const char* const function = "decode_boxes";
  check_coder(function, "params", params);
  for (index_t i = 0; i < images.size(); ++i) check_image(function, images[i], i);
  constexpr index_t most = std::numeric_limits<index_t>::max(), no_size = -1;
  const index_t total = images.empty() || anchors.size() <= most / images.size()
                            ? anchors.size() * images.size()
                            : no_size;
  const auto check_total = [&](const char* argument, index_t size) {
    if (size != total) {
      throw_invalid_argument(function, argument, size,
                             std::to_string(images.size()) + " x " +
                                 std::to_string(anchors.size()) + ", images x anchors");
    }
  };
  check_total("deltas.size()", deltas.size());
  check_total("boxes.size()", boxes.size());
  check_memory(function, "deltas", deltas, anchors, "boxes", boxes);
  if (total == 0) return;
  coding_call<S> call{};
  call.function = function;
  call.variant = kernels::variants.clip_batch;
  call.target = active_isa();
  call.kernel = kernels::decode(call.target);
  call.args = coding_args<S>(params);
  call.flops = decode_flops(params, true);
  call.images = images;
  call.is_batch = true;
  run_coding(call, deltas, anchors, boxes, policy);
}

/// Clips to the image if one is given.
template <class S, class Distances, class Anchors, class Boxes>
void run_decode_distances(const Distances& distances, const Anchors& anchors,
                          vector_view<const image_size> image, const Boxes& boxes,
                          const distance_params& params, threading policy) {
  check_anchor_format("decode_distances", params.anchors);
  for (const image_size& size : image) check_image("decode_distances", size);
  check_boxes("decode_distances", "distances", distances, anchors, "boxes", "boxes.size()", boxes);
  constexpr coding_variants variants = coding_kernels<S>::variants;
  coding_call<S> call{};
  call.function = "decode_distances";
  call.variant = params.by_size  ? image.empty() ? variants.by_size : variants.clip
                 : image.empty() ? variants.pixels
                                 : variants.pixels_clip;
  call.target = active_isa();
  call.kernel = coding_kernels<S>::decode_distances(call.target);
  call.args = coding_args<S>(params);
  call.flops = decode_flops(params, !image.empty());
  call.images = image;
  run_coding(call, distances, anchors, boxes, policy);
}

}  // namespace detail

template <class Boxes>
void encode_boxes(const Boxes& given, boxes_view<const coordinate_of<Boxes>> anchors,
                  boxes_view<coordinate_of<Boxes>> deltas, const coder_params& params,
                  threading policy) {
  const auto targets = detail::boxes_in(given, "encode_boxes", "targets");
  detail::run_encode_boxes<coordinate_of<Boxes>, boxes_view<const coordinate_of<Boxes>>>(
      targets, anchors, deltas, params, policy);
}

template <class T>
void encode_boxes(boxes_soa_view<T> targets, boxes_soa_view<const value_of<T>> anchors,
                  boxes_soa_view<value_of<T>> deltas, const coder_params& params,
                  threading policy) {
  detail::run_encode_boxes<detail::separate<value_of<T>>, boxes_soa_view<const value_of<T>>>(
      targets, anchors, deltas, params, policy);
}

template <class Boxes>
void decode_boxes(const Boxes& given, boxes_view<const coordinate_of<Boxes>> anchors,
                  boxes_view<coordinate_of<Boxes>> boxes, const coder_params& params,
                  threading policy) {
  const auto deltas = detail::boxes_in(given, "decode_boxes", "deltas");
  detail::run_decode_boxes<coordinate_of<Boxes>>(boxes_view<const coordinate_of<Boxes>>(deltas),
                                                 anchors, {}, boxes, params, policy);
}

template <class Boxes>
void decode_boxes(const Boxes& given, boxes_view<const coordinate_of<Boxes>> anchors,
                  const image_size& image, boxes_view<coordinate_of<Boxes>> boxes,
                  const coder_params& params, threading policy) {
  const auto deltas = detail::boxes_in(given, "decode_boxes", "deltas");
  detail::run_decode_boxes<coordinate_of<Boxes>>(boxes_view<const coordinate_of<Boxes>>(deltas),
                                                 anchors, {&image, 1}, boxes, params, policy);
}

template <class Boxes>
void decode_boxes(const Boxes& given, boxes_view<const coordinate_of<Boxes>> anchors,
                  vector_view<const image_size> images, boxes_view<coordinate_of<Boxes>> boxes,
                  const coder_params& params, threading policy) {
  const auto deltas = detail::boxes_in(given, "decode_boxes", "deltas");
  detail::run_decode_batch<coordinate_of<Boxes>>(boxes_view<const coordinate_of<Boxes>>(deltas),
                                                 anchors, images, boxes, params, policy);
}

template <class T>
void decode_boxes(boxes_soa_view<T> deltas, boxes_soa_view<const value_of<T>> anchors,
                  boxes_soa_view<value_of<T>> boxes, const coder_params& params, threading policy) {
  detail::run_decode_boxes<detail::separate<value_of<T>>>(boxes_soa_view<const value_of<T>>(deltas),
                                                          anchors, {}, boxes, params, policy);
}

template <class T>
void decode_boxes(boxes_soa_view<T> deltas, boxes_soa_view<const value_of<T>> anchors,
                  const image_size& image, boxes_soa_view<value_of<T>> boxes,
                  const coder_params& params, threading policy) {
  detail::run_decode_boxes<detail::separate<value_of<T>>>(
      boxes_soa_view<const value_of<T>>(deltas), anchors, {&image, 1}, boxes, params, policy);
}

template <class T>
void decode_boxes(boxes_soa_view<T> deltas, boxes_soa_view<const value_of<T>> anchors,
                  vector_view<const image_size> images, boxes_soa_view<value_of<T>> boxes,
                  const coder_params& params, threading policy) {
  detail::run_decode_batch<detail::separate<value_of<T>>>(boxes_soa_view<const value_of<T>>(deltas),
                                                          anchors, images, boxes, params, policy);
}

template <class Boxes, if_bfloat16<coordinate_of<Boxes>>>
void decode_boxes(const Boxes& given, boxes_view<const float> anchors, boxes_view<float> boxes,
                  const coder_params& params, threading policy) {
  const auto deltas = detail::boxes_in(given, "decode_boxes", "deltas");
  detail::run_decode_boxes<detail::mixed_decoding>(boxes_view<const coordinate_of<Boxes>>(deltas),
                                                   anchors, {}, boxes, params, policy);
}

template <class Boxes, if_bfloat16<coordinate_of<Boxes>>>
void decode_boxes(const Boxes& given, boxes_view<const float> anchors, const image_size& image,
                  boxes_view<float> boxes, const coder_params& params, threading policy) {
  const auto deltas = detail::boxes_in(given, "decode_boxes", "deltas");
  detail::run_decode_boxes<detail::mixed_decoding>(boxes_view<const coordinate_of<Boxes>>(deltas),
                                                   anchors, {&image, 1}, boxes, params, policy);
}

template <class Boxes, if_bfloat16<coordinate_of<Boxes>>>
void decode_boxes(const Boxes& given, boxes_view<const float> anchors,
                  vector_view<const image_size> images, boxes_view<float> boxes,
                  const coder_params& params, threading policy) {
  const auto deltas = detail::boxes_in(given, "decode_boxes", "deltas");
  detail::run_decode_batch<detail::mixed_decoding>(boxes_view<const coordinate_of<Boxes>>(deltas),
                                                   anchors, images, boxes, params, policy);
}

template <class Boxes>
void encode_distances(const Boxes& given, boxes_view<const coordinate_of<Boxes>> anchors,
                      boxes_view<coordinate_of<Boxes>> distances, const distance_params& params,
                      threading policy) {
  const auto targets = detail::boxes_in(given, "encode_distances", "targets");
  using type = coordinate_of<Boxes>;
  detail::check_anchor_format("encode_distances", params.anchors);
  detail::check_boxes("encode_distances", "targets", targets, anchors, "distances",
                      "distances.size()", distances);
  detail::coding_call<type> call{};
  call.function = "encode_distances";
  call.variant = params.by_size ? "by_size" : "pixels";
  call.target = active_isa();
  call.kernel = detail::coding_kernels<type>::get(call.target).encode_distances;
  call.args = detail::coding_args<type>(params);
  call.flops =
      params.by_size ? detail::box_flops::encode_by_size : detail::box_flops::encode_pixels;
  detail::run_coding(call, targets, anchors, distances, policy);
}

template <class Boxes>
void decode_distances(const Boxes& given, boxes_view<const coordinate_of<Boxes>> anchors,
                      boxes_view<coordinate_of<Boxes>> boxes, const distance_params& params,
                      threading policy) {
  const auto distances = detail::boxes_in(given, "decode_distances", "distances");
  detail::run_decode_distances<coordinate_of<Boxes>>(
      boxes_view<const coordinate_of<Boxes>>(distances), anchors, {}, boxes, params, policy);
}

template <class Boxes>
void decode_distances(const Boxes& given, boxes_view<const coordinate_of<Boxes>> anchors,
                      const image_size& image, boxes_view<coordinate_of<Boxes>> boxes,
                      const distance_params& params, threading policy) {
  const auto distances = detail::boxes_in(given, "decode_distances", "distances");
  detail::run_decode_distances<coordinate_of<Boxes>>(
      boxes_view<const coordinate_of<Boxes>>(distances), anchors, {&image, 1}, boxes, params,
      policy);
}

template <class Boxes, if_bfloat16<coordinate_of<Boxes>>>
void decode_distances(const Boxes& given, boxes_view<const float> anchors, boxes_view<float> boxes,
                      const distance_params& params, threading policy) {
  const auto distances = detail::boxes_in(given, "decode_distances", "distances");
  detail::run_decode_distances<detail::mixed_decoding>(
      boxes_view<const coordinate_of<Boxes>>(distances), anchors, {}, boxes, params, policy);
}

template <class Boxes, if_bfloat16<coordinate_of<Boxes>>>
void decode_distances(const Boxes& given, boxes_view<const float> anchors, const image_size& image,
                      boxes_view<float> boxes, const distance_params& params, threading policy) {
  const auto distances = detail::boxes_in(given, "decode_distances", "distances");
  detail::run_decode_distances<detail::mixed_decoding>(
      boxes_view<const coordinate_of<Boxes>>(distances), anchors, {&image, 1}, boxes, params,
      policy);
}

template <class T>
void decode_boxes(const head_view<T>& deltas, boxes_view<const float> anchors,
                  const image_sizes_view& images, boxes_view<float> boxes,
                  const coder_params& params, threading policy) {
  detail::check_coder("decode_boxes", "params", params);
  detail::run_decode_levels("decode_boxes", "deltas", deltas, anchors, images, boxes, params,
                            policy);
}

template <class T>
void decode_distances(const head_view<T>& distances, boxes_view<const float> anchors,
                      const image_sizes_view& images, boxes_view<float> boxes,
                      const distance_params& params, threading policy) {
  detail::check_anchor_format("decode_distances", params.anchors);
  detail::run_decode_levels("decode_distances", "distances", distances, anchors, images, boxes,
                            params, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
