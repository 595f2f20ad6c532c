// SPDX-License-Identifier: Apache-2.0
// Draws boxes with their classes and scores onto pictures.
#pragma once

#include "dataset.hpp"
#include "picture.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace detector {

/// A two-pixel frame in the colour of the class, with a line of text above it, or inside if there
/// is no room above. Letters are drawn as capitals; characters other than letters, digits and
/// ".%-_" as spaces.
void draw_box(picture& image, const box& corners, std::int64_t label, const std::string& text);

/// Red, green and blue of a class; neighbouring classes differ.
std::array<std::uint8_t, 3> colour_of(std::int64_t label);

}  // namespace detector
