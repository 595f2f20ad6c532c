// SPDX-License-Identifier: Apache-2.0
// Copies locations of a map in either layout to rows of 16 channels, and back.
#pragma once

#include <vecdet/simd/pack.hpp>
#include <vecdet/simd/transpose.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Copies `columns` locations from `from` on to rows of 16 channels, of which `channels` exist; the
/// others become 0. `location` and `channel` are the distances between neighbours.
template <class T>
VECDET_INLINE void gather_channel_rows(const T* from, index_t location, index_t channel,
                                       index_t channels, index_t columns, compute_type<T>* to) {
  using number = compute_type<T>;
  constexpr index_t lanes = row_lanes;
  if (location == 1 && channel != 1) {
    to_channel_rows(from, channel, channels, columns, to);
  } else if (channels == lanes && channel == 1) {
    constexpr int N = row_pack<number>::batches;
    for (index_t x = 0; x < columns; ++x)
      store_pack<N>(to + x * lanes, load_pack<N>(from + x * location));
  } else {
    for (index_t x = 0; x < columns; ++x)
      for (index_t c = 0; c < lanes; ++c)
        to[x * lanes + c] = c < channels ? number(from[x * location + c * channel]) : number(0);
  }
}

/// The inverse. It rounds if T is bfloat16.
template <class T>
VECDET_INLINE void scatter_channel_rows(const compute_type<T>* from, index_t columns,
                                        index_t channels, T* to, index_t location,
                                        index_t channel) {
  constexpr index_t lanes = row_lanes;
  if (location == 1 && channel != 1) {
    from_channel_rows(from, columns, channels, to, channel);
  } else if (channels == lanes && channel == 1) {
    constexpr int N = row_pack<compute_type<T>>::batches;
    for (index_t x = 0; x < columns; ++x)
      store_pack<N>(to + x * location, load_pack<N>(from + x * lanes));
  } else {
    for (index_t x = 0; x < columns; ++x)
      for (index_t c = 0; c < channels; ++c)
        to[x * location + c * channel] = T(from[x * lanes + c]);
  }
}

/// Writes zeros to rows [first, last).
template <class Real>
VECDET_INLINE void clear_channel_rows(Real* rows, index_t first, index_t last) {
  for (index_t x = first; x < last; ++x)
    store_pack<row_pack<Real>::batches>(rows + x * row_lanes, row_pack<Real>(Real(0)));
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
