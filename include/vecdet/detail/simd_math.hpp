// SPDX-License-Identifier: Apache-2.0
// The transcendental functions that sigmoid and softplus need, on packs, each over just the range
// in which it is needed: exp(-|x|), log(1 + e) for e in [0, 1], log(m) for m in (0, 1]. In float, a
// table of eight numbers held in a register takes the place of half the polynomial.
//
// The polynomials are minimax for the relative error of the result (Remez), with coefficients
// rounded to the type.
#pragma once

#include <vecdet/detail/simd.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// 2^(-j/8), with j added below the exponent to cancel the j that n << 20 brings there.
alignas(64) constexpr table8 exp2_table{{0x3f800000, 0x3f7ac0c7, 0x3f7744fd, 0x3f75672a, 0x3f7504f3,
                                         0x3f75fed7, 0x3f7837f0, 0x3f7b95c2, 0x3f800000, 0x3f7ac0c7,
                                         0x3f7744fd, 0x3f75672a, 0x3f7504f3, 0x3f75fed7, 0x3f7837f0,
                                         0x3f7b95c2}};

/// The relative error of 2^(-j/8) rounded to float, less 2.5e-8: see exp_minus_abs.
alignas(64) constexpr table8 exp2_error_table{{-0x4d29406b, -0x4cfa4e1e, -0x4cd567d5, -0x4d5634a4,
                                               -0x4df88633, -0x4c8f858d, 0x31ee41b3, -0x4ce11eb1,
                                               -0x4d29406b, -0x4cfa4e1e, -0x4cd567d5, -0x4d5634a4,
                                               -0x4df88633, -0x4c8f858d, 0x31ee41b3, -0x4ce11eb1}};
/// 1 / (1 + j/8).
alignas(64) constexpr table8 reciprocal_table{{0x3f800000, 0x3f638e39, 0x3f4ccccd, 0x3f3a2e8c,
                                               0x3f2aaaab, 0x3f1d89d9, 0x3f124925, 0x3f088889,
                                               0x3f800000, 0x3f638e39, 0x3f4ccccd, 0x3f3a2e8c,
                                               0x3f2aaaab, 0x3f1d89d9, 0x3f124925, 0x3f088889}};
/// -log of the reciprocals so rounded.
alignas(64) constexpr table8 log_table{{0x00000000, 0x3df1383a, 0x3e647fbd, 0x3ea30c5d, 0x3ecf991e,
                                        0x3ef8947a, 0x3f0f42fa, 0x3f20ec7e, 0x00000000, 0x3df1383a,
                                        0x3e647fbd, 0x3ea30c5d, 0x3ecf991e, 0x3ef8947a, 0x3f0f42fa,
                                        0x3f20ec7e}};

/// exp(-|x|). Exactly 0 from |x| = 127 log(2) on, and for NaN.
///
/// |x| = n log(2)/8 + r with |r| <= log(2)/16, so exp(-|x|) = 2^(-n/8) exp(-r), where the first
/// factor comes from the table and the exponent, and the second from a cubic (2.5e-8). With fma, r
/// comes from one product: float's log(2)/8 is 2.7e-9 too large, and the result too by up to 6e-8
/// at |x| = 23, 1.8e-7 at 69; the error table takes off a bias of 2.5e-8 to centre that.
template <int N>
VECDET_INLINE pack<float, N> exp_minus_abs(const pack<float, N>& x) {
  using real = pack<float, N>;
  using bits = pack<std::int32_t, N>;
  const real round = 12582912.0f;  // 1.5 * 2^23: a sum with it holds the rounded addend's low bits
  const real u = abs_below(x, real(88.0296919f));
  const real n_shifted = fma(u, real(11.5415602f), round);
  const real n = n_shifted - round;
  // Without fma, the product with the 13 bits of a first part is exact.
  const real r = has_fma ? fnma(n, real(0.0866433978f), u)
                         : fnma(n, real(3.99327312e-6f), fnma(n, real(0.0866394043f), u));
  const bits n_bits = bit_cast<std::int32_t>(n_shifted);
  const real scale = bit_cast<float>(lookup8(exp2_table, n_bits) - (n_bits << 20));
  const real linear = bit_cast<float>(lookup8(exp2_error_table, n_bits)) - r;
  const real q = fma(r * r, fma(r, real(-0.166682307f), real(0.50006471f)), linear);
  return fma(scale, q, scale);
}

/// log(1 + exp(x)) from e = exp(-|x|): max(x, 0) + log(1 + e). NaN where x is.
///
/// With c = 1/(1 + j/8) for the nearest j < 8, and t = (1 + e) c - 1 in [-0.056, 0.067]:
/// log(1 + e) = -log(c) + log(1 + t), the first from a table, the second from a polynomial of
/// degree 5 (1e-8). For j = 0, t is e, so small e loses nothing.
template <int N>
VECDET_INLINE pack<float, N> softplus_from_exp(const pack<float, N>& x, const pack<float, N>& e) {
  using real = pack<float, N>;
  using bits = pack<std::int32_t, N>;
  // As for exp: below 2^21, the last bit of a float is 1/8. Positive floats' bits are ordered.
  const real nearest = bit_cast<float>(min(bit_cast<std::int32_t>(e), bits(0x3f6fffff)));
  const bits j = bit_cast<std::int32_t>(nearest + real(1572864.0f));
  const real c = bit_cast<float>(lookup8(reciprocal_table, j));
  const real t = fma(e, c, c - real(1.0f));
  const real t2 = t * t;
  const real q = fma(t2, fma(t, real(0.200579431f), real(-0.250811271f)),
                     fma(t, real(0.333332883f), real(-0.499999212f)));
  return fma(t2, q, add_positive(bit_cast<float>(lookup8(log_table, j)), x) + t);
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
