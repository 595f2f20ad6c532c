// SPDX-License-Identifier: Apache-2.0
// Unsigned 16-bit numbers, for AVX-512 and AVX2. Comparing 32 of them gives the bits of one
// integer.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdint>
#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)
#include <immintrin.h>

namespace vecdet {
namespace VECDET_TARGET {

#if defined(VECDET_TARGET_AVX512)

/// A register of numbers, and the result of comparing two registers.
struct u16_batch {
  __m512i v;
};
using u16_mask = __mmask32;

VECDET_INLINE u16_batch all_u16(std::uint16_t x) {
  return {_mm512_set1_epi16(static_cast<short>(x))};
}
/// Loads from an address that is a multiple of 64 bytes.
VECDET_INLINE u16_batch load_u16(const std::uint16_t* x) { return {_mm512_load_si512(x)}; }

VECDET_INLINE u16_batch min(u16_batch a, u16_batch b) { return {_mm512_min_epu16(a.v, b.v)}; }
VECDET_INLINE u16_batch max(u16_batch a, u16_batch b) { return {_mm512_max_epu16(a.v, b.v)}; }
/// The sum, saturated at 65535.
VECDET_INLINE u16_batch sadd(u16_batch a, u16_batch b) { return {_mm512_adds_epu16(a.v, b.v)}; }
/// The difference, saturated at 0.
VECDET_INLINE u16_batch ssub(u16_batch a, u16_batch b) { return {_mm512_subs_epu16(a.v, b.v)}; }
/// The upper half of the product.
VECDET_INLINE u16_batch mul_high(u16_batch a, u16_batch b) {
  return {_mm512_mulhi_epu16(a.v, b.v)};
}
VECDET_INLINE u16_mask operator>=(u16_batch a, u16_batch b) {
  return _mm512_cmpge_epu16_mask(a.v, b.v);
}

/// Bit i is the comparison of number i of 32; mask_from(k) selects the comparisons from number k
/// on.
template <class MaskFrom>
VECDET_INLINE std::uint32_t bits_of_32(const MaskFrom& mask_from) {
  return mask_from(0);
}

#else

struct u16_batch {
  __m256i v;
};
using u16_mask = __m256i;

VECDET_INLINE u16_batch all_u16(std::uint16_t x) {
  return {_mm256_set1_epi16(static_cast<short>(x))};
}
/// Loads from an address that is a multiple of 32 bytes.
VECDET_INLINE u16_batch load_u16(const std::uint16_t* x) {
  return {_mm256_load_si256(reinterpret_cast<const __m256i*>(x))};
}

VECDET_INLINE u16_batch min(u16_batch a, u16_batch b) { return {_mm256_min_epu16(a.v, b.v)}; }
VECDET_INLINE u16_batch max(u16_batch a, u16_batch b) { return {_mm256_max_epu16(a.v, b.v)}; }
VECDET_INLINE u16_batch sadd(u16_batch a, u16_batch b) { return {_mm256_adds_epu16(a.v, b.v)}; }
VECDET_INLINE u16_batch ssub(u16_batch a, u16_batch b) { return {_mm256_subs_epu16(a.v, b.v)}; }
VECDET_INLINE u16_batch mul_high(u16_batch a, u16_batch b) {
  return {_mm256_mulhi_epu16(a.v, b.v)};
}
VECDET_INLINE u16_mask operator>=(u16_batch a, u16_batch b) {
  return _mm256_cmpeq_epi16(_mm256_max_epu16(a.v, b.v), a.v);
}

template <class MaskFrom>
VECDET_INLINE std::uint32_t bits_of_32(const MaskFrom& mask_from) {
  // Packing works within halves of registers; the permutation restores the order.
  const __m256i bytes = _mm256_packs_epi16(mask_from(0), mask_from(16));
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(bytes, 0xd8)));
}

#endif

}  // namespace VECDET_TARGET
}  // namespace vecdet

#endif
