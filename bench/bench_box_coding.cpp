// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of boxes of RetinaNet at 800 x 800 and of SSD300, and other box functions.
#include "plain/box_coding.hpp"
#include "support/implementations.hpp"
#include "support/planes.hpp"
#include "support/scene.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/box_ops.hpp>
#include <vecdet/reference/box_coding.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t box_count = 120087;
constexpr float smallest_side = 40;  // a third of the boxes are smaller

template <class T>
struct coding {
  std::vector<T> deltas, anchors, boxes, out;
  std::vector<float> float_anchors, float_out;
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(box_count);
  std::vector<index_t> indices = std::vector<index_t>(box_count);
  index_t found = 0;  ///< number of valid `indices`
};

template <class T>
std::shared_ptr<coding<T>> make_coding() {
  return shared_data([] {
    coding<T> data;
    for (const float x : retinanet_anchors())
      data.anchors.push_back(T(static_cast<compute_type<T>>(x)));
    data.deltas = head_deltas<T>(box_count);
    data.boxes.resize(data.deltas.size());
    data.out.resize(data.deltas.size());
    data.float_anchors = retinanet_anchors();
    data.float_out.resize(data.deltas.size());
    decode_boxes(boxes_view<const T>(data.deltas), data.anchors, data.boxes);
    return data;
  });
}

std::shared_ptr<coding<float>> make_planes() {
  return shared_data([] {
    coding<float> data = *make_coding<float>();
    for (std::vector<float>* const boxes : {&data.deltas, &data.anchors, &data.boxes})
      *boxes = as_planes(*boxes);
    return data;
  });
}

constexpr double boxes = static_cast<double>(box_count);

/// With a plain loop if the boxes are float.
template <class T, class Call>
void register_coding(const std::string& problem, work amount, const Call& call,
                     void (*plain)(coding<float>&)) {
  if constexpr (std::is_same<T, float>::value) {
    register_with_plain(problem, amount, make_coding<float>, call, plain, &coding<float>::out);
  } else {
    register_vecdet(problem, amount, make_coding<T>, call);
  }
}

template <class T>
void register_decode() {
  const std::string problem = std::string("decode_boxes/clip/") + dtype_name<T>() + "/120087";
  const work amount{boxes, 12 * boxes * sizeof(T)};
  if constexpr (std::is_same<T, float>::value) {
    register_implementation(problem, "reference", 1, amount, [](benchmark::State& state) {
      const auto data = make_coding<float>();
      std::vector<double> out(data->out.size());
      const boxes_view<const float> d(data->deltas), a(data->anchors);
      time_calls(state, [&] {
        reference::for_each_box(out, [&](index_t i) {
          return reference::clip_box(
              reference::decode_box(reference::load_box(d, i), reference::load_box(a, i)), 800,
              800);
        });
        benchmark::ClobberMemory();
      });
    });
  }
  register_coding<T>(
      problem, amount,
      [](coding<T>& data, threading policy) {
        decode_boxes(boxes_view<const T>(data.deltas), data.anchors,
                     image_size::height_width(800, 800), data.out, {}, policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_decode_and_clip<>)
        (data.deltas.data(), data.anchors.data(), data.out.data(), box_count, 800, 800);
      });
}

template <class T>
void register_encode() {
  const std::string problem = std::string("encode_boxes/weights1/") + dtype_name<T>() + "/120087";
  const work amount{boxes, 12 * boxes * sizeof(T)};
  if constexpr (std::is_same<T, float>::value) {
    register_implementation(problem, "reference", 1, amount, [](benchmark::State& state) {
      const auto data = make_coding<float>();
      std::vector<double> out(data->out.size());
      const boxes_view<const float> g(data->boxes), a(data->anchors);
      time_calls(state, [&] {
        reference::for_each_box(out, [&](index_t i) {
          return reference::encode_box(reference::load_box(g, i), reference::load_box(a, i));
        });
        benchmark::ClobberMemory();
      });
    });
  }
  register_coding<T>(
      problem, amount,
      [](coding<T>& data, threading policy) {
        encode_boxes(boxes_view<const T>(data.boxes), data.anchors, data.out, {}, policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_encode<>)
        (data.boxes.data(), data.anchors.data(), data.out.data(), box_count);
      });
}

constexpr image_size image = image_size::height_width(800, 800);

/// Other variants of decoding and encoding: unclipped, a batch, four arrays, bfloat16 deltas with
/// float boxes.
void register_other_coders() {
  const work f32{boxes, 48 * boxes};
  register_coding<float>(
      "decode_boxes/boxes/f32/120087", f32,
      [](coding<float>& data, threading policy) {
        decode_boxes(boxes_view<const float>(data.deltas), data.anchors, data.out, {}, policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_decode<>)
        (data.deltas.data(), data.anchors.data(), data.out.data(), box_count);
      });
  static const std::vector<image_size> images(8, image);
  constexpr index_t anchors = 15000, all = 8 * anchors;
  register_coding<float>(
      "decode_boxes/clip_batch/f32/8x15000", {all, 32.0 * all + 16 * anchors},
      [](coding<float>& data, threading policy) {
        decode_boxes(boxes_view<const float>(data.deltas.data(), all),
                     boxes_view<const float>(data.anchors.data(), anchors), images,
                     boxes_view<float>(data.out.data(), all), {}, policy);
      },
      [](coding<float>& data) {
        for (index_t i = 0; i < all; i += anchors) {
          VECDET_PLAIN(plain_decode_and_clip<>)
          (data.deltas.data() + 4 * i, data.anchors.data(), data.out.data() + 4 * i, anchors, 800,
           800);
        }
      });
  register_with_plain(
      "decode_boxes/soa_boxes/f32/120087", f32, make_planes,
      [](coding<float>& data, threading policy) {
        decode_boxes(planes(data.deltas), planes(data.anchors), planes(data.out), {}, policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_decode<plain_layout::planes>)
        (data.deltas.data(), data.anchors.data(), data.out.data(), box_count);
      },
      &coding<float>::out);
  register_with_plain(
      "decode_boxes/soa_clip/f32/120087", f32, make_planes,
      [](coding<float>& data, threading policy) {
        decode_boxes(planes(data.deltas), planes(data.anchors), image, planes(data.out), {},
                     policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_decode_and_clip<plain_layout::planes>)
        (data.deltas.data(), data.anchors.data(), data.out.data(), box_count, 800, 800);
      },
      &coding<float>::out);
  register_with_plain(
      "encode_boxes/soa_boxes/f32/120087", f32, make_planes,
      [](coding<float>& data, threading policy) {
        encode_boxes(planes(data.boxes), planes(data.anchors), planes(data.out), {}, policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_encode<plain_layout::planes>)
        (data.boxes.data(), data.anchors.data(), data.out.data(), box_count);
      },
      &coding<float>::out);
  register_vecdet("decode_boxes/float_clip/bf16/120087", {boxes, 40 * boxes}, make_coding<bfloat16>,
                  [](coding<bfloat16>& data, threading policy) {
                    decode_boxes(boxes_view<const bfloat16>(data.deltas), data.float_anchors, image,
                                 data.float_out, {}, policy);
                  });
}

/// SSD's coder on its own priors.
void register_ssd() {
  struct ssd {
    std::vector<float> priors = ssd300_priors();
    std::vector<float> deltas = head_deltas<float>(8732);
    std::vector<float> targets = predicted_boxes(corners_of_centres(priors));
    std::vector<float> out = std::vector<float>(deltas.size());
  };
  const auto make = [] {
    static const auto data = std::make_shared<ssd>();
    return data;
  };
  const work amount{8732, 48 * 8732};
  register_with_plain(
      "decode_boxes/ssd/f32/8732", amount, make,
      [](ssd& data, threading policy) {
        decode_boxes(boxes_view<const float>(data.deltas), data.priors, data.out,
                     coder_params::ssd(), policy);
      },
      [](ssd& data) {
        VECDET_PLAIN(plain_decode_ssd)
        (data.deltas.data(), data.priors.data(), data.out.data(), 8732);
      },
      &ssd::out);
  register_with_plain(
      "encode_boxes/ssd/f32/8732", amount, make,
      [](ssd& data, threading policy) {
        encode_boxes(boxes_view<const float>(data.targets), data.priors, data.out,
                     coder_params::ssd(), policy);
      },
      [](ssd& data) {
        VECDET_PLAIN(plain_encode_ssd)
        (data.targets.data(), data.priors.data(), data.out.data(), 8732);
      },
      &ssd::out);
}

/// FCOS's distances, divided by the anchor's size or in pixels.
template <bool BySize>
void register_distances() {
  const work f32{boxes, 48 * boxes};
  distance_params params;
  params.by_size = BySize;
  register_coding<float>(
      std::string("decode_distances/") + (BySize ? "by_size" : "pixels") + "/f32/120087", f32,
      [=](coding<float>& data, threading policy) {
        decode_distances(boxes_view<const float>(data.deltas), data.anchors, data.out, params,
                         policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_decode_distances<BySize>)
        (data.deltas.data(), data.anchors.data(), data.out.data(), box_count);
      });
  register_coding<float>(
      std::string("decode_distances/") + (BySize ? "clip" : "pixels_clip") + "/f32/120087", f32,
      [=](coding<float>& data, threading policy) {
        decode_distances(boxes_view<const float>(data.deltas), data.anchors, image, data.out,
                         params, policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_decode_distances_and_clip<BySize>)
        (data.deltas.data(), data.anchors.data(), data.out.data(), box_count, 800, 800);
      });
  register_coding<float>(
      std::string("encode_distances/") + (BySize ? "by_size" : "pixels") + "/f32/120087", f32,
      [=](coding<float>& data, threading policy) {
        encode_distances(boxes_view<const float>(data.boxes), data.anchors, data.out, params,
                         policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_encode_distances<BySize>)
        (data.boxes.data(), data.anchors.data(), data.out.data(), box_count);
      });
}

template <class Plain>
void register_conversion(const char* variant, box_format from, box_format to, const Plain& plain) {
  register_with_plain(
      std::string("convert_boxes/") + variant + "/f32/120087", {boxes, 32 * boxes},
      make_coding<float>,
      [=](coding<float>& data, threading policy) {
        convert_boxes(boxes_view<const float>(data.boxes), from, to, data.out, policy);
      },
      [=](coding<float>& data) { plain(data.boxes.data(), data.out.data(), box_count); },
      &coding<float>::out);
}

void register_box_ops() {
  register_conversion("xyxy_to_xywh", box_format::xyxy, box_format::xywh, [](auto... a) {
    VECDET_PLAIN(plain_xywh_from_xyxy)(a...);
  });
  register_conversion("xywh_to_xyxy", box_format::xywh, box_format::xyxy, [](auto... a) {
    VECDET_PLAIN(plain_xyxy_from_xywh)(a...);
  });
  register_conversion("xyxy_to_cxcywh", box_format::xyxy, box_format::cxcywh, [](auto... a) {
    VECDET_PLAIN(plain_cxcywh_from_xyxy)(a...);
  });
  register_conversion("cxcywh_to_xyxy", box_format::cxcywh, box_format::xyxy, [](auto... a) {
    VECDET_PLAIN(plain_xyxy_from_cxcywh)(a...);
  });
  register_conversion("xywh_to_cxcywh", box_format::xywh, box_format::cxcywh, [](auto... a) {
    VECDET_PLAIN(plain_cxcywh_from_xywh)(a...);
  });
  register_conversion("cxcywh_to_xywh", box_format::cxcywh, box_format::xywh, [](auto... a) {
    VECDET_PLAIN(plain_xywh_from_cxcywh)(a...);
  });
  register_coding<float>(
      "clip_boxes/boxes/f32/120087", {boxes, 32 * boxes},
      [](coding<float>& data, threading policy) {
        clip_boxes(boxes_view<const float>(data.boxes), image, data.out, policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_clip_boxes)(data.boxes.data(), data.out.data(), box_count, 800, 800);
      });
  register_coding<float>(
      "box_areas/boxes/f32/120087", {boxes, 20 * boxes},
      [](coding<float>& data, threading policy) {
        box_areas(boxes_view<const float>(data.boxes),
                  vector_view<float>(data.out.data(), box_count), policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_box_areas)(data.boxes.data(), data.out.data(), box_count);
      });
  register_with_plain(
      "large_box_mask/boxes/f32/120087", {boxes, 17 * boxes}, make_coding<float>,
      [](coding<float>& data, threading policy) {
        large_box_mask(boxes_view<const float>(data.boxes), smallest_side, data.mask, policy);
      },
      [](coding<float>& data) {
        VECDET_PLAIN(plain_large_box_mask)
        (data.boxes.data(), smallest_side, data.mask.data(), box_count);
      },
      &coding<float>::mask);
  register_with_plain(
      "large_boxes/boxes/f32/120087", {boxes, 24 * boxes}, make_coding<float>,
      [](coding<float>& data, threading policy) {
        return data.found = large_boxes(boxes_view<const float>(data.boxes), smallest_side,
                                        data.indices, policy);
      },
      [](coding<float>& data) {
        return data.found = VECDET_PLAIN(plain_large_boxes)(data.boxes.data(), smallest_side,
                                                            data.indices.data(), box_count);
      },
      [](coding<float>& data) { return vector_view<index_t>(data.indices.data(), data.found); });
}

const bool registered = [] {
  register_decode<float>();
  register_decode<bfloat16>();
  register_encode<float>();
  register_encode<bfloat16>();
  register_other_coders();
  register_ssd();
  register_distances<true>();
  register_distances<false>();
  register_box_ops();
  show_in_figures("decode_boxes/clip/f32/120087");
  show_in_figures("encode_boxes/weights1/f32/120087");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
