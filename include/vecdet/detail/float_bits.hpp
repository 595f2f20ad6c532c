// SPDX-License-Identifier: Apache-2.0
// Floating-point numbers under any flags of the caller. With -ffast-math, compilers assume that no
// number is NaN or infinite, reorder sums and replace divisions; with -march=native, they contract
// products into sums. Tests for NaN and infinity therefore look at the bits, and rounded() keeps
// operations apart. A comparison of numbers that may be NaN comes after a test of the bits.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdint>
#include <cstring>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The bits of |x|.
VECDET_INLINE std::uint64_t magnitude_bits(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits & 0x7fffffffffffffff;
}
VECDET_INLINE std::uint32_t magnitude_bits(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits & 0x7fffffff;
}
VECDET_INLINE bool is_finite(double x) { return magnitude_bits(x) < 0x7ff0000000000000; }
VECDET_INLINE bool is_finite(float x) { return magnitude_bits(x) < 0x7f800000; }
VECDET_INLINE bool is_nan(double x) { return magnitude_bits(x) > 0x7ff0000000000000; }
VECDET_INLINE bool is_nan(float x) { return magnitude_bits(x) > 0x7f800000; }
VECDET_INLINE bool is_minus_infinity(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits == 0xfff0000000000000;
}
/// a > b, and false if either is NaN.
template <class Real>
VECDET_INLINE bool is_above(Real a, Real b) {
  return !is_nan(a) && !is_nan(b) && a > b;
}
/// Whether x is finite also when rounded to float, as kernels in float require.
VECDET_INLINE bool fits_float(double x) { return magnitude_bits(x) <= 0x47efffffe0000000; }

/// x as the result of an operation of its own: the compiler may not contract it into a later
/// operation, reorder it or cancel it.
template <class Real>
VECDET_INLINE Real rounded(Real x) {
#if defined(__GNUC__) && defined(__x86_64__)
  __asm__("" : "+x"(x));
#elif defined(__GNUC__) && defined(__aarch64__)
  __asm__("" : "+w"(x));
#endif
  return x;
}

/// a / b, correctly rounded: with -ffast-math, compilers multiply by 1 / b, or by an estimate of
/// it.
template <class Real>
VECDET_INLINE Real quotient(Real a, Real b) {
  // Unlike rounded(b), a volatile number is not the same one in each round of a loop.
  const volatile Real divisor = b;
  return rounded(rounded(a) / divisor);
}

/// The correctly rounded root of x: with -ffast-math, compilers estimate that of a float.
VECDET_INLINE double square_root(double x) { return rounded(__builtin_sqrt(x)); }
VECDET_INLINE float square_root(float x) {
  return static_cast<float>(square_root(rounded(static_cast<double>(x))));
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
