// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(_WIN32)
#include <malloc.h>
#else
#include <dlfcn.h>
#endif

namespace vecdet::test {

namespace {

bool is_in_onetbb([[maybe_unused]] const void* caller) noexcept {
#if defined(_WIN32)
  return false;  // a DLL calls its own operator new
#else
  Dl_info object;
  return dladdr(caller, &object) != 0 && std::strstr(object.dli_fname, "libtbb") != nullptr;
#endif
}

}  // namespace

void allocation_count::note(const void* caller) noexcept {
  if (observers != 0 && !is_in_onetbb(caller)) ++so_far;
}

bool failing_allocation::is_next(const void* caller) noexcept {
  return left != none && !is_in_onetbb(caller) && left.fetch_sub(1) == 0;
}

}  // namespace vecdet::test

namespace {

// Alignment 0 selects malloc's own.
void* allocated(std::size_t size, std::size_t alignment, const void* caller) noexcept {
  vecdet::test::allocation_count::note(caller);
  if (vecdet::test::failing_allocation::is_next(caller)) return nullptr;
  if (size == 0) size = 1;
  if (alignment == 0) return std::malloc(size);
#if defined(_WIN32)
  return _aligned_malloc(size, alignment);
#else
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
#endif
}

void free_aligned(void* memory) noexcept {
#if defined(_WIN32)
  _aligned_free(memory);
#else
  std::free(memory);
#endif
}

void* present(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All C++ allocations go through these. The array forms are replaced as well so that their caller
// is seen, and the nothrow form because a sanitizer has its own.
void* operator new(std::size_t size) {
  return present(allocated(size, 0, __builtin_return_address(0)));
}
void* operator new[](std::size_t size) {
  return present(allocated(size, 0, __builtin_return_address(0)));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocated(size, 0, __builtin_return_address(0));
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocated(size, 0, __builtin_return_address(0));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return present(allocated(size, static_cast<std::size_t>(alignment), __builtin_return_address(0)));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return present(allocated(size, static_cast<std::size_t>(alignment), __builtin_return_address(0)));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free_aligned(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { free_aligned(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free_aligned(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  free_aligned(memory);
}
