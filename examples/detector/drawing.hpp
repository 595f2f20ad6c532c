// SPDX-License-Identifier: Apache-2.0
// Boxes with their classes and scores, drawn onto pictures.
#pragma once

#include "dataset.hpp"
#include "picture.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace detector {

/// A frame of two pixels in the colour of the class, and a line of text above it, or within it
/// where there is no room above. Letters are capitals; what is no letter, digit or one of ".%-_"
/// is a space.
void draw_box(picture& image, const box& corners, std::int64_t label, const std::string& text);

/// Red, green and blue of a class: those of neighbouring classes differ.
std::array<std::uint8_t, 3> colour_of(std::int64_t label);

}  // namespace detector
