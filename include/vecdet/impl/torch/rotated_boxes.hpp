// SPDX-License-Identifier: Apache-2.0
// Rotated boxes: formats, areas and IoU, with the names of rotated_boxes.hpp.
#pragma once

#include <vecdet/impl/torch/boxes.hpp>
#include <vecdet/impl/torch/tensor.hpp>
#include <vecdet/rotated_boxes.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// float32 for 16-bit types: their angles are too coarse to compute with.
inline at::ScalarType rotated_type(const char* function, const char* argument,
                                   const at::Tensor& boxes) {
  return computed_type(function, argument, boxes) == at::kDouble ? at::kDouble : at::kFloat;
}
inline at::ScalarType rotated_type(const char* function, const char* argument, const at::Tensor& a,
                                   const char* other, const at::Tensor& b) {
  const bool either = rotated_type(function, argument, a) == at::kDouble ||
                      rotated_type(function, other, b) == at::kDouble;
  return either ? at::kDouble : at::kFloat;
}

template <class Use>
auto with_rotated_element(at::ScalarType type, const Use& use) {
  return type == at::kDouble ? use(double()) : use(float());
}

inline void check_rotated_boxes(const char* function, const char* argument,
                                const at::Tensor& boxes) {
  check_dense(function, argument, boxes);
  check_shape(boxes.dim() == 2 && boxes.size(1) == 5, function, argument, boxes, "[N, 5]");
}

inline angle_convention checked_angles(const char* function, angle_convention angles) {
  check_choice(function, "angles", angles, angle_convention::mmcv_counter_clockwise,
               "0 (torchvision), 1 (detectron2), 2 (opencv), 3 (ultralytics), 4 (mmcv) or 5 "
               "(mmcv_counter_clockwise)");
  return angles;
}

inline std::int64_t numbers_in(rotated_format format) {
  return format == rotated_format::xyxyxyxy ? 8 : format == rotated_format::xyxy ? 4 : 5;
}

namespace cpu {

/// The overlaps of all pairs of boxes `a` and `b`, N x M, by compute(a, b, out) on views.
template <class Compute>
at::Tensor pairwise_rotated(const char* function, const at::Tensor& a, const at::Tensor& b,
                            const Compute& compute) {
  return translated([&] {
    check_rotated_boxes(function, "a", a);
    check_rotated_boxes(function, "b", b);
    const at::ScalarType type = rotated_type(function, "a", a, "b", b);
    const at::Tensor x = contiguous("a", a, type), y = contiguous("b", b, type);
    const at::Tensor overlaps = at::empty({a.size(0), b.size(0)}, x.options());
    with_rotated_element(type, [&](auto element) {
      using T = decltype(element);
      compute(matrix<const T>(x, a.size(0), 5), matrix<const T>(y, b.size(0), 5),
              matrix<T>(overlaps, a.size(0), b.size(0)));
    });
    return overlaps.to(c10::promoteTypes(a.scalar_type(), b.scalar_type()));
  });
}

/// The overlaps of box i of `a` with box i of `b`, N, by compute(a, b, out) on views.
template <class Compute>
at::Tensor elementwise_rotated(const char* function, const at::Tensor& a, const at::Tensor& b,
                               const Compute& compute) {
  return translated([&] {
    check_rotated_boxes(function, "a", a);
    check_rotated_boxes(function, "b", b);
    check_shape(b.sizes() == a.sizes(), function, "b", b, "the shape of a");
    const at::ScalarType type = rotated_type(function, "a", a, "b", b);
    const at::Tensor x = contiguous("a", a, type), y = contiguous("b", b, type);
    const at::Tensor overlaps = at::empty({a.size(0)}, x.options());
    with_rotated_element(type, [&](auto element) {
      using T = decltype(element);
      compute(matrix<const T>(x, a.size(0), 5), matrix<const T>(y, a.size(0), 5),
              vector<T>(overlaps));
    });
    return overlaps.to(c10::promoteTypes(a.scalar_type(), b.scalar_type()));
  });
}

/// The exact IoU (rotated_boxes.hpp) of all pairs of boxes `a` (N x 5: centre, width, height,
/// angle) and `b` (M x 5), N x M. Computed in float32 for 16-bit types.
inline at::Tensor pairwise_rotated_iou(const at::Tensor& a, const at::Tensor& b,
                                       angle_convention angles) {
  constexpr const char* function = "pairwise_rotated_iou";
  return pairwise_rotated(function, a, b, [&](auto x, auto y, auto out) {
    vecdet::pairwise_rotated_iou(x, y, checked_angles(function, angles), out, empty_iou::nan,
                                 threads());
  });
}

/// The exact IoU (rotated_boxes.hpp) of box i of `a` with box i of `b`, both N x 5: centre, width,
/// height, angle; N. Computed in float32 for 16-bit types.
inline at::Tensor elementwise_rotated_iou(const at::Tensor& a, const at::Tensor& b,
                                          angle_convention angles) {
  constexpr const char* function = "elementwise_rotated_iou";
  return elementwise_rotated(function, a, b, [&](auto x, auto y, auto out) {
    vecdet::elementwise_rotated_iou(x, y, checked_angles(function, angles), out, empty_iou::nan,
                                    threads());
  });
}

/// Converts rotated `boxes` (N x 5, 8 or 4 numbers) from format `from` to format `to`
/// (rotated_boxes.hpp).
inline at::Tensor convert_rotated_boxes(const at::Tensor& boxes, rotated_format from,
                                        rotated_format to, angle_convention angles) {
  constexpr const char* function = "convert_rotated_boxes";
  return translated([&] {
    constexpr const char* formats = "0 (cxcywhr), 1 (xywhr), 2 (xyxyxyxy) or 3 (xyxy)";
    check_choice(function, "from", from, rotated_format::xyxy, formats);
    check_choice(function, "to", to, rotated_format::xyxy, formats);
    check_dense(function, "boxes", boxes);
    const std::int64_t read = numbers_in(from), written = numbers_in(to);
    check_shape(boxes.dim() == 2 && boxes.size(1) == read, function, "boxes", boxes,
                read == 8   ? "[N, 8]"
                : read == 5 ? "[N, 5]"
                            : "[N, 4]");
    const at::ScalarType type = rotated_type(function, "boxes", boxes);
    const at::Tensor x = contiguous("boxes", boxes, type);
    const at::Tensor converted = at::empty({boxes.size(0), written}, x.options());
    with_rotated_element(type, [&](auto element) {
      using T = decltype(element);
      vecdet::convert_rotated_boxes(matrix<const T>(x, boxes.size(0), read), from, to,
                                    checked_angles(function, angles),
                                    matrix<T>(converted, boxes.size(0), written), threads());
    });
    return converted.to(boxes.scalar_type());
  });
}

/// Width times height, N, of rotated `boxes` (N x 5), in float32 for 16-bit types.
inline at::Tensor rotated_box_areas(const at::Tensor& boxes) {
  constexpr const char* function = "rotated_box_areas";
  return translated([&] {
    check_rotated_boxes(function, "boxes", boxes);
    const at::ScalarType type = rotated_type(function, "boxes", boxes);
    const at::Tensor x = contiguous("boxes", boxes, type);
    const at::Tensor areas = at::empty({boxes.size(0)}, x.options());
    with_rotated_element(type, [&](auto element) {
      using T = decltype(element);
      vecdet::rotated_box_areas(matrix<const T>(x, boxes.size(0), 5), vector<T>(areas), threads());
    });
    return areas;
  });
}

}  // namespace cpu

// The same for tensors without data.
namespace meta {

inline at::Tensor convert_rotated_boxes(const at::Tensor& boxes, rotated_format, rotated_format to,
                                        angle_convention) {
  const c10::SymInt sizes[] = {boxes.sym_size(0), c10::SymInt(numbers_in(to))};
  return boxes.new_empty_symint(sizes, boxes.options());
}

}  // namespace meta
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
