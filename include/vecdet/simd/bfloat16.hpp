// SPDX-License-Identifier: Apache-2.0
// bfloat16 in memory, float in registers: one batch at a time, or two in fewer instructions.
#pragma once

#include <vecdet/simd/batch.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// bfloat16 widens exactly.
template <>
VECDET_INLINE f32_batch load(const bfloat16* from) {
#if defined(VECDET_TARGET_AVX512)
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
#elif defined(VECDET_TARGET_AVX2)
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
#elif defined(__SSE2__)
  const __m128i half = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), half));
#else
  alignas(64) float wide[batch_lanes<float>];
  for (int i = 0; i < batch_lanes<float>; ++i) wide[i] = from[i];
  return f32_batch::load_aligned(wide);
#endif
}

/// Which NaNs need rounding: any, or only those computed from bfloat16 numbers, whose lower halves
/// are 0. Rounding cannot carry into the sign bit of the latter, so they need no special case.
enum class rounded_nans { any, from_bfloat16 };

#if defined(VECDET_TARGET_AVX512)

/// x's bits plus the amount that rounds the upper half to nearest even. NaN stays NaN: every
/// computed NaN is quiet, so its upper half is a NaN as well.
VECDET_INLINE __m512i round_upper_half(f32_batch x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  return _mm512_mask_add_epi32(bits, _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), bits, half);
}
#elif defined(VECDET_TARGET_AVX2)

/// x's upper half, rounded to nearest even, as a number. NaN stays NaN: every computed NaN is
/// quiet, so its upper half is a NaN as well.
template <rounded_nans Nans = rounded_nans::any>
VECDET_INLINE __m256i round_upper_half(f32_batch x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  if constexpr (Nans == rounded_nans::any) {
    half = _mm256_and_si256(half, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q)));
  }
  return _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
}
#elif defined(__SSE2__)

/// The same for four batches; the sign is extended, because numbers are packed with signs here.
VECDET_INLINE __m128i round_upper_half(f32_batch x) {
  const __m128i bits = _mm_castps_si128(x);
  const __m128i odd = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1));
  const __m128i half = _mm_and_si128(_mm_add_epi32(odd, _mm_set1_epi32(0x7fff)),
                                     _mm_castps_si128(_mm_cmpord_ps(x, x)));
  return _mm_srai_epi32(_mm_add_epi32(bits, half), 16);
}
#endif

/// Rounds to nearest even, like bfloat16's constructor; NaN stays NaN.
VECDET_INLINE void store(bfloat16* to, f32_batch x) {
#if defined(VECDET_TARGET_AVX512)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_upper_half(x), 16)));
#elif defined(VECDET_TARGET_AVX2)
  const __m256i upper = round_upper_half(x);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(upper, upper), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(packed));
#elif defined(__SSE2__)
  const __m128i upper = round_upper_half(x);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi32(upper, upper));
#else
  alignas(64) float wide[batch_lanes<float>];
  x.store_aligned(wide);
  for (int i = 0; i < batch_lanes<float>; ++i) to[i] = bfloat16(wide[i]);
#endif
}

/// Loads two batches from consecutive memory in fewer instructions than one at a time.
VECDET_INLINE void load_two(const bfloat16* from, f32_batch& first, f32_batch& second) {
#if defined(VECDET_TARGET_AVX512)
  alignas(64) static constexpr std::int16_t index[2][32] = {
      {0, 0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,
       0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15},
      {0, 16, 0, 17, 0, 18, 0, 19, 0, 20, 0, 21, 0, 22, 0, 23,
       0, 24, 0, 25, 0, 26, 0, 27, 0, 28, 0, 29, 0, 30, 0, 31}};
  const __m512i both = _mm512_loadu_si512(from);
  first = _mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, _mm512_load_si512(index[0]), both));
  second = _mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, _mm512_load_si512(index[1]), both));
#elif defined(VECDET_TARGET_AVX2)
  const __m256i both =
      _mm256_permute4x64_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)), 0xd8);
  first = _mm256_castsi256_ps(_mm256_unpacklo_epi16(_mm256_setzero_si256(), both));
  second = _mm256_castsi256_ps(_mm256_unpackhi_epi16(_mm256_setzero_si256(), both));
#else
  first = load(from);
  second = load(from + batch_lanes<float>);
#endif
}
template <rounded_nans Nans>
VECDET_INLINE void store_two(bfloat16* to, f32_batch first, f32_batch second) {
#if defined(VECDET_TARGET_AVX512)
  // Handle upper and lower halves separately. Rounding to nearest even adds one if the lower half
  // exceeds 0x8000; if the upper half is odd, first set the lower half's last bit.
  alignas(64) static constexpr std::int16_t odd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                       23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                       45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  const __m512i a = _mm512_castps_si512(first), b = _mm512_castps_si512(second);
  const __m512i one = _mm512_set1_epi16(1), sign = _mm512_set1_epi16(INT16_MIN);
  const __m512i odds = _mm512_load_si512(odd);
  const __m512i upper = _mm512_permutex2var_epi16(a, odds, b);
  const __m512i lower = _mm512_permutex2var_epi16(a, _mm512_sub_epi16(odds, one), b);
  const __m512i sticky = _mm512_ternarylogic_epi32(lower, upper, one, 0xf8);  // lower | (upper & 1)
  __mmask32 up = _mm512_cmpgt_epu16_mask(sticky, sign);
  if constexpr (Nans == rounded_nans::any) {
    // A NaN of all ones must not wrap around to 0.
    const __m512i magnitude = _mm512_or_si512(upper, sign);
    up = _mm512_mask_cmpneq_epi16_mask(up, magnitude, _mm512_set1_epi16(-1));
  }
  _mm512_storeu_si512(to, _mm512_mask_add_epi16(upper, up, upper, one));
#elif defined(VECDET_TARGET_AVX2)
  const __m256i both =
      _mm256_packus_epi32(round_upper_half<Nans>(first), round_upper_half<Nans>(second));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(both, 0xd8));
#else
  store(to, first);
  store(to + batch_lanes<float>, second);
#endif
}

/// Splits pairs of adjacent bfloat16 numbers, one in the bits of each lane: the first numbers and
/// the second ones. Widens exactly.
VECDET_INLINE void split_pairs(f32_batch pairs, f32_batch& first, f32_batch& second) {
  const i32_batch bits = bit_cast<std::int32_t>(pairs);
  first = bit_cast<float>(bits << 16);
  second = bit_cast<float>(bits & i32_batch(-0x10000));
}

/// The inverse of split_pairs. Rounds like store().
VECDET_INLINE f32_batch join_pairs(f32_batch first, f32_batch second) {
#if defined(VECDET_TARGET_AVX512)
  return _mm512_castsi512_ps(_mm512_mask_blend_epi16(
      0xaaaaaaaa, _mm512_srli_epi32(round_upper_half(first), 16), round_upper_half(second)));
#elif defined(VECDET_TARGET_AVX2)
  return _mm256_castsi256_ps(_mm256_blend_epi16(
      round_upper_half(first), _mm256_slli_epi32(round_upper_half(second), 16), 0xaa));
#elif defined(__SSE2__)
  return _mm_castsi128_ps(
      _mm_or_si128(_mm_and_si128(round_upper_half(first), _mm_set1_epi32(0xffff)),
                   _mm_slli_epi32(round_upper_half(second), 16)));
#else
  alignas(64) float wide[2][batch_lanes<float>];
  alignas(64) bfloat16 pairs[batch_lanes<float>][2];
  first.store_aligned(wide[0]);
  second.store_aligned(wide[1]);
  for (int i = 0; i < batch_lanes<float>; ++i)
    for (int j = 0; j < 2; ++j) pairs[i][j] = bfloat16(wide[j][i]);
  std::memcpy(wide[0], pairs, sizeof pairs);
  return f32_batch::load_aligned(wide[0]);
#endif
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
