// SPDX-License-Identifier: Apache-2.0
// Memory in which accesses out of bounds are detected: right before or after an inaccessible page,
// or at a chosen distance from an aligned address.
#pragma once

#include "../calls/memory.hpp"
#include <vecdet/views.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#if defined(_WIN32)
// Instead of <windows.h>, which defines hundreds of macros.
extern "C" __declspec(dllimport) void* __stdcall VirtualAlloc(void*, std::size_t, unsigned long,
                                                              unsigned long);
extern "C" __declspec(dllimport) int __stdcall VirtualFree(void*, std::size_t, unsigned long);
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace vecdet::test {

/// Pages of memory. The functions reserve inaccessible ones, make some of them accessible, and free
/// all of a reservation.
struct pages {
#if defined(_WIN32)
  static std::size_t size() { return 4096; }
  static char* reserved(std::size_t bytes) {
    constexpr unsigned long reserve = 0x2000, no_access = 1;
    return static_cast<char*>(VirtualAlloc(nullptr, bytes, reserve, no_access));
  }
  static bool open(char* first, std::size_t bytes) {
    constexpr unsigned long commit = 0x1000, read_write = 4;
    return VirtualAlloc(first, bytes, commit, read_write) != nullptr;
  }
  static void free(char* first, std::size_t) {
    constexpr unsigned long release = 0x8000;
    VirtualFree(first, 0, release);
  }
#else
  static std::size_t size() {
    static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
  }
  static char* reserved(std::size_t bytes) {
    void* first = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return first == MAP_FAILED ? nullptr : static_cast<char*>(first);
  }
  static bool open(char* first, std::size_t bytes) {
    return mprotect(first, bytes, PROT_READ | PROT_WRITE) == 0;
  }
  static void free(char* first, std::size_t bytes) { munmap(first, bytes); }
#endif
};

/// The position of an array.
struct placement {
  enum kind { ends_at_guard, starts_at_guard, offset } where;
  /// For offset: the distance from a multiple of 4096, rounded up to a multiple of the type's
  /// alignment.
  index_t bytes = 0;
};

/// Returns arrays at one placement, each between two inaccessible pages. Pages are kept until the
/// object is destroyed, and used again after release().
class placed_memory : public memory {
 public:
  ~placed_memory() override {
    for (const region& r : regions_) pages::free(r.guard, r.size + 2 * pages::size());
  }

  placement place{placement::offset};

  /// All bytes are 0xa5.
  void* take(std::size_t bytes, std::size_t alignment) override {
    const std::size_t offset =
        (static_cast<std::size_t>(place.bytes) + alignment - 1) / alignment * alignment;
    const region& r = take_region(bytes + offset);
    char* first = r.guard + pages::size();
    if (place.where == placement::ends_at_guard) first += r.size - bytes;
    if (place.where == placement::offset) first += offset;
    std::memset(first, 0xa5, bytes);
    return first;
  }

  /// `count` elements.
  template <class T>
  T* make(index_t count) {
    return static_cast<T*>(take(static_cast<std::size_t>(count) * sizeof(T), alignof(T)));
  }

  template <class T>
  T* copy(const std::vector<T>& from) {
    T* to = make<T>(static_cast<index_t>(from.size()));
    if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
    return to;
  }

  /// Frees all arrays returned so far.
  void release() { taken_ = 0; }

 private:
  struct region {
    char* guard;
    std::size_t size;  // between the guards
  };

  const region& take_region(std::size_t bytes) {
    for (std::size_t i = taken_; i < regions_.size(); ++i) {
      if (regions_[i].size < bytes) continue;
      std::swap(regions_[i], regions_[taken_]);
      return regions_[taken_++];
    }
    const std::size_t page = pages::size(), size = (bytes / page + 1) * page;
    char* guard = pages::reserved(size + 2 * page);
    if (guard == nullptr || !pages::open(guard + page, size)) throw std::bad_alloc();
    regions_.push_back({guard, size});
    std::swap(regions_.back(), regions_[taken_]);
    return regions_[taken_++];
  }

  std::vector<region> regions_;
  std::size_t taken_ = 0;
};

}  // namespace vecdet::test
