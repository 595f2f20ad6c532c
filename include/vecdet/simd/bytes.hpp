// SPDX-License-Identifier: Apache-2.0
// Rows of 16 small whole numbers to bytes, and rows of even and odd numbers.
#pragma once

#include <vecdet/simd/pack.hpp>
#include <vecdet/simd/shuffles.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

/// Writes 16 whole numbers from 0 to 255 as bytes.
VECDET_INLINE void store_bytes(std::uint8_t* to, const row_pack<float>& x) {
#if defined(VECDET_TARGET_AVX512)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(x.v[0])));
#elif defined(VECDET_TARGET_AVX2)
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packs_epi32(_mm256_cvttps_epi32(x.v[0]), _mm256_cvttps_epi32(x.v[1])), 0xd8);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
#elif defined(__SSE2__)
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_packus_epi16(_mm_packs_epi32(_mm_cvttps_epi32(x.v[0]), _mm_cvttps_epi32(x.v[1])),
                       _mm_packs_epi32(_mm_cvttps_epi32(x.v[2]), _mm_cvttps_epi32(x.v[3]))));
#else
  alignas(64) float lane[row_lanes];
  store_pack<row_pack<float>::batches>(lane, x);
  for (int i = 0; i < row_lanes; ++i) to[i] = static_cast<std::uint8_t>(lane[i]);
#endif
}
VECDET_INLINE void store_bytes(std::uint8_t* to, const row_pack<double>& x) {
  alignas(64) double lane[row_lanes];
  store_pack<row_pack<double>::batches>(lane, x);
  for (int i = 0; i < row_lanes; ++i) to[i] = static_cast<std::uint8_t>(static_cast<int>(lane[i]));
}

/// From a = a0 a1 a2... and b = b0 b1 b2..., which follow each other in memory: a becomes a0 a2...
/// b0 b2..., b becomes a1 a3... b1 b3...
VECDET_INLINE void split_even_odd(f32_batch& a, f32_batch& b) {
  split_axes(a, b);
#if defined(VECDET_TARGET_AVX512)
  // Fours hold pairs of a and of b in turn.
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  a = _mm512_castpd_ps(_mm512_permutexvar_pd(order, _mm512_castps_pd(a)));
  b = _mm512_castpd_ps(_mm512_permutexvar_pd(order, _mm512_castps_pd(b)));
#elif defined(VECDET_TARGET_AVX2)
  a = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(a), 0xd8));
  b = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(b), 0xd8));
#endif
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
