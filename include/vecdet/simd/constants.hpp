// SPDX-License-Identifier: Apache-2.0
// The largest number, infinity and NaN, as constants on which kernels may rely under any flags.
#pragma once

#include <vecdet/detail/float_bits.hpp>
#include <vecdet/detail/target.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

using detail::is_nan;
using detail::rounded;

// VECDET_ORDERED(x) is x, computed before the operations that use it even if compilers may reorder
// sums. A macro: units, whose flags forbid that, compile to the same instructions as without it.
#if !defined(VECDET_ISA_UNIT) && (defined(VECDET_FAST_MATH) || defined(__clang__))
#define VECDET_ORDERED(x) VECDET_TARGET::rounded(x)
#else
#define VECDET_ORDERED(x) (x)
#endif

template <class Real>
constexpr Real largest = std::is_same<Real, float>::value ? Real(3.4028234663852886e38)
                                                          : Real(1.7976931348623157e308);
/// A constant whose value the compiler must not see with -ffast-math: it would take comparisons
/// with infinity for decided, and drop NaN.
template <class Real>
VECDET_INLINE Real hidden(Real constant) {
#if defined(VECDET_FAST_MATH)
  return rounded(constant);
#else
  return constant;
#endif
}
template <class Real>
VECDET_INLINE Real infinity() {
  return hidden(Real(__builtin_huge_val()));
}
template <class Real>
VECDET_INLINE Real not_a_number() {
  return hidden(Real(__builtin_nan("")));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
