// SPDX-License-Identifier: Apache-2.0
// Scores as unsigned integers to sort by.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using std::uint32_t;
using std::uint64_t;

/// Ascending keys are descending scores. NaN comes first; both zeros are equal.
VECDET_INLINE uint32_t descending_key(float score) {
  if (!(score == score)) return 0;
  const float canonical = score + 0.0f;
  uint32_t bits;
  __builtin_memcpy(&bits, &canonical, sizeof bits);
  return (bits >> 31) != 0 ? bits : ~(bits | 0x80000000u);
}
VECDET_INLINE uint64_t descending_key(double score) {
  if (!(score == score)) return 0;
  const double canonical = score + 0.0;
  uint64_t bits;
  __builtin_memcpy(&bits, &canonical, sizeof bits);
  return (bits >> 63) != 0 ? bits : ~(bits | 0x8000000000000000u);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
