// SPDX-License-Identifier: Apache-2.0
// A loop over this processor's instruction sets, for programs without doctest; tests use isa.hpp.
#pragma once

#include <vecdet/dispatch.hpp>

namespace vecdet::test {

/// Calls run(set) with each instruction set that is compiled in and that this machine supports
/// active, the oldest first. The last one stays active.
template <class Run>
void for_each_available_isa(const Run& run) {
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (!isa_available(set)) continue;
    set_isa(set);
    run(set);
  }
}

}  // namespace vecdet::test
