// SPDX-License-Identifier: Apache-2.0
// Runs a test on every instruction set that is compiled in and that this machine supports.
#pragma once

#include <vecdet/dispatch.hpp>

#include <string>

#include <doctest/doctest.h>

namespace vecdet {
namespace test {

/// Calls test(set) with each available instruction set in force, then restores the one before.
template <class Test>
void for_each_isa(const Test& test) {
  const isa before = active_isa();
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (!isa_available(set)) continue;
    set_isa(set);
    INFO("instruction set ", std::string(isa_name(set)));
    test(set);
  }
  set_isa(before);
}

}  // namespace test
}  // namespace vecdet
