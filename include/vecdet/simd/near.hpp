// SPDX-License-Identifier: Apache-2.0
// Rows of 16 lanes from a few neighbouring numbers.
#pragma once

#include <vecdet/simd/gather.hpp>
#include <vecdet/simd/pack.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

/// Lane i is from[index[i] - index[0]]. The indices ascend. The 16 numbers from each lane's number
/// on may be read.
VECDET_INLINE row_pack<float> load_near(const float* from, const std::int32_t* index) {
#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)
  // If the lanes of a batch need no more numbers than it holds, one permutation selects them.
  constexpr int lanes = batch_lanes<float>;
  bool are_near = true;
  VECDET_UNROLL
  for (int i = 0; i < row_lanes; i += lanes)
    are_near = are_near && index[i + lanes - 1] - index[i] < lanes;
  if (are_near) {
    row_pack<float> row;
#if defined(VECDET_TARGET_AVX512)
    const __m512i at = _mm512_sub_epi32(_mm512_loadu_si512(index), _mm512_set1_epi32(index[0]));
    row.v[0] = f32_batch(_mm512_permutexvar_ps(at, _mm512_loadu_ps(from)));
#else
    VECDET_UNROLL
    for (int i = 0; i < 2; ++i) {
      const __m256i at =
          _mm256_sub_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(index + 8 * i)),
                           _mm256_set1_epi32(index[8 * i]));
      row.v[i] = f32_batch(
          _mm256_permutevar8x32_ps(_mm256_loadu_ps(from + (index[8 * i] - index[0])), at));
    }
#endif
    return row;
  }
#endif
  alignas(64) std::int32_t at[row_lanes];
  for (int i = 0; i < row_lanes; ++i) at[i] = index[i] - index[0];
  return gather_row(from, at);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
