// SPDX-License-Identifier: Apache-2.0
// Formats, areas and sizes of boxes, with the names of box_ops.hpp.
#pragma once

#include <vecdet/box_ops.hpp>
#include <vecdet/impl/torch/boxes.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// float32 for 16-bit types, as in torchvision.
inline at::ScalarType type_of_areas(const at::Tensor& boxes) {
  return boxes.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

namespace cpu {

/// Converts `boxes` (... x 4) from format `from` to format `to` (box_ops.hpp).
inline at::Tensor convert_boxes(const at::Tensor& boxes_, box_format from, box_format to) {
  constexpr const char* function = "convert_boxes";
  return translated([&] {
    check_boxes(function, "boxes", boxes_);
    constexpr const char* formats = "0 (xyxy), 1 (xywh) or 2 (cxcywh)";
    check_choice(function, "from", from, box_format::cxcywh, formats);
    check_choice(function, "to", to, box_format::cxcywh, formats);
    const at::ScalarType type = computed_type(function, "boxes", boxes_);
    const at::Tensor x = contiguous("boxes", boxes_, type);
    const at::Tensor converted = at::empty(boxes_.sizes(), x.options());
    with_element(type, [&](auto element) {
      using T = decltype(element);
      vecdet::convert_boxes(boxes<const T>(x), from, to, boxes<T>(converted), threads());
    });
    return converted.to(boxes_.scalar_type());
  });
}

/// Clips `boxes` (... x 4 corners) to an image.
/// @param image_size height and width, in torchvision's order
inline at::Tensor clip_boxes(const at::Tensor& boxes_, at::ArrayRef<double> image_size) {
  constexpr const char* function = "clip_boxes";
  return translated([&] {
    check_boxes(function, "boxes", boxes_);
    const at::ScalarType type = computed_type(function, "boxes", boxes_);
    const vecdet::image_size image = image_of(function, image_size);
    const at::Tensor x = contiguous("boxes", boxes_, type);
    const at::Tensor clipped = at::empty(boxes_.sizes(), x.options());
    with_element(type, [&](auto element) {
      using T = decltype(element);
      vecdet::clip_boxes(boxes<const T>(x), image, boxes<T>(clipped), threads());
    });
    return clipped.to(boxes_.scalar_type());
  });
}

/// The areas, N, of `boxes` (N x 4 corners), in float32 for 16-bit types.
inline at::Tensor box_areas(const at::Tensor& boxes_) {
  constexpr const char* function = "box_areas";
  return translated([&] {
    check_boxes(function, "boxes", boxes_);
    check_shape(boxes_.dim() == 2, function, "boxes", boxes_, "[N, 4]");
    computed_type(function, "boxes", boxes_);
    const at::Tensor x = contiguous("boxes", boxes_, type_of_areas(boxes_));
    const at::Tensor areas = at::empty({boxes_.size(0)}, x.options());
    with_element(x.scalar_type(), [&](auto element) {
      using T = decltype(element);
      vecdet::box_areas(boxes<const T>(x), vector<T>(areas), threads());
    });
    return areas;
  });
}

/// The indices (int64) of the `boxes` (N x 4 corners) with both sides at least `min_size`.
inline at::Tensor large_boxes(const at::Tensor& boxes_, double min_size) {
  constexpr const char* function = "large_boxes";
  return translated([&] {
    check_boxes(function, "boxes", boxes_);
    check_shape(boxes_.dim() == 2, function, "boxes", boxes_, "[N, 4]");
    const at::ScalarType type = computed_type(function, "boxes", boxes_);
    const at::Tensor x = contiguous("boxes", boxes_, type);
    const at::Tensor indices = at::empty({boxes_.size(0)}, at::kLong);
    const index_t count = with_element(type, [&](auto element) {
      using T = decltype(element);
      return vecdet::large_boxes(boxes<const T>(x), min_size, vector<index_t>(indices), threads());
    });
    return indices.resize_({count});
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
