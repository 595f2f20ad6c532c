// SPDX-License-Identifier: Apache-2.0
// Keeps freed memory in the process, so that large arrays are not requested from the kernel again
// and again.
//
// glibc's malloc calls mmap for every array above 32 MB and munmap when it is freed. The first
// write to each page then faults, and the kernel fills the page with zeros. A trainer allocates
// gradients and activations of such sizes in every step. For a focal loss, the page faults take
// longer than the loss itself.
//
// By default, threads other than the main one allocate from arenas of their own, whose pieces hold
// at most 64 MiB: glibc calls mmap for larger arrays there, whatever its settings. Therefore glibc
// makes no further arenas after this call.
#pragma once

#include <vecdet/detail/target.hpp>

#if defined(__linux__)
#include <malloc.h>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

/// Makes malloc reuse freed memory for arrays of every size. Call it once, at the start of main().
/// The process then never returns memory to the kernel, so its size stays at the peak. All threads
/// share one arena, so threads wait for each other when they allocate or free more than about 1 KB
/// at the same time. Call it before any other thread allocates: the arena of such a thread stays,
/// also after it has ended, and later threads may get it. Arrays above 64 MiB are still mapped anew
/// each time there.
/// @return whether glibc has taken the settings; false with other C libraries, where nothing
///     changes. An allocator that replaces glibc's, such as jemalloc, is not affected.
inline bool keep_memory() noexcept {
#if defined(__GLIBC__)
  constexpr int never = -1;
  return mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, never) == 1 &&
         mallopt(M_ARENA_MAX, 1) == 1;
#else
  return false;
#endif
}

}  // namespace VECDET_ABI
}  // namespace vecdet
