// SPDX-License-Identifier: Apache-2.0
// Packs and bits: the truth values of a pack as the bits of an integer, and operations controlled
// by such bits. Bit i belongs to lane i.
#pragma once

#include <vecdet/simd/pack.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

/// The truth values of a batch of numbers of 4 or 8 bytes.
template <class T>
VECDET_INLINE std::uint32_t batch_bits(const batch_mask<T>& mask) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "");
#if defined(VECDET_TARGET_AVX512)
  return static_cast<std::uint32_t>(static_cast<typename batch_mask<T>::register_type>(mask));
#elif defined(VECDET_TARGET_AVX2)
  const typename batch_mask<T>::register_type raw = mask;
  if constexpr (sizeof(T) == 4)
    return static_cast<std::uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(raw)));
  else
    return static_cast<std::uint32_t>(_mm256_movemask_pd(reinterpret_cast<__m256d>(raw)));
#elif defined(__x86_64__)
  const typename batch_mask<T>::register_type raw = mask;
  if constexpr (sizeof(T) == 4)
    return static_cast<std::uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(raw)));
  else
    return static_cast<std::uint32_t>(_mm_movemask_pd(reinterpret_cast<__m128d>(raw)));
#else
  alignas(64) T lane[batch_lanes<T>];
  xsimd::select(mask, batch<T>(T(1)), batch<T>(T(0))).store_aligned(lane);
  std::uint32_t bits = 0;
  for (int i = 0; i < batch_lanes<T>; ++i) bits |= std::uint32_t{lane[i] != 0} << i;
  return bits;
#endif
}

/// The truth values of a pack of at most 32 lanes.
template <class T, int N>
VECDET_INLINE std::uint32_t to_bits(const pack_mask<T, N>& mask) {
  static_assert(N * batch_lanes<T> <= 32, "one bit per lane");
  std::uint32_t bits = 0;
  VECDET_UNROLL
  for (int i = 0; i < N; ++i) bits |= batch_bits<T>(mask.v[i]) << (i * batch_lanes<T>);
  return bits;
}

/// Bit i: whether integer i of the 16 at `from` equals a or b. A vector may be loaded from memory
/// of any type.
template <class Int>
VECDET_INLINE std::uint32_t either_of_16(const void* from, Int a, Int b) {
  const Int* const x = static_cast<const Int*>(from);
  std::uint32_t bits = 0;
#if defined(__x86_64__) && defined(VECDET_TARGET_BASELINE)
  if constexpr (sizeof(Int) == 8) {
    // SSE2 cannot compare 8-byte integers: compare the lower and the upper halves of four integers
    // separately.
    const auto is = [](__m128 lower, __m128 upper, Int value) VECDET_INLINE_LAMBDA {
      const __m128i low = _mm_set1_epi32(static_cast<int>(value));
      const __m128i high = _mm_set1_epi32(static_cast<int>(value >> 32));
      return _mm_and_si128(_mm_cmpeq_epi32(_mm_castps_si128(lower), low),
                           _mm_cmpeq_epi32(_mm_castps_si128(upper), high));
    };
    VECDET_UNROLL
    for (int k = 0; k < 16; k += 4) {
      const __m128 first = _mm_loadu_ps(reinterpret_cast<const float*>(x + k));
      const __m128 second = _mm_loadu_ps(reinterpret_cast<const float*>(x + k + 2));
      const __m128 lower = _mm_shuffle_ps(first, second, 0x88);
      const __m128 upper = _mm_shuffle_ps(first, second, 0xdd);
      const __m128i either = _mm_or_si128(is(lower, upper, a), is(lower, upper, b));
      bits |= static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(either))) << k;
    }
    return bits;
  }
#endif
  VECDET_UNROLL
  for (int k = 0; k < 16; k += batch_lanes<Int>) {
    const auto some = batch<Int>::load_unaligned(x + k);
    bits |= batch_bits<Int>((some == batch<Int>(a)) | (some == batch<Int>(b))) << k;
  }
  return bits;
}

VECDET_INLINE int lowest_bit(std::uint32_t bits) { return __builtin_ctz(bits); }
VECDET_INLINE int count_bits(std::uint32_t bits) {
#if defined(VECDET_TARGET_AVX512) || defined(VECDET_TARGET_AVX2) || !defined(__x86_64__)
  return __builtin_popcount(bits);
#else
  // Without the instruction, the compiler would call a library function.
  bits -= (bits >> 1) & 0x55555555u;
  bits = (bits & 0x33333333u) + ((bits >> 2) & 0x33333333u);
  return static_cast<int>((((bits + (bits >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24);
#endif
}

template <class T, int N>
VECDET_INLINE pack_mask<T, N> operator&(const pack_mask<T, N>& a, const pack_mask<T, N>& b) {
  return map_mask<T, N>([](auto x, auto y) VECDET_INLINE_LAMBDA { return x & y; }, a, b);
}
template <class T, int N>
VECDET_INLINE pack_mask<T, N> operator|(const pack_mask<T, N>& a, const pack_mask<T, N>& b) {
  return map_mask<T, N>([](auto x, auto y) VECDET_INLINE_LAMBDA { return x | y; }, a, b);
}

/// Writes 1 or 0 for each of the lower 16 bits.
VECDET_INLINE void write_bits_as_bytes(std::uint32_t bits, std::uint8_t* to) {
  VECDET_UNROLL
  for (int half = 0; half < 2; ++half) {
    // Multiplication makes seven copies of the lower bits, each shifted by seven more, which put
    // bit i into byte i; bit 7 follows.
    const std::uint64_t eight = (bits >> (8 * half)) & 0xff;
    const std::uint64_t spread =
        (((eight & 0x7f) * 0x0002040810204081u) & 0x0101010101010101u) | ((eight >> 7) << 56);
    std::memcpy(to + 8 * half, &spread, 8);
  }
}

/// Writes first + i, ascending, for every set bit i of `bits`, and returns how many there are. Only
/// the lower 16 bits may be set. Up to 16 numbers are written in any case.
VECDET_INLINE int write_set_bits(std::uint32_t bits, std::uint32_t first, std::uint32_t* to) {
#if defined(VECDET_TARGET_AVX512)
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i number = _mm512_add_epi32(lane, _mm512_set1_epi32(static_cast<int>(first)));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(bits), number));
#else
  for (std::uint32_t left = bits; left != 0; left &= left - 1)
    *to++ = first + static_cast<std::uint32_t>(lowest_bit(left));
#endif
  return count_bits(bits);
}

/// Moves the elements of the set bits i of from[0, 16) to the front of `to`, where 16 are written.
/// `to` may be `from`, or precede it in the same array.
template <class T>
VECDET_INLINE void compress16(const T* from, std::uint32_t bits, T* to) {
#if defined(VECDET_TARGET_AVX512)
  const auto mask = static_cast<__mmask16>(bits);
  if constexpr (sizeof(T) == 4) {
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(mask, _mm512_loadu_si512(from)));
  } else {
    const auto upper_mask = static_cast<__mmask8>(mask >> 8);
    const __m512i lower =
        _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), _mm512_loadu_si512(from));
    const __m512i upper = _mm512_maskz_compress_epi64(upper_mask, _mm512_loadu_si512(from + 8));
    _mm512_storeu_si512(to, lower);
    _mm512_storeu_si512(to + count_bits(bits & 0xff), upper);
  }
#else
  for (; bits != 0; bits &= bits - 1) *to++ = from[lowest_bit(bits)];
#endif
}

#if defined(VECDET_TARGET_AVX2)
/// Folds 16 numbers: two batches lane by lane, then the halves of a batch until one number is left.
template <class Fold>
VECDET_INLINE float folded(const float* x, const Fold& fold) {
  const f32_batch eight = fold(load(x), load(x + 8));
  const __m256 upper = _mm256_permute2f128_ps(eight, eight, 1);
  const f32_batch four = fold(eight, f32_batch(upper));
  const f32_batch two = fold(four, f32_batch(_mm256_permute_ps(four, 0x4e)));
  return _mm256_cvtss_f32(fold(two, f32_batch(_mm256_permute_ps(two, 0xb1))));
}
#endif

/// The minimum and the maximum of 16 numbers that are not NaN.
template <class T>
VECDET_INLINE T least16(const T* x) {
#if defined(VECDET_TARGET_AVX512)
  if constexpr (std::is_same<T, float>::value) return _mm512_reduce_min_ps(_mm512_loadu_ps(x));
#elif defined(VECDET_TARGET_AVX2)
  if constexpr (std::is_same<T, float>::value)
    return folded(
        x, [](f32_batch a, f32_batch b) VECDET_INLINE_LAMBDA { return VECDET_TARGET::min(a, b); });
#endif
  T least = x[0];
  for (int i = 1; i < 16; ++i) least = x[i] < least ? x[i] : least;
  return least;
}
template <class T>
VECDET_INLINE T greatest16(const T* x) {
#if defined(VECDET_TARGET_AVX512)
  if constexpr (std::is_same<T, float>::value) return _mm512_reduce_max_ps(_mm512_loadu_ps(x));
#elif defined(VECDET_TARGET_AVX2)
  if constexpr (std::is_same<T, float>::value)
    return folded(
        x, [](f32_batch a, f32_batch b) VECDET_INLINE_LAMBDA { return VECDET_TARGET::max(a, b); });
#endif
  T greatest = x[0];
  for (int i = 1; i < 16; ++i) greatest = x[i] > greatest ? x[i] : greatest;
  return greatest;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
