// SPDX-License-Identifier: Apache-2.0
// The processor time of a thread.
#pragma once

#include <time.h>

namespace vecdet::gate {

/// CPU nanoseconds of this thread: other processes' turns do not count.
inline double thread_nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

}  // namespace vecdet::gate
