// SPDX-License-Identifier: Apache-2.0
// Keeps freed memory in the process, so that large arrays do not come from the kernel again and
// again.
//
// glibc's malloc maps every array above 32 MB anew and unmaps it when it is freed. Each first write
// to a page then faults, and the kernel fills the page with zeros. A trainer allocates gradients
// and activations of such sizes in every step: for a focal loss, the faults take longer than the
// loss.
#pragma once

#include <vecdet/detail/target.hpp>

#if defined(__linux__)
#include <malloc.h>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

/// Makes malloc serve arrays of every size from memory that it keeps after free(). Call it once, at
/// the start of main(). The process then holds on to the most memory that it has used at one time.
/// @return whether it took effect: true with glibc, false with other C libraries, where nothing
///     changes. An allocator that replaces glibc's, such as jemalloc, is not affected.
inline bool keep_memory() noexcept {
#if defined(__GLIBC__)
  constexpr int never = -1;
  return mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, never) == 1;
#else
  return false;
#endif
}

}  // namespace VECDET_ABI
}  // namespace vecdet
