// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of RetinaNet's boxes at 800 x 800.
#include "plain_box_coding.hpp"
#include "support/implementations.hpp"
#include "support/planes.hpp"
#include "support/scene.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/box_ops.hpp>
#include <vecdet/reference/box_coding.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace vecdet {
namespace bench {
namespace {

constexpr index_t box_count = 120087;

template <class T>
struct coding {
  std::vector<T> deltas, anchors, boxes, out;
  std::vector<float> float_anchors, float_out;
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(box_count);
  std::vector<index_t> indices = std::vector<index_t>(box_count);
};

template <class T>
std::shared_ptr<coding<T>> make_coding() {
  static std::weak_ptr<coding<T>> known;
  auto data = known.lock();
  if (data != nullptr) return data;
  data = std::make_shared<coding<T>>();
  for (const float x : retinanet_anchors())
    data->anchors.push_back(T(static_cast<compute_type<T>>(x)));
  data->deltas = head_deltas<T>(box_count);
  data->boxes.resize(data->deltas.size());
  data->out.resize(data->deltas.size());
  data->float_anchors = retinanet_anchors();
  data->float_out.resize(data->deltas.size());
  decode_boxes(boxes_view<const T>(data->deltas), data->anchors, data->boxes);
  known = data;
  return data;
}

std::shared_ptr<coding<float>> make_planes() {
  static std::weak_ptr<coding<float>> known;
  auto data = known.lock();
  if (data != nullptr) return data;
  data = std::make_shared<coding<float>>(*make_coding<float>());
  for (std::vector<float>* const boxes : {&data->deltas, &data->anchors, &data->boxes})
    *boxes = as_planes(*boxes);
  known = data;
  return data;
}

constexpr double boxes = static_cast<double>(box_count);

template <class T>
void register_decode() {
  const std::string problem = std::string("decode_boxes/clip/") + dtype_name<T>() + "/120087";
  const work amount{boxes, 12 * boxes * sizeof(T)};
  if constexpr (std::is_same<T, float>::value) {
    register_implementation(problem, "reference", 1, amount, [](benchmark::State& state) {
      const auto data = make_coding<float>();
      std::vector<double> out(data->out.size());
      const boxes_view<const float> d(data->deltas), a(data->anchors);
      for (auto _ : state) {
        reference::for_each_box(out, [&](index_t i) {
          return reference::clip_box(
              reference::decode_box(reference::load_box(d, i), reference::load_box(a, i)), 800,
              800);
        });
        benchmark::ClobberMemory();
      }
    });
    register_implementation(problem, "plain", 1, amount, [](benchmark::State& state) {
      const auto data = make_coding<float>();
      for (auto _ : state) {
        plain_decode_and_clip(data->deltas.data(), data->anchors.data(), data->out.data(),
                              box_count, 800, 800);
        benchmark::ClobberMemory();
      }
    });
  }
  register_vecdet(problem, amount, make_coding<T>, [](coding<T>& data, execution policy) {
    decode_boxes(boxes_view<const T>(data.deltas), data.anchors, image_size{800, 800}, data.out, {},
                 policy);
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
      for (auto _ : state) {
        reference::for_each_box(out, [&](index_t i) {
          return reference::encode_box(reference::load_box(g, i), reference::load_box(a, i));
        });
        benchmark::ClobberMemory();
      }
    });
    register_implementation(problem, "plain", 1, amount, [](benchmark::State& state) {
      const auto data = make_coding<float>();
      for (auto _ : state) {
        plain_encode(data->boxes.data(), data->anchors.data(), data->out.data(), box_count);
        benchmark::ClobberMemory();
      }
    });
  }
  register_vecdet(problem, amount, make_coding<T>, [](coding<T>& data, execution policy) {
    encode_boxes(boxes_view<const T>(data.boxes), data.anchors, data.out, {}, policy);
  });
}

/// The coordinates in four arrays; bfloat16 deltas of float boxes; FCOS's distances; conversions.
void register_others() {
  const work f32{boxes, 48 * boxes};
  const image_size image{800, 800};
  register_vecdet("decode_boxes/soa_clip/f32/120087", f32, make_planes,
                  [=](coding<float>& data, execution policy) {
                    decode_boxes(planes(data.deltas), planes(data.anchors), image, planes(data.out),
                                 {}, policy);
                  });
  register_vecdet("encode_boxes/soa_boxes/f32/120087", f32, make_planes,
                  [=](coding<float>& data, execution policy) {
                    encode_boxes(planes(data.boxes), planes(data.anchors), planes(data.out), {},
                                 policy);
                  });
  register_vecdet("decode_boxes/float_clip/bf16/120087", {boxes, 40 * boxes}, make_coding<bfloat16>,
                  [=](coding<bfloat16>& data, execution policy) {
                    decode_boxes<float>(boxes_view<const bfloat16>(data.deltas), data.float_anchors,
                                        image, data.float_out, {}, policy);
                  });
  register_vecdet("decode_distances/clip/f32/120087", f32, make_coding<float>,
                  [=](coding<float>& data, execution policy) {
                    decode_distances(boxes_view<const float>(data.deltas), data.anchors, image,
                                     data.out, {}, policy);
                  });
  register_vecdet("encode_distances/by_size/f32/120087", f32, make_coding<float>,
                  [](coding<float>& data, execution policy) {
                    encode_distances(boxes_view<const float>(data.boxes), data.anchors, data.out,
                                     {}, policy);
                  });
  register_vecdet("convert_boxes/boxes/f32/120087", {boxes, 32 * boxes}, make_coding<float>,
                  [](coding<float>& data, execution policy) {
                    convert_boxes(boxes_view<const float>(data.boxes), box_format::xyxy,
                                  box_format::cxcywh, data.out, policy);
                  });
  register_vecdet("clip_boxes/boxes/f32/120087", {boxes, 32 * boxes}, make_coding<float>,
                  [=](coding<float>& data, execution policy) {
                    clip_boxes(boxes_view<const float>(data.boxes), image, data.out, policy);
                  });
  register_vecdet("large_box_mask/boxes/f32/120087", {boxes, 17 * boxes}, make_coding<float>,
                  [](coding<float>& data, execution policy) {
                    large_box_mask(boxes_view<const float>(data.boxes), 16, data.mask, policy);
                  });
  register_vecdet("large_boxes/boxes/f32/120087", {boxes, 24 * boxes}, make_coding<float>,
                  [](coding<float>& data, execution policy) {
                    large_boxes(boxes_view<const float>(data.boxes), 16, data.indices, policy);
                  });
  register_vecdet("box_areas/boxes/f32/120087", {boxes, 20 * boxes}, make_coding<float>,
                  [](coding<float>& data, execution policy) {
                    box_areas(boxes_view<const float>(data.boxes),
                              vector_view<float>(data.out.data(), box_count), policy);
                  });
}

const bool registered = [] {
  register_decode<float>();
  register_decode<bfloat16>();
  register_encode<float>();
  register_encode<bfloat16>();
  register_others();
  return true;
}();

}  // namespace
}  // namespace bench
}  // namespace vecdet
