// SPDX-License-Identifier: Apache-2.0
// A stable sort of 64-bit records by their upper halves: least significant digit first, over the
// bits in which the keys differ.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using std::uint32_t;
using std::uint64_t;

/// For few records.
VECDET_INLINE void insertion_sort(uint64_t* records, index_t count) {
  for (index_t i = 1; i < count; ++i) {
    const uint64_t record = records[i];
    index_t at = i;
    for (; at > 0 && records[at - 1] >> 32 > record >> 32; --at) records[at] = records[at - 1];
    records[at] = record;
  }
}

/// Sorts `records`, using `spare` of as many.
VECDET_NOINLINE inline void radix_sort(uint64_t* records, uint64_t* spare, index_t count) {
  constexpr index_t insertion_limit = 24;
  constexpr index_t small = 4096;  // above, the counters of wider digits are worth clearing
  constexpr int widest = 11;
  if (count <= insertion_limit) return insertion_sort(records, count);

  uint64_t differing = 0, descents = 0;
  for (index_t i = 1; i < count; ++i) {
    differing |= records[i] ^ records[0];
    descents |= static_cast<uint64_t>(records[i - 1] >> 32 > records[i] >> 32);
  }
  if (descents == 0) return;  // proposals often come sorted
  const uint32_t bits = static_cast<uint32_t>(differing >> 32);
  const int low = 32 + __builtin_ctz(bits);
  const int range = 64 - __builtin_clz(bits) - low;
  const int passes = count < small ? (range + 8) / 9 : (range + widest - 1) / widest;
  const int width = (range + passes - 1) / passes;
  const uint32_t mask = (1u << width) - 1;

  uint32_t counters[4][1 << widest];
  for (int pass = 0; pass < passes; ++pass)
    for (uint32_t digit = 0; digit <= mask; ++digit) counters[pass][digit] = 0;
  for (index_t i = 0; i < count; ++i) {
    uint64_t key = records[i] >> low;
    for (int pass = 0; pass < passes; ++pass, key >>= width)
      ++counters[pass][static_cast<uint32_t>(key) & mask];
  }
  uint64_t* from = records;
  uint64_t* to = spare;
  for (int pass = 0; pass < passes; ++pass) {
    uint32_t* counter = counters[pass];
    const int shift = low + pass * width;
    uint32_t sum = 0;
    for (uint32_t digit = 0; digit <= mask; ++digit) {
      const uint32_t here = counter[digit];
      counter[digit] = sum;
      sum += here;
    }
    for (index_t i = 0; i < count; ++i) {
      const uint64_t record = from[i];
      to[counter[static_cast<uint32_t>(record >> shift) & mask]++] = record;
    }
    uint64_t* const other = from;
    from = to;
    to = other;
  }
  if (from != records)
    for (index_t i = 0; i < count; ++i) records[i] = from[i];
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
