// SPDX-License-Identifier: Apache-2.0
// Transposes planes of numbers into rows of 16 channels and back: blocks of 16 x 4 numbers of
// float, or 16 x 8 of bfloat16, which become rows of float.
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
/// Rounds if T is bfloat16.
template <class T, class Real>
VECDET_INLINE void convert_back(const Real* from, index_t size, T* to) {
  constexpr int N = row_pack<Real>::batches;
  index_t i = 0;
  for (; i + row_lanes <= size; i += row_lanes) store_pack<N>(to + i, load_pack<N>(from + i));
  for (; i < size; ++i) to[i] = T(from[i]);
}

// load_quads: a batch from the four numbers at at(0), the four at at(1), and so on. store_quads
// writes them back.
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

/// Four numbers of each of 16 channels, `stride` apart, as four rows of 16.
VECDET_INLINE void transpose_block(const float* from, index_t stride, float* to) {
  constexpr int lanes = batch_lanes<float>, fours = lanes / 4;
  VECDET_UNROLL
  for (int b = 0; b < row_pack<float>::batches; ++b) {
    f32_batch r[4];
    // Fours of channels 0, 4, 8, 12, then 1, 5, 9, 13: channels then come out in order.
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

/// The inverse for as many columns as a batch has. Batches of the planes are stored whole: planes
/// are often a multiple of 4 KiB apart, so that the lines of 16 channels do not stay in the
/// first-level cache together.
VECDET_INLINE void transpose_batches_back(const float* from, float* to, index_t stride) {
  for (index_t c = 0; c < row_lanes; c += 4) {
    f32_batch r[4];
    VECDET_UNROLL
    for (int i = 0; i < 4; ++i)
      r[i] = load_quads([&](int k) { return from + (i + 4 * k) * row_lanes + c; });
    transpose4(r);
    VECDET_UNROLL
    for (int i = 0; i < 4; ++i) store(to + (c + i) * stride, r[i]);
  }
}

/// The same for bfloat16: eight numbers of each channel as eight rows of float, and back. Pairs of
/// numbers are transposed like floats.
VECDET_INLINE void transpose_block(const bfloat16* from, index_t stride, float* to) {
  constexpr int lanes = batch_lanes<float>;
  VECDET_UNROLL
  for (int b = 0; b < row_pack<float>::batches; ++b) {
    f32_batch r[4];
    VECDET_UNROLL
    for (int i = 0; i < 4; ++i)
      r[i] = load_quads([&](int k) {
        return reinterpret_cast<const float*>(from + (lanes * b + i + 4 * k) * stride);
      });
    transpose4(r);
    VECDET_UNROLL
    for (int i = 0; i < 4; ++i) {
      f32_batch first, second;
      split_pairs(r[i], first, second);
      store(to + 2 * i * row_lanes + lanes * b, first);
      store(to + (2 * i + 1) * row_lanes + lanes * b, second);
    }
  }
}
VECDET_INLINE void transpose_block_back(const float* from, bfloat16* to, index_t stride) {
  constexpr int lanes = batch_lanes<float>;
  VECDET_UNROLL
  for (int b = 0; b < row_pack<float>::batches; ++b) {
    f32_batch r[4];
    VECDET_UNROLL
    for (int i = 0; i < 4; ++i)
      r[i] = join_pairs(load(from + 2 * i * row_lanes + lanes * b),
                        load(from + (2 * i + 1) * row_lanes + lanes * b));
    transpose4(r);
    VECDET_UNROLL
    for (int i = 0; i < 4; ++i)
      store_quads(
          [&](int k) { return reinterpret_cast<float*>(to + (lanes * b + i + 4 * k) * stride); },
          r[i]);
  }
}

/// The number of columns in a block: those in 16 bytes.
template <class T>
constexpr index_t block_columns = 16 / index_t{sizeof(T)};

/// Row x of 16 in `to` becomes from[c * stride + x] for every channel c; missing channels become 0.
template <class T, class Real>
void to_channel_rows(const T* from, index_t stride, index_t channels, index_t columns, Real* to) {
  if constexpr (std::is_same<Real, float>::value) {
    constexpr index_t block = block_columns<T>;
    if (channels == row_lanes && columns >= block) {
      for (index_t x = 0; x + block <= columns; x += block)
        transpose_block(from + x, stride, to + x * row_lanes);
      // The last block overlaps the one before.
      if (columns % block != 0)
        transpose_block(from + columns - block, stride, to + (columns - block) * row_lanes);
      return;
    }
  }
  for (index_t x = 0; x < columns; ++x)
    for (index_t c = 0; c < row_lanes; ++c)
      to[x * row_lanes + c] = c < channels ? static_cast<Real>(from[c * stride + x]) : Real(0);
}

/// The inverse: to[c * stride + x] from rows of 16.
template <class T, class Real>
void from_channel_rows(const Real* from, index_t columns, index_t channels, T* to, index_t stride) {
  if constexpr (std::is_same<Real, float>::value) {
    constexpr index_t block = block_columns<T>;
    if (channels == row_lanes && columns >= block) {
      index_t x = 0;
      if constexpr (std::is_same<T, float>::value)
        for (; x + batch_lanes<float> <= columns; x += batch_lanes<float>)
          transpose_batches_back(from + x * row_lanes, to + x, stride);
      for (; x + block <= columns; x += block)
        transpose_block_back(from + x * row_lanes, to + x, stride);
      if (columns % block != 0)
        transpose_block_back(from + (columns - block) * row_lanes, to + columns - block, stride);
      return;
    }
  }
  for (index_t c = 0; c < channels; ++c)
    for (index_t x = 0; x < columns; ++x) to[c * stride + x] = T(from[x * row_lanes + c]);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
