// SPDX-License-Identifier: Apache-2.0
// Checks of arguments. Every public function reports a bad argument before it writes anything, with
// a std::invalid_argument that names the function, the argument, its value and the expected value.
#pragma once

#include <vecdet/detail/float_bits.hpp>
#include <vecdet/detail/target.hpp>

#include <cstdint>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class Value>
[[noreturn]] inline void throw_invalid_argument(const char* function, const std::string& argument,
                                                const Value& value, const std::string& expected) {
  std::ostringstream message;
  message.precision(17);
  message << "vecdet::" << function << ": " << argument << " is " << value << ", expected "
          << expected;
  throw std::invalid_argument(message.str());
}

/// Throws unless `holds`. The message reads "vecdet::<function>: <argument> is <value>, expected
/// <expected>".
template <class Value>
inline void check(bool holds, const char* function, const char* argument, const Value& value,
                  const char* expected) {
  if (!holds) throw_invalid_argument(function, argument, value, expected);
}

/// Throws unless `size` is `expected`. `meaning` describes the expected size: "<argument> is 3,
/// expected 4, the number of boxes".
inline void check_size(const char* function, const char* argument, std::int64_t size,
                       std::int64_t expected, const char* meaning) {
  if (size != expected)
    throw_invalid_argument(function, argument, size, std::to_string(expected) + ", " + meaning);
}

/// The same for an optional argument, whose size may also be 0.
inline void check_optional_size(const char* function, const char* argument, std::int64_t size,
                                std::int64_t expected, const char* meaning) {
  if (size != 0 && size != expected)
    throw_invalid_argument(function, argument, size,
                           "0 or " + std::to_string(expected) + ", " + meaning);
}

/// The description of a valid index: "0 to 3 (4 boxes)"; "nothing (0 boxes)".
inline std::string index_range(std::int64_t count, const char* things) {
  return (count > 0 ? "0 to " + std::to_string(count - 1) : std::string("nothing")) + " (" +
         std::to_string(count) + " " + things + ")";
}

/// A hint to append to a message about a label that equals the number of classes.
inline std::string label_hint(std::int64_t label, std::int64_t classes) {
  return label == classes ? "; do your labels start at 1?" : "";
}

/// a == b. Callers may compile with warnings that forbid the operator for floating-point numbers.
template <class T>
bool is_equal(T a, std::enable_if_t<true, T> b) {
  return std::equal_to<T>()(a, b);
}
inline bool is_within(double x, double least, double most) {
  return !is_nan(x) && x >= least && x <= most;
}

/// An element's name in a message: "<list>[<i>]".
inline std::string element(const char* list, std::int64_t i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

/// Like check(), for an element of an argument.
template <class Value>
inline void check_element(bool holds, const char* function, const char* list, std::int64_t i,
                          const Value& value, const char* expected) {
  if (!holds) throw_invalid_argument(function, element(list, i), value, expected);
}

/// Like check(), for a member of an argument: "<argument>.<member>".
template <class Value>
inline void check_member(bool holds, const char* function, const char* argument, const char* member,
                         const Value& value, const char* expected) {
  if (!holds)
    throw_invalid_argument(function, std::string(argument) + "." + member, value, expected);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
