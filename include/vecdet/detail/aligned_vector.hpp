// SPDX-License-Identifier: Apache-2.0
// A vector whose memory has the alignment of its elements, with every compiler.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstddef>
#include <new>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// With Clang 14 and -std=c++2b, std::allocator treats every call as if at compile time, and then
/// does not align beyond operator new's alignment.
template <class T>
struct aligned_allocator {
  using value_type = T;

  aligned_allocator() = default;
  template <class U>
  aligned_allocator(const aligned_allocator<U>&) noexcept {}

  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{alignof(T)}));
  }
  void deallocate(T* memory, std::size_t) noexcept {
    ::operator delete (memory, std::align_val_t{alignof(T)});
  }
};
template <class T, class U>
bool operator==(const aligned_allocator<T>&, const aligned_allocator<U>&) noexcept {
  return true;
}
template <class T, class U>
bool operator!=(const aligned_allocator<T>&, const aligned_allocator<U>&) noexcept {
  return false;
}

template <class T>
using aligned_vector = std::vector<T, aligned_allocator<T>>;

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
