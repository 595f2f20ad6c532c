// SPDX-License-Identifier: Apache-2.0
// The transcendental functions that sigmoid and softplus need, on packs, each over just the range
// in which it is needed: exp(-u) for u >= 0, log(1 + e) for e in [0, 1], log(m) for m in (0, 1]. In
// float, a table of eight numbers held in a register takes the place of half the polynomial.
//
// The polynomials are minimax for the relative error of the result (Remez), with coefficients
// rounded to the type. Largest errors measured over every float of the range: exp_minus 1.0 ulp,
// log1p_unit 1.2 ulp.
#pragma once

#include <vecdet/detail/simd.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// 2^(-j/8), with j added below the exponent to cancel the j that n << 20 brings there.
alignas(64) constexpr table8 exp2_table{{0x3f800000, 0x3f7ac0c7, 0x3f7744fd, 0x3f75672a, 0x3f7504f3,
                                         0x3f75fed7, 0x3f7837f0, 0x3f7b95c2, 0x3f800000, 0x3f7ac0c7,
                                         0x3f7744fd, 0x3f75672a, 0x3f7504f3, 0x3f75fed7, 0x3f7837f0,
                                         0x3f7b95c2}};

/// The relative error of 2^(-j/8) rounded to float.
alignas(64) constexpr table8 exp2_error_table{{0x00000000, -0x4e2d6f42, -0x4d831e7e, 0x31b3d0e5,
                                               0x329302ae, -0x4cfae558, 0x33092801, -0x4db1f9f0,
                                               0x00000000, -0x4e2d6f42, -0x4d831e7e, 0x31b3d0e5,
                                               0x329302ae, -0x4cfae558, 0x33092801, -0x4db1f9f0}};
/// 1 / (1 + j/8).
alignas(64) constexpr table8 reciprocal_table{{0x3f800000, 0x3f638e39, 0x3f4ccccd, 0x3f3a2e8c,
                                               0x3f2aaaab, 0x3f1d89d9, 0x3f124925, 0x3f088889,
                                               0x3f800000, 0x3f638e39, 0x3f4ccccd, 0x3f3a2e8c,
                                               0x3f2aaaab, 0x3f1d89d9, 0x3f124925, 0x3f088889}};
/// log(1 + j/8).
alignas(64) constexpr table8 log_table{{0x00000000, 0x3df1383b, 0x3e647fbe, 0x3ea30c5e, 0x3ecf991f,
                                        0x3ef8947b, 0x3f0f42fb, 0x3f20ec7f, 0x00000000, 0x3df1383b,
                                        0x3e647fbe, 0x3ea30c5e, 0x3ecf991f, 0x3ef8947b, 0x3f0f42fb,
                                        0x3f20ec7f}};

/// exp(-u) for u >= 0. Exactly 0 from u = 127 log(2) on; NaN stays NaN.
///
/// u = n log(2)/8 + r with |r| <= log(2)/16, so exp(-u) = 2^(-n/8) exp(-r), where the first factor
/// comes from the table and the exponent, and the second from a cubic (2.8e-8).
template <int N>
VECDET_INLINE pack<float, N> exp_minus(const pack<float, N>& u) {
  using real = pack<float, N>;
  using bits = pack<std::int32_t, N>;
  const real round = 12582912.0f;  // 1.5 * 2^23: a sum with it holds the rounded addend's low bits
  const real x = min(real(88.0296919f), u);
  const real n_shifted = fma(x, real(11.5415602f), round);
  const real n = n_shifted - round;
  // log(2)/8 in two parts: the product with the 13 bits of the first is exact, with or without fma.
  const real r = fnma(n, real(3.99327312e-6f), fnma(n, real(0.0866394043f), x));
  const bits n_bits = bit_cast<std::int32_t>(n_shifted);
  const real scale = bit_cast<float>(lookup8(exp2_table, n_bits) - (n_bits << 20));
  real q = fma(r, real(-0.166642979f), real(0.50006479f));
  q = fma(r, q, real(-1.0f));
  q = fma(r, q, bit_cast<float>(lookup8(exp2_error_table, n_bits)));
  return fma(scale, q, scale);
}

/// base + log(1 + e) for e in [0, 1], given also one_plus_e = 1 + e rounded. NaN stays NaN.
///
/// With c = 1 + j/8 the nearest below 1 + e, and t = (e - (c - 1)) / c in [0, 1/8]:
/// log(1 + e) = log(c) + log(1 + t), the first from a table, the second from a polynomial of
/// degree 5 (9.5e-9). The difference is exact, so small e loses nothing.
template <int N>
VECDET_INLINE pack<float, N> add_log1p(const pack<float, N>& base, const pack<float, N>& e,
                                       const pack<float, N>& one_plus_e) {
  using real = pack<float, N>;
  using bits = pack<std::int32_t, N>;
  const bits d = bit_cast<std::int32_t>(min(one_plus_e, real(1.99999988f)));  // e = 1: j = 7
  const bits j = d >> 20;
  const real c = bit_cast<float>(d & bits(~0xfffff));
  const real t = (e - (c - real(1.0f))) * bit_cast<float>(lookup8(reciprocal_table, j));
  const real t2 = t * t;
  const real q = fma(t2, fma(t, real(0.156873912f), real(-0.245718241f)),
                     fma(t, real(0.333160937f), real(-0.499997824f)));
  return fma(t2, q, (base + bit_cast<float>(lookup8(log_table, j))) + t);
}

/// exp(-u) for u >= 0 in double. Exactly 0 from u = 1023 log(2) on; NaN stays NaN.
template <int N>
VECDET_INLINE pack<double, N> exp_minus(const pack<double, N>& u) {
  using real = pack<double, N>;
  using bits = pack<std::int64_t, N>;
  const real round = 6755399441055744.0;  // 1.5 * 2^52
  const real x = min(real(709.0895657128241), u);
  const real n_shifted = fma(x, real(1.4426950408889634), round);
  const real n = n_shifted - round;
  const real r = fnma(n, real(0x1.ef35793c7673p-45), fnma(n, real(0x1.62e42fefa38p-1), x));
  const real scale =
      bit_cast<double>(bits(0x3ff0000000000000) - (bit_cast<std::int64_t>(n_shifted) << 52));
  constexpr double c[] = {-1.0,
                          0.5,
                          -0.16666666666666677,
                          4.166666666666668517e-2,
                          -8.3333333333214521e-3,
                          1.3888888888872998e-3,
                          -1.9841269886523185e-4,
                          2.4801587350239421e-5,
                          -2.7557243850017483e-6,
                          2.7557250628997533e-7,
                          -2.5109151333334651e-8,
                          2.0922208110740106e-9};
  real q = c[11];
  for (int k = 10; k >= 0; --k) q = fma(r, q, real(c[k]));
  return fma(scale * r, q, scale);
}

/// 2 atanh(s) for |s| <= 1/3 in double.
template <int N>
VECDET_INLINE pack<double, N> twice_atanh(const pack<double, N>& s) {
  using real = pack<double, N>;
  constexpr double c[] = {0.33333333333333331,   0.20000000000001047,   0.14285714285551215,
                          0.111111111212082,     9.0909088704616989e-2, 7.692303650302967e-2,
                          6.6670062890013482e-2, 5.8739193462284289e-2, 5.3742392029787742e-2,
                          3.9390927200728733e-2, 7.484981991747012e-2};
  const real z = s * s;
  real q = c[10];
  for (int k = 9; k >= 0; --k) q = fma(z, q, real(c[k]));
  const real twice = s + s;
  return fma(twice * z, q, twice);
}

/// log(1 + e) for e in [0, 1] in double.
template <int N>
VECDET_INLINE pack<double, N> log1p_unit(const pack<double, N>& e) {
  return twice_atanh(e / (pack<double, N>(2.0) + e));
}

/// -log(m) for normal m in (0, 1] in double: m = 2^k f with f in [sqrt(1/2), sqrt(2)].
template <int N>
VECDET_INLINE pack<double, N> minus_log(const pack<double, N>& m) {
  using real = pack<double, N>;
  using bits = pack<std::uint64_t, N>;
  const std::uint64_t sqrt_half = 0x3fe6a09e667f3bcd;
  const bits shifted = bit_cast<std::uint64_t>(m) + bits(0x3ff0000000000000 - sqrt_half);
  const real f = bit_cast<double>((shifted & bits(0x000fffffffffffff)) + bits(sqrt_half));
  // An integer below 2^52 or'ed into the bits of 2^52 is that sum as a double.
  const real k = bit_cast<double>((shifted >> 52) | bits(0x4330000000000000)) -
                 real(4503599627370496.0 + 1023.0);
  const real log_f = twice_atanh((f - real(1.0)) / (f + real(1.0)));
  return real(0.0) - fma(k, real(0x1.62e42fefa38p-1), fma(k, real(0x1.ef35793c7673p-45), log_f));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
