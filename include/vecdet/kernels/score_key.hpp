// SPDX-License-Identifier: Apache-2.0
// Scores as unsigned integers, for sorting, and the records that are sorted.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/simd/constants.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using std::uint32_t;
using std::uint64_t;

/// Ascending keys are descending scores. NaN comes first; both zeros are equal. There is no branch,
/// so that compilers vectorise loops of it.
VECDET_INLINE uint32_t descending_key(float score) {
  const float canonical = score + VECDET_ORDERED(0.0f);
  uint32_t bits;
  __builtin_memcpy(&bits, &canonical, sizeof bits);
  const uint32_t is_negative = 0u - (bits >> 31);
  const uint32_t is_number = 0u - static_cast<uint32_t>((bits & 0x7fffffffu) <= 0x7f800000u);
  return (bits ^ (0x7fffffffu & ~is_negative)) & is_number;
}
VECDET_INLINE uint64_t descending_key(double score) {
  const double canonical = score + VECDET_ORDERED(0.0);
  uint64_t bits;
  __builtin_memcpy(&bits, &canonical, sizeof bits);
  const uint64_t is_negative = 0u - (bits >> 63);
  const uint64_t is_number =
      0u - static_cast<uint64_t>((bits & ~(uint64_t{1} << 63)) <= 0x7ff0000000000000u);
  return (bits ^ (0x7fffffffffffffffu & ~is_negative)) & is_number;
}

/// A record: the upper half is the key, the lower half the index of the box or element.
template <class T>
VECDET_INLINE uint64_t record_of(T stored_score, uint32_t index) {
  const compute_type<T> score = static_cast<compute_type<T>>(stored_score);
  if constexpr (sizeof(score) == 8) {
    return (descending_key(score) & 0xffffffff00000000u) | index;
  } else {
    return static_cast<uint64_t>(descending_key(score)) << 32 | index;
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
