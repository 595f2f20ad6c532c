// SPDX-License-Identifier: Apache-2.0
// Numbers of bits in groups of 8 words. Carry-save adders (Harley and Seal; arXiv 1611.07612) turn
// 8 vectors into one whose bits count 8 each, so an eighth of the vectors are counted, and what is
// left is counted at the end. With AVX2 and AVX-512, a shuffle looks up the counts of half bytes.
// The counts of bytes are added as bytes, and every 31 vectors, before they exceed 255, as words.
//
// x86-64-v4 has no instruction that counts the bits of a vector, but most of its processors do.
// There, a function with that instruction (AVX512_VPOPCNTDQ) takes over. The counts are the same.
// The compiler's run-time library detects the instruction once, before main(). It cannot be part of
// detail/cpu_features.hpp, because the table of kernels of an instruction set is constant.
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
VECDET_INLINE unsigned differing_words(word_vector a, word_vector b) {
  return _mm512_cmpneq_epi64_mask(a, b);
}
VECDET_INLINE word_vector odd(word_vector a, word_vector b, word_vector c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}
VECDET_INLINE word_vector two_or_more(word_vector a, word_vector b, word_vector c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0xe8);
}
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
VECDET_INLINE unsigned differing_words(word_vector a, word_vector b) {
  const __m256i equal = _mm256_cmpeq_epi64(a, b);
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(equal))) ^ 15u;
}
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
VECDET_INLINE unsigned differing_words(word_vector a, word_vector b) {
  const auto equal = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(a, b)));
  return ((equal & 0xff) != 0xff ? 1u : 0u) | (equal >> 8 != 0xff ? 2u : 0u);
}
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
VECDET_INLINE unsigned differing_words(word_vector a, word_vector b) { return a == b ? 0 : 1; }
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

// differing_words: bit i says whether words i differ. odd, two_or_more: the bits that an odd number
// of three vectors have, and those that two or three have.
#if !defined(VECDET_TARGET_AVX512)
VECDET_INLINE word_vector odd(word_vector a, word_vector b, word_vector c) { return a ^ b ^ c; }
VECDET_INLINE word_vector two_or_more(word_vector a, word_vector b, word_vector c) {
  return (a & b) | ((a ^ b) & c);
}
#endif

VECDET_INLINE index_t sum_of_words(const word_vector& x) {
  std::uint64_t lane[sizeof(word_vector) / 8];
  std::memcpy(lane, &x, sizeof lane);
  std::uint64_t sum = 0;
  for (const std::uint64_t own : lane) sum += own;
  return static_cast<index_t>(sum);
}

/// Two lists of words that are compared: `runs` of `groups` of 8 words each. They may be
/// misaligned.
struct word_runs {
  const void* a;
  const void* b;
  index_t a_stride, b_stride;  ///< from one run to the next, in words
  index_t runs, groups;

  VECDET_INLINE const unsigned char* a_run(index_t r) const {
    return static_cast<const unsigned char*>(a) + 8 * r * a_stride;
  }
  VECDET_INLINE const unsigned char* b_run(index_t r) const {
    return static_cast<const unsigned char*>(b) + 8 * r * b_stride;
  }
};

/// Sums of bits of several weights. Each bit of fours_ counts 4, and so on.
class bit_sum {
 public:
  /// Adds the bits that groups of 8 words at a and b have in common.
  VECDET_INLINE void add_common(const unsigned char* a, const unsigned char* b, index_t groups) {
    index_t vectors = groups * (64 / step);
    while (vectors >= 8) {
      const index_t blocks = vectors / 8, now = blocks < most_counts ? blocks : most_counts;
      word_vector bytes{};
      VECDET_NO_UNROLL
      for (index_t k = 0; k < now; ++k) {
        bytes = plus_bytes(bytes, bits_of_bytes(eights(a, b)));
        a += 8 * step;
        b += 8 * step;
      }
      eights_ += sums_of_bytes(bytes);
      vectors -= 8 * now;
    }
    word_vector bytes{};
    VECDET_NO_UNROLL
    for (; vectors > 0; --vectors) {
      bytes = plus_bytes(bytes, bits_of_bytes(load_words(a) & load_words(b)));
      a += step;
      b += step;
    }
    units_ += sums_of_bytes(bytes);
  }

  VECDET_INLINE index_t total() const {
    return sum_of_words((eights_ << 3) + (bits_of(fours_) << 2) + (bits_of(twos_) << 1) +
                        bits_of(ones_) + units_);
  }

 private:
  static constexpr int step = static_cast<int>(sizeof(word_vector));
  static constexpr index_t most_counts = 31;  // 8 bits per byte each: at most 248

  static VECDET_INLINE word_vector bits_of(const word_vector& x) {
    return sums_of_bytes(bits_of_bytes(x));
  }
  /// Adds two vectors to `low`, and returns the carries.
  static VECDET_INLINE word_vector carries(word_vector& low, const word_vector& x,
                                           const word_vector& y) {
    const word_vector before = low;
    low = odd(before, x, y);
    return two_or_more(before, x, y);
  }
  /// Adds 8 vectors, and returns the carries, which count 8.
  VECDET_INLINE word_vector eights(const unsigned char* a, const unsigned char* b) {
    word_vector fours[2];
    VECDET_UNROLL
    for (int half = 0; half < 2; ++half) {
      word_vector twos[2];
      VECDET_UNROLL
      for (int pair = 0; pair < 2; ++pair) {
        const int at = (4 * half + 2 * pair) * step;
        twos[pair] = carries(ones_, load_words(a + at) & load_words(b + at),
                             load_words(a + at + step) & load_words(b + at + step));
      }
      fours[half] = carries(twos_, twos[0], twos[1]);
    }
    return carries(fours_, fours[0], fours[1]);
  }

  word_vector ones_{}, twos_{}, fours_{};
  word_vector units_{}, eights_{};  ///< sums, as words
};

inline index_t common_bits_by_lookup(const word_runs& w) {
  bit_sum sum;
  for (index_t r = 0; r < w.runs; ++r) sum.add_common(w.a_run(r), w.b_run(r), w.groups);
  return sum.total();
}

#if defined(VECDET_TARGET_AVX512)
/// With the instruction that counts the bits of each word.
__attribute__((target("avx512vpopcntdq"))) inline index_t common_bits_by_instruction(
    const word_runs& w) {
  __m512i sums[2] = {};
  for (index_t r = 0; r < w.runs; ++r) {
    const unsigned char* a = w.a_run(r);
    const unsigned char* b = w.b_run(r);
    index_t g = 0;
    for (; g + 2 <= w.groups; g += 2) {
      sums[0] += _mm512_popcnt_epi64(_mm512_loadu_si512(a) & _mm512_loadu_si512(b));
      sums[1] += _mm512_popcnt_epi64(_mm512_loadu_si512(a + 64) & _mm512_loadu_si512(b + 64));
      a += 128;
      b += 128;
    }
    if (g < w.groups) sums[0] += _mm512_popcnt_epi64(_mm512_loadu_si512(a) & _mm512_loadu_si512(b));
  }
  return static_cast<index_t>(_mm512_reduce_add_epi64(sums[0] + sums[1]));
}

#endif

/// The number of bits that words have in common.
inline index_t common_bits(const word_runs& words) {
#if defined(VECDET_TARGET_AVX512)
  if (__builtin_cpu_supports("avx512vpopcntdq")) return common_bits_by_instruction(words);
#endif
  return common_bits_by_lookup(words);
}

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
