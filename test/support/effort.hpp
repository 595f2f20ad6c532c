// SPDX-License-Identifier: Apache-2.0
// How much the longest tests try.
#pragma once

#include <cstdlib>

namespace vecdet::test {

/// Whether sweeps try every combination, as .ci/run does, rather than a choice of them:
/// VECDET_FULL_TESTS=1.
inline bool full_tests() {
  const char* const full = std::getenv("VECDET_FULL_TESTS");
  return full != nullptr && *full != '\0' && *full != '0';
}

}  // namespace vecdet::test
