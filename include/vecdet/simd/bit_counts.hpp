// SPDX-License-Identifier: Apache-2.0
// Numbers of bits in groups of 8 words. x86-64-v4 has no instruction that counts the bits of a
// vector. With AVX2 and AVX-512, a shuffle looks up the counts of half bytes. The counts of bytes
// are added as bytes, and every 31 groups, before they exceed 255, as words.
#pragma once

#include <vecdet/detail/bit_lines.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vecdet {
namespace VECDET_TARGET {

#if defined(VECDET_TARGET_AVX512)

using word_vector = __m512i;
VECDET_INLINE word_vector load_words(const void* from) { return _mm512_loadu_si512(from); }
VECDET_INLINE word_vector plus_bytes(word_vector a, word_vector b) { return _mm512_add_epi8(a, b); }
VECDET_INLINE word_vector sums_of_bytes(word_vector x) { return _mm512_sad_epu8(x, word_vector{}); }
VECDET_INLINE word_vector bits_of_bytes(word_vector x) {
  const __m512i counts =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const __m512i low = _mm512_set1_epi8(15);
  return plus_bytes(_mm512_shuffle_epi8(counts, x & low),
                    _mm512_shuffle_epi8(counts, _mm512_srli_epi16(x, 4) & low));
}

#elif defined(VECDET_TARGET_AVX2)

using word_vector = __m256i;
VECDET_INLINE word_vector load_words(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
VECDET_INLINE word_vector plus_bytes(word_vector a, word_vector b) { return _mm256_add_epi8(a, b); }
VECDET_INLINE word_vector sums_of_bytes(word_vector x) { return _mm256_sad_epu8(x, word_vector{}); }
VECDET_INLINE word_vector bits_of_bytes(word_vector x) {
  const __m256i counts =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
  const __m256i low = _mm256_set1_epi8(15);
  return plus_bytes(_mm256_shuffle_epi8(counts, x & low),
                    _mm256_shuffle_epi8(counts, _mm256_srli_epi16(x, 4) & low));
}

#elif defined(__x86_64__)

using word_vector = __m128i;
VECDET_INLINE word_vector load_words(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
VECDET_INLINE word_vector plus_bytes(word_vector a, word_vector b) { return _mm_add_epi8(a, b); }
VECDET_INLINE word_vector sums_of_bytes(word_vector x) { return _mm_sad_epu8(x, word_vector{}); }
VECDET_INLINE word_vector bits_of_bytes(word_vector x) {
  const __m128i ones = _mm_set1_epi8(0x55), twos = _mm_set1_epi8(0x33), low = _mm_set1_epi8(15);
  x = _mm_sub_epi8(x, _mm_srli_epi16(x, 1) & ones);
  x = plus_bytes(x & twos, _mm_srli_epi16(x, 2) & twos);
  return plus_bytes(x, _mm_srli_epi16(x, 4)) & low;
}

#else

using word_vector = std::uint64_t;
VECDET_INLINE word_vector load_words(const void* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
VECDET_INLINE word_vector plus_bytes(word_vector a, word_vector b) { return a + b; }
VECDET_INLINE word_vector sums_of_bytes(word_vector x) {
  constexpr std::uint64_t even = 0x00ff00ff00ff00ffu;
  return (((x & even) + ((x >> 8) & even)) * 0x0001000100010001u) >> 48;
}
VECDET_INLINE word_vector bits_of_bytes(word_vector x) {
  x -= (x >> 1) & 0x5555555555555555u;
  x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
  return (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
}

#endif

/// A sum of numbers of bits.
class bit_sum {
 public:
  /// Adds the bits that groups of 8 words at a and b have in common. Words may be misaligned.
  VECDET_INLINE void add_common(const void* first, const void* second, index_t groups) {
    const auto* a = static_cast<const unsigned char*>(first);
    const auto* b = static_cast<const unsigned char*>(second);
    constexpr int step = static_cast<int>(sizeof(word_vector)), vectors = 64 / step;
    constexpr index_t most_groups = 31;  // 8 bits per byte each: at most 248
    while (groups > 0) {
      const index_t now = groups < most_groups ? groups : most_groups;
      word_vector bytes[vectors];
      VECDET_UNROLL
      for (int v = 0; v < vectors; ++v) bytes[v] = word_vector{};
      VECDET_NO_UNROLL
      for (index_t g = 0; g < now; ++g) {
        VECDET_UNROLL
        for (int v = 0; v < vectors; ++v) {
          bytes[v] = plus_bytes(bytes[v],
                                bits_of_bytes(load_words(a + v * step) & load_words(b + v * step)));
        }
        a += 64;
        b += 64;
      }
      VECDET_UNROLL
      for (int v = 0; v < vectors; ++v) sums_ += sums_of_bytes(bytes[v]);
      groups -= now;
    }
  }

  VECDET_INLINE index_t total() const {
    std::uint64_t lane[sizeof(word_vector) / 8];
    std::memcpy(lane, &sums_, sizeof lane);
    std::uint64_t sum = 0;
    for (const std::uint64_t own : lane) sum += own;
    return static_cast<index_t>(sum);
  }

 private:
  word_vector sums_{};
};

/// Bit i: whether byte i of 64 is not 0.
VECDET_INLINE std::uint64_t bits_of_64_bytes(const std::uint8_t* from) {
#if defined(VECDET_TARGET_AVX512)
  const __m512i bytes = _mm512_loadu_si512(from);
  return _mm512_test_epi8_mask(bytes, bytes);
#elif defined(VECDET_TARGET_AVX2)
  std::uint64_t zeros = 0;
  for (int k = 0; k < 2; ++k) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32 * k));
    zeros |= std::uint64_t{static_cast<std::uint32_t>(
                 _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, word_vector{})))}
             << (32 * k);
  }
  return ~zeros;
#elif defined(__x86_64__)
  std::uint64_t zeros = 0;
  for (int k = 0; k < 4; ++k) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16 * k));
    zeros |= std::uint64_t{static_cast<std::uint32_t>(
                 _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, word_vector{})))}
             << (16 * k);
  }
  return ~zeros;
#else
  std::uint64_t bits = 0;
  for (int k = 0; k < 8; ++k) {
    std::uint64_t bytes;
    std::memcpy(&bytes, from + 8 * k, 8);
    bits |= detail::bits_of_8_bytes(bytes) << (8 * k);
  }
  return bits;
#endif
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
