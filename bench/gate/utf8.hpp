// SPDX-License-Identifier: Apache-2.0
// Texts of programs need not be UTF-8; those in JSON, Markdown and XML must be.
#pragma once

#include <cstddef>
#include <string>

namespace vecdet::gate {

/// U+FFFD in UTF-8, which stands for a byte that is not.
constexpr const char* replaced_byte = "\xef\xbf\xbd";

/// The text with each byte replaced that is no part of a character in UTF-8.
inline std::string valid_utf8(const std::string& text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  std::string valid;
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = byte(i), second = byte(i + 1);
    std::size_t length = first < 0x80   ? 1
                         : first < 0xc2 ? 0
                         : first < 0xe0 ? 2
                         : first < 0xf0 ? 3
                         : first < 0xf5 ? 4
                                        : 0;
    // Too long forms, surrogates, and what is above U+10FFFF.
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
      length = 0;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) length = 0;
    }
    valid += length > 0 ? text.substr(i, length) : replaced_byte;
    i += length > 0 ? length : 1;
  }
  return valid;
}

}  // namespace vecdet::gate
