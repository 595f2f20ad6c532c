// SPDX-License-Identifier: Apache-2.0
// Pixels of three bytes: each result is of two neighbours, weighed in 2048ths.
#pragma once

#include <vecdet/args/letterbox.hpp>
#include <vecdet/simd/batch.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using detail::axis_weights;

/// A sixteenth of the weighed sum of a channel, below 2^15.
VECDET_INLINE std::uint16_t weighed(std::uint8_t first, std::uint8_t second,
                                    std::uint32_t weights) {
  return static_cast<std::uint16_t>((first * (weights & 0xffff) + second * (weights >> 16)) >> 4);
}

#if defined(VECDET_TARGET_AVX2) || defined(VECDET_TARGET_AVX512)

/// Four pairs of pixels, 8 bytes each.
VECDET_INLINE __m256i load_pixel_pairs(const std::uint8_t* row, const axis_weights* x) {
  const auto pair = [&](int i) VECDET_INLINE_LAMBDA {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + 3 * x[i].at));
  };
  return _mm256_set_m128i(_mm_unpacklo_epi64(pair(2), pair(3)),
                          _mm_unpacklo_epi64(pair(0), pair(1)));
}

/// Eight pixels of a row: their channels as three planes. Each pixel's 8 bytes are in the row.
VECDET_INLINE void weigh_8_pixels(const std::uint8_t* row, const axis_weights* x,
                                  std::uint16_t* const planes[3]) {
  constexpr char none = -1;
  // Channel c of both pixels of a pair, as two 16-bit numbers.
  const __m256i channels_01 = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, none, 3, none, 1, none, 4, none, 8, none, 11, none, 9, none, 12, none));
  const __m256i channel_2_lower = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(2, none, 5, none, none, none, none, none, 10, none, 13, none, none, none, none,
                    none));
  const __m256i channel_2_upper = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(none, none, none, none, 2, none, 5, none, none, none, none, none, 10, none, 13,
                    none));
  const __m256i a = load_pixel_pairs(row, x), b = load_pixel_pairs(row, x + 4);
  // {at, weights} four times: the weights twice.
  const auto both = [](const axis_weights* four) VECDET_INLINE_LAMBDA {
    return _mm256_shuffle_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(four)), 0xf5);
  };
  const __m256i of_a = both(x), of_b = both(x + 4);
  const auto sums = [](__m256i pairs, __m256i weights) VECDET_INLINE_LAMBDA {
    return _mm256_srli_epi32(_mm256_madd_epi16(pairs, weights), 4);
  };
  // 32-bit numbers: channels 0 and 1 of each pixel in turn; channel 2 of pixels i and i + 4 in turn.
  const __m256i a01 = sums(_mm256_shuffle_epi8(a, channels_01), of_a);
  const __m256i b01 = sums(_mm256_shuffle_epi8(b, channels_01), of_b);
  const __m256i ab2 = sums(_mm256_or_si256(_mm256_shuffle_epi8(a, channel_2_lower),
                                           _mm256_shuffle_epi8(b, channel_2_upper)),
                           _mm256_blend_epi32(of_a, of_b, 0xaa));
  // In each half, 16 bits: a's 0 1 0 1, then b's; sorted by channel, then halves are joined.
  const __m256i by_channel = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  const __m256i packed =
      _mm256_shuffle_epi8(_mm256_packus_epi32(a01, b01), by_channel);  // a0 a0 b0 b0 a1 a1 b1 b1
  const __m256i joined =
      _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(planes[0]), _mm256_castsi256_si128(joined));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(planes[1]), _mm256_extracti128_si256(joined, 1));
  // a b a b in each half.
  const __m256i sorted = _mm256_permutevar8x32_epi32(ab2, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(planes[2]),
      _mm_packus_epi32(_mm256_castsi256_si128(sorted), _mm256_extracti128_si256(sorted, 1)));
}

#else

VECDET_INLINE void weigh_8_pixels(const std::uint8_t* row, const axis_weights* x,
                                  std::uint16_t* const planes[3]) {
  for (int i = 0; i < 8; ++i) {
    const std::uint8_t* const pixel = row + 3 * x[i].at;
    for (int c = 0; c < 3; ++c) planes[c][i] = weighed(pixel[c], pixel[c + 3], x[i].weights);
  }
}

#endif

}  // namespace VECDET_TARGET
}  // namespace vecdet
