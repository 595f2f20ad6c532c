// SPDX-License-Identifier: Apache-2.0
// Spreads numbers over groups of lanes.
#pragma once

#include <vecdet/simd/batch.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Spreads one number of each group of `Group` over all lanes of the group, for rows of 16 numbers:
/// lane l of a batch that begins at `lane` gets row[(lane + l) / Group * Group + number]. Group is
/// 4, 8 or 16.
template <int Group, bool IsWithinBatch = (Group < batch_lanes<float>)>
class spread {
 public:
  VECDET_INLINE spread(int number, int lane) : offset_(lane / Group * Group + number) {}
  VECDET_INLINE f32_batch operator()(const float* row) const { return f32_batch(row[offset_]); }

 private:
  index_t offset_;
};

#if defined(VECDET_TARGET_AVX512)
template <int Group>
class spread<Group, true> {
 public:
  VECDET_INLINE spread(int number, int) {
    const __m512i first = Group == 4
                              ? _mm512_setzero_si512()
                              : _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8);
    index_ = _mm512_add_epi32(first, _mm512_set1_epi32(number));
  }
  VECDET_INLINE f32_batch operator()(const float* row) const {
    if constexpr (Group == 4) return _mm512_permutevar_ps(_mm512_loadu_ps(row), index_);
    return _mm512_permutexvar_ps(index_, _mm512_loadu_ps(row));
  }

 private:
  __m512i index_;
};
#elif defined(VECDET_TARGET_AVX2)
template <>
class spread<4, true> {
 public:
  VECDET_INLINE spread(int number, int lane) : index_(_mm256_set1_epi32(number)), lane_(lane) {}
  VECDET_INLINE f32_batch operator()(const float* row) const {
    return _mm256_permutevar_ps(_mm256_loadu_ps(row + lane_), index_);
  }

 private:
  __m256i index_;
  index_t lane_;
};
#endif

}  // namespace VECDET_TARGET
}  // namespace vecdet
