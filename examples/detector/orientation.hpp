// SPDX-License-Identifier: Apache-2.0
// EXIF's orientation: how a camera was held, and the picture as it is meant to be seen.
#pragma once

#include "picture.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace detector {

/// The orientation, 1 to 8, that EXIF data state; 1, upright, where they state none or are broken.
/// `bytes` begin with the header of TIFF, "II" or "MM".
inline int exif_orientation(const unsigned char* bytes, std::size_t size) {
  if (size < 8 || bytes[0] != bytes[1] || (bytes[0] != 'I' && bytes[0] != 'M')) return 1;
  const bool is_little = bytes[0] == 'I';
  // The caller has checked that the bytes are there.
  const auto number = [&](std::size_t at, std::size_t length) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < length; ++i)
      value = value << 8 | bytes[at + (is_little ? length - 1 - i : i)];
    return value;
  };
  const std::size_t directory = number(4, 4);
  if (directory > size - 2) return 1;
  const std::size_t entries = number(directory, 2);
  constexpr std::size_t entry_size = 12, orientation_tag = 0x0112;
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * entry_size;
    if (entry > size || size - entry < entry_size) return 1;
    if (number(entry, 2) != orientation_tag) continue;
    const std::size_t value = number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

/// Whether the upright picture's width is the stored one's height.
inline bool swaps_sides(int orientation) noexcept { return orientation >= 5; }

/// The upright picture of a stored one.
inline picture upright(picture stored, int orientation) {
  if (orientation == 1) return stored;
  const bool swaps = swaps_sides(orientation);
  picture turned =
      swaps ? picture(stored.height, stored.width) : picture(stored.width, stored.height);
  turned.file_width = swaps ? stored.file_height : stored.file_width;
  turned.file_height = swaps ? stored.file_width : stored.file_height;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (int y = 0; y < turned.height; ++y)
    for (int x = 0; x < turned.width; ++x) {
      int column = swaps ? y : x, row = swaps ? x : y;
      if (from_right) column = stored.width - 1 - column;
      if (from_below) row = stored.height - 1 - row;
      const std::uint8_t* const from = stored.row(row) + 3 * column;
      std::uint8_t* const to = turned.row(y) + 3 * x;
      for (int c = 0; c < 3; ++c) to[c] = from[c];
    }
  return turned;
}

}  // namespace detector
