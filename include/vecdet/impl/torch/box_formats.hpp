// SPDX-License-Identifier: Apache-2.0
// Formats, areas and sizes of boxes, under the names of box_ops.hpp.
#pragma once

#include <vecdet/box_ops.hpp>
#include <vecdet/impl/torch/boxes.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Types of 16 bits give float32, as in torchvision.
inline at::ScalarType type_of_areas(const at::Tensor& boxes) {
  return boxes.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

namespace cpu {

inline at::Tensor convert_boxes(const at::Tensor& given, box_format from, box_format to) {
  constexpr const char* function = "convert_boxes";
  return translated([&] {
    check_boxes(function, "boxes", given);
    constexpr const char* formats = "0 (xyxy), 1 (xywh) or 2 (cxcywh)";
    check_choice(function, "from", from, box_format::cxcywh, formats);
    check_choice(function, "to", to, box_format::cxcywh, formats);
    const at::ScalarType type = computed_type(function, "boxes", given);
    const at::Tensor x = contiguous("boxes", given, type);
    const at::Tensor converted = at::empty(given.sizes(), x.options());
    with_element(type, [&](auto element) {
      using T = decltype(element);
      vecdet::convert_boxes(boxes<const T>(x), from, to, boxes<T>(converted), threads());
    });
    return converted.to(given.scalar_type());
  });
}

inline at::Tensor clip_boxes(const at::Tensor& given, at::ArrayRef<double> image_size) {
  constexpr const char* function = "clip_boxes";
  return translated([&] {
    check_boxes(function, "boxes", given);
    const at::ScalarType type = computed_type(function, "boxes", given);
    const vecdet::image_size image = image_of(function, image_size);
    const at::Tensor x = contiguous("boxes", given, type);
    const at::Tensor clipped = at::empty(given.sizes(), x.options());
    with_element(type, [&](auto element) {
      using T = decltype(element);
      vecdet::clip_boxes(boxes<const T>(x), image, boxes<T>(clipped), threads());
    });
    return clipped.to(given.scalar_type());
  });
}

inline at::Tensor box_areas(const at::Tensor& given) {
  constexpr const char* function = "box_areas";
  return translated([&] {
    check_boxes(function, "boxes", given);
    check_shape(given.dim() == 2, function, "boxes", given, "[N, 4]");
    computed_type(function, "boxes", given);
    const at::Tensor x = contiguous("boxes", given, type_of_areas(given));
    const at::Tensor areas = at::empty({given.size(0)}, x.options());
    with_element(x.scalar_type(), [&](auto element) {
      using T = decltype(element);
      vecdet::box_areas(boxes<const T>(x), vector<T>(areas), threads());
    });
    return areas;
  });
}

inline at::Tensor large_boxes(const at::Tensor& given, double min_size) {
  constexpr const char* function = "large_boxes";
  return translated([&] {
    check_boxes(function, "boxes", given);
    check_shape(given.dim() == 2, function, "boxes", given, "[N, 4]");
    const at::ScalarType type = computed_type(function, "boxes", given);
    const at::Tensor x = contiguous("boxes", given, type);
    const at::Tensor indices = at::empty({given.size(0)}, at::kLong);
    const index_t count = with_element(type, [&](auto element) {
      using T = decltype(element);
      return vecdet::large_boxes(boxes<const T>(x), min_size, vector<index_t>(indices), threads());
    });
    return indices.resize_({count});
  });
}

}  // namespace cpu

// The same of tensors without data.
namespace meta {

inline at::Tensor convert_boxes(const at::Tensor& given, box_format, box_format) {
  return new_like(given);
}
inline at::Tensor clip_boxes(const at::Tensor& given, at::ArrayRef<double>) {
  return new_like(given);
}
inline at::Tensor box_areas(const at::Tensor& given) {
  return new_without_last(given).to(type_of_areas(given));
}

}  // namespace meta
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
