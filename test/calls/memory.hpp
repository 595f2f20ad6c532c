// SPDX-License-Identifier: Apache-2.0
// The memory that holds the operands of calls.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace vecdet::test {

/// Places arrays. Their memory lives as long as this object.
class memory {
 public:
  memory() = default;
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  virtual ~memory() = default;
  /// Returns memory for an array; never null.
  virtual void* take(std::size_t bytes, std::size_t alignment) = 0;
};

/// Ordinary memory, aligned to 64 bytes.
class plain_memory : public memory {
 public:
  void* take(std::size_t bytes, std::size_t) override {
    const std::size_t lines = bytes / sizeof(line) + 1;
    arrays_.push_back(std::make_unique<line[]>(lines));
    return arrays_.back().get();
  }

 private:
  struct alignas(64) line {
    char bytes[64];
  };
  std::vector<std::unique_ptr<line[]>> arrays_;
};

}  // namespace vecdet::test
