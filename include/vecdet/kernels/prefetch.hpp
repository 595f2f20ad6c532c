// SPDX-License-Identifier: Apache-2.0
// Prefetching of streams.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

// Further ahead than the hardware prefetcher, which stops at pages.
constexpr std::uintptr_t stream_ahead = 6144;

/// Prefetches the cache line some bytes behind an address, which may be outside the caller's
/// memory.
VECDET_INLINE void prefetch_behind(const void* address, std::uintptr_t bytes) {
  const std::uintptr_t behind = reinterpret_cast<std::uintptr_t>(address) + bytes;
  // The sum is not used as a pointer into the array. NOLINTNEXTLINE(performance-no-int-to-ptr)
  __builtin_prefetch(reinterpret_cast<const void*>(behind), 0, 0);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
