// SPDX-License-Identifier: Apache-2.0
// Sums over the 16 lanes of four rows.
#pragma once

#include <vecdet/simd/pack.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)
/// Lane i plus lane i + 8.
VECDET_INLINE __m256 sum_of_halves(const row_pack<float>& row) {
#if defined(VECDET_TARGET_AVX512)
  return _mm256_add_ps(_mm512_castps512_ps256(row.v[0]), _mm512_extractf32x8_ps(row.v[0], 1));
#else
  return _mm256_add_ps(row.v[0], row.v[1]);
#endif
}
#endif

/// to[i] is the sum of row i. Lanes whose numbers differ in bit 3 are added first, then in bit 1,
/// bit 0 and bit 2, on every instruction set.
template <class Real>
VECDET_INLINE void sum_four_rows(const row_pack<Real> (&row)[4], Real* to) {
#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)
  if constexpr (std::is_same<Real, float>::value) {
    const __m256 r0 = sum_of_halves(row[0]), r1 = sum_of_halves(row[1]);
    const __m256 r2 = sum_of_halves(row[2]), r3 = sum_of_halves(row[3]);
    // Rows 0 and 1 alternate: lanes 0 + 2, and 1 + 3, of every four.
    const __m256 first = _mm256_add_ps(_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
    const __m256 second = _mm256_add_ps(_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
    const __m256 fours = _mm256_add_ps(_mm256_shuffle_ps(first, second, 0x44),
                                       _mm256_shuffle_ps(first, second, 0xee));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1)));
    return;
  }
#endif
  for (int i = 0; i < 4; ++i) {
    alignas(64) Real x[row_lanes];
    store_pack<row_pack<Real>::batches>(x, row[i]);
    for (int k = 0; k < 8; ++k) x[k] += x[k + 8];
    for (int k = 0; k < 8; k += 4) x[k] = (x[k] + x[k + 2]) + (x[k + 1] + x[k + 3]);
    to[i] = x[0] + x[4];
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
