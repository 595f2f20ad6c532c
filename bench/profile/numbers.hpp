// SPDX-License-Identifier: Apache-2.0
// Checked conversions of numbers in JSON from other programs: without the check, converting an
// out-of-range number is undefined. All throw std::runtime_error with the value and the
// expectation.
#pragma once

#include <vecdet/profile/histogram.hpp>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace vecdet::profile {

/// A nonnegative number in the range of float; null, which JSON writes for what it cannot
/// represent, counts as 0.
inline double checked_amount(const nlohmann::json& value, const std::string& what) {
  if (value.is_null()) return 0;
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0 && number <= 1e38)) {
    throw std::runtime_error(what + " is " + value.dump() + ", expected a number from 0 to 1e38");
  }
  return number;
}

inline double amount(const nlohmann::json& object, const char* key) {
  return checked_amount(object.at(key), std::string("\"") + key + "\"");
}

/// An integer in the range of T, at least `least`. nlohmann-json would convert any number, even one
/// outside the integer range.
template <class T>
T checked_integer(const nlohmann::json& value, const std::string& what, T least) {
  constexpr T most = std::numeric_limits<T>::max();
  bool fits = false;
  if (value.is_number_integer()) {
    const bool is_negative = !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
    fits = is_negative ? std::is_signed<T>::value &&
                             value.get<std::int64_t>() >=
                                 static_cast<std::int64_t>(std::numeric_limits<T>::min())
                       : value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
  }
  if (!fits || value.get<T>() < least) {
    throw std::runtime_error(what + " is " + value.dump() + ", expected " + std::to_string(least) +
                             (sizeof(T) < 8 ? " to " + std::to_string(most) : " or more"));
  }
  return value.get<T>();
}

template <class T>
T integer(const nlohmann::json& object, const char* key, T least) {
  return checked_integer<T>(object.at(key), std::string("\"") + key + "\"", least);
}

inline std::uint64_t count(const nlohmann::json& object, const char* key) {
  return integer<std::uint64_t>(object, key, 0);
}

}  // namespace vecdet::profile
