// SPDX-License-Identifier: Apache-2.0
// Environment variables, as all of vecdet reads them.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdlib>

#if !defined(__linux__) && (defined(__unix__) || defined(__APPLE__))
#include <unistd.h>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The variable's value, or null. Null as well in a program that runs with rights which its user
/// has not, such as a set-user-ID program: there the environment is the user's, the rights are not.
inline const char* environment_variable(const char* name) noexcept {
#if defined(__linux__)
  return ::secure_getenv(name);
#elif defined(__unix__) || defined(__APPLE__)
  return issetugid() != 0 ? nullptr : std::getenv(name);
#else
  return std::getenv(name);
#endif
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
