// SPDX-License-Identifier: Apache-2.0
// The comparison of max pooling, and its result for one row of 16 windows.
#pragma once

#include <vecdet/simd/bytes.hpp>
#include <vecdet/simd/pack.hpp>

#include <cstdint>
#include <limits>

namespace vecdet {
namespace VECDET_TARGET {

/// 16 maxima and their positions in the windows. Positions are kept as numbers of the maxima's
/// width, so that one mask selects both.
template <class Real>
struct pool_maxima {
  row_pack<Real> value, position;

  VECDET_INLINE pool_maxima() : value(-std::numeric_limits<Real>::infinity()) {}

  /// x wins if it is greater, or NaN: the first of equal maxima remains, and the last NaN.
  template <bool HasPositions>
  VECDET_INLINE void add(const row_pack<Real>& x, Real at) {
    const auto is_greater = x > value, is_nan = x != x;
    pack_mask<Real, row_pack<Real>::batches> wins;
    VECDET_UNROLL
    for (int b = 0; b < row_pack<Real>::batches; ++b) wins.v[b] = is_greater.v[b] | is_nan.v[b];
    value = select(wins, x, value);
    if constexpr (HasPositions) position = select(wins, row_pack<Real>(at), position);
  }

  /// Writes the first `size` of 16.
  template <class T>
  VECDET_INLINE void store(T* values, std::uint8_t* positions, index_t size) const {
    constexpr int N = row_pack<Real>::batches;
    if (size == row_lanes) {
      store_pack<N>(values, value);
      if (positions != nullptr) store_bytes(positions, position);
      return;
    }
    alignas(64) T some[row_lanes];
    alignas(64) std::uint8_t at[row_lanes];
    store_pack<N>(some, value);
    store_bytes(at, position);
    for (index_t i = 0; i < size; ++i) values[i] = some[i];
    if (positions == nullptr) return;
    for (index_t i = 0; i < size; ++i) positions[i] = at[i];
  }
};

/// The number of rows of 16 that are computed together: the comparisons of one row wait for each
/// other.
constexpr int pool_rows_at_once = batch_lanes<float> == 4 ? 1 : 2;

/// Writes the maxima of `count` neighbouring windows or channels. start(at) gives the positions of
/// 16 of them, from `at` on, if nothing is above -infinity; load(k, at) gives their inputs at the
/// k-th position, whose number is numbers[k].
template <bool HasPositions, class T, class Start, class Load>
VECDET_INLINE void pool_sixteens(index_t count, const Start& start, index_t positions_in_window,
                                 const compute_type<T>* numbers, const Load& load, T* values,
                                 std::uint8_t* positions) {
  using real = compute_type<T>;
  constexpr int K = pool_rows_at_once;
  for (index_t i = 0; i < count; i += K * row_lanes) {
    // The last rows overlap those before.
    index_t at[K];
    VECDET_UNROLL
    for (int r = 0; r < K; ++r) {
      const index_t last = count - row_lanes, next = i + r * row_lanes;
      at[r] = next < last ? next : last < 0 ? 0 : last;
    }
    pool_maxima<real> maxima[K];
    VECDET_UNROLL
    for (int r = 0; r < K; ++r) maxima[r].position = start(at[r]);
    for (index_t k = 0; k < positions_in_window; ++k) {
      VECDET_UNROLL
      for (int r = 0; r < K; ++r) maxima[r].template add<HasPositions>(load(k, at[r]), numbers[k]);
    }
    VECDET_UNROLL
    for (int r = 0; r < K; ++r)
      maxima[r].store(values + at[r], HasPositions ? positions + at[r] : nullptr,
                      count < row_lanes ? count : index_t{row_lanes});
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
