// SPDX-License-Identifier: Apache-2.0
// Counts the program's calls of operator new, or lets one of them fail; allocations.cpp replaces
// it.
#pragma once

#include <atomic>
#include <cstdint>

namespace vecdet::test {

/// How often any thread has called operator new since construction. oneTBB's own calls do not
/// count, because it may create its worker threads long after the call that needed them.
class allocation_count {
 public:
  allocation_count() : start_(so_far) { ++observers; }
  ~allocation_count() { --observers; }
  allocation_count(const allocation_count&) = delete;
  allocation_count& operator=(const allocation_count&) = delete;

  std::int64_t since() const { return so_far - start_; }

  /// Notes a call of operator new that returns to `caller`.
  static void note(const void* caller) noexcept;

 private:
  inline static std::atomic<std::int64_t> so_far{0};
  inline static std::atomic<int> observers{0};
  std::int64_t start_;
};

/// While it exists, the allocation with this number (0 is the next one) throws std::bad_alloc, on
/// any thread. oneTBB's own allocations never fail.
class failing_allocation {
 public:
  explicit failing_allocation(std::int64_t number) { left = number; }
  ~failing_allocation() { left = none; }
  failing_allocation(const failing_allocation&) = delete;
  failing_allocation& operator=(const failing_allocation&) = delete;

  bool has_failed() const { return left < 0; }

  /// Whether the call of operator new that returns to `caller` must fail.
  static bool is_next(const void* caller) noexcept;

 private:
  static constexpr std::int64_t none = -1;
  inline static std::atomic<std::int64_t> left{none};
};

}  // namespace vecdet::test
