// SPDX-License-Identifier: Apache-2.0
// keep_memory() works for the whole process, so each case runs in a child of its own.
#include "support/sanitizer.hpp"
#include <vecdet/keep_memory.hpp>

#include <cstddef>
#include <cstdlib>

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/// Page faults of writing to each page of an array of 64 MB, which was allocated and freed before.
long faults_of_second_array() {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const auto allocate_and_write = [] {
    volatile char* const memory = static_cast<char*>(std::malloc(bytes));
    for (std::size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
    std::free(const_cast<char*>(memory));
  };
  allocate_and_write();
  const long before = page_faults();
  allocate_and_write();
  return page_faults() - before;
}

/// Runs `check` in a child process and returns whether it returned true there.
template <class Check>
bool holds_in_child(const Check& check) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // a huge page would be one fault instead of 512
    _exit(check() ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("keep_memory: an array that was freed is allocated again without page faults") {
  if (vecdet::test::under_sanitizer) return;  // which replaces malloc
  CHECK(holds_in_child([] { return faults_of_second_array() > 1000; }));
  CHECK(holds_in_child([] { return vecdet::keep_memory() && faults_of_second_array() < 100; }));
}
