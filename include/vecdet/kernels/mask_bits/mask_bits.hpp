// SPDX-License-Identifier: Apache-2.0
// Areas, rectangles and common pixels of masks. Masks that are compared are first copied to strips
// of 64 columns of the picture (args/mask_bits.hpp): shifting happens once per mask, not once per
// pair.
#pragma once

#include <vecdet/args/mask_bits.hpp>
#include <vecdet/detail/bit_lines.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/mask_bits/changes.hpp>
#include <vecdet/kernels/mask_bits/rows.hpp>
#include <vecdet/simd/bit_counts.hpp>

#include <cstdint>
#include <cstring>

namespace vecdet {
namespace VECDET_TARGET {

using detail::mask_strips;

inline index_t area_of_mask(const stored_mask& m) {
  if (m.width == 0) return 0;  // its rows, which have no bytes, may be 2^31
  index_t area = 0;
  if (m.kind == mask_pixels::bytes) {
    for (index_t y = 0; y < m.height; ++y)
      for (index_t k = 0; 64 * k < m.width; ++k)
        area += detail::count_bits(rows_of_bytes::word(m.pixels + y * m.row_bytes, m.width, k));
    return area;
  }
  // The rows follow each other, so their bytes are counted as one line.
  const index_t bytes = m.height * m.row_bytes, groups = bytes / 64;
  area += common_bits({m.pixels, m.pixels, 0, 0, 1, groups});
  const std::uint8_t* const rest = m.pixels + 64 * groups;
  const index_t left = 8 * (bytes - 64 * groups);
  for (index_t k = 0; 64 * k < left; ++k)
    area += detail::count_bits(detail::line_word(rest, left, k));
  if (m.width % 8 != 0)  // the padding should be zeros
    for (index_t y = 1; y <= m.height; ++y)
      area -= detail::count_bits(std::uint64_t{m.pixels[y * m.row_bytes - 1]} >> (m.width % 8));
  return area;
}

inline void box_of_mask(const stored_mask& m, index_t* box) {
  for (int k = 0; k < 4; ++k) box[k] = 0;
  if (m.width == 0) return;
  const index_t per_row = (m.width + 63) / 64;
  with_rows(m, [&](auto rows) VECDET_INLINE_LAMBDA {
    const auto has_pixels = [&](index_t y) VECDET_INLINE_LAMBDA {
      std::uint64_t any = 0;
      for (index_t k = 0; k < per_row; ++k)
        any |= rows.word(m.pixels + y * m.row_bytes, m.width, k);
      return any != 0;
    };
    index_t y1 = 0, y2 = m.height;
    while (y1 < y2 && !has_pixels(y1)) ++y1;
    if (y1 == y2) return;
    while (!has_pixels(y2 - 1)) --y2;
    const auto columns = [&](index_t k) VECDET_INLINE_LAMBDA {
      std::uint64_t any = 0;
      for (index_t y = y1; y < y2; ++y) any |= rows.word(m.pixels + y * m.row_bytes, m.width, k);
      return any;
    };
    index_t k = 0;
    std::uint64_t word = columns(k);
    while (word == 0) word = columns(++k);
    box[0] = m.x1 + 64 * k + __builtin_ctzll(word);
    const index_t first = k;
    for (k = per_row - 1; k > first; --k) {
      const std::uint64_t own = columns(k);
      if (own == 0) continue;
      word = own;
      break;
    }
    box[2] = m.x1 + 64 * k + 64 - __builtin_clzll(word);
    box[1] = m.y1 + y1;
    box[3] = m.y1 + y2;
  });
}

inline void fill_strips(const stored_mask& m, mask_strips& to) {
  const index_t stride = to.stride(), strips = to.last() - to.first(), height = to.y2 - to.y1;
  // Word k of a row has the columns from x1 + 64 k on: its lower bits belong to strip k + before,
  // the others to the next one.
  const index_t before = m.x1 / 64;
  const int shift = static_cast<int>(m.x1 % 64);
  with_rows(m, [&](auto rows) VECDET_INLINE_LAMBDA {
    for (index_t y = 0; y < height; ++y) {
      const std::uint8_t* const row = m.pixels + (to.y1 + y - m.y1) * m.row_bytes;
      const index_t k = to.first() - before;
      std::uint64_t last = shift == 0 || k == 0 ? 0 : rows.word(row, m.width, k - 1);
      for (index_t t = 0; t < strips; ++t) {
        const std::uint64_t word = rows.word(row, m.width, k + t);
        to.words[t * stride + y] = shift == 0 ? word : word << shift | last >> (64 - shift);
        last = word;
      }
    }
  });
  for (index_t t = 0; t < strips; ++t)
    for (index_t y = height; y < stride; ++y) to.words[t * stride + y] = 0;
  to.area = common_bits({to.words, to.words, 0, 0, 1, to.size() / mask_strips::group});
}

template <index_t Bits(const word_runs&)>
VECDET_INLINE index_t common_pixels(const mask_strips& a, const mask_strips& b) {
  const index_t x1 = a.x1 > b.x1 ? a.x1 : b.x1, x2 = a.x2 < b.x2 ? a.x2 : b.x2;
  const index_t y1 = a.y1 > b.y1 ? a.y1 : b.y1, y2 = a.y2 < b.y2 ? a.y2 : b.y2;
  if (x1 >= x2 || y1 >= y2) return 0;
  const index_t groups = (y2 - y1 + mask_strips::group - 1) / mask_strips::group;
  const index_t first = x1 / 64;
  return Bits(
      {a.at(first, y1), b.at(first, y1), a.stride(), b.stride(), (x2 + 63) / 64 - first, groups});
}

template <index_t Bits(const word_runs&)>
void count_common(const mask_strips& a, const mask_strips* b, index_t count, index_t* pixels) {
  for (index_t k = 0; k < count; ++k) pixels[k] = common_pixels<Bits>(a, b[k]);
}

inline void unite_strips(const mask_strips& from, mask_strips& to) {
  for (index_t t = from.first(); t < from.last(); ++t) {
    const std::uint64_t* const own = from.at(t, from.y1);
    std::uint64_t* const words = to.at(t, from.y1);
    for (index_t y = 0; y < from.y2 - from.y1; ++y) words[y] |= own[y];
  }
}

template <>
struct kernels_of<detail::mask_bits_kernels> {
  static constexpr detail::mask_bits_kernels get() {
    detail::mask_bits_kernels kernels{};
    kernels.area = area_of_mask;
    kernels.box = box_of_mask;
    kernels.fill = fill_strips;
    kernels.common = count_common<common_bits>;
    kernels.common_by_lookup = count_common<common_bits_by_lookup>;
    kernels.unite = unite_strips;
    kernels.pack = pack_bytes;
    kernels.line_changes = changes_of_line;
    kernels.row_changes = changes_of_rows;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS(mask_bits_kernels)
