// SPDX-License-Identifier: Apache-2.0
// The buffers of conv3x3_workspace and conv3x3_weights.
#pragma once

#include <vecdet/args/conv3x3.hpp>
#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/impl/workspace.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

#if defined(__linux__)
// The system's function under a name of its own, because <sys/mman.h> would bring its macros into
// every user's file, and repeating its declaration is an error where exception specifiers differ.
extern "C" int linux_madvise(void* memory, std::size_t bytes, int advice) noexcept
    __asm__("madvise");
constexpr int madv_hugepage = 14;  ///< MADV_HUGEPAGE
#endif

/// grown_scratch(), in huge pages if the system grants them on request and the memory fills a few:
/// with small ones, products wait for their addresses.
inline cache_line* grown_in_huge_pages(aligned_vector<cache_line>& memory, index_t lines) {
  const auto count = static_cast<std::size_t>(lines);
  if (memory.capacity() >= count) return grown_scratch(memory, lines);
  memory.clear();
  memory.reserve(count);
#if defined(__linux__)
  constexpr std::size_t page = 4096, least = std::size_t{4} * 1024 * 1024;
  if (count * sizeof(cache_line) >= least) {
    auto* const first = reinterpret_cast<char*>(memory.data());
    // Up to the first whole page; the memory is aligned to less.
    const auto skipped = (page - reinterpret_cast<std::uintptr_t>(first) % page) % page;
    const auto bytes = memory.capacity() * sizeof(cache_line) - skipped;
    // Only a hint: it changes nothing if the system refuses.
    linux_madvise(first + skipped, bytes / page * page, madv_hugepage);
  }
#endif
  return grown(memory, lines);
}

struct conv3x3_buffers {
  std::vector<conv3x3_level<float>> f32_levels;
  std::vector<conv3x3_level<bfloat16>> bf16_levels;
  std::vector<conv3x3_level<double>> f64_levels;
  aligned_vector<cache_line> scratch, shared;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
