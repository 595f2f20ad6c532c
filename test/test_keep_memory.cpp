// SPDX-License-Identifier: Apache-2.0
// keep_memory() affects the whole process, so each case runs in a child process.
#include "support/sanitizer.hpp"
#include <vecdet/keep_memory.hpp>

#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <thread>

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

/// Page faults when writing to each page of an array that was allocated and freed before.
long faults_of_second_array(std::size_t bytes = std::size_t{64} << 20) {
  const auto allocate_and_write = [bytes] {
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

TEST_CASE("keep_memory: reallocating a freed array causes no page faults") {
  if (vecdet::test::under_sanitizer) return;  // which replaces malloc
  CHECK(holds_in_child([] { return faults_of_second_array() > 1000; }));
  CHECK(holds_in_child([] { return vecdet::keep_memory() && faults_of_second_array() < 100; }));
}

TEST_CASE("keep_memory: threads reuse arrays of every size") {
  if (vecdet::test::under_sanitizer) return;
  CHECK(holds_in_child([] {
    if (!vecdet::keep_memory()) return false;
    for (const std::size_t megabytes : std::initializer_list<std::size_t>{1, 40, 65, 100, 300}) {
      long faults = 0;
      std::thread([&] { faults = faults_of_second_array(megabytes << 20); }).join();
      if (faults >= 100) return false;
    }
    return true;
  }));
}
