// SPDX-License-Identifier: Apache-2.0
// Reading of environment variables, for all of vecdet.
#pragma once

#include <vecdet/detail/target.hpp>

#include <cstdlib>

#if !defined(__linux__) && (defined(__unix__) || defined(__APPLE__))
#include <unistd.h>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The variable's value, or null. Also null in a program that runs with more privileges than its
/// user, such as a set-user-ID program, because the user controls the environment.
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
