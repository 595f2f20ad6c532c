// SPDX-License-Identifier: Apache-2.0
// Shuffles between batches: they separate numbers that are interleaved in memory by twos or fours,
// and interleave them again.
#pragma once

#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

// transpose_pairs: from a = a0 a1 a2 a3... and b = b0 b1 b2 b3..., a becomes a0 a1 b0 b1... and b
// becomes a2 a3 b2 b3... within every four; a second call undoes the first. split_axes: a becomes
// a0 a2 b0 b2..., b becomes a1 a3 b1 b3... alternating: even, odd, even, odd...
#if defined(VECDET_TARGET_AVX512)
#define VECDET_INTRINSIC(name) _mm512_##name
#elif defined(VECDET_TARGET_AVX2)
#define VECDET_INTRINSIC(name) _mm256_##name
#endif

#if defined(VECDET_INTRINSIC)
VECDET_INLINE f32_batch interleave_lower(f32_batch a, f32_batch b) {
  return VECDET_INTRINSIC(unpacklo_ps)(a, b);
}
VECDET_INLINE f32_batch interleave_upper(f32_batch a, f32_batch b) {
  return VECDET_INTRINSIC(unpackhi_ps)(a, b);
}
VECDET_INLINE void transpose_pairs(f32_batch& a, f32_batch& b) {
  const auto lower = VECDET_INTRINSIC(castps_pd)(a), upper = VECDET_INTRINSIC(castps_pd)(b);
  a = VECDET_INTRINSIC(castpd_ps)(VECDET_INTRINSIC(unpacklo_pd)(lower, upper));
  b = VECDET_INTRINSIC(castpd_ps)(VECDET_INTRINSIC(unpackhi_pd)(lower, upper));
}
VECDET_INLINE void split_axes(f32_batch& a, f32_batch& b) {
  const f32_batch even = VECDET_INTRINSIC(shuffle_ps)(a, b, 0x88);
  const f32_batch odd = VECDET_INTRINSIC(shuffle_ps)(a, b, 0xdd);
  a = even;
  b = odd;
}
#endif

#if defined(VECDET_TARGET_AVX512)

VECDET_INLINE void transpose_pairs(f64_batch& a, f64_batch& b) {
  const __m512d lower = a, upper = b;
  a = _mm512_permutex2var_pd(lower, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), upper);
  b = _mm512_permutex2var_pd(lower, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), upper);
}
VECDET_INLINE f64_batch alternating(double even, double odd) {
  return _mm512_unpacklo_pd(_mm512_set1_pd(even), _mm512_set1_pd(odd));
}
VECDET_INLINE f32_batch to_box_order(f32_batch x) {
  return _mm512_permutexvar_ps(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
}
VECDET_INLINE f32_batch to_lane_order(f32_batch x) { return to_box_order(x); }

#elif defined(VECDET_TARGET_AVX2)

VECDET_INLINE void transpose_pairs(f64_batch& a, f64_batch& b) {
  const __m256d lower = a, upper = b;
  a = _mm256_permute2f128_pd(lower, upper, 0x20);
  b = _mm256_permute2f128_pd(lower, upper, 0x31);
}
VECDET_INLINE f64_batch alternating(double even, double odd) {
  return _mm256_unpacklo_pd(_mm256_set1_pd(even), _mm256_set1_pd(odd));
}
VECDET_INLINE f32_batch to_box_order(f32_batch x) {
  return _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
VECDET_INLINE f32_batch to_lane_order(f32_batch x) {
  return _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

#else

VECDET_INLINE f32_batch interleave_lower(f32_batch a, f32_batch b) { return xsimd::zip_lo(a, b); }
VECDET_INLINE f32_batch interleave_upper(f32_batch a, f32_batch b) { return xsimd::zip_hi(a, b); }
VECDET_INLINE void transpose_pairs(f32_batch& a, f32_batch& b) {
  const f64_batch lower = bit_cast<double>(a), upper = bit_cast<double>(b);
  a = bit_cast<float>(xsimd::zip_lo(lower, upper));
  b = bit_cast<float>(xsimd::zip_hi(lower, upper));
}
VECDET_INLINE void transpose_pairs(f64_batch&, f64_batch&) {}  // a batch is a pair
VECDET_INLINE void split_axes(f32_batch& a, f32_batch& b) {
  const f32_batch lower = xsimd::zip_lo(a, b), upper = xsimd::zip_hi(a, b);
  a = xsimd::zip_lo(lower, upper);
  b = xsimd::zip_hi(lower, upper);
}
VECDET_INLINE f64_batch alternating(double even, double odd) {
  return xsimd::zip_lo(f64_batch(even), f64_batch(odd));
}
VECDET_INLINE f32_batch to_box_order(f32_batch x) { return x; }
VECDET_INLINE f32_batch to_lane_order(f32_batch x) { return x; }

#endif

VECDET_INLINE f32_batch alternating(float even, float odd) {
  return interleave_lower(f32_batch(even), f32_batch(odd));
}

VECDET_INLINE f64_batch to_box_order(f64_batch x) { return x; }
VECDET_INLINE f64_batch to_lane_order(f64_batch x) { return x; }

template <class Real, int N>
VECDET_INLINE pack<Real, N> to_box_order(const pack<Real, N>& x) {
  return map<Real, N>([](auto b) VECDET_INLINE_LAMBDA { return VECDET_TARGET::to_box_order(b); },
                      x);
}
template <class Real, int N>
VECDET_INLINE pack<Real, N> to_lane_order(const pack<Real, N>& x) {
  return map<Real, N>([](auto b) VECDET_INLINE_LAMBDA { return VECDET_TARGET::to_lane_order(b); },
                      x);
}

/// Transposes the 4 x 4 blocks of four batches; a second call undoes the first.
VECDET_INLINE void transpose4(f32_batch (&r)[4]) {
  const f32_batch a = interleave_lower(r[0], r[2]), b = interleave_lower(r[1], r[3]);
  const f32_batch c = interleave_upper(r[0], r[2]), d = interleave_upper(r[1], r[3]);
  r[0] = interleave_lower(a, b);
  r[1] = interleave_upper(a, b);
  r[2] = interleave_lower(c, d);
  r[3] = interleave_upper(c, d);
}

/// The result of transpose4 on four copies of x.
VECDET_INLINE void repeat4(f32_batch x, f32_batch (&r)[4]) {
#if defined(VECDET_INTRINSIC)
  r[0] = VECDET_INTRINSIC(permute_ps)(x, 0x00);
  r[1] = VECDET_INTRINSIC(permute_ps)(x, 0x55);
  r[2] = VECDET_INTRINSIC(permute_ps)(x, 0xaa);
  r[3] = VECDET_INTRINSIC(permute_ps)(x, 0xff);
#else
  r[0] = r[1] = r[2] = r[3] = x;
  transpose4(r);
#endif
}

#undef VECDET_INTRINSIC

}  // namespace VECDET_TARGET
}  // namespace vecdet
