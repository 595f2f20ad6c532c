// SPDX-License-Identifier: Apache-2.0
// Pictures in memory, and as JPEG or PNG files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace detector {

/// Red, green and blue of each pixel, row after row.
struct picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> pixels;
  /// The size that the file names, of which this may be a smaller picture.
  int file_width = 0, file_height = 0;

  picture() = default;
  picture(int of_width, int of_height)
      : width(of_width),
        height(of_height),
        pixels(static_cast<std::size_t>(of_width) * static_cast<std::size_t>(of_height) * 3),
        file_width(of_width),
        file_height(of_height) {}

  std::uint8_t* row(int y) {
    return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3;
  }
  const std::uint8_t* row(int y) const { return const_cast<picture*>(this)->row(y); }
};

/// Reads a JPEG or PNG, recognised by its first bytes; grey ones and those with transparency become
/// colours, and EXIF's orientation is applied. A JPEG that is to be fitted into `width` x `height`
/// is decoded at a half, a quarter or an eighth of its size, where that is no smaller: many times
/// faster. 0: full size.
///
/// Throws std::runtime_error, with the file and the reason, when it cannot be read in full, has
/// more than 100 million pixels or 1 GiB, or does not fit into memory. Sizes are checked before
/// memory is taken for the pixels.
picture read_picture(const std::string& file, int width = 0, int height = 0);

/// Writes a PNG. Throws std::runtime_error as above.
void write_png(const picture& image, const std::string& file);

}  // namespace detector
