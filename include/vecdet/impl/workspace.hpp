// SPDX-License-Identifier: Apache-2.0
// Shared by all workspaces: memory that only grows, and access to their buffers.
#pragma once

#include <vecdet/detail/aligned_vector.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The memory of a vector, grown to at least `size` elements.
template <class T, class Allocator>
T* grown(std::vector<T, Allocator>& memory, index_t size) {
  if (static_cast<index_t>(memory.size()) < size) memory.resize(static_cast<std::size_t>(size));
  return memory.data();
}

/// Access to the private buffers of a workspace.
struct workspace_access {
  template <class Workspace>
  static auto& buffers(Workspace& workspace) noexcept {
    return workspace.buffers_;
  }
};

/// Scratch memory. It is not cleared, so that each page belongs to the memory node of the thread
/// that writes it first.
struct alignas(64) cache_line {
  cache_line() noexcept {}
  unsigned char bytes[64];
};

/// The number of cache lines that hold `size` elements.
template <class T>
index_t lines_for(index_t size) noexcept {
  return (size * index_t{sizeof(T)} + 63) / 64;
}

/// grown(), but to exactly `lines`, and without the old contents.
inline cache_line* grown_scratch(aligned_vector<cache_line>& memory, index_t lines) {
  if (static_cast<index_t>(memory.size()) < lines) memory.clear();
  return grown(memory, lines);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
