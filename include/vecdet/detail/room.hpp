// SPDX-License-Identifier: Apache-2.0
// How workspaces grow.
#pragma once

#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The memory of a vector that only grows.
template <class T>
T* room(std::vector<T>& memory, index_t size) {
  if (static_cast<index_t>(memory.size()) < size) memory.resize(static_cast<std::size_t>(size));
  return memory.data();
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
