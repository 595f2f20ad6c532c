// SPDX-License-Identifier: Apache-2.0
// With the headers alone, a file that calls kernels does not include the report writers, because
// they would take longer to compile than most kernels. If VECDET_PROFILE requests reports and no
// file of the program includes <vecdet/profile.hpp>, the program prints a message when it ends.
#pragma once

#include <vecdet/detail/environment_variable.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/profile/clock.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

VECDET_PROFILE_SHARED inline bool has_writers = false;

inline void say_that_writers_are_missing() {
  if (has_writers) return;
  std::fputs(
      "vecdet::profile: VECDET_PROFILE is set, but no file of this program includes "
      "<vecdet/profile.hpp>, which writes the reports\n",
      stderr);
}

inline bool watch_for_writers() noexcept {
  const char* const value = vecdet::detail::environment_variable("VECDET_PROFILE");
  const bool asks = value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0 &&
                    std::strcmp(value, "off") != 0;
  return asks && std::atexit(say_that_writers_are_missing) == 0;
}

#if !defined(VECDET_PROFILE_DISABLE)
VECDET_PROFILE_SHARED inline const bool watches_for_writers = watch_for_writers();
#endif

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
