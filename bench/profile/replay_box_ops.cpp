// SPDX-License-Identifier: Apache-2.0
// Replays what is done to boxes besides coding them, on RetinaNet's anchors: conversion from
// corners to centre and size, clipping to 800 x 800, areas, and finding sides of 16 pixels or more;
// and detections of columns as recorded.
#include "replay_inputs.hpp"
#include <vecdet/box_ops.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace {

using namespace vecdet;

template <class T>
struct operands {
  std::vector<T> boxes, out, areas;
  std::vector<std::uint8_t> mask;
  std::vector<index_t> indices;

  explicit operands(index_t count) : boxes(bench::converted<T>(profile::anchors(count))) {
    out.resize(boxes.size());
    areas.resize(boxes.size() / 4);
    mask.resize(areas.size());
    indices.resize(areas.size());
  }
};

template <class T>
profile::replay_call make_call(const profile::entry& e, execution policy) {
  constexpr double least = 16;
  const auto data = std::make_shared<operands<T>>(e.shape[0]);
  const boxes_view<const T> boxes(data->boxes);
  if (e.function == "convert_boxes") {
    return [=] { convert_boxes(boxes, box_format::xyxy, box_format::cxcywh, data->out, policy); };
  }
  if (e.function == "clip_boxes") {
    return [=] { clip_boxes(boxes, image_size::height_width(800, 800), data->out, policy); };
  }
  if (e.function == "box_areas") return [=] { box_areas(boxes, data->areas, policy); };
  if (e.function == "large_box_mask") {
    return [=] { large_box_mask(boxes, least, data->mask, policy); };
  }
  return [=] { large_boxes(boxes, least, data->indices); };
}

profile::replay_call make(const profile::entry& e, execution policy) {
  if (e.variant != "boxes" || e.shape.size() != 1) return {};
  return profile::for_type(e.type,
                           [&](auto number) { return make_call<decltype(number)>(e, policy); });
}

template <class T>
profile::replay_call make_split(const profile::entry& e, execution policy) {
  const index_t rows = e.shape[0], cols = e.shape[1];
  const auto data = std::make_shared<operands<T>>(rows);
  const auto detections = std::make_shared<std::vector<T>>(rows * cols, T(1.0f));
  const matrix_view<const T> view(detections->data(), rows, cols);
  if (e.variant == "classes") {
    return [=] {
      (void)detections;
      split_detections(view, data->out, data->areas, data->indices, policy);
    };
  }
  return [=] {
    (void)detections;
    split_detections(view, data->out, data->areas, policy);
  };
}

profile::replay_call make_split_of(const profile::entry& e, execution policy) {
  const bool has_classes = e.variant == "classes";
  if (!has_classes && e.variant != "boxes") return {};
  if (e.shape.size() != 2 || e.shape[0] < 1 || e.shape[1] < 5 + has_classes) return {};
  return profile::for_type(e.type,
                           [&](auto number) { return make_split<decltype(number)>(e, policy); });
}

template <class T>
profile::replay_call make_join(const profile::entry& e, execution policy) {
  const index_t rows = e.shape[0], cols = e.shape[1];
  const auto data = std::make_shared<operands<T>>(rows);
  const auto detections = std::make_shared<std::vector<T>>(rows * cols);
  const matrix_view<T> view(detections->data(), rows, cols);
  if (e.variant == "classes") {
    return [=] {
      (void)detections;
      join_detections(boxes_view<const T>(data->boxes), vector_view<const T>(data->areas),
                      data->indices, view, policy);
    };
  }
  return [=] {
    (void)detections;
    join_detections(boxes_view<const T>(data->boxes), vector_view<const T>(data->areas), view,
                    policy);
  };
}

profile::replay_call make_join_of(const profile::entry& e, execution policy) {
  const bool has_classes = e.variant == "classes";
  if (!has_classes && e.variant != "boxes") return {};
  if (e.shape.size() != 2 || e.shape[0] < 1 || e.shape[1] < 5 + has_classes) return {};
  return profile::for_type(e.type,
                           [&](auto number) { return make_join<decltype(number)>(e, policy); });
}

template <class T>
profile::replay_call make_rearranging_call(const profile::entry& e, execution policy) {
  const auto data = std::make_shared<operands<T>>(e.shape[0]);
  const index_t count = e.shape[0];
  if (e.function == "split_boxes") {
    return [=] {
      T* const out = data->out.data();
      split_boxes(boxes_view<const T>(data->boxes),
                  boxes_soa_view<T>(out, out + count, out + 2 * count, out + 3 * count, count),
                  policy);
    };
  }
  return [=] {
    const T* const in = data->boxes.data();
    join_boxes(boxes_soa_view<const T>(in, in + count, in + 2 * count, in + 3 * count, count),
               boxes_view<T>(data->out), policy);
  };
}

profile::replay_call make_rearranging(const profile::entry& e, execution policy) {
  if (e.variant != "boxes" || e.shape.size() != 1) return {};
  return profile::for_type(
      e.type, [&](auto number) { return make_rearranging_call<decltype(number)>(e, policy); });
}

const profile::replay_registration registered[] = {
    {"convert_boxes", make},
    {"clip_boxes", make},
    {"box_areas", make},
    {"large_box_mask", make},
    {"large_boxes", make},
    {"split_detections", make_split_of},
    {"join_detections", make_join_of},
    {"split_boxes", make_rearranging},
    {"join_boxes", make_rearranging},
};

}  // namespace
