// SPDX-License-Identifier: Apache-2.0
// Runs a test on every instruction set that is compiled in and that this machine supports; if the
// environment variable VECDET_ISA is set, only on that one.
#pragma once

#include <vecdet/dispatch.hpp>

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

namespace vecdet::test {

/// Whether tests should use `set`.
inline bool isa_under_test(isa set) {
  const char* only = std::getenv("VECDET_ISA");
  return isa_available(set) &&
         (only == nullptr || *only == '\0' || only == std::string(isa_name(set)));
}

/// Calls test(set) with each instruction set under test active, then restores the previous one.
template <class Test>
void for_each_isa(const Test& test) {
  const isa before = active_isa();
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (!isa_under_test(set)) continue;
    set_isa(set);
    INFO("instruction set ", std::string(isa_name(set)));
    test(set);
  }
  set_isa(before);
}

}  // namespace vecdet::test
