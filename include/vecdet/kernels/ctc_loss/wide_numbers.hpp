// SPDX-License-Identifier: Apache-2.0
// Rows of 16 numbers >= 0 with their own exponents: 2^(64 k) v, with v in [2^-63, 2) or 0. The
// probabilities of CTC's paths are far below the smallest double. Adding and multiplying them in
// this form costs a tenth of adding their logarithms.
#pragma once

#include <vecdet/simd/math.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using double_row = row_pack<double>;

/// The exponent of 0. It is below that of any product.
constexpr double exponent_of_zero = -1e305;
/// 64 log(2): the logarithm of one step of the exponents.
constexpr double log_of_step = 44.361419555836500;

template <int N>
struct wide_pack {
  pack<double, N> v, k;
};
using wide_row = wide_pack<double_row::batches>;

/// v 2^(64 k) with v in [2^-63, 2); v is 0 or a positive normal number.
template <int N>
VECDET_INLINE wide_pack<N> normalized(const pack<double, N>& v, const pack<double, N>& k) {
  using real = pack<double, N>;
  using bits = pack<std::uint64_t, N>;
  // A double's upper six bits are its exponent without the lower six bits: 15 in [2^-63, 2).
  const bits of_v = bit_cast<std::uint64_t>(v);
  const real steps = VECDET_ORDERED(bit_cast<double>((of_v >> 58) | bits(0x4330000000000000)) -
                                    real(4503599627370496.0 + 15.0));
  const real in_range =
      bit_cast<double>((of_v & bits(0x03ffffffffffffff)) | bits(std::uint64_t{15} << 58));
  const auto is_positive = v > real(0.0);
  return {select(is_positive, in_range, real(0.0)),
          select(is_positive, k + steps, real(exponent_of_zero))};
}

template <int N>
VECDET_INLINE wide_pack<N> operator*(const wide_pack<N>& a, const wide_pack<N>& b) {
  return normalized(a.v * b.v, a.k + b.k);
}

/// The sum, not normalized: v may be up to the sum of both. If the exponents differ by 2 or more,
/// the smaller number is less than 2^-64 of the greater one.
template <int N>
VECDET_INLINE wide_pack<N> operator+(const wide_pack<N>& a, const wide_pack<N>& b) {
  using real = pack<double, N>;
  const real k = max(a.k, b.k), distance = k - min(a.k, b.k);
  const auto a_is_greater = a.k >= b.k;
  const real greater = select(a_is_greater, a.v, b.v), smaller = select(a_is_greater, b.v, a.v);
  const real factor = select(distance < real(0.5), real(1.0),
                             select(distance < real(1.5), real(0x1p-64), real(0.0)));
  return {greater + smaller * factor, k};
}

/// exp(d) for d <= 0, not normalized; 0 below -1e300 and for -infinity. Any number for NaN.
template <int N>
VECDET_INLINE wide_pack<N> wide_exp(const pack<double, N>& d) {
  using real = pack<double, N>;
  const real round = 6755399441055744.0;  // 1.5 * 2^52
  const real u = min(real(0.0) - d, real(1e300));
  const real n =
      VECDET_ORDERED(VECDET_ORDERED(fma(u, real(1.0 / log_of_step), real(-0.5)) + round) - round);
  // Beyond 2^51 steps, n has no fraction left for the rest.
  const real rest = max(min(fnma(n, real(log_of_step), u), real(log_of_step)), real(0.0));
  const auto is_positive = u < real(1e300);
  return {select(is_positive, exp_minus(rest), real(0.0)),
          select(is_positive, real(0.0) - n, real(exponent_of_zero))};
}

/// The logarithm of a > 0.
VECDET_INLINE double wide_log(const wide_pack<1>& a) {
  using real = pack<double, 1>;
  alignas(64) double lane[batch_lanes<double>];
  // minus_log takes numbers up to 1.
  const real log = real(0.69314718055994531) - minus_log(a.v * real(0.5));
  store_pack<1>(lane, log + a.k * real(log_of_step));
  return lane[0];
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
