// SPDX-License-Identifier: Apache-2.0
// Unsigned bytes, in rows of 64. Comparing two rows gives the bits of one integer.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vecdet {
namespace VECDET_TARGET {

struct byte_row {
  static constexpr int lanes = 64;
#if defined(VECDET_TARGET_AVX512)
  static constexpr int batches = 1;
  __m512i v[batches];
#elif defined(VECDET_TARGET_AVX2)
  static constexpr int batches = 2;
  __m256i v[batches];
#elif defined(__SSE2__)
  static constexpr int batches = 4;
  __m128i v[batches];
#else
  static constexpr int batches = 64;
  std::uint8_t v[batches];
#endif
};

/// Applies f to every batch of two rows.
template <class F>
VECDET_INLINE byte_row map_bytes(const byte_row& a, const byte_row& b, F f) {
  byte_row result;
  VECDET_UNROLL
  for (int i = 0; i < byte_row::batches; ++i) result.v[i] = f(a.v[i], b.v[i]);
  return result;
}

VECDET_INLINE byte_row all_bytes(std::uint8_t x) {
  byte_row row;
  VECDET_UNROLL
  for (int i = 0; i < byte_row::batches; ++i) {
#if defined(VECDET_TARGET_AVX512)
    row.v[i] = _mm512_set1_epi8(static_cast<char>(x));
#elif defined(VECDET_TARGET_AVX2)
    row.v[i] = _mm256_set1_epi8(static_cast<char>(x));
#elif defined(__SSE2__)
    row.v[i] = _mm_set1_epi8(static_cast<char>(x));
#else
    row.v[i] = x;
#endif
  }
  return row;
}

VECDET_INLINE byte_row load_row(const std::uint8_t* from) {
  byte_row row;
  VECDET_UNROLL
  for (int i = 0; i < byte_row::batches; ++i) {
#if defined(VECDET_TARGET_AVX512)
    row.v[i] = _mm512_loadu_si512(from);
#elif defined(VECDET_TARGET_AVX2)
    row.v[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32 * i));
#elif defined(__SSE2__)
    row.v[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16 * i));
#else
    row.v[i] = from[i];
#endif
  }
  return row;
}

VECDET_INLINE void store_row(std::uint8_t* to, const byte_row& row) {
  VECDET_UNROLL
  for (int i = 0; i < byte_row::batches; ++i) {
#if defined(VECDET_TARGET_AVX512)
    _mm512_storeu_si512(to, row.v[i]);
#elif defined(VECDET_TARGET_AVX2)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * i), row.v[i]);
#elif defined(__SSE2__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 * i), row.v[i]);
#else
    to[i] = row.v[i];
#endif
  }
}

VECDET_INLINE byte_row operator^(const byte_row& a, const byte_row& b) {
  return map_bytes(a, b, [](auto x, auto y) VECDET_INLINE_LAMBDA {
#if defined(VECDET_TARGET_AVX512)
    return _mm512_xor_si512(x, y);
#elif defined(VECDET_TARGET_AVX2)
    return _mm256_xor_si256(x, y);
#elif defined(__SSE2__)
    return _mm_xor_si128(x, y);
#else
    return static_cast<std::uint8_t>(x ^ y);
#endif
  });
}
VECDET_INLINE byte_row max(const byte_row& a, const byte_row& b) {
  return map_bytes(a, b, [](auto x, auto y) VECDET_INLINE_LAMBDA {
#if defined(VECDET_TARGET_AVX512)
    return _mm512_max_epu8(x, y);
#elif defined(VECDET_TARGET_AVX2)
    return _mm256_max_epu8(x, y);
#elif defined(__SSE2__)
    return _mm_max_epu8(x, y);
#else
    return x > y ? x : y;
#endif
  });
}
VECDET_INLINE byte_row min(const byte_row& a, const byte_row& b) {
  return map_bytes(a, b, [](auto x, auto y) VECDET_INLINE_LAMBDA {
#if defined(VECDET_TARGET_AVX512)
    return _mm512_min_epu8(x, y);
#elif defined(VECDET_TARGET_AVX2)
    return _mm256_min_epu8(x, y);
#elif defined(__SSE2__)
    return _mm_min_epu8(x, y);
#else
    return x < y ? x : y;
#endif
  });
}

/// Bit i: whether a >= b in lane i.
VECDET_INLINE std::uint64_t at_least_bits(const byte_row& a, const byte_row& b) {
  std::uint64_t bits = 0;
  VECDET_UNROLL
  for (int i = 0; i < byte_row::batches; ++i) {
#if defined(VECDET_TARGET_AVX512)
    bits = _mm512_cmpge_epu8_mask(a.v[i], b.v[i]);
#elif defined(VECDET_TARGET_AVX2)
    const __m256i holds = _mm256_cmpeq_epi8(_mm256_max_epu8(a.v[i], b.v[i]), a.v[i]);
    bits |= std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_epi8(holds))} << (32 * i);
#elif defined(__SSE2__)
    const __m128i holds = _mm_cmpeq_epi8(_mm_max_epu8(a.v[i], b.v[i]), a.v[i]);
    bits |= std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(holds))} << (16 * i);
#else
    bits |= std::uint64_t{a.v[i] >= b.v[i]} << i;
#endif
  }
  return bits;
}
VECDET_INLINE std::uint64_t greater_bits(const byte_row& a, const byte_row& b) {
  return ~at_least_bits(b, a);
}

/// x in the lanes where a > b, y in the others.
VECDET_INLINE byte_row select_greater(const byte_row& a, const byte_row& b, const byte_row& x,
                                      const byte_row& y) {
  byte_row row;
  VECDET_UNROLL
  for (int i = 0; i < byte_row::batches; ++i) {
#if defined(VECDET_TARGET_AVX512)
    row.v[i] = _mm512_mask_blend_epi8(_mm512_cmpgt_epu8_mask(a.v[i], b.v[i]), y.v[i], x.v[i]);
#elif defined(VECDET_TARGET_AVX2)
    const __m256i is_not = _mm256_cmpeq_epi8(_mm256_max_epu8(a.v[i], b.v[i]), b.v[i]);
    row.v[i] = _mm256_blendv_epi8(x.v[i], y.v[i], is_not);
#elif defined(__SSE2__)
    const __m128i is_not = _mm_cmpeq_epi8(_mm_max_epu8(a.v[i], b.v[i]), b.v[i]);
    row.v[i] = _mm_or_si128(_mm_and_si128(is_not, y.v[i]), _mm_andnot_si128(is_not, x.v[i]));
#else
    row.v[i] = a.v[i] > b.v[i] ? x.v[i] : y.v[i];
#endif
  }
  return row;
}

/// The greatest of the 64 bytes.
VECDET_INLINE std::uint8_t greatest_byte(const byte_row& row) {
#if defined(__SSE2__)
#if defined(VECDET_TARGET_AVX512)
  const __m256i half =
      _mm256_max_epu8(_mm512_castsi512_si256(row.v[0]), _mm512_extracti64x4_epi64(row.v[0], 1));
#elif defined(VECDET_TARGET_AVX2)
  const __m256i half = _mm256_max_epu8(row.v[0], row.v[1]);
#endif
#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2)
  __m128i most = _mm_max_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
#else
  __m128i most = _mm_max_epu8(_mm_max_epu8(row.v[0], row.v[1]), _mm_max_epu8(row.v[2], row.v[3]));
#endif
  most = _mm_max_epu8(most, _mm_srli_si128(most, 8));
  most = _mm_max_epu8(most, _mm_srli_si128(most, 4));
  most = _mm_max_epu8(most, _mm_srli_si128(most, 2));
  most = _mm_max_epu8(most, _mm_srli_si128(most, 1));
  return static_cast<std::uint8_t>(_mm_cvtsi128_si32(most) & 255);
#else
  std::uint8_t greatest = 0;
  for (const std::uint8_t x : row.v) greatest = x > greatest ? x : greatest;
  return greatest;
#endif
}

/// The first `count` bytes, 0 to 63, then `fill`. Reads no further bytes.
VECDET_INLINE byte_row load_part(const std::uint8_t* from, index_t count, std::uint8_t fill) {
#if defined(VECDET_TARGET_AVX512)
  const __mmask64 mask = (std::uint64_t{1} << count) - 1;
  return {{_mm512_mask_loadu_epi8(_mm512_set1_epi8(static_cast<char>(fill)), mask, from)}};
#else
  alignas(64) std::uint8_t bytes[byte_row::lanes];
  store_row(bytes, all_bytes(fill));
  constexpr index_t chunk = 16;
  if (count >= chunk) {
    for (index_t i = 0; i + chunk <= count; i += chunk)
      __builtin_memcpy(bytes + i, from + i, chunk);
    __builtin_memcpy(bytes + count - chunk, from + count - chunk, chunk);
  } else {
    for (index_t i = 0; i < count; ++i) bytes[i] = from[i];
  }
  return load_row(bytes);
#endif
}

/// The lane of the lowest bit that is set.
VECDET_INLINE int lowest_byte(std::uint64_t bits) { return __builtin_ctzll(bits); }

}  // namespace VECDET_TARGET
}  // namespace vecdet
