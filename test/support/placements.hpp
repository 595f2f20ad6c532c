// SPDX-License-Identifier: Apache-2.0
// Runs a call with its arrays at every placement: before and after inaccessible pages, and at every
// misalignment. Its results are to be the same bytes.
#pragma once

#include "isa.hpp"
#include "placed_memory.hpp"
#include <vecdet/views.hpp>

#include <vector>

#include <doctest/doctest.h>

namespace vecdet {
namespace test {

/// The bytes of all results of a call.
class result_bytes {
 public:
  template <class T>
  void add(const T* values, index_t count) {
    const char* first = reinterpret_cast<const char*>(values);
    bytes_.insert(bytes_.end(), first, first + count * static_cast<index_t>(sizeof(T)));
  }
  template <class T>
  void add(const T& value) {
    add(&value, 1);
  }
  bool operator==(const result_bytes& other) const { return bytes_ == other.bytes_; }

 private:
  std::vector<char> bytes_;
};

/// Runs call(memory, results), which takes all its arrays from `memory`, at every placement on
/// every instruction set, and compares the results with those of aligned memory.
template <class Call>
void check_placements(const Call& call) {
  placed_memory memory;
  for_each_isa([&](isa) {
    const auto results_at = [&](placement place) {
      memory.place = place;
      memory.release();
      result_bytes results;
      call(memory, results);
      return results;
    };
    const result_bytes aligned = results_at({placement::offset, 0});
    CHECK(results_at({placement::ends_at_guard}) == aligned);
    CHECK(results_at({placement::starts_at_guard}) == aligned);
  });
}

/// Likewise at every distance from an aligned address in steps of the element.
template <class T, class Call>
void check_alignments(const Call& call) {
  placed_memory memory;
  for_each_isa([&](isa) {
    result_bytes aligned;
    for (index_t offset = 0; offset < 64; offset += static_cast<index_t>(sizeof(T))) {
      memory.place = {placement::offset, offset};
      memory.release();
      result_bytes results;
      call(memory, results);
      if (offset == 0) aligned = results;
      INFO("offset ", offset, " bytes");
      CHECK(results == aligned);
    }
  });
}

/// Element counts around the lanes of a batch, of a row and of a block.
inline const std::vector<index_t> lengths = {
    1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,  23,  31,  32,  33,  47,  63, 64,
    65, 80, 91, 95, 96, 97, 112, 126, 127, 128, 129, 130, 255, 256, 257, 383, 385};

/// call(memory, results, length) at all lengths and placements, and 91 long at all alignments.
template <class T, class Call>
void sweep_memory(const Call& call) {
  for (const index_t length : lengths) {
    INFO("length ", length);
    check_placements(
        [&](placed_memory& memory, result_bytes& results) { call(memory, results, length); });
  }
  check_alignments<T>(
      [&](placed_memory& memory, result_bytes& results) { call(memory, results, 91); });
}

}  // namespace test
}  // namespace vecdet
