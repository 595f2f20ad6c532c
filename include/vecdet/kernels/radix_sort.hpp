// SPDX-License-Identifier: Apache-2.0
// A stable sort of 64-bit records by their upper halves: least significant digit first, over the
// bits in which the keys differ.
#pragma once

#include <vecdet/kernels/sixteens.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using std::uint32_t;
using std::uint64_t;

/// Sorts few records.
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
  constexpr int most_passes = 5, widest = 11;
  if (count <= insertion_limit) return insertion_sort(records, count);

  uint64_t differing = 0, descents = 0;
  for_each_by_sixteens(1, count, [&](index_t i) VECDET_INLINE_LAMBDA {
    differing |= records[i] ^ records[0];
    descents |= static_cast<uint64_t>(records[i - 1] >> 32 > records[i] >> 32);
  });
  if (descents == 0) return;  // proposals often arrive sorted
  const uint32_t bits = static_cast<uint32_t>(differing >> 32);
  const int low = 32 + __builtin_ctz(bits);
  const int range = 64 - __builtin_clz(bits) - low;
  // The cheapest number of passes: each adds up its counters and moves all records.
  constexpr index_t move_cost = 4;  // in units of adding up one counter, measured
  int passes = 0, width = 0;
  index_t least_cost = 0;
  for (int n = (range + widest - 1) / widest; n <= most_passes; ++n) {
    const int digit_width = (range + n - 1) / n;
    const index_t cost = n * ((index_t{1} << digit_width) + move_cost * count);
    if (passes != 0 && cost >= least_cost) continue;
    least_cost = cost;
    passes = n;
    width = digit_width;
  }
  const uint32_t mask = (1u << width) - 1;

  uint32_t counters[most_passes][1 << widest];
  for (int pass = 0; pass < passes; ++pass)
    for (uint32_t digit = 0; digit <= mask; ++digit) counters[pass][digit] = 0;
  for (index_t i = 0; i < count; ++i) {
    uint64_t key = records[i] >> low;
    VECDET_UNROLL
    for (int pass = 0; pass < most_passes; ++pass, key >>= width) {
      if (pass == passes) break;
      ++counters[pass][static_cast<uint32_t>(key) & mask];
    }
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

/// The same by the lower halves.
inline void radix_sort_lower(uint64_t* records, uint64_t* spare, index_t count) {
  const auto swap_halves = [&] {
    for_each_by_sixteens(0, count, [&](index_t i) VECDET_INLINE_LAMBDA {
      records[i] = records[i] >> 32 | records[i] << 32;
    });
  };
  swap_halves();
  radix_sort(records, spare, count);
  swap_halves();
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
