// SPDX-License-Identifier: Apache-2.0
// Neighbouring channels of a location in lanes.
#pragma once

#include <vecdet/simd/pack.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Loads N batches of neighbouring channels, `size` of which exist.
template <int N, bool IsWhole, class T>
VECDET_INLINE pack<compute_type<T>, N> load_channels(const T* from, index_t size) {
  if constexpr (IsWhole) {
    return load_pack<N>(from);
  } else {
    using real = compute_type<T>;
    alignas(64) real lane[pack<real, N>::lanes] = {};
    for (index_t i = 0; i < size; ++i) lane[i] = static_cast<real>(from[i]);
    return load_pack<N>(lane);
  }
}
template <int N, bool IsWhole, class T>
VECDET_INLINE void store_channels(T* to, const pack<compute_type<T>, N>& x, index_t size) {
  if constexpr (IsWhole) {
    store_pack<N>(to, x);
  } else {
    using real = compute_type<T>;
    alignas(64) real lane[pack<real, N>::lanes];
    store_pack<N>(lane, x);
    for (index_t i = 0; i < size; ++i) to[i] = T(lane[i]);
  }
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
