// SPDX-License-Identifier: Apache-2.0
// The transcendental functions that sigmoid and softplus need, on packs, each over only the range
// needed: exp(-|x|), log(1 + e) for e in [0, 1], and log(m) for m in (0, 1]. In float, tables of
// eight numbers held in a register replace half of the polynomial.
//
// The polynomials are minimax for the relative error of the result (Remez), with coefficients
// rounded to the type.
#pragma once

#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// k 2^(-j/8), with j added below the exponent to cancel the j that n << 20 adds there. The factor
/// k = 0.99743897 makes all eight floats exact to 0.06 ulp; the polynomial divides by it.
alignas(64) constexpr table8 exp2_table{{0x3f7f5829, 0x3f7a26de, 0x3f76b7da, 0x3f74e5be, 0x3f748e45,
                                         0x3f759202, 0x3f77d424, 0x3f7b3a3e, 0x3f7f5829, 0x3f7a26de,
                                         0x3f76b7da, 0x3f74e5be, 0x3f748e45, 0x3f759202, 0x3f77d424,
                                         0x3f7b3a3e}};

/// Coefficients c0 to c4 of 2 log(1 + e) = c0 + c1 e + c2 e^2 + c3 e^3 + c4 e^4 over eight
/// intervals of e. The intervals begin at 1/8, 1/4, 3/8, 1/2, 5/8, 7/8, 0 and 1/16. Three bits of
/// the float e + 3/8 select the interval.
alignas(64) constexpr table8 twice_log1p_table[5] = {
    {{0x381bc10a, 0x39bba388, 0x3ab2217d, 0x3b5f4cdc, 0x3c0eae63, 0x3c92785f, 0x00000000,
      0x35daa62c, 0x381bc10a, 0x39bba388, 0x3ab2217d, 0x3b5f4cdc, 0x3c0eae63, 0x3c92785f,
      0x00000000, 0x35daa62c}},
    {{0x3fffdc27, 0x3fff3633, 0x3ffdd932, 0x3ffbc03a, 0x3ff793bf, 0x3ff204bd, 0x40000000,
      0x3ffffce6, 0x3fffdc27, 0x3fff3633, 0x3ffdd932, 0x3ffbc03a, 0x3ff793bf, 0x3ff204bd,
      0x40000000, 0x3ffffce6}},
    {{-0x40834d42, -0x408b14b5, -0x409605e8, -0x40a2a693, -0x40b5fa10, -0x40c9c4bb, -0x4080010f,
      -0x40808f1d, -0x40834d42, -0x408b14b5, -0x409605e8, -0x40a2a693, -0x40b5fa10, -0x40c9c4bb,
      -0x4080010f, -0x40808f1d}},
    {{0x3f16e2ac, 0x3f01dab7, 0x3edc7139, 0x3eba8b06, 0x3e929d1c, 0x3e666f57, 0x3f2a42b6,
      0x3f2436d5, 0x3f16e2ac, 0x3f01dab7, 0x3edc7139, 0x3eba8b06, 0x3e929d1c, 0x3e666f57,
      0x3f2a42b6, 0x3f2436d5}},
    {{-0x417dfb1f, -0x41d26c5d, -0x420f2782, -0x4253a1ba, -0x42a384e6, -0x42ee6623, -0x4116f15b,
      -0x414c44c9, -0x417dfb1f, -0x41d26c5d, -0x420f2782, -0x4253a1ba, -0x42a384e6, -0x42ee6623,
      -0x4116f15b, -0x414c44c9}},
};

/// The value of exp_minus_abs for |x| >= 86.64. Up to |x| = 86.63 it is greater.
constexpr float exp_minus_abs_end = 2.36e-38f;

/// exp(-|x|), within 0.65 ulp. The result is at least 2e-38, also for NaN: the equations that use
/// it get the NaN from x itself.
///
/// |x| = n log(2)/8 + r with |r| <= log(2)/16, so exp(-|x|) = k 2^(-n/8) exp(-r)/k. The first
/// factor comes from the table and the exponent, the second from a polynomial of degree 4 (error
/// 2e-9).
template <int N>
VECDET_INLINE pack<float, N> exp_minus_abs(const pack<float, N>& x) {
  using real = pack<float, N>;
  using bits = pack<std::int32_t, N>;
  const real round = 12582912.0f;  // 1.5 * 2^23: a sum's low bits are the rounded addend
  const real u = abs_below(x, real(86.64f));
  const real n_shifted = VECDET_ORDERED(fma(u, real(11.5415602f), round));
  const real n = VECDET_ORDERED(n_shifted - round);
  // log(2)/8 in two parts: multiplying by the first part, of 13 bits, is exact with and without
  // fma.
  const real r = fnma(n, real(3.99327312e-6f), VECDET_ORDERED(fnma(n, real(0.0866394043f), u)));
  const bits n_bits = bit_cast<std::int32_t>(n_shifted);
  const real scale = bit_cast<float>(lookup8(exp2_table, n_bits) - (n_bits << 20));
  const real cubic = fma(r, fma(r, real(0.0417703800f), real(-0.167114213f)), real(0.501283824f));
  const real q = fma(r, fma(r, cubic, real(-1.00256765f)), real(2.56760861e-3f));
  return fma(scale, q, scale);
}

/// 2 log(1 + e) for e in [0, 1], within 2.1 ulp (2.5 on the baseline). Each interval has a
/// polynomial of degree 4 (error 4.3e-8) whose coefficients come from tables. Compared with a
/// single polynomial, this takes more permutations but fewer multiplications, which are the
/// bottleneck of the surrounding equations. Up to e = 1/16 the form is e (2 + ...), which is
/// accurate for small e.
template <int N>
VECDET_INLINE pack<float, N> twice_log1p_unit(const pack<float, N>& e) {
  using real = pack<float, N>;
  using bits = pack<std::int32_t, N>;
  const bits interval = bit_cast<std::int32_t>(e + real(0.375f)) >> 21;
  const auto c = [&](int k) VECDET_INLINE_LAMBDA {
    return bit_cast<float>(lookup8(twice_log1p_table[k], interval));
  };
  const real q = fma(e, fma(e, fma(e, c(4), c(3)), c(2)), c(1));
  if constexpr (has_fma) return fma(e, q, c(0));
  return (e + e) + (e * (q - real(2.0f)) + c(0));  // has a smaller rounding error
}

/// exp(-u), and 1 - exp(-u) without cancellation.
template <class Real, int N>
struct exp_parts {
  pack<Real, N> value, rest;
};

/// Both for u >= 0 in float, within 1.5 ulp. From u = 60 on, the value is that of 60, which is
/// 9e-27: products with it do not underflow. NaN gives NaN.
template <int N>
VECDET_INLINE exp_parts<float, N> exp_minus_parts(const pack<float, N>& u) {
  using real = pack<float, N>;
  using bits = pack<std::int32_t, N>;
  const real round = 12582912.0f;  // 1.5 * 2^23
  const real x = min(real(60.0f), u);
  const real n_shifted = VECDET_ORDERED(fma(x, real(1.44269502f), round));
  const real n = VECDET_ORDERED(n_shifted - round);
  // log(2) in two parts: multiplying by the first part, of 15 bits, is exact.
  const real r = fnma(n, real(1.42860677e-6f), VECDET_ORDERED(fnma(n, real(0x1.62e4p-1f), x)));
  const real scale = bit_cast<float>(bits(0x3f800000) - (bit_cast<std::int32_t>(n_shifted) << 23));
  constexpr float c[] = {-1.0f,        0.49999997f,    -0.16666505f,
                         0.041667141f, -0.0083692595f, 0.0013888872f};
  real q = c[5];
  VECDET_UNROLL
  for (int k = 4; k >= 0; --k) q = fma(r, q, real(c[k]));
  const real part = scale * r;
  return {fma(part, q, scale), fnma(part, q, real(1.0f) - scale)};
}

/// Both for u >= 0 in double. exp(-u) is exactly 0 from u = 1023 log(2) on; NaN stays NaN.
template <int N>
VECDET_INLINE exp_parts<double, N> exp_minus_parts(const pack<double, N>& u) {
  using real = pack<double, N>;
  using bits = pack<std::int64_t, N>;
  const real round = 6755399441055744.0;  // 1.5 * 2^52
  const real x = min(real(709.0895657128241), u);
  const real n_shifted = VECDET_ORDERED(fma(x, real(1.4426950408889634), round));
  const real n = VECDET_ORDERED(n_shifted - round);
  const real r =
      fnma(n, real(0x1.ef35793c7673p-45), VECDET_ORDERED(fnma(n, real(0x1.62e42fefa38p-1), x)));
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
  VECDET_UNROLL
  for (int k = 10; k >= 0; --k) q = fma(r, q, real(c[k]));
  const real part = scale * r;
  return {fma(part, q, scale), fnma(part, q, real(1.0) - scale)};
}

/// exp(-u) for u >= 0 in double, as above.
template <int N>
VECDET_INLINE pack<double, N> exp_minus(const pack<double, N>& u) {
  return exp_minus_parts(u).value;
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
  VECDET_UNROLL
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
  // OR-ing an integer below 2^52 into the bits of 2^52 gives their sum as a double.
  const real k = VECDET_ORDERED(bit_cast<double>((shifted >> 52) | bits(0x4330000000000000)) -
                                real(4503599627370496.0 + 1023.0));
  const real log_f = twice_atanh((f - real(1.0)) / (f + real(1.0)));
  return real(0.0) - fma(k, real(0x1.62e42fefa38p-1), fma(k, real(0x1.ef35793c7673p-45), log_f));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
