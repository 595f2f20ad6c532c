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

}  // namespace VECDET_TARGET
}  // namespace vecdet
