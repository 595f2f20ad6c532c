// SPDX-License-Identifier: Apache-2.0
// Conversion of rotated boxes, 16 at a time in double, rounded once.
#pragma once

#include <vecdet/kernels/rotated_boxes/tile.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::rotated_form;

/// 16 boxes: centre, size, angle and the direction of the width.
struct rotated_row {
  row_pack<double> x, y, w, h, angle;
  directions<row_pack<double>::batches> width;
};

/// From the centre to the box's first corner, the top left one before turning.
struct to_first_corner {
  row_pack<double> x, y;

  VECDET_INLINE explicit to_first_corner(const rotated_row& r) {
    using real = row_pack<double>;
    const real half = 0.5, &c = r.width.cosine, &s = r.width.sine;
    x = half * (r.h * s - r.w * c);
    y = real(0.0) - half * (r.w * s + r.h * c);
  }
};

template <class T>
VECDET_INLINE void read_rotated(const detail::rotated_convert_args<T>& a, index_t first, int size,
                                rotated_row& r) {
  using real = row_pack<double>;
  constexpr int N = real::batches;
  const real half = 0.5, zero = 0.0;
  alignas(64) double number[8][row_lanes];
  const auto read = [&](auto count) VECDET_INLINE_LAMBDA {
    alignas(64) double some[decltype(count)::value][row_lanes];
    read_rows(consecutive_rows<T>{a.boxes, a.stride, first, size}, 0, some);
    __builtin_memcpy(number, some, sizeof some);
  };
  if (a.from == rotated_form::corners) {
    read(std::integral_constant<int, 8>());
  } else if (a.from == rotated_form::upright) {
    read(std::integral_constant<int, 4>());
  } else {
    read(std::integral_constant<int, 5>());
  }
  const auto column = [&](int k) VECDET_INLINE_LAMBDA { return load_pack<N>(number[k]); };
  if (a.from == rotated_form::corners) {
    const real ux = column(2) - column(0), uy = column(3) - column(1);
    const real vx = column(4) - column(2), vy = column(5) - column(3);
    r.x = half * (column(0) + column(4)), r.y = half * (column(1) + column(5));
    r.w = sqrt(ux * ux + uy * uy), r.h = sqrt(vx * vx + vy * vy);
    r.angle = angle_of_vector(ux, uy, a.angles);
  } else if (a.from == rotated_form::upright) {
    r.x = half * (column(0) + column(2)), r.y = half * (column(1) + column(3));
    r.w = column(2) - column(0), r.h = column(3) - column(1);
    r.angle = zero;
  } else {
    r.x = column(0), r.y = column(1), r.w = column(2), r.h = column(3), r.angle = column(4);
  }
  // Angles beyond the greatest have no direction.
  const auto has_direction = abs(r.angle) <= real(greatest_angle);
  const real nan = not_a_number<double>();
  r.width = directions_of(select(has_direction, r.angle, zero), a.angles);
  r.width.cosine = select(has_direction, r.width.cosine, nan);
  r.width.sine = select(has_direction, r.width.sine, nan);
  if (a.from == rotated_form::corner) {
    const to_first_corner corner(r);
    r.x = r.x - corner.x, r.y = r.y - corner.y;
  }
}

template <class T>
void convert_rotated_boxes(const detail::rotated_convert_args<T>& a, index_t first, index_t last) {
  using real = row_pack<double>;
  constexpr int N = real::batches;
  const int count = a.to == rotated_form::corners ? 8 : a.to == rotated_form::upright ? 4 : 5;
  for (index_t i = first; i < last; i += row_lanes) {
    const int size = static_cast<int>(last - i < row_lanes ? last - i : index_t{row_lanes});
    if (a.from == a.to) {
      for (int j = 0; j < size; ++j)
        for (int k = 0; k < count; ++k)
          a.out[(i + j) * a.out_stride + k] = a.boxes[(i + j) * a.stride + k];
      continue;
    }
    rotated_row r;
    read_rotated(a, i, size, r);
    alignas(64) double number[8][row_lanes];
    const auto put = [&](int k, const real& x)
                         VECDET_INLINE_LAMBDA { store_pack<N>(number[k], x); };
    if (a.to == rotated_form::corners) {
      const to_first_corner corner(r);
      const real &c = r.width.cosine, &s = r.width.sine;
      // The second corner lies a width further, the others opposite.
      const real x = corner.x + r.w * c, y = corner.y + r.w * s;
      put(0, r.x + corner.x), put(1, r.y + corner.y), put(2, r.x + x), put(3, r.y + y);
      put(4, r.x - corner.x), put(5, r.y - corner.y), put(6, r.x - x), put(7, r.y - y);
    } else if (a.to == rotated_form::upright) {
      const real half = 0.5, c = abs(r.width.cosine), s = abs(r.width.sine);
      const real x = half * (r.w * c + r.h * s), y = half * (r.w * s + r.h * c);
      put(0, r.x - x), put(1, r.y - y), put(2, r.x + x), put(3, r.y + y);
    } else {
      if (a.to == rotated_form::corner) {
        const to_first_corner corner(r);
        r.x = r.x + corner.x, r.y = r.y + corner.y;
      }
      put(0, r.x), put(1, r.y), put(2, r.w), put(3, r.h), put(4, r.angle);
    }
    for (int j = 0; j < size; ++j)
      for (int k = 0; k < count; ++k)
        a.out[(i + j) * a.out_stride + k] = static_cast<T>(number[k][j]);
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
