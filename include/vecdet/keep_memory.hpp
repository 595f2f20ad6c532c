// SPDX-License-Identifier: Apache-2.0
// Keeps freed memory in the process, so that large arrays are not requested from the kernel again
// and again.
//
// glibc's malloc calls mmap for every array above 32 MB and munmap when it is freed. The first
// write to each page then faults, and the kernel fills the page with zeros. A trainer allocates
// gradients and activations of such sizes in every step. For a focal loss, the page faults take
// longer than the loss itself.
#pragma once

#include <vecdet/detail/target.hpp>

#if defined(__linux__)
#include <malloc.h>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

/// Makes malloc reuse freed memory for arrays of every size. Call it once, at the start of main().
/// The process then never returns memory to the kernel, so its size stays at the peak.
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
