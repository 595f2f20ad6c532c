// SPDX-License-Identifier: Apache-2.0
// Formatting of numbers and strings for the profiler's writers, independent of the locale.
#pragma once

#include <vecdet/detail/float_bits.hpp>
#include <vecdet/detail/target.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>
#if !defined(__cpp_lib_to_chars)
#include <iomanip>
#include <locale>
#include <sstream>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

#if defined(__cpp_lib_to_chars)
/// The shortest text that parses to the same number.
inline std::string shortest(double value) {
  char text[40];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}
inline std::string with_decimals(double value, int decimals) {
  char text[400];
  const auto end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, decimals);
  return std::string(text, end.ptr);
}
#else  // libstdc++ before GCC 11
inline std::string with_digits(double value, int digits, bool is_fixed) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  if (is_fixed) text << std::fixed;
  text << std::setprecision(digits) << value;
  return text.str();
}
/// The text with the fewest digits that parses to the same number.
inline std::string shortest(double value) {
  for (int digits = 1;; ++digits) {
    const std::string text = with_digits(value, digits, false);
    std::istringstream parsed(text);
    parsed.imbue(std::locale::classic());
    double found = 0;
    if ((parsed >> found && found == value) || digits == 17) return text;
  }
}
inline std::string with_decimals(double value, int decimals) {
  return with_digits(value, decimals, true);
}
#endif

/// The number for JSON; "null" if it is not finite.
inline std::string number(double value) {
  return vecdet::detail::is_finite(value) ? shortest(value) : "null";
}

inline std::string fixed(double value, int decimals) {
  return vecdet::detail::is_finite(value) ? with_decimals(value, decimals) : "-";
}

/// Three digits and a suitable unit: "1.23 us".
inline std::string duration_text(double ns) {
  if (!(ns < 0) && !(ns > 0)) return "0 ns";
  const char* unit = " ns";
  for (const char* larger : {" us", " ms", " s"}) {
    if (std::fabs(ns) < 999.5) break;
    ns /= 1000;
    unit = larger;
  }
  const double size = std::fabs(ns);
  return fixed(ns, size < 9.995 ? 2 : size < 99.95 ? 1 : 0) + unit;
}

/// The length of the well-formed UTF-8 character at text[i], or 0.
inline std::size_t utf8_length(const std::string& text, std::size_t i) {
  const auto byte = [&](std::size_t k) -> unsigned {
    return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u;
  };
  const auto follows = [&](std::size_t k) { return (byte(i + k) & 0xc0u) == 0x80u; };
  const unsigned b = byte(i), next = byte(i + 1);
  if (b < 0x80) return 1;
  if (b >= 0xc2 && b <= 0xdf) return follows(1) ? 2 : 0;
  if (b >= 0xe0 && b <= 0xef) {
    const bool overlong = b == 0xe0 && next < 0xa0;
    const bool surrogate = b == 0xed && next > 0x9f;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (b >= 0xf0 && b <= 0xf4) {
    const bool overlong = b == 0xf0 && next < 0x90;
    const bool beyond = b == 0xf4 && next > 0x8f;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

/// Makes text safe to print on one line of a terminal. Control characters, including those of two
/// bytes in UTF-8, become blanks; bytes that are not UTF-8 become question marks.
inline std::string one_line(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text, i);
    const bool is_control =
        c < 0x20 || c == 0x7f ||
        (c == 0xc2 && length == 2 && static_cast<unsigned char>(text[i + 1]) < 0xa0);
    if (length == 0) {
      out += '?';
    } else if (is_control) {
      out += ' ';
    } else {
      out.append(text, i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return out;
}

/// A JSON string with quotes. Bytes that are not UTF-8 become U+FFFD. Every '<' is escaped, so that
/// "</script>" in the text cannot end a script element.
inline std::string json_string(const std::string& text) {
  constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text, i);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++i;
      continue;
    }
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i];
    } else if (c < 0x20 || c == 0x7f || c == '<') {
      out += "\\u00";
      out += hex[c >> 4];
      out += hex[c & 15];
    } else {
      out.append(text, i, length);
    }
    i += length;
  }
  return out + '"';
}

/// Writes a table with aligned columns. All columns except the last are right-aligned.
inline void write_aligned(std::ostream& out, const std::vector<std::vector<std::string>>& table) {
  std::vector<std::size_t> widths(table[0].size(), 0);
  for (const auto& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : table) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      out << std::string(widths[i] - row[i].size(), ' ') << row[i] << "  ";
    }
    out << row.back() << '\n';
  }
}

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
