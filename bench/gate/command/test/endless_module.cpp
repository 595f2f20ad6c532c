// SPDX-License-Identifier: Apache-2.0
// A module of the gate that never returns from the function that VECDET_GATE_HANG names, "open" or
// "run". Before, it writes its process's number to the file "started".
#include "../../module/interface.hpp"

#include <cstdlib>
#include <fstream>
#include <string>

#include <unistd.h>

namespace {

void hang_in(const std::string& function) {
  const char* const named = std::getenv("VECDET_GATE_HANG");
  if (named == nullptr || function != named) return;
  std::ofstream("started.part") << getpid() << std::flush;
  rename("started.part", "started");
  for (volatile bool forever = true; forever;) {
  }
}

const vecdet_gate_module module{
    1,
    [](std::int64_t) { return "endless"; },
    [](std::int64_t) { return true; },
    [](std::int64_t) { return false; },
    [](const char* isa) { return std::string(isa) == "baseline"; },
    [](std::int64_t) { return static_cast<void*>(new int); },
    [](std::int64_t, void* data) { delete static_cast<int*>(data); },
    [](std::int64_t, void*, std::int64_t) { hang_in("run"); },
    [](std::int64_t, void*, std::int64_t) {},
};

}  // namespace

const vecdet_gate_module* vecdet_gate_open() {
  hang_in("open");
  return &module;
}
