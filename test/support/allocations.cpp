// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <cstdlib>
#include <new>

namespace vecdet {
namespace test {
std::atomic<std::int64_t> allocations_so_far{0};
}
}  // namespace vecdet

// The array and nothrow forms call these two; so does everything that owns memory in C++.
void* operator new(std::size_t size) {
  ++vecdet::test::allocations_so_far;
  if (void* memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
