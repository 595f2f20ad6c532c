// SPDX-License-Identifier: Apache-2.0
// Rows of 16 lanes whose numbers lie anywhere in memory.
#pragma once

#include <vecdet/simd/pack.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

// AVX2's gathers are no faster than loads one by one, and on some processors slower. AVX-512's are
// masked ones with all lanes: GCC 12 warns of the others' undefined first operand.

/// Lane i is base[index[i]]; the index is aligned to 64 bytes.
VECDET_INLINE row_pack<float> gather_row(const float* base, const std::int32_t* index) {
  row_pack<float> row;
#if defined(VECDET_TARGET_AVX512)
  row.v[0] = f32_batch(
      _mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xffff, _mm512_load_si512(index), base, 4));
#elif defined(VECDET_TARGET_AVX2)
  for (int i = 0; i < 2; ++i) {
    const std::int32_t* const at = index + 8 * i;
    row.v[i] = f32_batch(_mm256_setr_ps(base[at[0]], base[at[1]], base[at[2]], base[at[3]],
                                        base[at[4]], base[at[5]], base[at[6]], base[at[7]]));
  }
#else
  alignas(64) float lane[row_lanes];
  for (int i = 0; i < row_lanes; ++i) lane[i] = base[index[i]];
  row = load_pack<row_pack<float>::batches>(lane);
#endif
  return row;
}
VECDET_INLINE row_pack<double> gather_row(const double* base, const std::int32_t* index) {
  row_pack<double> row;
#if defined(VECDET_TARGET_AVX512)
  for (int i = 0; i < 2; ++i)
    row.v[i] = f64_batch(_mm512_mask_i32gather_pd(
        _mm512_setzero_pd(), 0xff,
        _mm256_load_si256(reinterpret_cast<const __m256i*>(index + 8 * i)), base, 8));
#elif defined(VECDET_TARGET_AVX2)
  for (int i = 0; i < 4; ++i) {
    const std::int32_t* const at = index + 4 * i;
    row.v[i] = f64_batch(_mm256_setr_pd(base[at[0]], base[at[1]], base[at[2]], base[at[3]]));
  }
#else
  alignas(64) double lane[row_lanes];
  for (int i = 0; i < row_lanes; ++i) lane[i] = base[index[i]];
  row = load_pack<row_pack<double>::batches>(lane);
#endif
  return row;
}

/// The same where all lie in the 16 numbers at `table`, aligned to 64 bytes.
VECDET_INLINE row_pack<float> lookup_row(const float* table, const std::int32_t* index) {
#if defined(VECDET_TARGET_AVX512)
  row_pack<float> row;
  row.v[0] = f32_batch(_mm512_permutexvar_ps(_mm512_load_si512(index), _mm512_load_ps(table)));
  return row;
#elif defined(VECDET_TARGET_AVX2)
  row_pack<float> row;
  const __m256 lower = _mm256_load_ps(table), upper = _mm256_load_ps(table + 8);
  for (int i = 0; i < 2; ++i) {
    const __m256i at = _mm256_load_si256(reinterpret_cast<const __m256i*>(index + 8 * i));
    row.v[i] = f32_batch(_mm256_blendv_ps(_mm256_permutevar8x32_ps(lower, at),
                                          _mm256_permutevar8x32_ps(upper, at),
                                          _mm256_castsi256_ps(_mm256_slli_epi32(at, 28))));
  }
  return row;
#else
  return gather_row(table, index);
#endif
}
VECDET_INLINE row_pack<double> lookup_row(const double* table, const std::int32_t* index) {
#if defined(VECDET_TARGET_AVX512)
  row_pack<double> row;
  const __m512d lower = _mm512_load_pd(table), upper = _mm512_load_pd(table + 8);
  for (int i = 0; i < 2; ++i) {
    const __m512i at =
        _mm512_cvtepi32_epi64(_mm256_load_si256(reinterpret_cast<const __m256i*>(index + 8 * i)));
    row.v[i] = f64_batch(_mm512_permutex2var_pd(lower, at, upper));
  }
  return row;
#else
  return gather_row(table, index);
#endif
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
