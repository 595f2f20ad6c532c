// SPDX-License-Identifier: Apache-2.0
// Counts the program's calls of operator new; allocations.cpp replaces it.
#pragma once

#include <atomic>
#include <cstdint>

namespace vecdet {
namespace test {

extern std::atomic<std::int64_t> allocations_so_far;

class allocation_count {
 public:
  allocation_count() : start_(allocations_so_far) {}
  std::int64_t since() const { return allocations_so_far - start_; }

 private:
  std::int64_t start_;
};

}  // namespace test
}  // namespace vecdet
