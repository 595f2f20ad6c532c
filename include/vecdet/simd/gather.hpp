// SPDX-License-Identifier: Apache-2.0
// Gathers rows of 16 lanes from arbitrary addresses.
#pragma once

#include <vecdet/simd/pack.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

// AVX2's gathers are no faster than single loads, and slower on some processors. AVX-512 uses
// masked gathers with all lanes set: for the unmasked ones, GCC 12 warns of an undefined first
// operand.

/// Lane i is base[index[i]]; the index is aligned to 64 bytes.
VECDET_INLINE row_pack<float> gather_row(const float* base, const std::int32_t* index) {
  row_pack<float> row;
#if defined(VECDET_TARGET_AVX512)
  row.v[0] = f32_batch(
      _mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xffff, _mm512_load_si512(index), base, 4));
#elif defined(VECDET_TARGET_AVX2)
  VECDET_UNROLL
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
  VECDET_UNROLL
  for (int i = 0; i < 2; ++i)
    row.v[i] = f64_batch(_mm512_mask_i32gather_pd(
        _mm512_setzero_pd(), 0xff,
        _mm256_load_si256(reinterpret_cast<const __m256i*>(index + 8 * i)), base, 8));
#elif defined(VECDET_TARGET_AVX2)
  VECDET_UNROLL
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

}  // namespace VECDET_TARGET
}  // namespace vecdet
