// SPDX-License-Identifier: Apache-2.0
// The number of this process.
#pragma once

#include <vecdet/detail/target.hpp>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#elif defined(_WIN32)
#include <process.h>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

/// 0 where the system is unknown.
inline int process_id() noexcept {
#if defined(__unix__) || defined(__APPLE__)
  return getpid();
#elif defined(_WIN32)
  return _getpid();
#else
  return 0;
#endif
}

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
