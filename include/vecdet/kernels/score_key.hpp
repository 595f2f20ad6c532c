// SPDX-License-Identifier: Apache-2.0
// Scores as unsigned integers to sort by.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using std::uint32_t;
using std::uint64_t;

/// The bits of a score; both zeros have the same.
VECDET_INLINE uint32_t score_bits(float score) {
  const float canonical = score + 0.0f;
  uint32_t bits;
  __builtin_memcpy(&bits, &canonical, sizeof bits);
  return bits;
}
VECDET_INLINE uint64_t score_bits(double score) {
  const double canonical = score + 0.0;
  uint64_t bits;
  __builtin_memcpy(&bits, &canonical, sizeof bits);
  return bits;
}

// Without branches, as compilers vectorise loops of them then.

/// Ascending keys are descending scores that are numbers.
VECDET_INLINE uint32_t descending_number_key(float score) {
  const uint32_t bits = score_bits(score), is_negative = 0u - (bits >> 31);
  return bits ^ (0x7fffffffu & ~is_negative);
}
VECDET_INLINE uint64_t descending_number_key(double score) {
  const uint64_t bits = score_bits(score), is_negative = 0u - (bits >> 63);
  return bits ^ (0x7fffffffffffffffu & ~is_negative);
}

/// The same of any scores: NaN comes first.
VECDET_INLINE uint32_t descending_key(float score) {
  const uint32_t size = score_bits(score) & 0x7fffffffu;
  return descending_number_key(score) & (0u - static_cast<uint32_t>(size <= 0x7f800000u));
}
VECDET_INLINE uint64_t descending_key(double score) {
  const uint64_t size = score_bits(score) & 0x7fffffffffffffffu;
  return descending_number_key(score) & (0u - static_cast<uint64_t>(size <= 0x7ff0000000000000u));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
