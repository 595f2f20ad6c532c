// SPDX-License-Identifier: Apache-2.0
// Operations on masks: what the functions and their kernels agree on.
#pragma once

#include <vecdet/detail/bit_lines.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A mask as it is stored.
struct stored_mask {
  const std::uint8_t* pixels;
  index_t x1, y1, width, height;
  index_t row_bytes;
  mask_pixels kind;
};

/// A mask as strips. Strip t has the columns [64 t, 64 t + 64) of the picture, a word per row. The
/// words of a strip follow each other, so the common rows of two masks are two runs of words,
/// however their rectangles lie. A strip ends with 7 or more words of 0: the words of two masks are
/// compared in groups of 8, and a group that goes beyond the last common row finds only zeros in
/// one of the two.
struct mask_strips {
  static constexpr index_t group = 8;

  index_t x1, y1, x2, y2;  ///< the smallest rectangle around the pixels; 0 0 0 0 without any
  index_t area;
  std::uint64_t* words;

  constexpr index_t first() const { return x1 / 64; }
  constexpr index_t last() const { return (x2 + 63) / 64; }
  /// From one strip to the next.
  constexpr index_t stride() const { return (y2 - y1 + 2 * group - 2) / group * group; }
  constexpr index_t size() const { return (last() - first()) * stride(); }
  /// Row y of strip t.
  constexpr std::uint64_t* at(index_t t, index_t y) const {
    return words + (t - first()) * stride() + (y - y1);
  }
};

/// Up to 64 pixels, of which some differ from the one before them in the order of run lengths: bit
/// i is that of pixel (x + i, y) or, along a line, of the one at x + i.
struct change_word {
  std::uint64_t bits;
  std::uint32_t x, y;
};

/// Words of changes that are not 0, and the number of their bits.
struct change_list {
  change_word* words;
  index_t size, changes;

  VECDET_INLINE void add(std::uint64_t bits, index_t x, index_t y) {
    if (bits == 0) return;
    words[size++] = {bits, static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y)};
    changes += count_bits(bits);
  }
};

struct mask_bits_kernels {
  /// The number of pixels.
  index_t (*area)(const stored_mask&);
  /// Finds the smallest rectangle around the pixels, x1 y1 x2 y2; 0 0 0 0 without any.
  void (*box)(const stored_mask&, index_t* box);
  /// Fills the words of a mask whose rectangle is known, and counts its pixels.
  void (*fill)(const stored_mask&, mask_strips&);
  /// Counts the common pixels of `a` and each of `count` masks.
  void (*common)(const mask_strips& a, const mask_strips* b, index_t count, index_t* pixels);
  /// The same without the instruction that some processors have for it, for tests.
  void (*common_by_lookup)(const mask_strips& a, const mask_strips* b, index_t count,
                           index_t* pixels);
  /// Adds the pixels of a mask to one whose rectangle has them. Its area stays as it is.
  void (*unite)(const mask_strips& from, mask_strips& to);
  /// Writes bytes as bits: 1 for those that are not 0.
  void (*pack)(const std::uint8_t* bytes, index_t count, std::uint8_t* bits);
  /// Adds the changes along a line of bytes, the first of which is at `position`. `last` says
  /// whether the pixel before them belongs to the object, and then whether the last of them does.
  void (*line_changes)(const std::uint8_t* bytes, index_t count, index_t position, bool& last,
                       change_list& to);
  /// Adds the changes between each two of `rows` rows of bits that follow each other. The second of
  /// them is row y of the picture.
  void (*row_changes)(const std::uint8_t* bits, index_t row_bytes, index_t width, index_t rows,
                      index_t x, index_t y, change_list& to);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
