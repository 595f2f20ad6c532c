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

/// The pixel of two such sums, weighed across rows.
VECDET_INLINE float joined_pixel(std::uint16_t first, std::uint16_t second, std::uint32_t weights) {
  const std::uint32_t sum = (first * (weights & 0xffff) >> 16) + (second * (weights >> 16) >> 16);
  return static_cast<float>(static_cast<std::int32_t>((sum + 2) >> 2));
}

#if defined(VECDET_TARGET_AVX2) || defined(VECDET_TARGET_AVX512)

/// Four pairs of pixels, 8 bytes each.
VECDET_INLINE __m256i load_pixel_pairs(const std::uint8_t* row, const axis_weights* x) {
  const auto pair = [&](int i) VECDET_INLINE_LAMBDA {
    return _mm_loadl_epi64(
        reinterpret_cast<const __m128i*>(row + static_cast<std::uint32_t>(x[i].at)));
  };
  return _mm256_set_m128i(_mm_unpacklo_epi64(pair(2), pair(3)),
                          _mm_unpacklo_epi64(pair(0), pair(1)));
}

/// Eight pixels of a row: their channels as three planes. Each pixel's 8 bytes are in the row.
VECDET_INLINE void weigh_8_pixels(const std::uint8_t* row, const axis_weights* x,
                                  std::uint16_t* plane0, std::uint16_t* plane1,
                                  std::uint16_t* plane2) {
  constexpr char none = -1;
  // Channel c of both pixels of a pair, as two 16-bit numbers.
  const __m256i channels_01 = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, none, 3, none, 1, none, 4, none, 8, none, 11, none, 9, none, 12, none));
  const __m256i channel_2_lower = _mm256_broadcastsi128_si256(_mm_setr_epi8(
      2, none, 5, none, none, none, none, none, 10, none, 13, none, none, none, none, none));
  const __m256i channel_2_upper = _mm256_broadcastsi128_si256(_mm_setr_epi8(
      none, none, none, none, 2, none, 5, none, none, none, none, none, 10, none, 13, none));
  const __m256i a = load_pixel_pairs(row, x), b = load_pixel_pairs(row, x + 4);
  // {at, weights} four times: the weights twice.
  const auto both = [](const axis_weights* four) VECDET_INLINE_LAMBDA {
    return _mm256_shuffle_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(four)), 0xf5);
  };
  const __m256i of_a = both(x), of_b = both(x + 4);
  const auto sums = [](__m256i pairs, __m256i weights) VECDET_INLINE_LAMBDA {
    return _mm256_srli_epi32(_mm256_madd_epi16(pairs, weights), 4);
  };
  // 32-bit numbers: channels 0 and 1 of each pixel in turn; channel 2 of pixels i and i + 4 in
  // turn.
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
  _mm_storeu_si128(reinterpret_cast<__m128i*>(plane0), _mm256_castsi256_si128(joined));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(plane1), _mm256_extracti128_si256(joined, 1));
  // a b a b in each half.
  const __m256i sorted =
      _mm256_permutevar8x32_epi32(ab2, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(plane2),
      _mm_packus_epi32(_mm256_castsi256_si128(sorted), _mm256_extracti128_si256(sorted, 1)));
}

/// Sixteen channels of two rows as floats; weights are in 16 bits each.
class row_join {
 public:
  VECDET_INLINE row_join(std::uint32_t weights, float scale, float shift)
      : first_(_mm256_set1_epi16(static_cast<short>(weights & 0xffff))),
        second_(_mm256_set1_epi16(static_cast<short>(weights >> 16))),
        scale_(scale),
        shift_(shift) {}

  VECDET_INLINE void operator()(const std::uint16_t* first, const std::uint16_t* second,
                                float* to) const {
    const auto part = [](const std::uint16_t* row, __m256i weight) VECDET_INLINE_LAMBDA {
      return _mm256_mulhi_epu16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row)), weight);
    };
    const __m256i sum = _mm256_add_epi16(part(first, first_), part(second, second_));
    const __m256i pixels = _mm256_srli_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(2)), 2);
#if defined(VECDET_TARGET_AVX512)
    const __m512 x = _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(pixels));
    store(to, f32_batch(x) * f32_batch(scale_) + f32_batch(shift_));
#else
    const auto convert = [&](__m128i eight) VECDET_INLINE_LAMBDA {
      return f32_batch(_mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(eight))) * f32_batch(scale_) +
             f32_batch(shift_);
    };
    store(to, convert(_mm256_castsi256_si128(pixels)));
    store(to + 8, convert(_mm256_extracti128_si256(pixels, 1)));
#endif
  }

 private:
  __m256i first_, second_;
  float scale_, shift_;
};

#else

class row_join {
 public:
  VECDET_INLINE row_join(std::uint32_t weights, float scale, float shift)
      : weights_(weights), scale_(scale), shift_(shift) {}

  VECDET_INLINE void operator()(const std::uint16_t* first, const std::uint16_t* second,
                                float* to) const {
    for (int i = 0; i < 16; ++i)
      to[i] = joined_pixel(first[i], second[i], weights_) * scale_ + shift_;
  }

 private:
  std::uint32_t weights_;
  float scale_, shift_;
};

VECDET_INLINE void weigh_8_pixels(const std::uint8_t* row, const axis_weights* x,
                                  std::uint16_t* plane0, std::uint16_t* plane1,
                                  std::uint16_t* plane2) {
  for (int i = 0; i < 8; ++i) {
    const std::uint8_t* const pixel = row + x[i].at;
    plane0[i] = weighed(pixel[0], pixel[3], x[i].weights);
    plane1[i] = weighed(pixel[1], pixel[4], x[i].weights);
    plane2[i] = weighed(pixel[2], pixel[5], x[i].weights);
  }
}

#endif

}  // namespace VECDET_TARGET
}  // namespace vecdet
