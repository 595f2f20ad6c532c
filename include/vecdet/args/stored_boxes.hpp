// SPDX-License-Identifier: Apache-2.0
// The storage of a call's boxes, as a type S that arguments and kernels are templated on:
//
//   T                      N x 4 of T for all boxes
//   mixed<Delta, Box, Out> N x 4: deltas, boxes and results of different types
//   separate<T>            four arrays of T, one per coordinate, for all boxes
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

#include <type_traits>
#include <utility>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Boxes with one array per coordinate, starting at box `first`. Advancing changes one index
/// instead of four pointers.
template <class T>
struct coordinate_arrays {
  T* of[4];
  index_t first = 0;

  constexpr T* at(int k) const noexcept { return of[k] + first; }
};

template <class Delta, class Box, class Out>
struct mixed;
template <class T>
struct separate;

/// The compute type of a call and its pointer types: `in` for inputs, `boxes` for anchors or the
/// boxes compared with, `out` for results, and `each` for one number per box.
template <class S>
struct stored {
  using real = compute_type<S>;
  using in = const S*;
  using boxes = const S*;
  using out = S*;
  using each = S*;
};
template <class Delta, class Box, class Out>
struct stored<mixed<Delta, Box, Out>> {
  using real = compute_type<Box>;
  using in = const Delta*;
  using boxes = const Box*;
  using out = Out*;
  using each = Out*;
};
template <class T>
struct stored<separate<T>> {
  using real = compute_type<T>;
  using in = coordinate_arrays<const T>;
  using boxes = coordinate_arrays<const T>;
  using out = coordinate_arrays<T>;
  using each = T*;
};

/// The storage for deltas of type Delta with boxes of type Box: for decoding to such boxes, and for
/// regression to such boxes with gradients of type Delta.
template <class Delta, class Box>
using decoded_storage =
    std::conditional_t<std::is_same<Delta, Box>::value, Delta, mixed<Delta, Box, Box>>;
template <class Delta, class Box>
using regressed_storage =
    std::conditional_t<std::is_same<Delta, Box>::value, Delta, mixed<Delta, Box, Delta>>;

/// bfloat16 deltas with boxes of float, as in networks trained in bfloat16. They are decoded to
/// float; gradients are bfloat16.
using mixed_decoding = mixed<bfloat16, float, float>;
using mixed_regression = mixed<bfloat16, float, bfloat16>;

// ---- a pointer to boxes in either layout; null means no boxes

template <class T>
T* boxes_of(const boxes_view<T>& view) noexcept {
  return view.data();
}
template <class T>
coordinate_arrays<T> boxes_of(const boxes_soa_view<T>& view) noexcept {
  return {{view.coordinates(0), view.coordinates(1), view.coordinates(2), view.coordinates(3)}, 0};
}
template <class T>
VECDET_INLINE T* advanced(T* from, index_t boxes) {
  return from != nullptr ? from + 4 * boxes : from;
}
template <class T>
VECDET_INLINE coordinate_arrays<T> advanced(const coordinate_arrays<T>& from, index_t boxes) {
  return {{from.of[0], from.of[1], from.of[2], from.of[3]}, from.first + boxes};
}
/// The same for boxes that are present: the pointer is not tested for null.
template <class T>
VECDET_INLINE T* from_box(T* boxes, index_t box) {
  return boxes + 4 * box;
}
template <class T>
VECDET_INLINE coordinate_arrays<T> from_box(const coordinate_arrays<T>& boxes, index_t box) {
  return advanced(boxes, box);
}
template <class T>
VECDET_INLINE bool is_given(T* boxes) {
  return boxes != nullptr;
}
template <class T>
VECDET_INLINE bool is_given(const coordinate_arrays<T>& boxes) {
  return boxes.of[0] != nullptr;
}
template <class T>
VECDET_INLINE T& coordinate(T* boxes, index_t box, int k) {
  return boxes[4 * box + k];
}
template <class T>
VECDET_INLINE T& coordinate(const coordinate_arrays<T>& boxes, index_t box, int k) {
  return boxes.at(k)[box];
}

template <class Pointer>
constexpr index_t bytes_per_box = 4 * sizeof(coordinate(std::declval<Pointer>(), 0, 0));

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
