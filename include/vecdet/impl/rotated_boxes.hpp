// SPDX-License-Identifier: Apache-2.0
// The functions of rotated_boxes.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/rotated_boxes.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/rotated_boxes.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/rotated_boxes/rotated_boxes.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

inline angle_rule rule_of(const char* function, angle_convention angles) {
  switch (angles) {
    case angle_convention::torchvision:
    case angle_convention::detectron2:
      return {true, false};
    case angle_convention::opencv:
      return {true, true};
    case angle_convention::ultralytics:
    case angle_convention::mmcv:
      return {false, true};
    case angle_convention::mmcv_counter_clockwise:
      return {false, false};
  }
  throw_invalid_argument(function, "angles", static_cast<int>(angles), "an angle_convention");
}

inline rotated_form form_of(const char* function, const char* argument, rotated_format format,
                            angle_convention angles) {
  switch (format) {
    case rotated_format::cxcywhr:
      return rotated_form::centre;
    case rotated_format::xyxyxyxy:
      return rotated_form::corners;
    case rotated_format::xyxy:
      return rotated_form::upright;
    case rotated_format::xywhr:
      if (angles == angle_convention::torchvision) return rotated_form::corner;
      if (angles == angle_convention::ultralytics) return rotated_form::centre;
      throw_invalid_argument(function, argument, "xywhr",
                             "cxcywhr, xyxyxyxy or xyxy: xywhr begins with a corner in torchvision "
                             "and with the centre in ultralytics, and this framework does not use "
                             "the name");
  }
  throw_invalid_argument(function, argument, static_cast<int>(format), "a rotated_format");
}

constexpr index_t numbers_of(rotated_form form) {
  return form == rotated_form::corners ? 8 : form == rotated_form::upright ? 4 : 5;
}

template <class T>
void check_rotated(const char* function, const char* argument, const matrix_view<T>& boxes) {
  check_size(function, argument, boxes.rows() == 0 ? 5 : boxes.cols(), 5,
             "the numbers of a rotated box");
}

constexpr const char* rotated_iou_variant(empty_iou empty) {
  return empty == empty_iou::nan ? "torchvision" : "detectron2";
}
/// The operations of a pair whose enclosing boxes overlap; most others take 8.
constexpr index_t rotated_iou_operations = 150;
constexpr index_t smallest_rotated_chunk = 2048;  // pairs: a few microseconds
constexpr index_t smallest_conversion_chunk = 512;

/// An overlap of rotated boxes: the function, its variant and the operations of a pair.
struct rotated_overlap {
  const char* function;
  const char* variant;
  index_t operations;
};

/// Writes the overlaps of all pairs; `kernel_of` is the kernel of a set of kernels.
template <class T, class KernelOf>
void run_pairwise_rotated(const rotated_overlap& overlap, matrix_view<const T> a,
                          matrix_view<const T> b, angle_convention angles, matrix_view<T> out,
                          empty_iou empty, threading policy, const KernelOf& kernel_of) {
  const char* const function = overlap.function;
  const angle_rule rule = rule_of(function, angles);
  check_rotated(function, "a.cols()", a);
  check_rotated(function, "b.cols()", b);
  const index_t rows = a.rows(), columns = b.rows();
  check_size(function, "out.rows()", out.rows(), rows, "the number of boxes a");
  check_size(function, "out.cols()", out.cols(), columns, "the number of boxes b");
  check_apart(function, "out", out, "a", a);
  check_apart(function, "out", out, "b", b);
  if (out.empty()) return;
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    return {function,
            overlap.variant,
            dtype_name<T>(),
            {rows, columns},
            isa_name(target),
            policy.threads(),
            (5 * (rows + columns) + out.size()) * index_t{sizeof(T)},
            overlap.operations * out.size()};
  });
  const rotated_iou_args<T> args{a.data(), b.data(),     a.stride(), b.stride(), out.data(),
                                 columns,  out.stride(), rule,       empty};
  const auto kernel = kernel_of(kernels<rotated_boxes_kernels<T>>(target));
  // Pieces are multiples of the kernel's tiles: 16 boxes of a, 256 of b. What has more pieces is
  // divided.
  const index_t tiles = (columns + 255) / 256, strips = (rows + 15) / 16;
  if (tiles >= strips) {
    for_each_chunk(policy, chunking(tiles, 1 + smallest_rotated_chunk / (256 * rows)),
                   [&](index_t, index_t first, index_t last) {
                     kernel(args, 0, rows, 256 * first, std::min(256 * last, columns));
                   });
  } else {
    const index_t pieces = even_pieces(strips, usable_threads(policy));
    for_each_chunk(policy,
                   chunking(strips, std::max(1 + smallest_rotated_chunk / (16 * columns),
                                             (strips + pieces - 1) / pieces)),
                   [&](index_t, index_t first, index_t last) {
                     kernel(args, 16 * first, std::min(16 * last, rows), 0, columns);
                   });
  }
}

/// Writes the overlaps of corresponding boxes.
template <class T, class KernelOf>
void run_elementwise_rotated(const rotated_overlap& overlap, matrix_view<const T> a,
                             matrix_view<const T> b, angle_convention angles, vector_view<T> out,
                             empty_iou empty, threading policy, const KernelOf& kernel_of) {
  const char* const function = overlap.function;
  const angle_rule rule = rule_of(function, angles);
  check_rotated(function, "a.cols()", a);
  check_rotated(function, "b.cols()", b);
  const index_t count = a.rows();
  check_size(function, "b.rows()", b.rows(), count, "the number of boxes a");
  check_size(function, "out.size()", out.size(), count, "the number of boxes a");
  check_apart(function, "out", out, "a", a);
  check_apart(function, "out", out, "b", b);
  if (out.empty()) return;
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    return {function,
            overlap.variant,
            dtype_name<T>(),
            {count},
            isa_name(target),
            policy.threads(),
            11 * count * index_t{sizeof(T)},
            overlap.operations * count};
  });
  const rotated_iou_args<T> args{a.data(), b.data(), a.stride(), b.stride(), out.data(),
                                 0,        0,        rule,       empty};
  const auto kernel = kernel_of(kernels<rotated_boxes_kernels<T>>(target));
  for_each_chunk(policy, chunking(count, smallest_conversion_chunk, 16),
                 [&](index_t, index_t first, index_t last) { kernel(args, first, last); });
}

}  // namespace detail

template <class T>
void convert_rotated_boxes(matrix_view<T> boxes, rotated_format from, rotated_format to,
                           angle_convention angles, matrix_view<value_of<T>> out,
                           threading policy) {
  constexpr const char* function = "convert_rotated_boxes";
  using type = value_of<T>;
  const detail::angle_rule rule = detail::rule_of(function, angles);
  const detail::rotated_form in = detail::form_of(function, "from", from, angles);
  const detail::rotated_form result = detail::form_of(function, "to", to, angles);
  const index_t count = boxes.rows(), read = detail::numbers_of(in);
  const index_t written = detail::numbers_of(result);
  detail::check_size(function, "out.rows()", out.rows(), count, "the number of boxes");
  if (count == 0) return;
  detail::check_size(function, "boxes.cols()", boxes.cols(), read, "the numbers of a box");
  detail::check_size(function, "out.cols()", out.cols(), written, "the numbers of a box");
  detail::check_apart(function, "out", out, "boxes", boxes);
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    return {function,
            "boxes",
            dtype_name<type>(),
            {count},
            isa_name(target),
            policy.threads(),
            count * (read + written) * index_t{sizeof(type)},
            60 * count};
  });
  const detail::rotated_convert_args<type> args{
      boxes.data(), boxes.stride(), out.data(), out.stride(), in, result, rule};
  const auto kernel = detail::kernels<detail::rotated_boxes_kernels<type>>(target).convert;
  detail::for_each_chunk(policy, detail::chunking(count, detail::smallest_conversion_chunk, 16),
                         [&](index_t, index_t first, index_t last) { kernel(args, first, last); });
}

template <class T>
void rotated_box_areas(matrix_view<T> boxes, vector_view<value_of<T>> areas, threading policy) {
  constexpr const char* function = "rotated_box_areas";
  using type = value_of<T>;
  detail::check_rotated(function, "boxes.cols()", boxes);
  detail::check_size(function, "areas.size()", areas.size(), boxes.rows(), "the number of boxes");
  detail::check_apart(function, "areas", areas, "boxes", boxes);
  if (areas.empty()) return;
  const profile::scope timing([&]() -> profile::problem {
    return {function,
            "boxes",
            dtype_name<type>(),
            {boxes.rows()},
            isa_name(active_isa()),
            policy.threads(),
            boxes.rows() * 6 * index_t{sizeof(type)},
            boxes.rows()};
  });
  detail::for_each_chunk(policy, detail::chunking(boxes.rows(), 8192),
                         [&](index_t, index_t first, index_t last) {
                           for (index_t i = first; i < last; ++i)
                             areas[i] = boxes(i, 2) * boxes(i, 3);
                         });
}

template <class T>
void pairwise_rotated_iou(matrix_view<T> a, matrix_view<const value_of<T>> b,
                          angle_convention angles, matrix_view<value_of<T>> out, empty_iou empty,
                          threading policy) {
  detail::run_pairwise_rotated<value_of<T>>(
      {"pairwise_rotated_iou", detail::rotated_iou_variant(empty), detail::rotated_iou_operations},
      a, b, angles, out, empty, policy, [](const auto& own) { return own.pairwise_iou; });
}

template <class T>
void elementwise_rotated_iou(matrix_view<T> a, matrix_view<const value_of<T>> b,
                             angle_convention angles, vector_view<value_of<T>> out, empty_iou empty,
                             threading policy) {
  detail::run_elementwise_rotated<value_of<T>>(
      {"elementwise_rotated_iou", detail::rotated_iou_variant(empty),
       detail::rotated_iou_operations},
      a, b, angles, out, empty, policy, [](const auto& own) { return own.elementwise_iou; });
}

}  // namespace VECDET_ABI
}  // namespace vecdet
