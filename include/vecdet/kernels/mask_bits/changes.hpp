// SPDX-License-Identifier: Apache-2.0
// Where pixels differ from the one before them, as words of 64 pixels. Most words have no change,
// so only the others are written.
#pragma once

#include <vecdet/args/mask_bits.hpp>
#include <vecdet/detail/bit_lines.hpp>
#include <vecdet/kernels/mask_bits/rows.hpp>
#include <vecdet/simd/bit_counts.hpp>

#include <cstdint>
#include <cstring>

namespace vecdet {
namespace VECDET_TARGET {

inline void pack_bytes(const std::uint8_t* bytes, index_t count, std::uint8_t* bits) {
  for (index_t k = 0; 64 * k < count; ++k) {
    const std::uint64_t word = rows_of_bytes::word(bytes, count, k);
    const index_t left = (count - 64 * k + 7) / 8;
    std::memcpy(bits + 8 * k, &word, static_cast<std::size_t>(left < 8 ? left : 8));
  }
}

inline void changes_of_line(const std::uint8_t* bytes, index_t count, index_t position, bool& last,
                            detail::change_list& to) {
  detail::change_list own = to;
  std::uint64_t before = last ? 1 : 0;
  const index_t whole = count / 64;
  VECDET_NO_UNROLL
  for (index_t k = 0; k < whole; ++k) {
    const std::uint64_t word = bits_of_64_bytes(bytes + 64 * k);
    own.add(word ^ (word << 1 | before), position + 64 * k, 0);
    before = word >> 63;
  }
  const index_t left = count - 64 * whole;
  if (left > 0) {
    const std::uint64_t word = rows_of_bytes::word(bytes, count, whole);
    const std::uint64_t mask = (std::uint64_t{1} << left) - 1;
    own.add((word ^ (word << 1 | before)) & mask, position + 64 * whole, 0);
    before = (word >> (left - 1)) & 1;
  }
  last = before != 0;
  to = own;
}

inline void changes_of_rows(const std::uint8_t* bits, index_t row_bytes, index_t width,
                            index_t rows, index_t x, index_t y, detail::change_list& to) {
  constexpr index_t step = sizeof(word_vector) / 8;
  const auto per_row = static_cast<std::uint32_t>((width + 63) / 64);
  // Rows of whole words, which follow each other, are one long row.
  const bool is_one_row = width % 64 == 0;
  const index_t lines = is_one_row ? 1 : rows - 1, length = is_one_row ? width * (rows - 1) : width;
  if (rows < 2) return;
  detail::change_list own = to;
  for (index_t line = 0; line < lines; ++line) {
    const std::uint8_t* const above = bits + line * row_bytes;
    const std::uint8_t* const row = above + row_bytes;
    const auto add = [&](index_t k) VECDET_INLINE_LAMBDA {
      const auto word = static_cast<std::uint32_t>(k);
      own.add(detail::line_word(row, length, k) ^ detail::line_word(above, length, k),
              x + 64 * index_t{word % per_row}, y + line + word / per_row);
    };
    index_t k = 0;
    for (; 64 * (k + step) <= length; k += step) {
      unsigned differing = differing_words(load_words(row + 8 * k), load_words(above + 8 * k));
      for (; differing != 0; differing &= differing - 1) add(k + __builtin_ctz(differing));
    }
    for (; 64 * k < length; ++k) add(k);
  }
  to = own;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
