// SPDX-License-Identifier: Apache-2.0
// Sine and cosine of angles, and the angle of a vector, in double. All operations are plain
// additions and multiplications, so every instruction set gives the same bits.
#pragma once

#include <vecdet/args/rotated_boxes.hpp>
#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// The greatest angle in magnitude, in degrees or radians: up to it, the reduction to a quarter
/// turn is exact.
constexpr double greatest_angle = 1e6;

/// The direction of a box's width, with the sine positive towards the y axis. Multiples of 90
/// degrees give 0, 1 and -1 exactly. Angles beyond greatest_angle give any numbers.
template <int N>
struct directions {
  pack<double, N> cosine, sine;
};

template <int N>
VECDET_INLINE directions<N> directions_of(const pack<double, N>& angle, detail::angle_rule rule) {
  using real = pack<double, N>;
  // The nearest multiple of a quarter turn: from 2^52 on, the last bit of a double counts ones.
  const real shift = 0x1.8p52, per_quarter = rule.degrees ? 1.0 / 90 : 0.6366197723675814;
  const real quarters = VECDET_ORDERED(VECDET_ORDERED(angle * per_quarter + shift) - shift);
  real rest;
  if (rule.degrees) {
    rest = VECDET_ORDERED(angle - quarters * real(90.0)) * real(0.017453292519943295);
  } else {
    // pi / 2 in three parts: the products with the first two are exact.
    rest = VECDET_ORDERED(angle - quarters * real(0x1.921fb544p+0));
    rest = VECDET_ORDERED(rest - quarters * real(0x1.0b4611a6p-34));
    rest = rest - quarters * real(0x1.3198a2e037073p-69);
  }
  // Taylor's series, whose next terms are below 1e-18 for an eighth of a turn.
  const real z = rest * rest;
  const auto horner = [&](auto... coefficients) VECDET_INLINE_LAMBDA {
    real sum = 0.0;
    ((sum = sum * z + real(coefficients)), ...);
    return sum;
  };
  const real s =
      rest + rest * z *
                 horner(2.8114572543455206e-15, -7.647163731819816e-13, 1.6059043836821613e-10,
                        -2.505210838544172e-08, 2.7557319223985893e-06, -0.0001984126984126984,
                        0.008333333333333333, -0.16666666666666666);
  const real c =
      real(1.0) + z * horner(4.779477332387385e-14, -1.1470745597729725e-11, 2.08767569878681e-09,
                             -2.755731922398589e-07, 2.48015873015873e-05, -0.001388888888888889,
                             0.041666666666666664, -0.5);
  // The quarter, from -2 to 2.
  const real turns = VECDET_ORDERED(VECDET_ORDERED(quarters * real(0.25) + shift) - shift);
  const real quarter = quarters - turns * real(4.0);
  const auto is_odd = abs(quarter) == real(1.0), is_half = abs(quarter) == real(2.0);
  const real zero = 0.0;
  real cosine = select(is_odd, zero - s * quarter, c), sine = select(is_odd, c * quarter, s);
  cosine = select(is_half, zero - cosine, cosine);
  sine = select(is_half, zero - sine, sine);
  if (!rule.clockwise) sine = zero - sine;
  return {cosine, sine};
}

/// The angle of the vector (x, y), positive from the x axis towards the y axis if clockwise, in
/// [-pi, pi] or [-180, 180]. (0, 0) gives 0.
template <int N>
VECDET_INLINE pack<double, N> angle_of_vector(const pack<double, N>& x, const pack<double, N>& down,
                                              detail::angle_rule rule) {
  using real = pack<double, N>;
  const real zero = 0.0, y = rule.clockwise ? down : zero - down, width = abs(x), height = abs(y);
  // atan(low / high), by atan(t) = pi / 4 + atan((t - 1) / (t + 1)) above tan(pi / 8).
  const real low = min(width, height), high = max(max(width, height), real(1e-300));
  const auto is_steep = low > real(0.41421356237309503) * high;
  const real t = select(is_steep, low - high, low) / select(is_steep, low + high, high);
  const real z = t * t;
  real sum = 0.0;
  VECDET_NO_UNROLL
  for (int k = 41; k >= 3; k -= 2) sum = sum * z + real((k % 4 == 1 ? 1.0 : -1.0) / k);
  constexpr double half_turn = 3.141592653589793;
  real angle = t + t * z * sum;
  angle = select(is_steep, real(half_turn / 4) + angle, angle);
  angle = select(height > width, real(half_turn / 2) - angle, angle);
  angle = select(x < zero, real(half_turn) - angle, angle);
  angle = select(y < zero, zero - angle, angle);
  return rule.degrees ? angle * real(57.29577951308232) : angle;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
