// SPDX-License-Identifier: Apache-2.0
// Runs a test on every instruction set that is compiled in and that this machine supports; if the
// environment variable VECDET_ISA is set, only on that one. Runs a test under threading policies.
#pragma once

#include "loops.hpp"
#include <vecdet/dispatch.hpp>
#include <vecdet/parallel.hpp>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

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

/// Calls check(result) with the result of run() on each instruction set under test. The results of
/// AVX2 and AVX-512 must be equal.
template <class Run, class Check>
void check_on_every_isa(const Run& run, const Check& check) {
  std::vector<decltype(run())> fused;
  for_each_isa([&](isa set) {
    auto found = run();
    check(found);
    if (set == isa::baseline) return;
    if (!fused.empty()) CHECK((found == fused[0]));
    fused.push_back(std::move(found));
  });
}

/// Calls test(policy) with all threads of arenas of one to seven threads, and with loops that run
/// backwards for up to 1000 threads.
template <class Test>
void for_each_policy(const Test& test) {
  for (const int threads : {1, 2, 3, 4, 7}) {
    INFO("arena of ", threads);
    tbb::task_arena arena(threads);
    arena.execute([&] { test(threading::parallel); });
  }
  for (const int threads : {2, 5, 20, 28, 64, 128, 1000}) {
    INFO("loop for ", threads);
    test(threading::on(backwards, threads));
  }
}

}  // namespace vecdet::test
