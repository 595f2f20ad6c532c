// SPDX-License-Identifier: Apache-2.0
// Replays box coding on RetinaNet's anchors: of boxes together, with an array a coordinate, and of
// bfloat16 deltas on anchors of float. Weights are 1, but for encode_boxes/boxes, where they are
// those of a box head.
#include "replay_inputs.hpp"
#include "replay_levels.hpp"
#include <vecdet/box_coding.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace vecdet;

constexpr image_size image = image_size::height_width(800, 800);

template <class T>
struct operands {
  std::vector<T> anchors, codes, boxes, out;
  std::vector<float> float_anchors, float_out;
  std::vector<image_size> images;
};

/// The rest of a variant after its first word.
std::string after_prefix(const std::string& variant) {
  for (const std::string prefix : {"soa_", "float_"})
    if (variant.compare(0, prefix.size(), prefix) == 0) return variant.substr(prefix.size());
  return variant;
}
bool is_soa(const profile::entry& e) { return e.variant.compare(0, 4, "soa_") == 0; }
bool is_mixed(const profile::entry& e) { return e.variant.compare(0, 6, "float_") == 0; }

/// Boxes, and what encodes them: deltas, or distances with `by_size` or without.
template <class T>
std::shared_ptr<operands<T>> make_operands(index_t images, index_t anchors, bool distances,
                                           bool by_size) {
  const auto data = std::make_shared<operands<T>>();
  data->anchors = bench::converted<T>(profile::anchors(anchors));
  data->images.assign(static_cast<std::size_t>(images), image);
  data->codes = bench::head_deltas<T>(images * anchors);
  data->boxes.resize(data->codes.size());
  data->out.resize(data->codes.size());
  data->float_anchors = profile::anchors(anchors);
  data->float_out.resize(data->codes.size());
  decode_boxes(boxes_view<const T>(data->codes), data->anchors,
               vector_view<const image_size>(data->images), data->boxes);
  if (distances) {
    distance_params params;
    params.by_size = by_size;
    encode_distances(boxes_view<const T>(data->boxes), data->anchors, data->codes, params);
  }
  return data;
}

/// decode_boxes in the three variants.
template <class Deltas, class Anchors, class Boxes>
profile::replay_call decode_call(const std::string& variant, const Deltas& deltas,
                                 const Anchors& anchors,
                                 const std::shared_ptr<const std::vector<image_size>>& images,
                                 const Boxes& boxes, execution policy) {
  if (variant == "clip_batch") {
    return [=] {
      decode_boxes(deltas, anchors, vector_view<const image_size>(*images), boxes, {}, policy);
    };
  }
  if (variant == "clip") {
    return [=] { decode_boxes(deltas, anchors, images->front(), boxes, {}, policy); };
  }
  // The images' owner keeps the boxes alive as well.
  return [=] { decode_boxes(deltas, anchors, boxes, {}, policy), (void)images; };
}

template <class T>
profile::replay_call make_deltas_call(const profile::entry& e, execution policy) {
  const std::string variant = after_prefix(e.variant);
  const bool is_batch = variant == "clip_batch";
  const auto data = make_operands<T>(is_batch ? e.shape[0] : 1, e.shape.back(), false, false);
  const std::shared_ptr<const std::vector<image_size>> images(data, &data->images);
  if (is_soa(e)) {
    for (std::vector<T>* const boxes : {&data->codes, &data->anchors, &data->boxes})
      *boxes = bench::as_planes(*boxes);
    const auto codes = bench::planes(data->codes), anchors = bench::planes(data->anchors);
    const auto boxes = bench::planes(data->boxes), out = bench::planes(data->out);
    if (e.function == "encode_boxes") {
      return [=, keep = data] { encode_boxes(boxes, anchors, out, {}, policy), (void)keep; };
    }
    return decode_call(variant, codes, anchors, images, out, policy);
  }
  const boxes_view<const T> codes(data->codes), anchors(data->anchors), boxes(data->boxes);
  if constexpr (std::is_same<T, bfloat16>::value) {
    if (is_mixed(e)) {
      return decode_call(variant, codes, boxes_view<const float>(data->float_anchors), images,
                         boxes_view<float>(data->float_out), policy);
    }
  }
  if (e.function == "encode_boxes") {
    coder_params coder;
    if (variant == "boxes") {
      coder.weight_x = coder.weight_y = 10;
      coder.weight_w = coder.weight_h = 5;
    }
    return [=] { encode_boxes(boxes, anchors, data->out, coder, policy); };
  }
  return decode_call(variant, codes, anchors, images, boxes_view<T>(data->out), policy);
}

template <class T>
profile::replay_call make_distances_call(const profile::entry& e, execution policy) {
  const std::string variant = after_prefix(e.variant);
  distance_params params;
  const bool clips = variant == "clip" || variant == "pixels_clip";
  params.by_size = variant == "clip" || variant == "by_size";
  const auto data = make_operands<T>(1, e.shape[0], true, params.by_size);
  const boxes_view<const T> codes(data->codes), anchors(data->anchors), boxes(data->boxes);
  if (e.function == "encode_distances") {
    return [=] { encode_distances(boxes, anchors, data->out, params, policy); };
  }
  if constexpr (std::is_same<T, bfloat16>::value) {
    if (is_mixed(e)) {
      return [=] {
        if (clips) {
          decode_distances(codes, data->float_anchors, image, data->float_out, params, policy);
        } else {
          decode_distances(codes, data->float_anchors, data->float_out, params, policy);
        }
      };
    }
  }
  if (clips) {
    return [=] { decode_distances(codes, anchors, image, data->out, params, policy); };
  }
  return [=] { decode_distances(codes, anchors, data->out, params, policy); };
}

profile::replay_call make_deltas(const profile::entry& e, execution policy) {
  if (profile::takes_levels(e)) return profile::make_levels_call(e, policy);
  const bool decodes = e.function == "decode_boxes";
  const std::string variant = after_prefix(e.variant);
  const bool is_batch = decodes && variant == "clip_batch";
  const bool known = variant == "boxes" || (decodes && variant == "clip") || is_batch ||
                     (!decodes && e.variant == "weights1");
  if (!known || (is_mixed(e) && !(decodes && e.type == "bf16")) ||
      e.shape.size() != (is_batch ? 2u : 1u))
    return {};
  return profile::for_type(
      e.type, [&](auto number) { return make_deltas_call<decltype(number)>(e, policy); });
}

profile::replay_call make_distances(const profile::entry& e, execution policy) {
  if (profile::takes_levels(e)) return profile::make_levels_call(e, policy);
  const bool decodes = e.function == "decode_distances";
  const std::string variant = after_prefix(e.variant);
  const bool known = variant == "by_size" || variant == "pixels" ||
                     (decodes && (variant == "clip" || variant == "pixels_clip"));
  if (!known || is_soa(e) || (is_mixed(e) && !(decodes && e.type == "bf16")) || e.shape.size() != 1)
    return {};
  return profile::for_type(
      e.type, [&](auto number) { return make_distances_call<decltype(number)>(e, policy); });
}

const profile::replay_registration registered[] = {
    {"encode_boxes", make_deltas},
    {"decode_boxes", make_deltas},
    {"encode_distances", make_distances},
    {"decode_distances", make_distances},
};

}  // namespace
