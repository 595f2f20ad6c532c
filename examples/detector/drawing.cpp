// SPDX-License-Identifier: Apache-2.0
#include "drawing.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>

namespace detector {
namespace {

/// A letter of 3 x 5 points in row-major order; the first point is the highest of 15 bits.
std::uint16_t glyph_of(char c) {
  static constexpr std::uint16_t letters[26] = {
      0b010101111101101, 0b110101110101110, 0b011100100100011, 0b110101101101110, 0b111100110100111,
      0b111100110100100, 0b011100101101011, 0b101101111101101, 0b111010010010111, 0b001001001101010,
      0b101101110101101, 0b100100100100111, 0b101111111101101, 0b110101101101101, 0b010101101101010,
      0b110101110100100, 0b010101101110011, 0b110101110101101, 0b011100010001110, 0b111010010010010,
      0b101101101101111, 0b101101101101010, 0b101101111111101, 0b101101010101101, 0b101101010010010,
      0b111001010100111};
  static constexpr std::uint16_t digits[10] = {
      0b111101101101111, 0b010110010010111, 0b111001111100111, 0b111001011001111,
      0b101101111001001, 0b111100111001111, 0b111100111101111, 0b111001010010010,
      0b111101111101111, 0b111101111001111};
  const auto byte = static_cast<unsigned char>(c);
  if (std::isdigit(byte) != 0) return digits[c - '0'];
  if (c >= 'a' && c <= 'z') return letters[c - 'a'];
  if (c >= 'A' && c <= 'Z') return letters[c - 'A'];
  switch (c) {
    case '.':
      return 0b000000000000010;
    case '%':
      return 0b101001010100101;
    case '-':
      return 0b000000111000000;
    case '_':
      return 0b000000000000111;
    default:
      return 0;
  }
}

/// Clips it to the picture.
void fill(picture& image, int x1, int y1, int x2, int y2, std::array<std::uint8_t, 3> colour) {
  for (int y = std::max(0, y1); y < std::min(image.height, y2); ++y)
    for (int x = std::max(0, x1); x < std::min(image.width, x2); ++x)
      std::copy(colour.begin(), colour.end(), image.row(y) + 3 * x);
}

/// The nearest pixel, limited to slightly outside the picture.
int pixel(float x) { return static_cast<int>(std::lround(std::clamp(x, -1e5f, 1e5f))); }

}  // namespace

std::array<std::uint8_t, 3> colour_of(std::int64_t label) {
  // Steps of the golden section around the circle of hues.
  const double hue = std::fmod(static_cast<double>(label) * 0.6180339887, 1.0) * 6;
  std::array<std::uint8_t, 3> colour{};
  for (std::size_t c = 0; c < 3; ++c) {
    const double distance = std::abs(std::fmod(hue + 6 - 2 * static_cast<double>(c), 6.0) - 3);
    colour[c] = static_cast<std::uint8_t>(255 * std::clamp(distance - 1, 0.0, 1.0));
  }
  return colour;
}

void draw_box(picture& image, const box& corners, std::int64_t label, const std::string& text) {
  constexpr int thick = 2, point = 2, advance = 4 * point, line = 7 * point;
  const auto colour = colour_of(label);
  const int x1 = pixel(corners[0]), y1 = pixel(corners[1]);
  const int x2 = pixel(corners[2]), y2 = pixel(corners[3]);
  fill(image, x1, y1, x2, y1 + thick, colour);
  fill(image, x1, y2 - thick, x2, y2, colour);
  fill(image, x1, y1, x1 + thick, y2, colour);
  fill(image, x2 - thick, y1, x2, y2, colour);
  const int top = y1 >= line ? y1 - line : y1;
  const int length = static_cast<int>(text.size());
  fill(image, x1, top, x1 + length * advance + point, top + line, colour);
  const bool is_bright = 299 * colour[0] + 587 * colour[1] + 114 * colour[2] > 127'000;
  const auto shade = static_cast<std::uint8_t>(is_bright ? 0 : 255);
  for (int i = 0; i < length; ++i) {
    const std::uint16_t glyph = glyph_of(text[static_cast<std::size_t>(i)]);
    for (int k = 0; k < 15; ++k) {
      if ((glyph >> (14 - k) & 1) == 0) continue;
      const int x = x1 + point + i * advance + k % 3 * point, y = top + point + k / 3 * point;
      fill(image, x, y, x + point, y + point, {shade, shade, shade});
    }
  }
}

}  // namespace detector
