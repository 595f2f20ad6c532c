// SPDX-License-Identifier: Apache-2.0
// Planes of numbers as rows of 16 channels, and back: a 16 x 4 block at a time, in float.
#pragma once

#include <vecdet/simd/pack.hpp>
#include <vecdet/simd/shuffles.hpp>

#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

template <class T, class Real>
VECDET_INLINE void convert(const T* from, index_t size, Real* to) {
  constexpr int N = row_pack<Real>::batches;
  index_t i = 0;
  for (; i + row_lanes <= size; i += row_lanes) store_pack<N>(to + i, load_pack<N>(from + i));
  for (; i < size; ++i) to[i] = static_cast<Real>(from[i]);
}
/// Rounds where T is bfloat16.
template <class T, class Real>
VECDET_INLINE void convert_back(const Real* from, index_t size, T* to) {
  constexpr int N = row_pack<Real>::batches;
  index_t i = 0;
  for (; i + row_lanes <= size; i += row_lanes) store_pack<N>(to + i, load_pack<N>(from + i));
  for (; i < size; ++i) to[i] = T(from[i]);
}

// load_quads: a batch of the four numbers at at(0), the four at at(1), for as many as it holds.
// store_quads writes them back.
#if defined(VECDET_TARGET_AVX512)
template <class At>
VECDET_INLINE f32_batch load_quads(const At& at) {
  const __m256 lower =
      _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(at(0))), _mm_loadu_ps(at(1)), 1);
  const __m256 upper =
      _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(at(2))), _mm_loadu_ps(at(3)), 1);
  return _mm512_insertf32x8(_mm512_castps256_ps512(lower), upper, 1);
}
template <class At>
VECDET_INLINE void store_quads(const At& at, f32_batch x) {
  _mm_storeu_ps(at(0), _mm512_castps512_ps128(x));
  _mm_storeu_ps(at(1), _mm512_extractf32x4_ps(x, 1));
  _mm_storeu_ps(at(2), _mm512_extractf32x4_ps(x, 2));
  _mm_storeu_ps(at(3), _mm512_extractf32x4_ps(x, 3));
}
#elif defined(VECDET_TARGET_AVX2)
template <class At>
VECDET_INLINE f32_batch load_quads(const At& at) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(at(0))), _mm_loadu_ps(at(1)), 1);
}
template <class At>
VECDET_INLINE void store_quads(const At& at, f32_batch x) {
  _mm_storeu_ps(at(0), _mm256_castps256_ps128(x));
  _mm_storeu_ps(at(1), _mm256_extractf128_ps(x, 1));
}
#else
template <class At>
VECDET_INLINE f32_batch load_quads(const At& at) {
  return load(at(0));
}
template <class At>
VECDET_INLINE void store_quads(const At& at, f32_batch x) {
  store(at(0), x);
}
#endif

/// Four numbers of each of 16 channels, which lie `stride` apart, as four rows of 16.
VECDET_INLINE void transpose_block(const float* from, index_t stride, float* to) {
  constexpr int lanes = batch_lanes<float>, fours = lanes / 4;
  VECDET_UNROLL
  for (int b = 0; b < row_pack<float>::batches; ++b) {
    f32_batch r[4];
    // Fours of channels 0, 4, 8, 12, then 1, 5, 9, 13, so that channels come out in their order.
    VECDET_UNROLL
    for (int i = 0; i < 4; ++i)
      r[i] = load_quads([&](int k) { return from + (lanes * b + i + 4 * k) * stride; });
    transpose4(r);
    VECDET_UNROLL
    for (int i = 0; i < 4; ++i) store(to + i * row_lanes + 4 * fours * b, r[i]);
  }
}
VECDET_INLINE void transpose_block_back(const float* from, float* to, index_t stride) {
  constexpr int lanes = batch_lanes<float>;
  VECDET_UNROLL
  for (int b = 0; b < row_pack<float>::batches; ++b) {
    f32_batch r[4];
    VECDET_UNROLL
    for (int i = 0; i < 4; ++i) r[i] = load(from + i * row_lanes + lanes * b);
    transpose4(r);
    VECDET_UNROLL
    for (int i = 0; i < 4; ++i)
      store_quads([&](int k) { return to + (lanes * b + i + 4 * k) * stride; }, r[i]);
  }
}

/// Columns that bfloat16 is converted of before it is transposed, and after.
constexpr index_t transposed_columns = 64;

/// Row x of 16 `to` becomes from[c * stride + x] of every channel c, and 0 of those beyond.
template <class T, class Real>
void to_channel_rows(const T* from, index_t stride, index_t channels, index_t columns, Real* to) {
  if constexpr (std::is_same<Real, float>::value) {
    if (channels == row_lanes && columns >= 4) {
      if constexpr (std::is_same<T, float>::value) {
        for (index_t x = 0; x + 4 <= columns; x += 4)
          transpose_block(from + x, stride, to + x * row_lanes);
        // The last block overlaps the one before it.
        if (columns % 4 != 0)
          transpose_block(from + columns - 4, stride, to + (columns - 4) * row_lanes);
      } else {
        alignas(64) float converted[row_lanes * transposed_columns];
        for (index_t x = 0; x < columns; x += transposed_columns) {
          const index_t size = columns - x < transposed_columns ? columns - x : transposed_columns;
          for (index_t c = 0; c < channels; ++c)
            convert(from + c * stride + x, size, converted + c * transposed_columns);
          to_channel_rows(converted, transposed_columns, channels, size, to + x * row_lanes);
        }
      }
      return;
    }
  }
  for (index_t x = 0; x < columns; ++x)
    for (index_t c = 0; c < row_lanes; ++c)
      to[x * row_lanes + c] = c < channels ? static_cast<Real>(from[c * stride + x]) : Real(0);
}

/// The way back: to[c * stride + x] from rows of 16.
template <class T, class Real>
void from_channel_rows(const Real* from, index_t columns, index_t channels, T* to, index_t stride) {
  if constexpr (std::is_same<Real, float>::value) {
    if (channels == row_lanes && columns >= 4) {
      if constexpr (std::is_same<T, float>::value) {
        for (index_t x = 0; x + 4 <= columns; x += 4)
          transpose_block_back(from + x * row_lanes, to + x, stride);
        if (columns % 4 != 0)
          transpose_block_back(from + (columns - 4) * row_lanes, to + columns - 4, stride);
      } else {
        alignas(64) float converted[row_lanes * transposed_columns];
        for (index_t x = 0; x < columns; x += transposed_columns) {
          const index_t size = columns - x < transposed_columns ? columns - x : transposed_columns;
          from_channel_rows(from + x * row_lanes, size, channels, converted, transposed_columns);
          for (index_t c = 0; c < channels; ++c)
            convert_back(converted + c * transposed_columns, size, to + c * stride + x);
        }
      }
      return;
    }
  }
  for (index_t c = 0; c < channels; ++c)
    for (index_t x = 0; x < columns; ++x) to[c * stride + x] = T(from[x * row_lanes + c]);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
