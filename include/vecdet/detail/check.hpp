// SPDX-License-Identifier: Apache-2.0
// How every public function reports a bad argument: before it writes anything, as
// std::invalid_argument that names the function, the argument, its value and what was expected.
#pragma once

#include <vecdet/detail/exceptions.hpp>
#include <vecdet/detail/target.hpp>

#include <cstdint>
#include <cstring>
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

/// Throws unless `size` is `expected`, which is what `of` names: "<argument> is 3, expected 4, the
/// number of boxes".
inline void check_size(const char* function, const char* argument, std::int64_t size,
                       std::int64_t expected, const char* of) {
  if (size != expected)
    throw_invalid_argument(function, argument, size, std::to_string(expected) + ", " + of);
}

/// The same of an argument that may be left out, which has size 0 then.
inline void check_optional_size(const char* function, const char* argument, std::int64_t size,
                                std::int64_t expected, const char* of) {
  if (size != 0 && size != expected)
    throw_invalid_argument(function, argument, size,
                           "0 or " + std::to_string(expected) + ", " + of);
}

/// What an index has to be: "0 to 3 (4 boxes)"; "nothing (0 boxes)".
inline std::string index_range(std::int64_t count, const char* of) {
  return (count > 0 ? "0 to " + std::to_string(count - 1) : std::string("nothing")) + " (" +
         std::to_string(count) + " " + of + ")";
}

/// The end of a message about a label that equals the number of classes.
inline std::string label_hint(std::int64_t label, std::int64_t classes) {
  return label == classes ? "; do your labels start at 1?" : "";
}

// By the bits of |x|: with -ffast-math, compilers take every number for finite.
inline std::uint64_t magnitude_bits(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits & 0x7fffffffffffffff;
}
inline bool is_finite(double x) { return magnitude_bits(x) < 0x7ff0000000000000; }
inline bool is_finite(float x) { return is_finite(static_cast<double>(x)); }
inline bool is_nan(double x) { return magnitude_bits(x) > 0x7ff0000000000000; }
/// Whether it is finite as a float, too: what a kernel in float can take.
inline bool fits_float(double x) { return magnitude_bits(x) <= 0x47efffffe0000000; }
/// a == b, which some callers' warnings do not let a header write.
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

/// The same as `check` for an element of an argument.
template <class Value>
inline void check_element(bool holds, const char* function, const char* list, std::int64_t i,
                          const Value& value, const char* expected) {
  if (!holds) throw_invalid_argument(function, element(list, i), value, expected);
}

/// The same for a member of an argument: "<of>.<member>".
template <class Value>
inline void check_member(bool holds, const char* function, const char* of, const char* member,
                         const Value& value, const char* expected) {
  if (!holds) throw_invalid_argument(function, std::string(of) + "." + member, value, expected);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
