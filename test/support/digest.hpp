// SPDX-License-Identifier: Apache-2.0
// A hash of results.
#pragma once

#include "random.hpp"
#include "values.hpp"
#include <vecdet/dispatch.hpp>

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace vecdet {
namespace test {

/// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/
class digest {
 public:
  template <class T>
  void add(const T* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      T value = values[i];
      if (value != value) value = to<T>(0.125);  // the sign of a NaN is no result: Arm's differs
      const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
      for (std::size_t k = 0; k < sizeof(T); ++k) hash_ = (hash_ ^ bytes[k]) * 0x100000001b3u;
    }
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size());
  }
  void add(double value) { add(&value, 1); }

  void print(isa set, const std::string& what) const {
    std::printf("%s %s %016" PRIx64 "\n", isa_name(set), what.c_str(), hash_);
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

template <class T>
std::vector<T> finite_logits(index_t count, std::uint64_t seed) {
  random_generator generator(seed);
  std::vector<T> logits(static_cast<std::size_t>(count));
  for (T& x : logits) x = to<T>(generator.uniform(-30, 30));
  return logits;
}

}  // namespace test
}  // namespace vecdet
