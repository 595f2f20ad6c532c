// SPDX-License-Identifier: Apache-2.0
// The functions of box_ops.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/box_ops.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/box_coding.hpp>
#include <vecdet/impl/find_first.hpp>

#include <algorithm>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

inline void check_min_size(const char* function, const char* argument, double min_size) {
  check(is_within(min_size, 0, 1e35), function, argument, min_size, "a number from 0 to 1e35");
}

/// Calls visit(i, are both sides at least min_size) for each of the boxes [first, last), in order.
/// visit() may overwrite box i and those before it.
template <class T, class Visit>
void visit_large_boxes(const box_ops_kernels<T>& kernels, const T* boxes, double min_size,
                       index_t first, index_t last, const Visit& visit) {
  constexpr index_t block = 1024;
  std::uint8_t mask[block];
  for (index_t begin = first; begin < last; begin += block) {
    const index_t size = std::min(block, last - begin);
    kernels.large_mask(boxes + 4 * begin, min_size, mask, 0, size);
    for (index_t i = 0; i < size; ++i) visit(begin + i, mask[i] != 0);
  }
}

/// Calls run(kernels, first, last) for each chunk of the boxes, inside a profiler scope.
template <class T, class Run>
void run_box_op(const char* function, index_t boxes, index_t bytes_per_box, index_t flops_per_box,
                threading policy, const Run& run) {
  if (boxes == 0) return;
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    return {function,         "boxes",          dtype_name<T>(),       {boxes},
            isa_name(target), policy.threads(), boxes * bytes_per_box, boxes * flops_per_box};
  });
  const auto& kernels = detail::kernels<box_ops_kernels<T>>(target);
  for_each_chunk(policy, chunking(boxes, smallest_coding_chunk),
                 [&](index_t, index_t first, index_t last) { run(kernels, first, last); });
}

/// Throws unless each row's class is an integer of at most 2^53 in magnitude.
template <class T>
void check_classes(const char* function, const matrix_view<T>& detections, threading policy) {
  const auto is_class = [&](index_t i) {
    const auto id = static_cast<double>(detections(i, 5));
    return magnitude_bits(id) <= magnitude_bits(0x1p53) &&
           is_equal(id, static_cast<double>(static_cast<index_t>(id)));
  };
  const index_t rows = detections.rows();
  const index_t bad = find_first(chunking(rows, smallest_coding_chunk), rows, policy,
                                 [&](index_t first, index_t last) {
                                   while (first < last && is_class(first)) ++first;
                                   return first < last ? first : rows;
                                 });
  if (bad == rows) return;
  throw_invalid_argument(function, element("classes", bad), static_cast<double>(detections(bad, 5)),
                         "an integer from -2^53 to 2^53");
}

/// split_detections(); `classes` may be null.
template <class T>
void run_split(const matrix_view<T>& detections, const boxes_view<value_of<T>>& boxes,
               const vector_view<value_of<T>>& scores, const vector_view<index_t>* classes,
               threading policy) {
  constexpr const char* function = "split_detections";
  const index_t rows = detections.rows();
  check(detections.cols() >= 5 || rows == 0, function, "detections.cols()", detections.cols(),
        "5 or more: x1 y1 x2 y2 score");
  check_size(function, "boxes.size()", boxes.size(), rows, "the rows of detections");
  check_size(function, "scores.size()", scores.size(), rows, "the rows of detections");
  check_apart(function, "boxes", boxes, "detections", detections);
  check_apart(function, "scores", scores, "detections", detections);
  check_apart(function, "scores", scores, "boxes", boxes);
  if (classes != nullptr) {
    check_size(function, "classes.size()", classes->size(), rows, "the rows of detections");
    check(detections.cols() >= 6 || rows == 0, function, "detections.cols()", detections.cols(),
          "6 or more: x1 y1 x2 y2 score class");
    check_apart(function, "classes", *classes, "detections", detections);
    check_apart(function, "classes", *classes, "boxes", boxes);
    check_apart(function, "classes", *classes, "scores", scores);
  }
  if (rows == 0) return;
  const profile::scope timing([&]() -> profile::problem {
    const index_t read = (5 + (classes != nullptr)) * index_t{sizeof(T)};
    const index_t written = 5 * index_t{sizeof(T)} + (classes != nullptr ? 8 : 0);
    return {function,
            classes != nullptr ? "classes" : "boxes",
            dtype_name<value_of<T>>(),
            {rows, detections.cols()},
            isa_name(active_isa()),
            policy.threads(),
            rows * (read + written),
            0};
  });
  if (classes != nullptr) check_classes(function, detections, policy);
  for_each_chunk(policy, chunking(rows, smallest_coding_chunk),
                 [&](index_t, index_t first, index_t last) {
                   for (index_t i = first; i < last; ++i) {
                     const T* const row = detections.row(i);
                     std::copy_n(row, 4, boxes[i]);
                     scores[i] = row[4];
                     if (classes != nullptr) (*classes)[i] = static_cast<index_t>(row[5]);
                   }
                 });
}

/// Writes detections [first, last) from boxes, scores and, unless null, classes.
template <class T>
void run_join(const boxes_view<const T>& boxes, const vector_view<const T>& scores,
              const labels_view* classes, const matrix_view<T>& detections, threading policy) {
  constexpr const char* function = "join_detections";
  const index_t rows = detections.rows();
  check_size(function, "boxes.size()", boxes.size(), rows, "the rows of detections");
  check_size(function, "scores.size()", scores.size(), rows, "the rows of detections");
  check(detections.cols() >= 5 || rows == 0, function, "detections.cols()", detections.cols(),
        "5 or more: x1 y1 x2 y2 score");
  check_apart(function, "detections", detections, "boxes", boxes);
  check_apart(function, "detections", detections, "scores", scores);
  if (classes != nullptr) {
    check_size(function, "classes.size()", classes->size(), rows, "the rows of detections");
    check(detections.cols() >= 6 || rows == 0, function, "detections.cols()", detections.cols(),
          "6 or more: x1 y1 x2 y2 score class");
    check_apart(function, "detections", detections, "classes", *classes);
    constexpr index_t most = index_t{1} << (sizeof(T) == 2 ? 8 : sizeof(T) == 4 ? 24 : 53);
    for (index_t i = 0; i < rows; ++i) {
      const index_t id = (*classes)[i];
      if (id < -most || id > most) {
        throw_invalid_argument(
            function, element("classes", i), label_text(*classes, i),
            "an integer from -" + std::to_string(most) + " to " + std::to_string(most));
      }
    }
  }
  if (rows == 0) return;
  const profile::scope timing([&]() -> profile::problem {
    const index_t read = 5 * index_t{sizeof(T)} + (classes != nullptr ? 8 : 0);
    const index_t written = (5 + (classes != nullptr)) * index_t{sizeof(T)};
    return {function,
            classes != nullptr ? "classes" : "boxes",
            dtype_name<T>(),
            {rows, detections.cols()},
            isa_name(active_isa()),
            policy.threads(),
            rows * (read + written),
            0};
  });
  for_each_chunk(policy, chunking(rows, smallest_coding_chunk),
                 [&](index_t, index_t first, index_t last) {
                   for (index_t i = first; i < last; ++i) {
                     T* const row = detections.row(i);
                     std::copy_n(boxes[i], 4, row);
                     row[4] = scores[i];
                     if (classes != nullptr)
                       row[5] = T(static_cast<compute_type<T>>((*classes)[i]));
                   }
                 });
}

/// Copies every coordinate of `boxes` to `out`. One of the two is a boxes_soa_view.
template <class T, class In, class Out>
void run_rearrange(const char* function, const In& boxes, const Out& out, threading policy) {
  check_size(function, "out.size()", out.size(), boxes.size(), "the number of boxes");
  check_apart(function, "out", out, "boxes", boxes);
  check_coordinates_apart(function, "out", out);
  if (boxes.size() == 0) return;
  const profile::scope timing([&]() -> profile::problem {
    return {function,
            "boxes",
            dtype_name<T>(),
            {boxes.size()},
            isa_name(active_isa()),
            policy.threads(),
            2 * boxes.size() * bytes_per_box<const T*>,
            0};
  });
  for_each_chunk(policy, chunking(boxes.size(), smallest_coding_chunk),
                 [&](index_t, index_t first, index_t last) {
                   for (index_t i = first; i < last; ++i)
                     for (index_t k = 0; k < 4; ++k) out(i, k) = boxes(i, k);
                 });
}

}  // namespace detail

template <class Boxes>
void convert_boxes(const Boxes& given, box_format from, box_format to,
                   boxes_view<coordinate_of<Boxes>> out, threading policy) {
  const auto boxes = detail::any_boxes_in(given, "convert_boxes", "boxes");
  using type = coordinate_of<Boxes>;
  detail::check_size("convert_boxes", "out.size()", out.size(), boxes.size(),
                     "the number of boxes");
  detail::check_apart_or_same("convert_boxes", "out", out, "boxes", boxes);
  detail::run_box_op<type>("convert_boxes", boxes.size(), 2 * detail::bytes_per_box<const type*>,
                           detail::box_flops::convert(from, to), policy,
                           [&](const auto& kernels, index_t first, index_t last) {
                             kernels.convert(boxes.data(), from, to, out.data(), first, last);
                           });
}

template <class Boxes>
void convert_boxes(const Boxes& boxes, box_format to, boxes_view<coordinate_of<Boxes>> out,
                   threading policy) {
  convert_boxes(boxes, detail::format_of<Boxes>(), to, out, policy);
}

template <class Boxes>
void clip_boxes(const Boxes& given, const image_size& image, boxes_view<coordinate_of<Boxes>> out,
                threading policy) {
  const auto boxes = detail::boxes_in(given, "clip_boxes", "boxes");
  using type = coordinate_of<Boxes>;
  detail::check_image("clip_boxes", image);
  detail::check_size("clip_boxes", "out.size()", out.size(), boxes.size(), "the number of boxes");
  detail::check_apart_or_same("clip_boxes", "out", out, "boxes", boxes);
  detail::run_box_op<type>(
      "clip_boxes", boxes.size(), 2 * detail::bytes_per_box<const type*>, detail::box_flops::clip,
      policy, [&](const auto& kernels, index_t first, index_t last) {
        kernels.clip(boxes.data(), image.width, image.height, out.data(), first, last);
      });
}

template <class Boxes>
void box_areas(const Boxes& given, vector_view<coordinate_of<Boxes>> areas, threading policy) {
  const auto boxes = detail::boxes_in(given, "box_areas", "boxes");
  using type = coordinate_of<Boxes>;
  detail::check_size("box_areas", "areas.size()", areas.size(), boxes.size(),
                     "the number of boxes");
  detail::check_apart("box_areas", "areas", areas, "boxes", boxes);
  detail::run_box_op<type>("box_areas", boxes.size(), 5 * index_t{sizeof(type)},
                           detail::box_flops::area, policy,
                           [&](const auto& kernels, index_t first, index_t last) {
                             kernels.areas(boxes.data(), areas.data(), first, last);
                           });
}

template <class Boxes, detail::require_boxes<Boxes>>
void large_box_mask(const Boxes& given, double min_size, vector_view<std::uint8_t> mask,
                    threading policy) {
  const auto boxes = detail::boxes_in(given, "large_box_mask", "boxes");
  using type = coordinate_of<Boxes>;
  detail::check_min_size("large_box_mask", "min_size", min_size);
  detail::check_size("large_box_mask", "mask.size()", mask.size(), boxes.size(),
                     "the number of boxes");
  detail::check_apart("large_box_mask", "mask", mask, "boxes", boxes);
  detail::run_box_op<type>("large_box_mask", boxes.size(), detail::bytes_per_box<const type*> + 1,
                           detail::box_flops::large, policy,
                           [&](const auto& kernels, index_t first, index_t last) {
                             kernels.large_mask(boxes.data(), min_size, mask.data(), first, last);
                           });
}

template <class Boxes, detail::require_boxes<Boxes>>
index_t large_boxes(const Boxes& given, double min_size, vector_view<index_t> indices,
                    threading policy) {
  const auto boxes = detail::boxes_in(given, "large_boxes", "boxes");
  using type = coordinate_of<Boxes>;
  detail::check_min_size("large_boxes", "min_size", min_size);
  if (indices.size() < boxes.size()) {
    detail::throw_invalid_argument("large_boxes", "indices.size()", indices.size(),
                                   std::to_string(boxes.size()) + " or more, the number of boxes");
  }
  detail::check_apart("large_boxes", "indices", indices, "boxes", boxes);
  if (boxes.empty()) return 0;
  const isa target = active_isa();
  const profile::scope timing([&]() -> profile::problem {
    return {"large_boxes",
            "boxes",
            dtype_name<type>(),
            {boxes.size()},
            isa_name(target),
            policy.threads(),
            boxes.size() * index_t{4 * sizeof(type) + sizeof(index_t)},
            detail::box_flops::large * boxes.size()};
  });
  const auto& kernels = detail::kernels<detail::box_ops_kernels<type>>(target);
  // Each chunk writes to its own part of `indices`; then the parts are joined.
  const detail::chunking chunks(boxes.size(), detail::smallest_coding_chunk);
  index_t found[detail::chunking::max_count];
  detail::for_each_chunk(policy, chunks, [&](index_t chunk, index_t first, index_t last) {
    index_t* const begin_of_chunk = indices.data() + first;
    index_t* to = begin_of_chunk;
    detail::visit_large_boxes(kernels, boxes.data(), min_size, first, last,
                              [&](index_t i, bool is_large) {
                                *to = i;
                                to += is_large;
                              });
    found[chunk] = to - begin_of_chunk;
  });
  index_t count = 0;
  for (index_t c = 0; c < chunks.count; ++c) {
    const index_t* const part = indices.data() + chunks.begin(c);
    std::copy(part, part + found[c], indices.data() + count);
    count += found[c];
  }
  return count;
}

template <class T>
void split_detections(matrix_view<T> detections, boxes_view<value_of<T>> boxes,
                      vector_view<value_of<T>> scores, threading policy) {
  detail::run_split(detections, boxes, scores, nullptr, policy);
}

template <class T>
void split_detections(matrix_view<T> detections, boxes_view<value_of<T>> boxes,
                      vector_view<value_of<T>> scores, vector_view<index_t> classes,
                      threading policy) {
  detail::run_split(detections, boxes, scores, &classes, policy);
}

template <class Boxes>
void join_detections(const Boxes& given, vector_view<const coordinate_of<Boxes>> scores,
                     matrix_view<coordinate_of<Boxes>> detections, threading policy) {
  detail::run_join(detail::boxes_in(given, "join_detections", "boxes"), scores, nullptr, detections,
                   policy);
}

template <class Boxes>
void join_detections(const Boxes& given, vector_view<const coordinate_of<Boxes>> scores,
                     labels_view classes, matrix_view<coordinate_of<Boxes>> detections,
                     threading policy) {
  detail::run_join(detail::boxes_in(given, "join_detections", "boxes"), scores, &classes,
                   detections, policy);
}

template <class Boxes>
void split_boxes(const Boxes& given, boxes_soa_view<coordinate_of<Boxes>> out, threading policy) {
  detail::run_rearrange<coordinate_of<Boxes>>(
      "split_boxes", detail::any_boxes_in(given, "split_boxes", "boxes"), out, policy);
}

template <class T>
void join_boxes(boxes_soa_view<T> boxes, boxes_view<value_of<T>> out, threading policy) {
  detail::run_rearrange<value_of<T>>("join_boxes", boxes, out, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
