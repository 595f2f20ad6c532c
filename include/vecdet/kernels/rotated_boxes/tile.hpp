// SPDX-License-Identifier: Apache-2.0
// Some rotated boxes with what the IoU of pairs needs: directions, areas, the sides of the
// enclosing upright box. Everything is computed in double and rounded once.
#pragma once

#include <vecdet/kernels/angles.hpp>
#include <vecdet/kernels/boxes.hpp>
#include <vecdet/kernels/rotated_boxes/terms.hpp>
#include <vecdet/simd/constants.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Consecutive boxes from box `first` on; the last of `size` stands for those beyond it.
template <class T>
struct consecutive_rows {
  const T* boxes;
  index_t stride, first;
  int size;

  VECDET_INLINE const T* operator()(int i) const {
    return boxes + (first + (i < size ? i : size - 1)) * stride;
  }
};

/// Reads `Count` numbers of the boxes i to i + 15.
template <int Count, class Rows>
VECDET_INLINE void read_rows(const Rows& rows, int i, double (&numbers)[Count][row_lanes]) {
  for (int j = 0; j < row_lanes; ++j) {
    const auto* const row = rows(i + j);
    for (int k = 0; k < Count; ++k) numbers[k][j] = static_cast<double>(row[k]);
  }
}

/// Rounds a row to its element type.
template <class Real>
VECDET_INLINE void store_rounded(Real* to, const row_pack<double>& x) {
  if constexpr (std::is_same<Real, float>::value)
    store_pack<row_pack<float>::batches>(to, narrow(x));
  else
    store_pack<row_pack<double>::batches>(to, x);
}

/// 16 boxes of the stored type T, in double: the numbers and the direction of the width. A box is
/// not a number if one of its numbers is not finite, a side is negative or the angle is beyond
/// greatest_angle: all results with it are NaN.
struct turned_row {
  row_pack<double> x, y, w, h, cosine, sine;
  pack_mask<double, row_pack<double>::batches> is_box;
};

template <class T, class Rows>
VECDET_INLINE turned_row load_turned_row(const Rows& rows, int i, detail::angle_rule rule) {
  using real = row_pack<double>;
  constexpr int N = real::batches;
  alignas(64) double number[5][row_lanes];
  read_rows(rows, i, number);
  const real zero = 0.0, finite = double{largest<T>};
  turned_row row;
  row.x = load_pack<N>(number[0]), row.y = load_pack<N>(number[1]);
  row.w = load_pack<N>(number[2]), row.h = load_pack<N>(number[3]);
  const real angle = load_pack<N>(number[4]);
  row.is_box = (abs(row.x) <= finite) & (abs(row.y) <= finite) & (row.w <= finite) &
               (row.h <= finite) & (row.w >= zero) & (row.h >= zero) &
               (abs(angle) <= real(greatest_angle));
  const auto turned = directions_of(select(row.is_box, angle, zero), rule);
  row.cosine = turned.cosine, row.sine = turned.sine;
  return row;
}

/// Up to Capacity boxes, a multiple of 16.
template <class Real, int Capacity>
struct rotated_tile {
  static constexpr int capacity = Capacity;
  alignas(64) Real x[Capacity], y[Capacity], half_width[Capacity], half_height[Capacity];
  alignas(64) Real cosine[Capacity], sine[Capacity], area[Capacity];
  alignas(64) Real reach_x[Capacity], reach_y[Capacity];  // half of the enclosing box's sides
  alignas(64) Real upright[Capacity];  // 1 if the sides are parallel to the axes, else 0
  alignas(64) Real x1[Capacity], y1[Capacity], x2[Capacity], y2[Capacity];  // if upright
  bool has_upright;
  bool extreme[Capacity];  // areas may over- or underflow in float
  bool has_extreme;

  /// Loads consecutive boxes.
  template <class T>
  VECDET_INLINE void fill(const T* boxes, index_t stride, index_t first, int size,
                          detail::angle_rule rule) {
    fill<T>(consecutive_rows<T>{boxes, stride, first, size}, size, rule);
  }
  /// Loads the boxes rows(0), rows(1) and so on, a multiple of 16 and at least `size`.
  template <class T, class Rows>
  VECDET_NOINLINE void fill(const Rows& rows, int size, detail::angle_rule rule) {
    using real = row_pack<double>;
    has_extreme = false, has_upright = false;
    for (int i = 0; i < size; i += row_lanes) {
      const turned_row row = load_turned_row<T>(rows, i, rule);
      const real zero = 0.0, one = 1.0, half = 0.5, nan = not_a_number<double>();
      const real &cx = row.x, &cy = row.y, &w = row.w, &h = row.h, &c = row.cosine, &s = row.sine;
      const auto& is_box = row.is_box;
      const auto is_turned = c == zero;
      const real is_upright = select(s == zero, one, select(is_turned, one, zero));
      const real reach_w = half * (w * abs(c) + h * abs(s));
      const real reach_h = half * (w * abs(s) + h * abs(c));
      store_rounded(x + i, cx);
      store_rounded(y + i, cy);
      store_rounded(half_width + i, half * w);
      store_rounded(half_height + i, half * h);
      store_rounded(cosine + i, c);
      store_rounded(sine + i, s);
      store_rounded(area + i, select(is_box, w * h, nan));
      store_rounded(reach_x + i, select(is_box, reach_w, nan));
      store_rounded(reach_y + i, select(is_box, reach_h, nan));
      store_rounded(upright + i, select(is_box, is_upright, zero));
      fill_corners(i, to_bits(is_turned));
      has_upright = has_upright || to_bits(is_box & (is_upright == one)) != 0;
      if constexpr (std::is_same<T, float>::value) {
        const real side = max(max(w, h), max(abs(cx), abs(cy))), product = w * h;
        const auto is_large = side > real(0x1p60);
        const auto is_small = (product < real(0x1p-100)) & (product > zero);
        const std::uint32_t bits = to_bits(is_large) | to_bits(is_small);
        for (int k = 0; k < row_lanes; ++k) extreme[i + k] = (bits >> k & 1) != 0;
        has_extreme = has_extreme || bits != 0;
      }
    }
  }

  /// Copies box j of another tile to box i.
  template <int Others>
  VECDET_INLINE void copy_box(int i, const rotated_tile<Real, Others>& from, int j) {
    x[i] = from.x[j], y[i] = from.y[j], area[i] = from.area[j];
    half_width[i] = from.half_width[j], half_height[i] = from.half_height[j];
    cosine[i] = from.cosine[j], sine[i] = from.sine[j];
    reach_x[i] = from.reach_x[j], reach_y[i] = from.reach_y[j], upright[i] = from.upright[j];
    x1[i] = from.x1[j], y1[i] = from.y1[j], x2[i] = from.x2[j], y2[i] = from.y2[j];
  }

  template <int N>
  VECDET_INLINE rotated_pack<Real, N> at(int i) const {
    return {load_pack<N>(x + i),           load_pack<N>(y + i),      load_pack<N>(half_width + i),
            load_pack<N>(half_height + i), load_pack<N>(cosine + i), load_pack<N>(sine + i),
            load_pack<N>(area + i)};
  }
  /// Box i in every lane.
  template <int N>
  VECDET_INLINE rotated_pack<Real, N> repeated(int i) const {
    using real = pack<Real, N>;
    return {real(x[i]),      real(y[i]),    real(half_width[i]), real(half_height[i]),
            real(cosine[i]), real(sine[i]), real(area[i])};
  }
  template <int N>
  VECDET_INLINE enclosing_pack<Real, N> enclosing(int i) const {
    return {load_pack<N>(x + i), load_pack<N>(y + i), load_pack<N>(reach_x + i),
            load_pack<N>(reach_y + i)};
  }
  template <int N>
  VECDET_INLINE enclosing_pack<Real, N> repeated_enclosing(int i) const {
    using real = pack<Real, N>;
    return {real(x[i]), real(y[i]), real(reach_x[i]), real(reach_y[i])};
  }
  template <int N>
  VECDET_INLINE box_pack<Real, N> corners(int i) const {
    return {load_pack<N>(x1 + i), load_pack<N>(y1 + i), load_pack<N>(x2 + i), load_pack<N>(y2 + i)};
  }
  template <int N>
  VECDET_INLINE box_pack<Real, N> repeated_corners(int i) const {
    using real = pack<Real, N>;
    return {real(x1[i]), real(y1[i]), real(x2[i]), real(y2[i])};
  }

 private:
  /// The corners of upright boxes, rounded as convert_boxes() does. Those of bit i of `turned` have
  /// their width along y.
  VECDET_INLINE void fill_corners(int i, std::uint32_t turned) {
    for (int k = i; k < i + row_lanes; ++k) {
      const bool swaps = (turned >> (k - i) & 1) != 0;
      const Real a = swaps ? half_height[k] : half_width[k];
      const Real b = swaps ? half_width[k] : half_height[k];
      x1[k] = x[k] - a, y1[k] = y[k] - b, x2[k] = x[k] + a, y2[k] = y[k] + b;
    }
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet
