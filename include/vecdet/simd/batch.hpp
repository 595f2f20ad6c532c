// SPDX-License-Identifier: Apache-2.0
// Operations on one xsimd batch. This file hides the differences between xsimd 8.1 and 14 and
// between the instruction sets. It also has loads, stores and conversions.
//
// Every function gives bit-identical results on AVX2 and AVX-512. The x86-64 baseline has no fused
// multiply-add: there, fma and fnma round twice.
#pragma once

#include <vecdet/dtype.hpp>
#include <vecdet/simd/batch_types.hpp>
#include <vecdet/simd/strict.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

template <class To, class From>
VECDET_INLINE batch<To> bit_cast(const xsimd::batch<From, arch>& x) {
#if XSIMD_VERSION_MAJOR < 9
  return xsimd::bitwise_cast<batch<To>>(x);
#else
  return xsimd::bitwise_cast<To>(x);
#endif
}

/// The bits of eight floats, twice, for lookup8.
struct alignas(64) table8 {
  std::int32_t entry[16];
};

// fma(a, b, c) is a * b + c; fnma(a, b, c) is c - a * b. min and max return b if either is NaN.
// select_by_sign tests the sign bit, also for -0 and NaN. select_negative tests x < 0; for -0 and
// NaN its result may be either. abs_below(x, limit) is min(|x|, limit), and limit if x is NaN; but
// AVX-512 turns a signalling NaN into NaN. add_positive(y, x) is y + max(x, 0), and NaN if x is.
// lookup8 uses the low three bits.
#if defined(VECDET_TARGET_AVX512)

VECDET_INLINE f32_batch fma(f32_batch a, f32_batch b, f32_batch c) {
  return _mm512_fmadd_ps(a, b, c);
}
VECDET_INLINE f64_batch fma(f64_batch a, f64_batch b, f64_batch c) {
  return _mm512_fmadd_pd(a, b, c);
}
VECDET_INLINE f32_batch fnma(f32_batch a, f32_batch b, f32_batch c) {
  return _mm512_fnmadd_ps(a, b, c);
}
VECDET_INLINE f64_batch fnma(f64_batch a, f64_batch b, f64_batch c) {
  return _mm512_fnmadd_pd(a, b, c);
}
#if !defined(VECDET_STRICT_OPERATIONS)
VECDET_INLINE f32_batch min(f32_batch a, f32_batch b) { return _mm512_min_ps(a, b); }
VECDET_INLINE f64_batch min(f64_batch a, f64_batch b) { return _mm512_min_pd(a, b); }
VECDET_INLINE f32_batch max(f32_batch a, f32_batch b) { return _mm512_max_ps(a, b); }
VECDET_INLINE f64_batch max(f64_batch a, f64_batch b) { return _mm512_max_pd(a, b); }
#endif
VECDET_INLINE f32_batch select_by_sign(f32_batch x, f32_batch negative, f32_batch otherwise) {
  return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x)), otherwise, negative);
}
VECDET_INLINE f64_batch select_by_sign(f64_batch x, f64_batch negative, f64_batch otherwise) {
  return _mm512_mask_blend_pd(_mm512_movepi64_mask(_mm512_castpd_si512(x)), otherwise, negative);
}
VECDET_INLINE __mmask16 not_negative(f32_batch x) {
  return _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NLT_UQ);
}
VECDET_INLINE __mmask8 not_negative(f64_batch x) {
  return _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_NLT_UQ);
}
VECDET_INLINE f32_batch select_negative(f32_batch x, f32_batch negative, f32_batch otherwise) {
  return _mm512_mask_blend_ps(not_negative(x), negative, otherwise);
}
VECDET_INLINE f64_batch select_negative(f64_batch x, f64_batch negative, f64_batch otherwise) {
  return _mm512_mask_blend_pd(not_negative(x), negative, otherwise);
}
VECDET_INLINE f32_batch abs_below(f32_batch x, f32_batch limit) {
  return _mm512_range_ps(x, limit, 0x0a);  // the smaller magnitude, positive
}
VECDET_INLINE f64_batch abs_below(f64_batch x, f64_batch limit) {
  return _mm512_range_pd(x, limit, 0x0a);
}
VECDET_INLINE f32_batch add_positive(f32_batch y, f32_batch x) {
  return _mm512_mask_add_ps(y, not_negative(x), y, x);
}
VECDET_INLINE f64_batch add_positive(f64_batch y, f64_batch x) {
  return _mm512_mask_add_pd(y, not_negative(x), y, x);
}
VECDET_INLINE i32_batch min(i32_batch a, i32_batch b) { return _mm512_min_epi32(a, b); }
VECDET_INLINE i32_batch max(i32_batch a, i32_batch b) { return _mm512_max_epi32(a, b); }
VECDET_INLINE i32_batch lookup8(const table8& table, i32_batch index) {
  return _mm512_permutexvar_epi32(index, _mm512_load_si512(table.entry));
}

#elif defined(VECDET_TARGET_AVX2)

VECDET_INLINE f32_batch fma(f32_batch a, f32_batch b, f32_batch c) {
  return _mm256_fmadd_ps(a, b, c);
}
VECDET_INLINE f64_batch fma(f64_batch a, f64_batch b, f64_batch c) {
  return _mm256_fmadd_pd(a, b, c);
}
VECDET_INLINE f32_batch fnma(f32_batch a, f32_batch b, f32_batch c) {
  return _mm256_fnmadd_ps(a, b, c);
}
VECDET_INLINE f64_batch fnma(f64_batch a, f64_batch b, f64_batch c) {
  return _mm256_fnmadd_pd(a, b, c);
}
#if !defined(VECDET_STRICT_OPERATIONS)
VECDET_INLINE f32_batch min(f32_batch a, f32_batch b) { return _mm256_min_ps(a, b); }
VECDET_INLINE f64_batch min(f64_batch a, f64_batch b) { return _mm256_min_pd(a, b); }
VECDET_INLINE f32_batch max(f32_batch a, f32_batch b) { return _mm256_max_ps(a, b); }
VECDET_INLINE f64_batch max(f64_batch a, f64_batch b) { return _mm256_max_pd(a, b); }
#endif
VECDET_INLINE f32_batch select_by_sign(f32_batch x, f32_batch negative, f32_batch otherwise) {
  return _mm256_blendv_ps(otherwise, negative, x);
}
VECDET_INLINE f64_batch select_by_sign(f64_batch x, f64_batch negative, f64_batch otherwise) {
  return _mm256_blendv_pd(otherwise, negative, x);
}
VECDET_INLINE f32_batch select_negative(f32_batch x, f32_batch negative, f32_batch otherwise) {
  return select_by_sign(x, negative, otherwise);
}
VECDET_INLINE f64_batch select_negative(f64_batch x, f64_batch negative, f64_batch otherwise) {
  return select_by_sign(x, negative, otherwise);
}
VECDET_INLINE i32_batch min(i32_batch a, i32_batch b) { return _mm256_min_epi32(a, b); }
VECDET_INLINE i32_batch max(i32_batch a, i32_batch b) { return _mm256_max_epi32(a, b); }
VECDET_INLINE f32_batch abs_below(f32_batch x, f32_batch limit) {
  // Positive floats and positive NaNs have the same order as their bits.
  return _mm256_castsi256_ps(
      min(i32_batch(_mm256_castps_si256(xsimd::abs(x))), i32_batch(_mm256_castps_si256(limit))));
}
VECDET_INLINE f64_batch abs_below(f64_batch x, f64_batch limit) {
  return min(f64_batch(xsimd::abs(x)), limit);
}
VECDET_INLINE f32_batch add_positive(f32_batch y, f32_batch x) {
  return y + max(f32_batch(0.0f), x);
}
VECDET_INLINE f64_batch add_positive(f64_batch y, f64_batch x) {
  return y + max(f64_batch(0.0), x);
}
VECDET_INLINE i32_batch lookup8(const table8& table, i32_batch index) {
  return _mm256_permutevar8x32_epi32(
      _mm256_load_si256(reinterpret_cast<const __m256i*>(table.entry)), index);
}

#else  // x86-64 baseline and 64-bit Arm

#if defined(__aarch64__)
// xsimd's own version rounds twice in float.
VECDET_INLINE f32_batch fma(f32_batch a, f32_batch b, f32_batch c) { return vfmaq_f32(c, a, b); }
VECDET_INLINE f64_batch fma(f64_batch a, f64_batch b, f64_batch c) { return vfmaq_f64(c, a, b); }
VECDET_INLINE f32_batch fnma(f32_batch a, f32_batch b, f32_batch c) { return vfmsq_f32(c, a, b); }
VECDET_INLINE f64_batch fnma(f64_batch a, f64_batch b, f64_batch c) { return vfmsq_f64(c, a, b); }
#else
template <class T>
VECDET_INLINE xsimd::batch<T, arch> fma(xsimd::batch<T, arch> a, xsimd::batch<T, arch> b,
                                        xsimd::batch<T, arch> c) {
  return xsimd::fma(a, b, c);
}
template <class T>
VECDET_INLINE xsimd::batch<T, arch> fnma(xsimd::batch<T, arch> a, xsimd::batch<T, arch> b,
                                         xsimd::batch<T, arch> c) {
  return xsimd::fnma(a, b, c);
}
#endif
template <class T>
VECDET_INLINE xsimd::batch<T, arch> min(xsimd::batch<T, arch> a, xsimd::batch<T, arch> b) {
  return xsimd::select(a < b, a, b);
}
template <class T>
VECDET_INLINE xsimd::batch<T, arch> max(xsimd::batch<T, arch> a, xsimd::batch<T, arch> b) {
  return xsimd::select(a > b, a, b);
}
VECDET_INLINE f32_batch select_by_sign(f32_batch x, f32_batch negative, f32_batch otherwise) {
  const i32_batch n = bit_cast<std::int32_t>(negative), o = bit_cast<std::int32_t>(otherwise);
  return bit_cast<float>(o ^ ((o ^ n) & (bit_cast<std::int32_t>(x) >> 31)));
}
VECDET_INLINE f64_batch select_by_sign(f64_batch x, f64_batch negative, f64_batch otherwise) {
  // Copying the sign of -0 or NaN to a 1 makes it visible to a comparison.
  const f64_batch signed_one = bit_cast<double>((bit_cast<std::int64_t>(x) & i64_batch(INT64_MIN)) |
                                                i64_batch(0x3ff0000000000000));
  return xsimd::select(signed_one < f64_batch(0.0), negative, otherwise);
}
template <class T>
VECDET_INLINE xsimd::batch<T, arch> select_negative(xsimd::batch<T, arch> x,
                                                    xsimd::batch<T, arch> negative,
                                                    xsimd::batch<T, arch> otherwise) {
  return xsimd::select(x < xsimd::batch<T, arch>(T(0)), negative, otherwise);
}
template <class T>
VECDET_INLINE xsimd::batch<T, arch> abs_below(xsimd::batch<T, arch> x,
                                              xsimd::batch<T, arch> limit) {
  return VECDET_TARGET::min(xsimd::batch<T, arch>(xsimd::abs(x)), limit);
}
template <class T>
VECDET_INLINE xsimd::batch<T, arch> add_positive(xsimd::batch<T, arch> y, xsimd::batch<T, arch> x) {
  return y + VECDET_TARGET::max(xsimd::batch<T, arch>(T(0)), x);
}
VECDET_INLINE i32_batch lookup8(const table8& table, i32_batch index) {
  alignas(64) std::int32_t lane[batch_lanes<float>];
  index.store_aligned(lane);
  for (int i = 0; i < batch_lanes<float>; ++i) lane[i] = table.entry[lane[i] & 7];
  return i32_batch::load_aligned(lane);
}

#endif

// Correctly rounded division and square root: xsimd estimates them in float on Arm.
template <class T>
VECDET_INLINE xsimd::batch<T, arch> divide(xsimd::batch<T, arch> a, xsimd::batch<T, arch> b) {
#if defined(__aarch64__)
  if constexpr (std::is_same<T, float>::value) return vdivq_f32(a, b);
#endif
  return a / b;
}
template <class T>
VECDET_INLINE xsimd::batch<T, arch> square_root(xsimd::batch<T, arch> x) {
#if defined(__aarch64__)
  if constexpr (std::is_same<T, float>::value) return vsqrtq_f32(x);
#endif
  return xsimd::sqrt(x);
}

// ---- conversion of stored elements to computed lanes, and back

template <class T>
VECDET_INLINE batch<compute_type<T>> load(const T* from) {
  return batch<T>::load_unaligned(from);
}
template <class T>
VECDET_INLINE void store(T* to, const xsimd::batch<T, arch>& x) {
  x.store_unaligned(to);
}

/// Whether store_past_cache() differs from store().
#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)
constexpr bool has_stores_past_cache = true;
#else
constexpr bool has_stores_past_cache = false;
#endif

/// Writes to 64-byte aligned memory without reading it into the cache first (AVX2 and AVX-512).
/// finish_stores_past_cache() makes the stores visible to later reads by other threads.
VECDET_INLINE void store_past_cache(float* to, f32_batch x) {
#if defined(VECDET_TARGET_AVX512)
  _mm512_stream_ps(to, x);
#elif defined(VECDET_TARGET_AVX2)
  _mm256_stream_ps(to, x);
#else
  store(to, x);
#endif
}
VECDET_INLINE void finish_stores_past_cache() {
#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)
  _mm_sfence();
#endif
}

/// The lower and the upper half of x in double.
VECDET_INLINE void widen(f32_batch x, f64_batch& lower, f64_batch& upper) {
#if defined(VECDET_TARGET_AVX512)
  lower = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
  upper = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
#elif defined(VECDET_TARGET_AVX2)
  lower = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
  upper = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
#else
  alignas(64) float value[batch_lanes<float>];
  alignas(64) double wide[batch_lanes<float>];
  x.store_aligned(value);
  for (int i = 0; i < batch_lanes<float>; ++i) wide[i] = value[i];
  lower = f64_batch::load_aligned(wide);
  upper = f64_batch::load_aligned(wide + batch_lanes<double>);
#endif
}

/// `lower` and `upper` rounded to float.
VECDET_INLINE f32_batch narrow(f64_batch lower, f64_batch upper) {
#if defined(VECDET_TARGET_AVX512)
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(lower)), _mm512_cvtpd_ps(upper),
                            1);
#elif defined(VECDET_TARGET_AVX2)
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(lower)),
                              _mm256_cvtpd_ps(upper), 1);
#else
  alignas(64) double wide[batch_lanes<float>];
  alignas(64) float value[batch_lanes<float>];
  lower.store_aligned(wide);
  upper.store_aligned(wide + batch_lanes<double>);
  for (int i = 0; i < batch_lanes<float>; ++i) value[i] = static_cast<float>(wide[i]);
  return f32_batch::load_aligned(value);
#endif
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
