// SPDX-License-Identifier: Apache-2.0
// Operations that -ffast-math changes, as instructions that compilers do not look into:
// comparisons, minimum, maximum, division and square root. Kernels mark boxes with infinities and
// NaN, and rely on the operand that min and max return for NaN: without these operations, results
// of finite numbers would be wrong, and NaN would become an index.
#pragma once

#include <vecdet/simd/batch_types.hpp>

// Not on 64-bit Arm: there, fast math without dispatch is not supported.
#if defined(VECDET_FAST_MATH) && defined(__x86_64__)
#define VECDET_STRICT_OPERATIONS 1

namespace vecdet {
namespace VECDET_TARGET {

// Comparisons of integers.
template <class T>
VECDET_INLINE batch_mask<T> is_less(xsimd::batch<T, arch> a, xsimd::batch<T, arch> b) {
  return a < b;
}
template <class T>
VECDET_INLINE batch_mask<T> is_at_most(xsimd::batch<T, arch> a, xsimd::batch<T, arch> b) {
  return a <= b;
}
template <class T>
VECDET_INLINE batch_mask<T> is_greater(xsimd::batch<T, arch> a, xsimd::batch<T, arch> b) {
  return a > b;
}
template <class T>
VECDET_INLINE batch_mask<T> is_at_least(xsimd::batch<T, arch> a, xsimd::batch<T, arch> b) {
  return a >= b;
}
template <class T>
VECDET_INLINE batch_mask<T> is_equal(xsimd::batch<T, arch> a, xsimd::batch<T, arch> b) {
  return a == b;
}

#if defined(VECDET_TARGET_BASELINE)
#define VECDET_BINARY(name, instruction, T)             \
  VECDET_INLINE batch<T> name(batch<T> a, batch<T> b) { \
    typename batch<T>::register_type x = a, y = b;      \
    __asm__(instruction " %1, %0" : "+x"(x) : "x"(y));  \
    return x;                                           \
  }
#define VECDET_UNARY(name, instruction, T)    \
  VECDET_INLINE batch<T> name(batch<T> a) {   \
    typename batch<T>::register_type x = a;   \
    __asm__(instruction " %0, %0" : "+x"(x)); \
    return x;                                 \
  }
#define VECDET_COMPARISON(name, instruction, T)                                       \
  VECDET_INLINE batch_mask<T> name(batch<T> a, batch<T> b) {                          \
    typename batch<T>::register_type x = a, y = b;                                    \
    __asm__(instruction " %1, %0" : "+x"(x) : "x"(y));                                \
    return batch_mask<T>(reinterpret_cast<typename batch_mask<T>::register_type>(x)); \
  }
#else
#define VECDET_BINARY(name, instruction, T)                                 \
  VECDET_INLINE batch<T> name(batch<T> a, batch<T> b) {                     \
    typename batch<T>::register_type x = a, y = b, result;                  \
    __asm__("v" instruction " %2, %1, %0" : "=v"(result) : "v"(x), "v"(y)); \
    return result;                                                          \
  }
#define VECDET_UNARY(name, instruction, T)                      \
  VECDET_INLINE batch<T> name(batch<T> a) {                     \
    typename batch<T>::register_type x = a, result;             \
    __asm__("v" instruction " %1, %0" : "=v"(result) : "v"(x)); \
    return result;                                              \
  }
#if defined(VECDET_TARGET_AVX512)
#define VECDET_COMPARISON(name, instruction, T)                              \
  VECDET_INLINE batch_mask<T> name(batch<T> a, batch<T> b) {                 \
    typename batch<T>::register_type x = a, y = b;                           \
    typename batch_mask<T>::register_type result;                            \
    __asm__("v" instruction " %2, %1, %0" : "=Yk"(result) : "v"(x), "v"(y)); \
    return batch_mask<T>(result);                                            \
  }
#else
#define VECDET_COMPARISON(name, instruction, T)                                            \
  VECDET_INLINE batch_mask<T> name(batch<T> a, batch<T> b) {                               \
    typename batch<T>::register_type x = a, y = b, result;                                 \
    __asm__("v" instruction " %2, %1, %0" : "=x"(result) : "x"(x), "x"(y));                \
    return batch_mask<T>(reinterpret_cast<typename batch_mask<T>::register_type>(result)); \
  }
#endif
#endif

#define VECDET_STRICT(T, type)                   \
  VECDET_BINARY(min, "min" type, T)              \
  VECDET_BINARY(max, "max" type, T)              \
  VECDET_BINARY(divide, "div" type, T)           \
  VECDET_UNARY(square_root, "sqrt" type, T)      \
  VECDET_COMPARISON(is_less, "cmplt" type, T)    \
  VECDET_COMPARISON(is_at_most, "cmple" type, T) \
  VECDET_COMPARISON(is_equal, "cmpeq" type, T)
#define VECDET_SWAPPED(T)                                                                  \
  VECDET_INLINE batch_mask<T> is_greater(batch<T> a, batch<T> b) { return is_less(b, a); } \
  VECDET_INLINE batch_mask<T> is_at_least(batch<T> a, batch<T> b) { return is_at_most(b, a); }
VECDET_STRICT(float, "ps")
VECDET_STRICT(double, "pd")
VECDET_SWAPPED(float)
VECDET_SWAPPED(double)
#undef VECDET_SWAPPED
#undef VECDET_STRICT
#undef VECDET_BINARY
#undef VECDET_UNARY
#undef VECDET_COMPARISON

}  // namespace VECDET_TARGET
}  // namespace vecdet

#endif
