// SPDX-License-Identifier: Apache-2.0
// What all workspaces share: memory that only grows, and access to their buffers.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The memory of a vector, of `size` elements at least.
template <class T, class Allocator>
T* grown(std::vector<T, Allocator>& memory, index_t size) {
  if (static_cast<index_t>(memory.size()) < size) memory.resize(static_cast<std::size_t>(size));
  return memory.data();
}

/// The buffers of a workspace, which its user does not see.
struct workspace_access {
  template <class Workspace>
  static auto& buffers(Workspace& workspace) noexcept {
    return workspace.buffers_;
  }
};

struct alignas(64) cache_line {
  unsigned char bytes[64];
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
