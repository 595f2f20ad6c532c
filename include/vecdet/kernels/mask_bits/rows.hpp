// SPDX-License-Identifier: Apache-2.0
// Rows of a mask as words of 64 pixels, from bits or from bytes.
#pragma once

#include <vecdet/args/mask_bits.hpp>
#include <vecdet/detail/bit_lines.hpp>
#include <vecdet/simd/bit_counts.hpp>

#include <cstdint>
#include <cstring>

namespace vecdet {
namespace VECDET_TARGET {

using detail::stored_mask;

struct rows_of_bits {
  static VECDET_INLINE std::uint64_t word(const std::uint8_t* row, index_t width, index_t k) {
    return detail::line_word(row, width, k);
  }
};

struct rows_of_bytes {
  static VECDET_INLINE std::uint64_t word(const std::uint8_t* row, index_t width, index_t k) {
    const index_t left = width - 64 * k;
    if (left >= 64) return bits_of_64_bytes(row + 64 * k);
    if (left <= 0) return 0;
    if (width >= 64) return bits_of_64_bytes(row + width - 64) >> (64 - left);
    std::uint64_t bits = 0;
    index_t i = 0;
    for (; i + 8 <= width; i += 8) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, row + i, 8);
      bits |= detail::bits_of_8_bytes(bytes) << i;
    }
    for (; i < width; ++i) bits |= std::uint64_t{row[i] != 0} << i;
    return bits;
  }
};

/// Calls use(rows) with what reads the rows of a mask.
template <class Use>
VECDET_INLINE void with_rows(const stored_mask& m, const Use& use) {
  if (m.kind == mask_pixels::bits)
    use(rows_of_bits());
  else
    use(rows_of_bytes());
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
