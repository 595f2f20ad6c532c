// SPDX-License-Identifier: Apache-2.0
// Selects the rows of an image that count: its foreground and the negatives with the largest
// losses. Histograms find the key of the last selected negative digit by digit, without sorting.
#pragma once

#include <vecdet/args/softmax_cross_entropy.hpp>
#include <vecdet/kernels/sixteens.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using std::uint32_t;

/// The n smallest keys: all keys below `last`, fewer than n, and `equal` of the keys that equal
/// `last`.
struct nth_key {
  uint32_t last;
  index_t equal;
};

/// Among the keys below ignored_key; n is between 1 and their number.
inline nth_key find_nth_key(const uint32_t* keys, index_t size, index_t n) {
  constexpr int bits[] = {11, 11, 10};
  uint32_t found = 0;
  int below = 32;  // bits not yet known
  for (const int width : bits) {
    below -= width;
    const uint32_t digits = 1u << width;
    // Two alternating histograms: neighbours often have equal digits, and each would wait for the
    // previous count.
    index_t counts[2][1 << 11];
    for (uint32_t digit = 0; digit < digits; ++digit) counts[0][digit] = counts[1][digit] = 0;
    const int known = below + width;
    const std::uint64_t known_bits = std::uint64_t{found} >> known;
    for (index_t i = 0; i < size; ++i) {
      const uint32_t key = keys[i];
      if (key >= detail::ignored_key) continue;
      if (std::uint64_t{key} >> known != known_bits) continue;
      ++counts[i & 1][key >> below & (digits - 1)];
    }
    uint32_t digit = 0;
    for (;; ++digit) {
      const index_t here = counts[0][digit] + counts[1][digit];
      if (n <= here) break;
      n -= here;
    }
    found |= digit << below;
  }
  return {found, n};
}

inline index_t mined_rows(const uint32_t* keys, index_t first, index_t last, index_t ratio,
                          index_t* rows) {
  index_t foreground = 0, negatives = 0;
  for_each_by_sixteens(first, last, [&](index_t i) VECDET_INLINE_LAMBDA {
    foreground += static_cast<index_t>(keys[i] == detail::foreground_key);
    negatives += static_cast<index_t>(keys[i] < detail::ignored_key);
  });
  if (foreground == 0) return 0;
  const index_t wanted = ratio > negatives / foreground ? negatives : ratio * foreground;
  nth_key limit{0, 0};
  if (wanted > 0) limit = find_nth_key(keys + first, last - first, wanted);
  index_t count = 0;
  for (index_t i = first; i < last; ++i) {
    const uint32_t key = keys[i];
    const bool completes = key == limit.last && limit.equal > 0;
    limit.equal -= static_cast<index_t>(completes);
    rows[count] = i;
    count += static_cast<index_t>(key < limit.last || completes || key == detail::foreground_key);
  }
  return count;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
