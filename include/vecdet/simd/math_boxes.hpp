// SPDX-License-Identifier: Apache-2.0
// The transcendental functions that box coding and CIoU need, on packs: exp(x) for any sign of x,
// the log of a ratio, and the angle of a vector.
//
// The polynomials are minimax (fpminimax) with coefficients rounded to the type. Their relative
// errors in float are 3.2e-9 for exp, 1.6e-10 for the log and 2.5e-9 for the arctangent.
// exp_product is within 1 ulp on every 4999th float. The other functions are tested through
// encode_boxes (4 ulp) and the CIoU loss.
#pragma once

#include <vecdet/simd/math.hpp>
#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Adding and subtracting this constant rounds to a whole number. The lowest bits of the sum are
/// the number plus twice the exponent's bias.
template <class Real>
constexpr Real exponent_shift = std::is_same<Real, float>::value ? Real(0x1.8p23 + 2 * 127)
                                                                 : Real(0x1.8p52 + 2 * 1023);

/// y * 2^n for a whole number n, rounded once, also where the result is denormal, infinite or 0. It
/// takes two factors to cover the range of n. n_shifted is n + exponent_shift.
template <int N>
VECDET_INLINE pack<float, N> scale_by_power(const pack<float, N>& y, const pack<float, N>& n,
                                            const pack<float, N>& n_shifted) {
#if defined(VECDET_TARGET_AVX512)
  static_cast<void>(n_shifted);
  return map<float, N>([](f32_batch a, f32_batch b)
                           VECDET_INLINE_LAMBDA -> f32_batch { return _mm512_scalef_ps(a, b); },
                       y, n);
#else
  static_cast<void>(n);
  using bits = pack<std::uint32_t, N>;
  const bits sum = bit_cast<std::uint32_t>(n_shifted), half = sum >> 1;
  const bits first = half << 23, second = (sum - half) << 23;
  return VECDET_ORDERED(y * bit_cast<float>(first)) * bit_cast<float>(second);
#endif
}
template <int N>
VECDET_INLINE pack<double, N> scale_by_power(const pack<double, N>& y, const pack<double, N>&,
                                             const pack<double, N>& n_shifted) {
  using bits = pack<std::uint64_t, N>;
  const bits sum = bit_cast<std::uint64_t>(n_shifted), half = sum >> 1;
  const bits first = half << 52, second = (sum - half) << 52;
  return VECDET_ORDERED(y * bit_cast<double>(first)) * bit_cast<double>(second);
}

/// A factor, its rounding error, and its product with log2(e).
template <class Real>
struct exp_factor {
  Real high, low, binary;

  explicit exp_factor(double factor)
      : high(VECDET_ORDERED(static_cast<Real>(factor))),
        low(static_cast<Real>(factor - static_cast<double>(high))),
        binary(high * Real(1.4426950408889634)) {}
};

/// exp(x (high + low)) for products within +-exp_limit; beyond that, the result is 0 or infinite in
/// both types. NaN stays NaN. With fused multiply-add, the product is not rounded.
template <class Real>
constexpr double exp_limit = std::is_same<Real, float>::value ? 110.0 : 760.0;

template <int N>
VECDET_INLINE pack<float, N> exp_product(const pack<float, N>& x, const pack<float, N>& high,
                                         const pack<float, N>& low, const pack<float, N>& binary) {
  using real = pack<float, N>;
  const real round = exponent_shift<float>;
  const real n_shifted = VECDET_ORDERED(fma(x, binary, round));
  const real n = VECDET_ORDERED(n_shifted - round);
  // log(2) in two parts: n times the first is exact.
  real r = VECDET_ORDERED(fma(x, high, n * real(-0.693359375f)));
  r = fma(x, low, fma(n, real(2.12194440e-4f), r));
  real q = fma(r, real(1.3823241e-3f), real(8.3688274e-3f));
  q = fma(r, q, real(4.1668240e-2f));
  q = fma(r, q, real(0.1666652f));
  q = fma(r, q, real(0.49999994f));
  return scale_by_power(real(1.0f) + fma(r * r, q, r), n, n_shifted);
}
template <int N>
VECDET_INLINE pack<double, N> exp_product(const pack<double, N>& x, const pack<double, N>& high,
                                          const pack<double, N>& low,
                                          const pack<double, N>& binary) {
  using real = pack<double, N>;
  const real round = exponent_shift<double>;
  const real n_shifted = VECDET_ORDERED(fma(x, binary, round));
  const real n = VECDET_ORDERED(n_shifted - round);
  real r = VECDET_ORDERED(fma(x, high, n * real(-0x1.62e42fefa38p-1)));
  r = fma(x, low, fma(n, real(-0x1.ef35793c7673p-45), r));
  constexpr double c[] = {0.5,
                          0.166666666666666685,
                          4.1666666666666539e-2,
                          8.3333333333159617e-3,
                          1.38888888889602342e-3,
                          1.98412698986491758e-4,
                          2.48015871706423098e-5,
                          2.75572328652935760e-6,
                          2.75574047606639903e-7,
                          2.51126651833356959e-8,
                          2.08749949002934762e-9};
  real q = c[10];
  VECDET_UNROLL
  for (int k = 9; k >= 0; --k) q = fma(r, q, real(c[k]));
  return scale_by_power(real(1.0) + fma(r * r, q, r), n, n_shifted);
}

/// log((a + a_low) / (b + b_low)) for a and b in [2^-62, 2^62]. The low parts are the rounding
/// errors of a and b.
///
/// k is chosen so that a 2^-k is near b. Then s = (a 2^-k - b) / (a 2^-k + b) has |s| <= 0.2, and
/// the log is k log(2) + 2 atanh(s). The numerator's difference is exact, so ratios near 1 lose no
/// accuracy.
template <int N>
VECDET_INLINE pack<float, N> log_ratio(const pack<float, N>& a, const pack<float, N>& a_low,
                                       const pack<float, N>& b, const pack<float, N>& b_low) {
  using real = pack<float, N>;
  using bits = pack<std::int32_t, N>;
  const bits k = (bit_cast<std::int32_t>(a) - bit_cast<std::int32_t>(b) + bits(0x400000)) >> 23;
  const real unscale = bit_cast<float>(bits(0x3f800000) - (k << 23));
  const real near = a * unscale;
  const real s = (VECDET_ORDERED(near - b) - fnma(a_low, unscale, b_low)) / (near + b);
  const real k_real = VECDET_ORDERED(bit_cast<float>(k + bits(0x4b400000)) - real(12582912.0f));
  const real z = s * s;
  real q = fma(z, real(0.23469976f), real(0.28553542f));
  q = fma(z, q, real(0.39999866f));
  q = fma(z, q, real(0.6666667f));
  const real twice = s + s;
  const real low = fma(s * z, q, k_real * real(-2.12194440e-4f));
  return fma(k_real, real(0.693359375f), twice + low);
}

/// log(a / b) in double, for any numbers: -inf if the ratio is 0, NaN if it is negative.
template <int N>
VECDET_INLINE pack<double, N> log_ratio(const pack<double, N>& a, const pack<double, N>& b) {
  using real = pack<double, N>;
  using bits = pack<std::uint64_t, N>;
  const real zero = 0.0, one = 1.0, most = infinity<double>();
  const real quotient = a / b;
  // Split off mantissas in [1, 2), exponents, and the factor that makes denormals normal.
  struct parts {
    real mantissa, exponent;
  };
  const auto split = [&](const real& x) VECDET_INLINE_LAMBDA -> parts {
    const real size = abs(x);
    const auto tiny = size < real(0x1p-1022);
    const real normal = select(tiny, size * real(0x1p54), size);
    const bits word = bit_cast<std::uint64_t>(normal);
    const real exponent = VECDET_ORDERED(bit_cast<double>((word >> 52) | bits(0x4330000000000000)) -
                                         real(4503599627370496.0));
    return {bit_cast<double>((word & bits(0x000fffffffffffff)) | bits(0x3ff0000000000000)),
            select(tiny, exponent - real(54.0), exponent)};
  };
  const parts p = split(a), q = split(b);
  const auto above = p.mantissa > q.mantissa * real(1.4142135623730951);
  const auto below = p.mantissa * real(1.4142135623730951) < q.mantissa;
  const real m =
      select(above, p.mantissa * real(0.5), select(below, p.mantissa * real(2.0), p.mantissa));
  const real k = (p.exponent - q.exponent) + select(above, one, select(below, zero - one, zero));
  const real log_m = twice_atanh((m - q.mantissa) / (m + q.mantissa));
  const real log_of = fma(k, real(0x1.62e42fefa38p-1), fma(k, real(0x1.ef35793c7673p-45), log_m));
  return select(quotient > zero, select(quotient < most, log_of, most),
                select(quotient == zero, zero - most, real(not_a_number<double>())));
}

/// atan(t) / t - 1 over t^2, for |t| <= tan(pi / 8), given z = t^2.
template <int N>
VECDET_INLINE pack<float, N> atan_polynomial(const pack<float, N>& z) {
  using real = pack<float, N>;
  real q = fma(z, real(-6.4448692e-2f), real(0.10740829f));
  q = fma(z, q, real(-0.14263533f));
  q = fma(z, q, real(0.19999516f));
  return fma(z, q, real(-0.3333333f));
}
template <int N>
VECDET_INLINE pack<double, N> atan_polynomial(const pack<double, N>& z) {
  using real = pack<double, N>;
  constexpr double c[] = {-0.33333333333333331483, 0.19999999999998920918, -0.14285714285526740497,
                          0.11111111095888835665,  -9.0909083947603650e-2, 7.6922878853302998e-2,
                          -6.6662957997195043e-2,  5.8776419363898776e-2,  -5.2220848323390303e-2,
                          4.5174105983987911e-2,   -3.3774582938709107e-2, 1.5479698059897540e-2};
  real q = c[11];
  VECDET_UNROLL
  for (int k = 10; k >= 0; --k) q = fma(z, q, real(c[k]));
  return q;
}

/// The angle of the vector (x, y) in [-pi, pi], like std::atan2(y, x), except that (0, 0) gives
/// NaN.
template <class Real, int N>
VECDET_INLINE pack<Real, N> angle_of(const pack<Real, N>& x, const pack<Real, N>& y) {
  using real = pack<Real, N>;
  const real zero = Real(0);
  const real across = abs(x), up = abs(y);
  const real lesser = min(across, up), greater = max(across, up);
  // Beyond pi/8, compute the angle from pi/4, which is smaller: atan(t) = pi/4 + atan((t - 1) / (t
  // + 1)).
  const auto steep = lesser > greater * real(Real(0.41421356237309503));
  const real t = select(steep, lesser - greater, lesser) / select(steep, lesser + greater, greater);
  const real z = t * t;
  const real small = fma(t * z, atan_polynomial(z), t);
  const real acute = small + select(steep, real(Real(0.78539816339744831)), zero);
  const real upper = select(up > across, real(Real(1.5707963267948966)) - acute, acute);
  const real angle = select(x < zero, real(Real(3.1415926535897931)) - upper, upper);
  return angle | (y & real(Real(-0.0)));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
