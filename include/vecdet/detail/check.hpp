// SPDX-License-Identifier: Apache-2.0
// How every public function reports a bad argument: before it writes anything, as
// std::invalid_argument that names the function, the argument, its value and what was expected.
#pragma once

#include <vecdet/detail/exceptions.hpp>
#include <vecdet/detail/target.hpp>

#include <cstdint>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class Value>
[[noreturn]] inline void throw_invalid_argument(const char* function, const char* argument,
                                                const Value& value, const char* expected) {
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

// By the bits of |x|: with -ffast-math, compilers take every number for finite.
inline std::uint64_t magnitude_bits(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits & 0x7fffffffffffffff;
}
inline bool is_finite(double x) { return magnitude_bits(x) < 0x7ff0000000000000; }
inline bool is_nan(double x) { return magnitude_bits(x) > 0x7ff0000000000000; }
/// Whether it is finite as a float, too: what a kernel in float can take.
inline bool fits_float(double x) { return magnitude_bits(x) <= 0x47efffffe0000000; }
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
  if (!holds) throw_invalid_argument(function, element(list, i).c_str(), value, expected);
}

/// The same for a member of an argument: "<of>.<member>".
template <class Value>
inline void check_member(bool holds, const char* function, const char* of, const char* member,
                         const Value& value, const char* expected) {
  if (!holds)
    throw_invalid_argument(function, (std::string(of) + "." + member).c_str(), value, expected);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
